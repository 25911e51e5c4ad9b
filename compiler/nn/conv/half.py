"""Operators between convolutions in bfloat16, whose channels lie in blocks (`packed_bytes`): they compute in float32."""

from collections.abc import Sequence

from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.nn.common import dims, made
from vtakit.compiler.nn.product.matmul import in_type
from vtakit.compiler.nn.reduction.pool import Window
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import reduce
from vtakit.compiler.te.tensor import Tensor

Numbers = Sequence[int] | None


@operator("add_half", kind=Kind.INJECTIVE)
def add_half(x: Tensor, y: Tensor) -> Tensor:
    """``x + y`` of float32 and another floating-point type of one shape, in float32."""
    if dims(x) != dims(y):
        raise OperatorError(f"add_half: shapes {dims(x)} and {dims(y)} differ")
    return made(dims(x), lambda *at: x(*at) + y(*at).astype(x.dtype), "add_half")


@operator("max_pool_half", kind=Kind.REDUCTION)
def max_pool_half(
    x: Tensor, *, kernel_shape: Sequence[int], strides: Numbers = None, pads: Numbers = None, dilations: Numbers = None,
    ceil_mode: bool = False,
) -> Tensor:
    """`max_pool` of a floating-point type of 16 bits: compared in float32, which processors do at once. The result is exact."""
    w = Window("max_pool_half", x, kernel_shape, strides, pads, dilations, ceil_mode)
    source = w.padded(float("-inf"))
    greatest = made(w.shape, lambda n, c, *at: reduce.max(source(n, c, *w.places(at)).astype(FLOAT32), axis=w.axes), "greatest",
                    tag="pool")
    return in_type(greatest, x.dtype)
