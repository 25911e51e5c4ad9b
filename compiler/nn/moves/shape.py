"""Operators that move elements and compute nothing."""

from collections.abc import Sequence
from itertools import accumulate
from math import prod

from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.ops import if_then_else, maximum, minimum
from vtakit.compiler.ir.stmt import For, LoopKind, Stmt, Store, seq
from vtakit.compiler.ir.values import const, wrap
from vtakit.compiler.nn.common import (
    Shape,
    axis_of,
    broadcast_read,
    broadcast_shape,
    dims,
    flattened,
    made,
    same_dtype,
    size,
    unflattened,
)
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.compose import extern
from vtakit.compiler.te.tensor import Tensor

CHOSEN = 4  # tensors of a concatenation that one expression chooses among: with more, tests take longer than copies
COPIED_LANES = 64  # elements of a vector that is copied


@operator("reshape", kind=Kind.INJECTIVE)
def reshape(x: Tensor, *, shape: Sequence[int]) -> Tensor:
    """Return the same elements, row by row, in another shape. Raises OperatorError for one that has not as many elements."""
    to, old = tuple(shape), dims(x)
    if min(to, default=0) < 0 or prod(to) != size(x):
        raise OperatorError(f"reshape: {size(x)} elements of shape {old} do not fill shape {to}")
    if not size(x):  # no element of either is read or made
        return made(to, lambda *at: x(*[0] * x.ndim), "reshape")
    if [extent for extent in to if extent != 1] == [extent for extent in old if extent != 1]:
        return _without_ones(x, to)
    return made(to, lambda *at: x(*unflattened(flattened(at, to), old)), "reshape")


def _without_ones(x: Tensor, to: Shape) -> Tensor:
    """Extents of 1 added or taken away: indices stay apart, which schedules can follow."""
    def read(*at: Expr) -> Expr:
        kept = iter([index for index, extent in zip(at, to, strict=True) if extent != 1])
        found: Expr = x(*[0 if extent == 1 else next(kept) for extent in dims(x)])
        return found
    return made(to, read, "reshape")


