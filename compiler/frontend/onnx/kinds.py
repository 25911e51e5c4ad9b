"""ONNX's element types as vtakit's."""

from vtakit.compiler.frontend.errors import ElementTypeError
from vtakit.compiler.ir import dtypes
from vtakit.compiler.ir.dtypes import DType

# By number, as TensorProto.DataType has them; the numbers are part of the format.
_KINDS = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}


def kind_of(number: int, what: str) -> DType:
    """Return the element type of a number of TensorProto.DataType.

    Raises ElementTypeError, which calls the tensor `what`, for an unknown number and for a type that vtakit lacks.
    """
    if number in _KINDS:
        return dtypes.dtype(_KINDS[number])
    from onnx import TensorProto

    known = number in TensorProto.DataType.values()
    name = TensorProto.DataType.Name(number).lower() if known else f"number {number}"
    raise ElementTypeError(f"{what} has element type {name}; vtakit has {', '.join(_KINDS.values())}")
