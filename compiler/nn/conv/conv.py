"""Convolutions over any number of spatial dimensions."""

from collections.abc import Sequence
from math import prod

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.ops import all_of, if_then_else
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import Shape, dims, flattened, made, same_dtype, unflattened
from vtakit.compiler.nn.product.matmul import accumulator, in_type
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor


def spatial(values: Sequence[int] | None, default: int, count: int, what: str, least: int = 1) -> Shape:
    """One number for each spatial dimension. Raises OperatorError for another count, or one that is too small."""
    found = (default,) * count if values is None else tuple(values)
    if len(found) != count or min(found, default=least) < least:
        raise OperatorError(f"{what} {list(found)}: give {count} numbers, each at least {least}")
    return found


def window_sizes(what: str, sizes: Shape, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape) -> Shape:
    """Extents of the result of a window that moves over spatial dimensions. Raises OperatorError if it does not fit."""
    found = []
    for at, (extent, reach, step, spread) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        room = extent + pads[at] + pads[at + len(sizes)] - (reach - 1) * spread - 1
        if room < 0:
            raise OperatorError(f"{what}: a window of {reach} with dilation {spread} does not fit spatial dimension {at} of "
                                f"{extent} with pads {pads[at]} and {pads[at + len(sizes)]}")
        found.append(room // step + 1)
    return tuple(found)


def padded(x: Tensor, pads: Shape, value: float = 0, name: str = "padded") -> Tensor:
    """`x` with a value around its last dimensions: `pads` in front of each, then behind each. `x` itself if there are none.

    Numbers behind a dimension may be negative: what is cut off is not read.
    """
    count = len(pads) // 2
    before, after = pads[:count], pads[count:]
    if not any(pads):
        return x
    *lead, sizes = (*dims(x)[:x.ndim - count], dims(x)[x.ndim - count:])

    def read(*at: Expr) -> Expr:
        inside = []
        for index, extent, front, back in zip(at[len(lead):], sizes, before, after, strict=True):
            inside += [index >= front] if front else []
            inside += [index < front + extent] if back > 0 else []
        found = x(*at[:len(lead)], *[index - front for index, front in zip(at[len(lead):], before, strict=True)])
        return if_then_else(all_of(*inside), found, const(value, x.dtype)) if inside else found

    shape = [extent + front + back for extent, front, back in zip(sizes, before, after, strict=True)]
    return made((*lead, *shape), read, name)


SHORT = 64  # pixels of a row: vectors along shorter ones would be mostly partial
FEW = 16  # filters of a group, and pixels of a row: so few do not pay for columns, and so many fill a vector


@operator("conv", kind=Kind.ANCHOR)
def conv(
    x: Tensor, weight: Tensor, *, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None, groups: int = 1, fill: int = 0,
) -> Tensor:
    """Convolution (cross-correlation) over one or more spatial dimensions.

    x       [N, C, D...]             weight  [M, C / groups, K...]     of one type, which sums have too
    result  [N, M, O...]             O = (D + pads - (K - 1) * dilation - 1) // stride + 1

    pads : in front of each dimension, then behind each. Source: ONNX Conv.
    fill : value of the pads
    A group of one channel is computed straight from the input; others as a product of matrices, weights by columns, where a
    column has what one output reads.
    Raises OperatorError for shapes, types or attributes that do not fit together.
    """
    same_dtype("conv", x, weight)
    kind = accumulator(x.dtype)
    if x.ndim < 3 or weight.ndim != x.ndim:
        raise OperatorError(f"conv: data {dims(x)} and weights {dims(weight)}: each has two dimensions, then the spatial ones")
    (images, channels, *sizes), (filters, depth, *kernel) = dims(x), dims(weight)
    count = len(sizes)
    steps, spread = spatial(strides, 1, count, "conv: strides"), spatial(dilations, 1, count, "conv: dilations")
    pad = spatial(pads, 0, 2 * count, "conv: pads", least=0)
    if groups < 1 or channels != depth * groups or filters % groups:
        raise OperatorError(f"conv: data of {channels} channels and weights {dims(weight)} do not make {groups} groups")
    out = window_sizes("conv", tuple(sizes), tuple(kernel), steps, pad, spread)
    per_group = filters // groups
    c = reduce_axis((0, depth), "c")
    window = [reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(kernel)]

    source = padded(x, pad, fill)

    def read(n: Expr, channel: Expr, at: Sequence[Expr], offsets: Sequence[Expr | IterVar]) -> Expr:
        places = [o * s + k * d for o, s, k, d in zip(at, steps, offsets, spread, strict=True)]
        found: Expr = source(n, channel, *places)
        return found

    if depth == 1 and count == 2 and out[-1] <= SHORT:
        return _of_planes(x, weight, (images, filters, *out), steps, pad, spread, fill)
    if depth == 1:
        sums = made((images, filters, *out), lambda n, m, *at: sum_of(
            read(n, m // per_group, at, window).astype(kind) * weight(m, 0, *window).astype(kind), axis=window),
            "sums", tag="depthwise")
        return in_type(sums, x.dtype)
    if per_group < FEW and prod(kernel) > 1 and steps[-1] == 1 and out[-1] >= FEW:
        sums = made((images, filters, *out), lambda n, m, *at: sum_of(
            read(n, m // per_group * depth + c, at, window).astype(kind) * weight(m, c, *window).astype(kind), axis=[c, *window]),
            "sums", tag="conv_rows", attrs={"groups": groups})
        return in_type(sums, x.dtype)
    plain = prod(kernel) == 1 and prod(steps) == 1
    columns = made((images, channels, *kernel, prod(out)), lambda n, m, *at: read(
        n, m, unflattened(at[-1], out), at[:-1]).astype(kind), "columns", attrs={
            "plain": plain, "row": out[-1] if steps[-1] == 1 else 0})
    factors = in_type(weight, kind)  # once, not for each tile of columns
    sums = made((images, filters, prod(out)), lambda n, m, p: sum_of(
        factors(m, c, *window) * columns(n, m // per_group * depth + c, *window, p), axis=[c, *window]),
        "sums", tag="conv", attrs={"groups": groups})
    return made((images, filters, *out), lambda n, m, *at: sums(n, m, flattened(at, out)).astype(x.dtype), "conv",
                tag="unflatten")


def _of_planes(
    x: Tensor, weight: Tensor, shape: Shape, steps: Shape, pads: Shape, spread: Shape, fill: int,
) -> Tensor:
    """A convolution [N, M, O0, O1] of one channel each, whose sums run through all rows.

    The padded data is taken apart into planes, one for each remainder of a row and a column by their strides, with rows of one
    length. A sum at a place then reads each plane at that place and a constant distance; the places between rows are for nothing.
    """
    images, filters, *out = shape
    (channels, *sizes), kernel = dims(x)[1:], dims(weight)[2:]
    kind, per_group = accumulator(x.dtype), filters // channels
    need = [(o - 1) + (r - 1) * d // s + 1 for o, r, d, s in zip(out, kernel, spread, steps, strict=True)]
    whole = [rows * s - extent - front for rows, s, extent, front in zip(need, steps, sizes, pads, strict=False)]
    source = padded(x, (*pads[:2], *whole), fill)
    planes = made((images, channels, *steps, *need), lambda n, c, p, q, i, j: source(
        n, c, i * steps[0] + p, j * steps[1] + q).astype(kind), "planes")
    row = need[1]
    window = [reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(kernel)]

    def term(n: Expr, m: Expr, place: Expr) -> Expr:
        far = [k * d for k, d in zip(window, spread, strict=True)]
        at = place + far[0] // steps[0] * row + far[1] // steps[1]
        read = planes(n, m // per_group, far[0] % steps[0], far[1] % steps[1], at // row, at % row)
        total: Expr = sum_of(read * weight(m, 0, *window).astype(kind), axis=window)
        return total
    sums = made((images, filters, (out[0] - 1) * row + out[1]), term, "sums", tag="depthwise_planes")
    return made(shape, lambda n, m, i, j: sums(n, m, i * row + j).astype(x.dtype), "conv", tag="unflatten")