@operator("transpose", kind=Kind.INJECTIVE)
def transpose(x: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    """Dimensions in another order: dimension i of the result is dimension perm[i] of x; without perm they are reversed."""
    order = tuple(range(x.ndim))[::-1] if perm is None else tuple([axis_of(axis, x.ndim, "transpose") for axis in perm])
    if sorted(order) != [*range(x.ndim)]:
        raise OperatorError(f"transpose: {list(order)} is no order of the {x.ndim} dimensions")
    return made([dims(x)[axis] for axis in order], lambda *at: x(*[at[order.index(axis)] for axis in range(x.ndim)]), "transpose")


@operator("expand", kind=Kind.INJECTIVE)
def expand(x: Tensor, *, shape: Sequence[int]) -> Tensor:
    """x broadcast with a shape, both ways. Source: ONNX Expand. Raises OperatorError if they do not broadcast."""
    to = broadcast_shape("expand", dims(x), tuple(shape))
    return made(to, lambda *at: broadcast_read(x, at), "expand")


@operator("tile", kind=Kind.INJECTIVE)
def tile(x: Tensor, *, repeats: Sequence[int]) -> Tensor:
    """x repeated along each dimension. Raises OperatorError unless there is a number, at least 0, for each."""
    if len(repeats) != x.ndim or min(repeats, default=0) < 0:
        raise OperatorError(f"tile: repeats {list(repeats)} of a tensor of {x.ndim} dimensions: give one for each, at least 0")
    shape = [extent * times for extent, times in zip(dims(x), repeats, strict=True)]
    return made(shape, lambda *at: x(*[
        index % extent if times > 1 else index for index, extent, times in zip(at, dims(x), repeats, strict=True)]), "tile")


@operator("concat", kind=Kind.INJECTIVE)
def concat(*tensors: Tensor, axis: int) -> Tensor:
    """Tensors after one another along an axis. Raises OperatorError for types or other extents that differ, or for none.

    A few are one expression, which chooses among them; more are copied one after another.
    """
    if not tensors:
        raise OperatorError("concat: give at least one tensor")
    same_dtype("concat", *tensors)
    first = dims(tensors[0])
    at_axis = axis_of(axis, len(first), "concat")
    for x in tensors[1:]:
        if x.ndim != len(first) or any(a != b for at, (a, b) in enumerate(zip(dims(x), first, strict=True)) if at != at_axis):
            raise OperatorError(f"concat along axis {axis}: shapes {first} and {dims(x)} differ elsewhere")
    parts = [x for x in tensors if dims(x)[at_axis]] or [tensors[0]]
    starts = [0, *accumulate([dims(x)[at_axis] for x in parts])]
    shape = (*first[:at_axis], starts[-1], *first[at_axis + 1:])
    if len(parts) > CHOSEN:
        return _copied(parts, starts, at_axis, shape)

    def read(*at: Expr) -> Expr:
        def part(number: int) -> Expr:
            found: Expr = parts[number](*at[:at_axis], at[at_axis] - starts[number], *at[at_axis + 1:])
            return found
        found = part(len(parts) - 1)
        for number in reversed(range(len(parts) - 1)):
            found = if_then_else(at[at_axis] < starts[number + 1], part(number), found)
        return found
    return made(shape, read, "concat")


def _copied(parts: Sequence[Tensor], starts: Sequence[int], axis: int, shape: Shape) -> Tensor:
    """Parts along an axis by a copy of each."""
    tensors = [*dict.fromkeys(parts)]

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        buffers = dict(zip(tensors, ins, strict=True))
        return seq(*[_copy(buffers[part], outs[0], axis, start, dims(part)) for part, start in zip(parts, starts, strict=False)])
    found: Tensor = extern(shape, tensors, body, name="concat", dtype=parts[0].dtype)
    return found


def _copy(part: Buffer, out: Buffer, axis: int, start: int, shape: Shape) -> Stmt:
    """Loops that copy a tensor to where it starts along an axis of another, whole vectors at a time."""
    at: list[Expr] = [Var(f"i{number}") for number in range(len(shape))]
    line, lane, left = Var("line"), Var("lane"), Var("left")
    width = min(shape[-1], COPIED_LANES)

    def copy(last: Expr) -> Stmt:
        index = (*at[:-1], last)
        return Store(out, (*index[:axis], index[axis] + start, *index[axis + 1:]), Load(part, index))
    lines, rest = divmod(shape[-1], width)
    found = [For(line, wrap(lines), For(lane, wrap(width), copy(line * width + lane), LoopKind.VECTORIZED))]
    if rest:
        found.append(For(left, wrap(rest), copy(left + lines * width), LoopKind.VECTORIZED))
    whole: Stmt = seq(*found)
    for variable, extent in zip(reversed(at[:-1]), reversed(shape[:-1]), strict=True):
        assert isinstance(variable, Var)
        whole = For(variable, wrap(extent), whole)
    return whole


@operator("split", kind=Kind.INJECTIVE)
def split(x: Tensor, *, axis: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """Parts of x along an axis, one a size. Raises OperatorError unless the sizes are at least 0 and add up to the extent."""
    at_axis = axis_of(axis, x.ndim, "split")
    extent = dims(x)[at_axis]
    if min(sizes, default=-1) < 0 or sum(sizes) != extent:
        raise OperatorError(f"split: sizes {list(sizes)} do not add up to the {extent} of axis {axis}")
    starts = [0, *accumulate(sizes)]
    return tuple([_part(x, at_axis, start, count) for start, count in zip(starts, sizes, strict=False)])


def _part(x: Tensor, axis: int, start: int, count: int) -> Tensor:
    shape = (*dims(x)[:axis], count, *dims(x)[axis + 1:])
    return made(shape, lambda *at: x(*at[:axis], at[axis] + start, *at[axis + 1:]), "split")


@operator("slice", kind=Kind.INJECTIVE)
def strided_slice(
    x: Tensor, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
) -> Tensor:
    """Every step-th element from a start up to an end along some axes, with Python's meaning of negative and large numbers.

    axes, steps : the first ones and 1 if not given. Source: ONNX Slice.
    Raises OperatorError for numbers that do not match, an axis given twice, or a step of 0.
    """
    count = len(starts)
    chosen = [axis_of(axis, x.ndim, "slice") for axis in (range(count) if axes is None else axes)]
    by = (1,) * count if steps is None else tuple(steps)
    if len(ends) != count or len(chosen) != count or len(by) != count or len({*chosen}) != count or 0 in by:
        raise OperatorError(f"slice: starts {list(starts)}, ends {list(ends)}, axes {chosen} and steps {list(by)}: give one of "
                            "each for every axis, each axis once, and no step of 0")
    taken = {axis: range(dims(x)[axis])[slice(start, end, step)] for axis, start, end, step in
             zip(chosen, map(int, starts), map(int, ends), by, strict=True)}
    shape = [len(taken[axis]) if axis in taken else extent for axis, extent in enumerate(dims(x))]
    return made(shape, lambda *at: x(*[
        index * taken[axis].step + taken[axis].start if axis in taken else index for axis, index in enumerate(at)]), "slice")


@operator("pad", kind=Kind.INJECTIVE)
def pad(x: Tensor, value: Tensor | None = None, *, pads: Sequence[int], mode: str = "constant") -> Tensor:
    """x with more elements around it, or fewer where a number is negative.

    value : of constant pads, one element of x's type; 0 if not given
    pads  : in front of each dimension, then behind each
    mode  : "constant", "reflect" (the edge not repeated), "edge" (its element), or "wrap" (the other end)
    Source: ONNX Pad. Raises OperatorError for other modes, numbers that do not match, or a negative extent.
    """
    before, after, sizes = tuple(pads)[:x.ndim], tuple(pads)[x.ndim:], dims(x)
    if len(pads) != 2 * x.ndim or mode not in ("constant", "reflect", "edge", "wrap"):
        raise OperatorError(f"pad: pads {list(pads)} of mode {mode!r}: give two for each of {x.ndim} dimensions, and the mode "
                            "constant, reflect, edge or wrap")
    shape = [front + extent + back for front, extent, back in zip(before, sizes, after, strict=True)]
    if min(shape, default=0) < 0:
        raise OperatorError(f"pad: pads {list(pads)} leave less than nothing of shape {sizes}")
    if mode != "constant" and any(not extent and wanted for extent, wanted in zip(sizes, shape, strict=True)):
        raise OperatorError(f"pad: mode {mode!r} takes elements from a tensor that has none, of shape {sizes}")
    if value is not None:
        same_dtype("pad", x, value)

    def read(*at: Expr) -> Expr:
        places, inside = [], []
        for axis, (index, front, extent) in enumerate(zip(at, before, sizes, strict=True)):
            place = index - front
            if front > 0:
                inside.append(place >= 0)
            if after[axis] > 0:
                inside.append(place < extent)
            around = front > 0 or after[axis] > 0
            places.append(_folded(place, extent, mode) if around and mode != "constant" else place)
        found: Expr = x(*places)
        if mode != "constant" or not inside:
            return found
        outside = const(0, x.dtype) if value is None else value(*[0] * value.ndim)
        for condition in reversed(inside):
            found = if_then_else(condition, found, outside)
        return found
    return made(shape, read, "padded")


def _folded(place: Expr, extent: int, mode: str) -> Expr:
    """Return the index inside the data whose element stands at an index outside of it."""
    last = extent - 1
    if mode == "wrap":
        return place % extent
    if mode == "edge":
        return maximum(minimum(place, last), 0)
    if not last:
        return place * 0
    turn = place % (2 * last)  # there and back again
    return minimum(minimum(turn, 2 * last - turn), last)  # `last` makes no difference, but a bound that is proven


@operator("depth_to_space", kind=Kind.INJECTIVE)
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """[N, C * b * b, H, W] -> [N, C, H * b, W * b]; mode DCR has the channels innermost, CRD outermost. Source: ONNX."""
    n, channels, height, width = _image(x, "depth_to_space")
    b = blocksize
    if b < 1 or channels % (b * b) or mode not in ("DCR", "CRD"):
        raise OperatorError(f"depth_to_space of mode {mode!r}: {channels} channels do not make blocks of {b} x {b}")
    c = channels // (b * b)

    def read(i: Expr, k: Expr, y: Expr, z: Expr) -> Expr:
        place = y % b * b + z % b
        found: Expr = x(i, place * c + k if mode == "DCR" else k * (b * b) + place, y // b, z // b)
        return found
    return made((n, c, height * b, width * b), read, "depth_to_space")


@operator("space_to_depth", kind=Kind.INJECTIVE)
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """[N, C, H * b, W * b] -> [N, C * b * b, H, W]; mode DCR has the channels innermost, CRD outermost. Source: ONNX."""
    n, channels, height, width = _image(x, "space_to_depth")
    b = blocksize
    if b < 1 or height % b or width % b or mode not in ("DCR", "CRD"):
        raise OperatorError(f"space_to_depth of mode {mode!r}: an image of {height} x {width} does not make blocks of {b} x {b}")

    def read(i: Expr, k: Expr, y: Expr, z: Expr) -> Expr:
        channel, place = (k % channels, k // channels) if mode == "DCR" else (k // (b * b), k % (b * b))
        found: Expr = x(i, channel, y * b + place // b, z * b + place % b)
        return found
    return made((n, channels * b * b, height // b, width // b), read, "space_to_depth")


def _image(x: Tensor, what: str) -> Shape:
    if x.ndim != 4:
        raise OperatorError(f"{what} takes images [N, C, H, W], got shape {dims(x)}")
    return dims(x)


@operator("trilu", kind=Kind.INJECTIVE)
def trilu(x: Tensor, *, k: int = 0, upper: bool = True) -> Tensor:
    """The upper or lower triangle of matrices, from diagonal k; 0 elsewhere."""
    if x.ndim < 2:
        raise OperatorError(f"trilu takes matrices, got shape {dims(x)}")
    zero = const(0, x.dtype)
    return made(dims(x), lambda *at: if_then_else(
        at[-1] - at[-2] >= k if upper else at[-1] - at[-2] <= k, x(*at), zero), "trilu")


@operator("reverse_sequence", kind=Kind.INJECTIVE)
def reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """The first lengths[b] elements of each sequence b in reverse order; those behind stay. Source: ONNX ReverseSequence."""
    batch, time = axis_of(batch_axis, x.ndim, "reverse_sequence"), axis_of(time_axis, x.ndim, "reverse_sequence")
    if x.ndim < 2 or dims(lengths) != (dims(x)[batch],):
        raise OperatorError(f"reverse_sequence: lengths {dims(lengths)} are not one for each sequence of {dims(x)}")

    def read(*at: Expr) -> Expr:
        count = lengths(at[batch]).astype("int32")
        place = if_then_else(at[time] < count, count - 1 - at[time], at[time])
        found: Expr = x(*at[:time], place, *at[time + 1:])
        return found
    return made(dims(x), read, "reverse_sequence")
