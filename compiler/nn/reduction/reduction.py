"""Operators that put the elements along some axes together."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.ops import all_of, any_of, binary, select, truncdiv
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import axes_of, axis_of, dims, made
from vtakit.compiler.nn.elements.elementwise import check_float, each
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math, reduce
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.tensor import Tensor

Axes = Sequence[int] | None


def reduced(
    x: Tensor, axes: Axes, combine: Callable[..., Any], name: str, *, keepdims: bool = True,
    value: Callable[[Expr], Expr] = lambda e: e,
) -> Tensor:
    """A combination of a function of the elements along axes, all if None; along none the function itself."""
    chosen = axes_of(axes, x.ndim, name)
    if not chosen:
        return each(x, value, name)
    over = {axis: reduce_axis((0, dims(x)[axis]), f"r{axis}") for axis in chosen}
    shape = [1 if axis in over else extent for axis, extent in enumerate(dims(x)) if keepdims or axis not in over]

    def read(*at: Expr) -> Any:
        kept: list[Expr | IterVar] = [*at]
        if not keepdims:
            left = iter(at)
            kept = [over[axis] if axis in over else next(left) for axis in range(x.ndim)]
        places = [over.get(axis, index) for axis, index in enumerate(kept)]
        return combine(value(x(*places)), axis=[*over.values()])
    return made(shape, read, name)


def count_along(x: Tensor, axes: Axes, what: str) -> int:
    """Return the number of elements along axes."""
    return prod([dims(x)[axis] for axis in axes_of(axes, x.ndim, what)])


@operator("reduce_sum", kind=Kind.REDUCTION)
def reduce_sum(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The sum along axes (all if None); of no elements 0. Kept axes have an extent of 1."""
    return reduced(x, axes, reduce.sum, "reduce_sum", keepdims=keepdims)


