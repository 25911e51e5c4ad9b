"""Operators on each element of one tensor, or of several that are broadcast."""

from vtakit.compiler.nn.common import broadcast_read, broadcast_shape, dims, made, same_dtype
from vtakit.compiler.nn.registry import Kind, operator
from vtakit.compiler.te.tensor import Tensor


@operator("add", kind=Kind.INJECTIVE)
def add(a: Tensor, b: Tensor) -> Tensor:
    """``a + b``, broadcast; integers wrap."""
    same_dtype("add", a, b)
    shape = broadcast_shape("add", dims(a), dims(b))
    return made(shape, lambda *at: broadcast_read(a, at) + broadcast_read(b, at), "add")
