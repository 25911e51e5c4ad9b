"""ONNX's element types and tensors as vtakit's."""

from typing import TYPE_CHECKING

import numpy as np

from vtakit.base.limits import check_shape
from vtakit.compiler.frontend.errors import ElementTypeError, ModelError
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Array
from vtakit.compiler.ir import dtypes
from vtakit.compiler.ir.dtypes import DType

if TYPE_CHECKING:
    import onnx

# By number, as TensorProto.DataType has them; the numbers are part of the format.
_KINDS = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}


def kind_of(number: int, what: str) -> DType:
    """The element type of a number of TensorProto.DataType. Raises ElementTypeError for others, which calls the tensor `what`."""
    if number in _KINDS:
        return dtypes.dtype(_KINDS[number])
    from onnx import TensorProto

    known = number in TensorProto.DataType.values()
    name = TensorProto.DataType.Name(number).lower() if known else f"number {number}"
    raise ElementTypeError(f"{what} has element type {name}; vtakit has {', '.join(_KINDS.values())}")


def array_of(tensor: "onnx.TensorProto", what: str, folder: str = "") -> Array:
    """Return a tensor's elements.

    folder : of the model, for elements in another file

    Raises ModelError, which calls the tensor `what`, for elements that are missing, damaged or of an unknown type.
    """
    from onnx import numpy_helper

    kind = kind_of(tensor.data_type, what)
    check_shape(tuple(tensor.dims), what)
    if tensor.data_location == tensor.EXTERNAL:
        from vtakit.compiler.frontend.onnx.external import read_external  # it reads element types here

        return np.frombuffer(read_external(tensor, folder, what), numpy_dtype(kind)).reshape(tuple(tensor.dims))
    try:
        found = numpy_helper.to_array(tensor)
    except Exception as error:  # onnx raises what its code happens to meet, from struct.error to AttributeError
        raise ModelError(f"{what} cannot be read: {' '.join(str(error).split()) or type(error).__name__}") from None
    return np.ascontiguousarray(found).reshape(found.shape)