@operator("reduce_prod", kind=Kind.REDUCTION)
def reduce_prod(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The product along axes (all if None); of no elements 1."""
    return reduced(x, axes, reduce.prod, "reduce_prod", keepdims=keepdims)


@operator("reduce_max", kind=Kind.REDUCTION)
def reduce_max(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The greatest along axes (all if None); of no elements the least value of the type. Of bool: whether any holds."""
    if x.dtype.is_bool:
        return reduced(x, axes, _ANY, "reduce_max", keepdims=keepdims)
    return reduced(x, axes, reduce.max, "reduce_max", keepdims=keepdims)


@operator("reduce_min", kind=Kind.REDUCTION)
def reduce_min(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The least along axes (all if None); of no elements the greatest value of the type. Of bool: whether all hold."""
    if x.dtype.is_bool:
        return reduced(x, axes, _ALL, "reduce_min", keepdims=keepdims)
    return reduced(x, axes, reduce.min, "reduce_min", keepdims=keepdims)


_ANY = reduce.comm_reducer(any_of, lambda kind: const(False, kind), name="any")
_ALL = reduce.comm_reducer(all_of, lambda kind: const(True, kind), name="all")


@operator("reduce_sum_square", kind=Kind.REDUCTION)
def reduce_sum_square(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The sum of squares along axes (all if None)."""
    return reduced(x, axes, reduce.sum, "reduce_sum_square", keepdims=keepdims, value=lambda e: e * e)


@operator("reduce_l1", kind=Kind.REDUCTION)
def reduce_l1(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The sum of absolute values along axes (all if None)."""
    return reduced(x, axes, reduce.sum, "reduce_l1", keepdims=keepdims, value=math.abs)


@operator("reduce_mean", kind=Kind.REDUCTION)
def reduce_mean(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The mean along axes (all if None); of integers rounded to zero, and of no elements not a number."""
    count = count_along(x, axes, "reduce_mean")
    sums = reduced(x, axes, reduce.sum, "sums", keepdims=keepdims)
    if not x.dtype.is_float:
        if not count:
            raise OperatorError(f"reduce_mean of no {x.dtype} elements, shape {dims(x)}: integers have no value for that")
        return each(sums, lambda e: truncdiv(e, const(count, e.dtype)), "reduce_mean")
    return each(sums, lambda e: e / const(count, e.dtype), "reduce_mean")


@operator("reduce_l2", kind=Kind.REDUCTION)
def reduce_l2(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The square root of the sum of squares along axes (all if None), in x's type."""
    squares = reduced(x, axes, reduce.sum, "squares", keepdims=keepdims, value=lambda e: e * e)
    return each(squares, _through_float(math.sqrt), "reduce_l2")


@operator("reduce_log_sum", kind=Kind.REDUCTION)
def reduce_log_sum(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """The logarithm of the sum along axes (all if None), in x's type."""
    return each(reduced(x, axes, reduce.sum, "sums", keepdims=keepdims), _through_float(math.log), "reduce_log_sum")


def _through_float(function: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    def value(e: Expr) -> Expr:
        found: Expr = function(e if e.dtype.is_float else e.astype("float64")).astype(e.dtype)
        return found
    return value


@operator("reduce_log_sum_exp", kind=Kind.OPAQUE)
def reduce_log_sum_exp(x: Tensor, *, axes: Axes = None, keepdims: bool = True) -> Tensor:
    """``log(sum(exp(x)))`` along axes (all if None), without overflow: the greatest is taken off first."""
    check_float(x, "reduce_log_sum_exp")
    chosen = axes_of(axes, x.ndim, "reduce_log_sum_exp")
    top = reduced(x, chosen, reduce.max, "top")
    # An infinite greatest value is taken off as 0, since inf - inf is not a number.
    safe = each(top, lambda e: select(math.isfinite(e), e, const(0, e.dtype)), "safe")
    over = {axis: reduce_axis((0, dims(x)[axis]), f"r{axis}") for axis in chosen}

    def total(*at: Expr) -> Any:
        e = math.exp(x(*[over.get(axis, index) for axis, index in enumerate(at)]) - safe(*at))
        return reduce.sum(e, axis=[*over.values()]) if over else e
    sums = made(dims(top), total, "sums")
    kept = [axis for axis in range(x.ndim) if keepdims or axis not in over]

    def value(*at: Expr) -> Expr:
        left = iter(at)
        places = [next(left) if axis in kept else const(0, "int32") for axis in range(x.ndim)]
        return math.log(sums(*places)) + safe(*places)
    return made([dims(top)[axis] for axis in kept], value, "reduce_log_sum_exp")


def _extreme(name: str, word: str, best: Callable[..., Any]) -> Callable[..., Tensor]:
    """Define and register argmax or argmin: the extreme number, then where it stands; each runs by vectors."""
    def define(x: Tensor, *, axis: int = 0, keepdims: bool = True, select_last_index: bool = False) -> Tensor:
        at_axis = axis_of(axis, x.ndim, name)
        count = dims(x)[at_axis]
        if not count:
            raise OperatorError(f"{name}: axis {axis} of shape {dims(x)} has no elements")
        top = reduced(x, [at_axis], best, "top")
        r = reduce_axis((0, count), "r")
        zero = const(0, "int32")
        choose, none = (reduce.max, const(-1, "int32")) if select_last_index else (reduce.min, const(count, "int32"))

        def place(*at: Expr) -> Any:
            element, extreme = x(*at[:at_axis], r, *at[at_axis + 1:]), top(*at[:at_axis], zero, *at[at_axis + 1:])
            found = binary(ir.EQ, element, extreme)
            if x.dtype.is_float:
                found = any_of(found, binary(ir.NE, element, element))  # the extreme of a row with a NaN is NaN
            return choose(select(found, r.as_expr(), none), axis=r)
        places = made(dims(top), place, "places")
        if keepdims:
            return each(places, lambda e: e.astype("int64"), name)
        kept = [extent for at, extent in enumerate(dims(x)) if at != at_axis]
        return made(kept, lambda *at: places(*at[:at_axis], zero, *at[at_axis:]).astype("int64"), name)
    define.__name__ = define.__qualname__ = name
    define.__doc__ = (f"int64 indices of the {word} along an axis: the first of equal ones, or with select_last_index the last; "
                      "a NaN counts as the extreme. Raises OperatorError for an axis that is not there, or has no elements.")
    return operator(name, kind=Kind.OPAQUE)(define)


argmax = _extreme("argmax", "greatest", reduce.max)
argmin = _extreme("argmin", "least", reduce.min)
