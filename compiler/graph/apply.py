"""Operators applied to types and tensors: what a node's outputs are is what its definition says, and nothing else says it."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.ir import TensorType
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.nn.operators import OperatorError, find
from vtakit.compiler.te.errors import ExpressionError
from vtakit.compiler.te.language import placeholder
from vtakit.compiler.te.tensor import Tensor

MOVING = frozenset((  # operators of storage types, which are not computed with
    "bit_cast", "cast", "concat", "depth_to_space", "dequantize_linear", "expand", "gather", "gather_elements", "gather_nd",
    "identity", "pad", "quantize_linear", "reshape", "reverse_sequence", "scatter_elements", "scatter_nd", "slice",
    "space_to_depth", "split", "tensor_scatter", "tile", "transpose", "where",
))
_REMEMBERED = 4096  # types that nodes of one kind have had


def apply(op: str, tensors: Sequence[Tensor | None], attrs: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Return the results of an operator on tensors. Raises GraphError for operands or attributes that it does not take."""
    try:
        found = find(op).define(*tensors, **attrs)
    except (OperatorError, ExpressionError) as error:
        raise GraphError(str(error)) from None
    return found if isinstance(found, tuple) else (found,)


def result_types(op: str, types: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> tuple[TensorType, ...]:
    """The types of what an operator makes of operands of the given types. Raises GraphError where it takes none such."""
    return _result_types(op, tuple(types), tuple(sorted(attrs.items())))


@lru_cache(maxsize=_REMEMBERED)
def _result_types(
    op: str, types: tuple[TensorType | None, ...], attrs: tuple[tuple[str, Any], ...]
) -> tuple[TensorType, ...]:
    small = next((kind.dtype for kind in types if kind is not None and kind.dtype.is_storage), None)
    if small is not None and op not in MOVING:
        raise GraphError(f"{op} of {small}: such numbers are moved and converted only: convert them with cast")
    tensors = [None if kind is None else placeholder(kind.shape, str(kind.dtype), f"p{i}") for i, kind in enumerate(types)]
    return tuple([type_of_tensor(tensor) for tensor in apply(op, tensors, dict(attrs))])


def type_of_tensor(tensor: Tensor) -> TensorType:
    """The type of a tensor of constant shape."""
    shape = [int_value(extent) for extent in tensor.shape]
    assert None not in shape, f"{tensor} of an operator has a shape that is not constant"
    return TensorType(tuple([extent for extent in shape if extent is not None]), tensor.dtype)
