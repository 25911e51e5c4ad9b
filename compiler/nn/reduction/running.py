"""Running sums and products along an axis."""

from collections.abc import Callable
from typing import Any

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import if_then_else
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import axis_of, dims, made
from vtakit.compiler.nn.elements.elementwise import identity
from vtakit.compiler.nn.registry import Kind, operator
from vtakit.compiler.te.compose import scan
from vtakit.compiler.te.language import placeholder
from vtakit.compiler.te.tensor import Tensor


def _running(
    x: Tensor, axis: int, exclusive: bool, flipped: bool, name: str, neutral: int, combine: Callable[[Expr, Expr], Expr],
) -> Tensor:
    at_axis = axis_of(axis, x.ndim, name)
    extent = dims(x)[at_axis]
    if not extent:
        return identity(x)
    rest = (*dims(x)[:at_axis], *dims(x)[at_axis + 1:])
    one = const(neutral, x.dtype)

    def term(t: Any, at: tuple[Expr, ...]) -> Expr:
        """The t-th term in the order of summation; the first of an exclusive sum is neutral."""
        place = t - 1 if exclusive else t
        place = extent - 1 - place if flipped else place
        value: Expr = x(*at[:at_axis], place, *at[at_axis:])
        return if_then_else(t > 0, value, one) if exclusive else value
    state = placeholder((extent + 1, *rest), str(x.dtype), "state")
    first = made((1, *rest), lambda *at: one, "first")
    step = made((extent + 1, *rest), lambda t, *at: combine(state(t - 1, *at), term(t - 1, at)), "step")
    sums: Tensor = scan(first, step, state, name=name)
    return made(dims(x), lambda *at: sums(
        extent - at[at_axis] if flipped else at[at_axis] + 1, *at[:at_axis], *at[at_axis + 1:]), name)


@operator("cumsum", kind=Kind.OPAQUE)
def cumsum(x: Tensor, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """The sum of the elements up to each along an axis, or from the end; exclusive: of those before it. Source: ONNX CumSum."""
    return _running(x, axis, exclusive, reverse, "cumsum", 0, lambda a, b: a + b)


@operator("cumprod", kind=Kind.OPAQUE)
def cumprod(x: Tensor, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """The product of the elements up to each along an axis, or from the end; exclusive: of those before it."""
    return _running(x, axis, exclusive, reverse, "cumprod", 1, lambda a, b: a * b)
