"""Normalization, and what turns numbers into shares of a whole."""

from collections.abc import Callable, Sequence
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import binary, maximum, minimum, select
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import axis_of, broadcast_read, broadcast_shape, dims, made, same_dtype
from vtakit.compiler.nn.elements.elementwise import check_float, each
from vtakit.compiler.nn.product.matmul import accumulator, in_type
from vtakit.compiler.nn.reduction.pool import lp_norm
from vtakit.compiler.nn.reduction.reduction import argmax, count_along, reduced
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math, reduce
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.tensor import Tensor

_FLOAT16_MAX = 65504  # the greatest number that it holds


def along(stat: Tensor, at: Sequence[Expr]) -> Expr:
    """Return the element of a statistic (extents of 1 along the reduced axes) that belongs to an element of the data."""
    return broadcast_read(stat, at)


def _channels(x: Tensor, what: str, **vectors: Tensor) -> None:
    for name, vector in vectors.items():
        same_dtype(what, x, vector)
        if x.ndim < 2 or dims(vector) != dims(x)[1:2]:
            raise OperatorError(f"{what}: {name} of {dims(vector)} has not one number for each channel of {dims(x)}")


@operator("batch_norm", kind=Kind.INJECTIVE)
def batch_norm(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """``(x - mean) / sqrt(var + epsilon) * scale + bias`` with a number for each channel. Source: arXiv 1502.03167.

    x [N, C, D...]; the others [C], of x's type or, as statistics may, of another floating-point type.
    """
    check_float(x, "batch_norm")
    for name, vector in (("scale", scale), ("bias", bias), ("mean", mean), ("var", var)):
        check_float(vector, f"batch_norm: {name}")
        if x.ndim < 2 or dims(vector) != dims(x)[1:2]:
            raise OperatorError(f"batch_norm: {name} of {dims(vector)} has not one number for each channel of {dims(x)}")

    def value(*at: Expr) -> Expr:
        c = at[1]
        factor = scale(c).astype(var.dtype) / math.sqrt(var(c) + epsilon)
        found = (x(*at).astype(var.dtype) - mean(c).astype(var.dtype)) * factor + bias(c).astype(var.dtype)
        cut: Expr = found.astype(x.dtype)
        return cut
    return made(dims(x), value, "batch_norm")


class Moments:
    """Mean and variance along axes, which are kept with extents of 1; of data far from zero as exact as of data about it.

    The sum is rounded where the mean is large. What is left of the mean is the mean of the differences from its first estimate,
    each of which is exact or nearly so. Source: the corrected two-pass algorithm of Chan, Golub and LeVeque, The American
    Statistician 37 (1983).
    """

    def __init__(self, x: Tensor, axes: Sequence[int], name: str) -> None:
        self.x = x
        count = count_along(x, axes, name)

        def mean_of(sums: Tensor, word: str) -> Tensor:
            return each(sums, lambda e: e / const(count, e.dtype), word)
        self._first = mean_of(reduced(x, axes, reduce.sum, "sums"), "estimate")
        self._rest = mean_of(self._summed(axes, lambda *at: x(*at) - along(self._first, at), "differences"), "correction")
        self.mean = made(dims(self._first), lambda *at: self._first(*at) + self._rest(*at), "mean")
        self.variance = mean_of(self._summed(axes, lambda *at: self.off(*at) * self.off(*at), "squares"), "variance")

    def off(self, *at: Any, value: Expr | None = None, of: Sequence[Any] | None = None) -> Any:
        """Return the distance of an element from the mean: of that at an index, or of a `value` whose mean is the one at `of`."""
        where = at if of is None else of
        return (self.x(*at) if value is None else value) - along(self._first, where) - along(self._rest, where)

    def _summed(self, axes: Sequence[int], value: Callable[..., Any], name: str) -> Tensor:
        over = {axis: reduce_axis((0, dims(self.x)[axis]), f"r{axis}") for axis in axes}

        def read(*at: Expr) -> Any:
            found = value(*[over.get(axis, index) for axis, index in enumerate(at)])
            return reduce.sum(found, axis=[*over.values()]) if over else found
        return made(dims(self._first), read, name)


@operator("layer_norm", kind=Kind.OPAQUE)
def layer_norm(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalized over the axes from `axis` on, scaled and moved; then the mean and 1 / deviation, of float32 or wider.

    scale, bias : broadcast to x. Source: arXiv 1607.06450, ONNX LayerNormalization.
    """
    check_float(x, "layer_norm")
    axes = [*range(axis_of(axis, x.ndim, "layer_norm"), x.ndim)]
    wide = in_type(x, accumulator(x.dtype))
    found = Moments(wide, axes, "layer_norm")
    inverse = _inverse(found, epsilon)

    def value(*at: Expr) -> Expr:
        normal: Expr = (found.off(*at) * along(inverse, at)).astype(x.dtype)
        return scaled(normal, at, scale, bias)
    _broadcasts(x, "layer_norm", scale, bias)
    return made(dims(x), value, "layer_norm"), found.mean, inverse


def _inverse(of: Moments, epsilon: float) -> Tensor:
    return each(of.variance, lambda e: const(1, e.dtype) / math.sqrt(e + epsilon), "inverse")


def _broadcasts(x: Tensor, what: str, *parts: Tensor | None) -> None:
    for part in parts:
        if part is not None:
            same_dtype(what, x, part)
            if broadcast_shape(what, dims(x), dims(part)) != dims(x):
                raise OperatorError(f"{what}: a scale or bias of {dims(part)} does not broadcast to {dims(x)}")


def scaled(value: Expr, at: Sequence[Expr], scale: Tensor | None, bias: Tensor | None) -> Expr:
    """A value times a broadcast scale, plus a broadcast bias."""
    if scale is not None:
        value = value * broadcast_read(scale, at)
    return value if bias is None else value + broadcast_read(bias, at)


@operator("rms_norm", kind=Kind.OPAQUE)
def rms_norm(x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5) -> Tensor:
    """``x / sqrt(mean(x * x) + epsilon) * scale``, the mean over the axes from `axis` on. Source: arXiv 1910.07467."""
    check_float(x, "rms_norm")
    _broadcasts(x, "rms_norm", scale)
    axes = [*range(axis_of(axis, x.ndim, "rms_norm"), x.ndim)]
    wide = in_type(x, accumulator(x.dtype))
    count = count_along(x, axes, "rms_norm")
    squares = reduced(wide, axes, reduce.sum, "squares", value=lambda e: e * e)
    inverse = each(squares, lambda e: const(1, e.dtype) / math.sqrt(e / const(count, e.dtype) + epsilon), "inverse")
    return made(dims(x), lambda *at: scaled((wide(*at) * along(inverse, at)).astype(x.dtype), at, scale, None), "rms_norm")


@operator("instance_norm", kind=Kind.OPAQUE)
def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Each channel of each image normalized over the spatial dimensions; scale and bias [C]. Source: arXiv 1607.08022."""
    check_float(x, "instance_norm")
    _channels(x, "instance_norm", scale=scale, bias=bias)
    wide = in_type(x, accumulator(x.dtype))
    found = Moments(wide, [*range(2, x.ndim)], "instance_norm")
    inverse = _inverse(found, epsilon)
    return made(dims(x), lambda *at: (found.off(*at) * along(inverse, at)).astype(x.dtype) * scale(at[1]) + bias(at[1]),
                "instance_norm")


@operator("group_norm", kind=Kind.OPAQUE)
def group_norm(x: Tensor, scale: Tensor, bias: Tensor, *, groups: int, epsilon: float = 1e-5) -> Tensor:
    """Groups of channels normalized over channels and spatial dimensions; scale and bias [C]. Source: arXiv 1803.08494."""
    check_float(x, "group_norm")
    _channels(x, "group_norm", scale=scale, bias=bias)
    n, channels, *sizes = dims(x)
    if groups < 1 or channels % groups:
        raise OperatorError(f"group_norm: {channels} channels do not make {groups} groups")
    per = channels // groups
    parts = made((n, groups, per, *sizes), lambda i, g, c, *at: in_type(x, accumulator(x.dtype))(i, g * per + c, *at), "groups")
    found = Moments(parts, [*range(2, parts.ndim)], "group_norm")
    inverse = _inverse(found, epsilon)

    def value(i: Expr, c: Expr, *at: Expr) -> Expr:
        place = (i, c // per, *[const(0, "int32")] * (1 + len(sizes)))
        normal = found.off(value=x(i, c, *at).astype(inverse.dtype), of=place) * inverse(*place)
        cut: Expr = normal.astype(x.dtype) * scale(c) + bias(c)
        return cut
    return made(dims(x), value, "group_norm")


@operator("lrn", kind=Kind.OPAQUE)
def lrn(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """``x / (bias + alpha / size * sum(x * x)) ** beta`` over neighbouring channels. Source: ONNX LRN."""
    check_float(x, "lrn")
    if x.ndim < 2 or size < 1:
        raise OperatorError(f"lrn of size {size}: shape {dims(x)} needs channels, and the size is at least 1")
    r, channels, before = reduce_axis((0, size), "r"), dims(x)[1], (size - 1) // 2

    def square(n: Expr, c: Expr, *at: Expr) -> Any:
        place = c + r - before
        near = x(n, maximum(minimum(place, channels - 1), 0), *at)
        return reduce.sum(select((place >= 0) & (place < channels), near * near, const(0, x.dtype)), axis=r)
    squares = made(dims(x), square, "squares")
    return made(dims(x), lambda *at: x(*at) / math.power(squares(*at) * (alpha / size) + bias, const(beta, x.dtype)), "lrn")


@operator("lp_normalization", kind=Kind.OPAQUE)
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x over its p-norm along an axis; 0 where the norm is 0."""
    norm = lp_norm(x, [axis_of(axis, x.ndim, "lp_normalization")], p, "norm")
    zero = const(0, x.dtype)
    return made(dims(x), lambda *at: select(binary(ir.EQ, along(norm, at), zero), zero, x(*at) / along(norm, at)),
                "lp_normalization")


@operator("softmax", kind=Kind.OPAQUE)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """``exp(x) / sum(exp(x))`` along an axis, without overflow; NaN for all if one is NaN, which then the sum is too.

    Of float16 and bfloat16 each step is rounded, as in the function that ONNX's standard gives Softmax; a sum that float16 may
    not hold stays in float32.
    """
    check_float(x, "softmax")
    at_axis, wide = axis_of(axis, x.ndim, "softmax"), accumulator(x.dtype)
    top = reduced(x, [at_axis], reduce.greatest, "top")
    below = made(dims(x), lambda *at: x(*at) - along(top, at), "below")
    powers = each(below, math.exp, "powers")
    sums = reduced(powers, [at_axis], reduce.sum, "sums", value=lambda e: e.astype(wide))
    whole = in_type(sums, x.dtype if str(x.dtype) != "float16" or dims(x)[at_axis] < _FLOAT16_MAX else wide)
    if x.dtype is wide:  # a division for a row rather than for each element
        share = each(sums, lambda e: const(1, e.dtype) / e, "share")
        return made(dims(x), lambda *at: powers(*at) * along(share, at), "softmax")
    return made(dims(x), lambda *at: (powers(*at) / along(whole, at)).astype(x.dtype), "softmax")


@operator("log_softmax", kind=Kind.OPAQUE)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """``log(softmax(x))`` along an axis, rounded once."""
    check_float(x, "log_softmax")
    at_axis, wide = axis_of(axis, x.ndim, "log_softmax"), accumulator(x.dtype)
    top = reduced(in_type(x, wide), [at_axis], reduce.greatest, "top")
    below = made(dims(x), lambda *at: x(*at).astype(wide) - along(top, at), "below")
    sums = reduced(below, [at_axis], reduce.sum, "sums", value=math.exp)
    logs = each(sums, math.log, "logs")
    return made(dims(x), lambda *at: (below(*at) - along(logs, at)).astype(x.dtype), "log_softmax")


@operator("hardmax", kind=Kind.OPAQUE)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """1 at the first of the greatest along an axis, else 0."""
    at_axis = axis_of(axis, x.ndim, "hardmax")
    first = argmax(x, axis=at_axis)
    one, zero = const(1, x.dtype), const(0, x.dtype)
    return made(dims(x), lambda *at: select(
        binary(ir.EQ, at[at_axis].astype("int64"), along(first, at)), one, zero), "hardmax")
