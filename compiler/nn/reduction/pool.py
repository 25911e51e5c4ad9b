"""Pooling: a window that moves over the spatial dimensions, [N, C, D...]."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, any_of, binary, maximum, minimum, select, truncdiv
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import Shape, dims, flattened, made
from vtakit.compiler.nn.conv.conv import padded, spatial
from vtakit.compiler.nn.elements.elementwise import check_float
from vtakit.compiler.nn.reduction.reduction import reduce_max, reduce_mean, reduced
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math, reduce
from vtakit.compiler.te.language import compute, reduce_axis
from vtakit.compiler.te.tensor import Tensor

Numbers = Sequence[int] | None


class Window:
    """A window over the spatial dimensions of a tensor.

    out  : extents of the result, those of a last window that hangs over included with ceil_mode if it meets the input
    pads : in front, then behind, as given
    """

    def __init__(
        self, what: str, x: Tensor, kernel: Sequence[int], strides: Numbers, pads: Numbers, dilations: Numbers, ceil_mode: bool,
    ) -> None:
        if x.ndim < 3:
            raise OperatorError(f"{what} takes data [N, C, D...], got shape {dims(x)}")
        self.x, self.sizes = x, dims(x)[2:]
        count = len(self.sizes)
        self.kernel = spatial(kernel, 1, count, f"{what}: kernel_shape")
        self.strides = spatial(strides, 1, count, f"{what}: strides")
        self.dilations = spatial(dilations, 1, count, f"{what}: dilations")
        self.pads = spatial(pads, 0, 2 * count, f"{what}: pads", least=0)
        self.axes = [reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(self.kernel)]
        self.out: Shape = tuple([self._extent(what, at, ceil_mode) for at in range(count)])

    def _extent(self, what: str, at: int, ceil_mode: bool) -> int:
        front, back, step = self.pads[at], self.pads[at + len(self.sizes)], self.strides[at]
        room = self.sizes[at] + front + back - (self.kernel[at] - 1) * self.dilations[at] - 1
        if room < 0:
            raise OperatorError(f"{what}: a window of {self.kernel[at]} with dilation {self.dilations[at]} does not fit spatial "
                                f"dimension {at} of {self.sizes[at]} with pads {front} and {back}")
        found = (-(-room // step) if ceil_mode else room // step) + 1
        return found - 1 if (found - 1) * step >= self.sizes[at] + front else found

    @property
    def shape(self) -> Shape:
        """Return the shape of the result."""
        return (*dims(self.x)[:2], *self.out)

    def places(self, at: Sequence[Expr]) -> list[Expr]:
        """Return the indices in the padded dimensions that the window at an index reads."""
        return [o * s + k * d for o, s, k, d in zip(at, self.strides, self.axes, self.dilations, strict=True)]

    @property
    def along_lanes(self) -> bool:
        """Return whether windows have a single cell in the last dimension, as in data with channels in blocks."""
        last = len(self.sizes) - 1
        return last > 0 and self.kernel[last] == self.strides[last] == 1 and not self.pads[last] and not self.pads[-1]

    def within(self, at: Sequence[Expr]) -> Expr:
        """Return the condition that the cell read by the window at an index lies in the input."""
        cells = [place - front for place, front in zip(self.places(at), self.pads, strict=False)]
        return all_of(*[test for cell, extent in zip(cells, self.sizes, strict=True) for test in (cell >= 0, cell < extent)])

    def reduced(self, combine: Callable[..., Any], value: float, name: str) -> Tensor:
        """Each window's cells, together; outside of the input they are `value`, which changes nothing."""
        if not self.along_lanes:
            source = self.padded(value)
            return made(self.shape, lambda n, c, *at: combine(source(n, c, *self.places(at)), axis=self.axes), name, tag="pool")

        def term(n: Expr, c: Expr, *at: Expr) -> Any:
            cells = [place - front for place, front in zip(self.places(at), self.pads, strict=False)]
            return combine(self.x(n, c, *cells), axis=self.axes, where=self.within(at))
        return made(self.shape, term, name, tag="pool_blocked")

    def padded(self, value: float) -> Tensor:
        """The data with a value wherever a window reads outside."""
        count = len(self.sizes)
        last = [(o - 1) * s + (k - 1) * d for o, s, k, d in zip(self.out, self.strides, self.kernel, self.dilations, strict=True)]
        back = [reach + 1 - extent - front for reach, extent, front in zip(last, self.sizes, self.pads, strict=False)]
        return padded(self.x, (*self.pads[:count], *[max(0, cells) for cells in back]), value)

    def count(self, at: Sequence[Expr], include_pad: bool) -> Expr:
        """Return the number of cells of the window at an index that lie in the input; with include_pad its pads count too."""
        found: Expr = const(1, "int32")
        for axis, index in enumerate(at):
            front, back = self.pads[axis], self.pads[axis + len(self.sizes)]
            start, spread, size = index * self.strides[axis], self.dilations[axis], self.sizes[axis]
            low, high = (0, front + size + back) if include_pad else (front, front + size)
            first = maximum((low - start + (spread - 1)) // spread, 0)
            last = minimum((high - 1 - start) // spread, self.kernel[axis] - 1)
            found = found * (last - first + 1)
        return found

    @property
    def inside(self) -> bool:
        """Return whether no window reads outside of the input."""
        return not any(self.pads) and all(
            (o - 1) * s + (k - 1) * d < extent for o, s, k, d, extent in
            zip(self.out, self.strides, self.kernel, self.dilations, self.sizes, strict=True))


def _least(x: Tensor) -> Any:
    return float("-inf") if x.dtype.is_float else x.dtype.min


@operator("max_pool", kind=Kind.REDUCTION)
def max_pool(
    x: Tensor, *, kernel_shape: Sequence[int], strides: Numbers = None, pads: Numbers = None, dilations: Numbers = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The greatest of each window. Source: ONNX MaxPool. Raises OperatorError for a window that does not fit."""
    w = Window("max_pool", x, kernel_shape, strides, pads, dilations, ceil_mode)
    return w.reduced(reduce.max, _least(x), "max_pool")


@operator("max_pool_with_indices", kind=Kind.OPAQUE)
def max_pool_with_indices(
    x: Tensor, *, kernel_shape: Sequence[int], strides: Numbers = None, pads: Numbers = None, dilations: Numbers = None,
    ceil_mode: bool = False, storage_order: int = 0,
) -> tuple[Tensor, Tensor]:
    """The greatest of each window, and its int64 place in the whole flattened input.

    storage_order : 1 for places in column order of the spatial dimensions
    """
    w = Window("max_pool_with_indices", x, kernel_shape, strides, pads, dilations, ceil_mode)
    source = w.padded(_least(x))
    end = const((1 << 63) - 1, "int64")

    def combine(a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        (i, u), (j, v) = a, b
        first = any_of(v < u, all_of(binary(ir.EQ, u, v), i < j))
        return select(first, i, j), select(first, u, v)
    best = reduce.comm_reducer(combine, lambda index, kind: (end, reduce.min_value(kind)), name="max_at")

    def read(n: Expr, c: Expr, *at: Expr) -> Any:
        places = w.places(at)
        cells = [place - front for place, front in zip(places, w.pads, strict=False)]
        plane, within = (cells, w.sizes) if not storage_order else (cells[::-1], w.sizes[::-1])
        number = flattened([n, c, *plane], [*dims(x)[:2], *within]).astype("int64")
        return best((select(w.within(at), number, end), source(n, c, *places)), axis=w.axes)
    index, value = compute(w.shape, read, name="max_pool")
    return value, index


@operator("average_pool", kind=Kind.REDUCTION)
def average_pool(
    x: Tensor, *, kernel_shape: Sequence[int], strides: Numbers = None, pads: Numbers = None, dilations: Numbers = None,
    ceil_mode: bool = False, count_include_pad: bool = False,
) -> Tensor:
    """The mean of the cells of each window that are in the input; with count_include_pad, of its zero pads too. Source: ONNX."""
    w = Window("average_pool", x, kernel_shape, strides, pads, dilations, ceil_mode)
    sums = w.reduced(reduce.sum, 0, "sums")

    def count(*at: Expr) -> Expr:
        found = const(prod(w.kernel), "int32") if w.inside else w.count(at, count_include_pad)
        return found.astype(x.dtype)
    value = count if w.inside or w.along_lanes else made(w.out, count, "cells")  # once for all channels

    def mean(n: Expr, c: Expr, *at: Expr) -> Expr:
        total: Expr = sums(n, c, *at)
        return total / value(*at) if x.dtype.is_float else truncdiv(total, value(*at))
    return made(w.shape, mean, "average_pool")


@operator("lp_pool", kind=Kind.REDUCTION)
def lp_pool(
    x: Tensor, *, kernel_shape: Sequence[int], p: int = 2, strides: Numbers = None, pads: Numbers = None,
    dilations: Numbers = None, ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window. Source: ONNX LpPool."""
    check_float(x, "lp_pool")
    w = Window("lp_pool", x, kernel_shape, strides, pads, dilations, ceil_mode)
    source = w.padded(0)
    sums = made(w.shape, lambda n, c, *at: reduce.sum(to_power(source(n, c, *w.places(at)), p), axis=w.axes), "sums", tag="pool")
    return made(w.shape, lambda *at: root_of(sums(*at), p), "lp_pool")


def to_power(e: Expr, p: int) -> Expr:
    """``|e| ** p``."""
    if p == 1:
        return math.abs(e)
    return e * e if p == 2 else math.power(math.abs(e), const(p, e.dtype))


def root_of(e: Expr, p: int) -> Expr:
    """The p-th root of what is not negative."""
    if p == 1:
        return e
    return math.sqrt(e) if p == 2 else math.power(e, const(1 / p, e.dtype))


def _over_all(name: str, meaning: str, value: Callable[[Tensor, Sequence[int]], Tensor]) -> Callable[[Tensor], Tensor]:
    """Define and register pooling over all spatial dimensions."""
    def define(x: Tensor) -> Tensor:
        if x.ndim < 3:
            raise OperatorError(f"{name} takes data [N, C, D...], got shape {dims(x)}")
        return value(x, range(2, x.ndim))
    define.__name__ = define.__qualname__ = name
    define.__doc__ = f"{meaning} of each channel, with extents of 1 in place of the spatial ones."
    return operator(name, kind=Kind.REDUCTION)(define)


global_average_pool = _over_all("global_average_pool", "The mean", lambda x, axes: reduce_mean(x, axes=axes))
global_max_pool = _over_all("global_max_pool", "The greatest value", lambda x, axes: reduce_max(x, axes=axes))


@operator("global_lp_pool", kind=Kind.REDUCTION)
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    """The p-norm of each channel."""
    return lp_norm(x, [*range(2, x.ndim)], p, "global_lp_pool")


def lp_norm(x: Tensor, axes: Sequence[int], p: int, name: str) -> Tensor:
    """The p-norm along axes, which are kept with extents of 1."""
    check_float(x, name)
    sums = reduced(x, axes, reduce.sum, "sums", value=lambda e: to_power(e, p))
    return made(dims(sums), lambda *at: root_of(sums(*at), p), name)
