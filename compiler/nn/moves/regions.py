"""Parts of images: windows at places that are data, regions of interest, caches of sequences."""

from collections.abc import Sequence

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import INT32, DType, dtype
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.ops import all_of, any_of, binary, maximum, minimum, select
from vtakit.compiler.ir.stmt import Allocate, For, Stmt, Store, seq
from vtakit.compiler.ir.values import const, wrap
from vtakit.compiler.nn.common import axis_of, dims, made, same_dtype
from vtakit.compiler.nn.elements.elementwise import check_float
from vtakit.compiler.nn.moves.indexing import cell_at, loops, within
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math, reduce
from vtakit.compiler.te.compose import extern
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.tensor import Tensor

REAL = dtype("float32")  # of coordinates


def _bilinear(read: object, y: Expr, x: Expr, height: int, width: int, kind: DType) -> Expr:
    """The value of an image between pixels; outside of it are zeros. read : (row, column) -> pixel"""
    top, left = math.floor(y), math.floor(x)
    total: Expr = const(0, kind)
    for row, by in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, of in ((left, 1 - (x - left)), (left + 1, x - left)):
            inside = all_of(row >= 0, row <= height - 1, column >= 0, column <= width - 1)
            at = [cell_at(cell, extent) for cell, extent in ((row, height), (column, width))]
            total = total + select(inside, read(*at), const(0, kind)) * (by * of).astype(kind)  # type: ignore[operator]
    return total


@operator("deform_columns", kind=Kind.OPAQUE)
def deform_columns(
    x: Tensor, offset: Tensor, mask: Tensor | None = None, *, kernel_shape: Sequence[int], strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int], offset_groups: int = 1,
) -> Tensor:
    """The pixels that a deformable convolution multiplies, [N, C, KH * KW, OH * OW].

    x [N, C, H, W]   offset [N, groups * KH * KW * 2, OH, OW]   mask [N, groups * KH * KW, OH, OW]
    Source: arXiv 1811.11168, ONNX DeformConv. Raises OperatorError for shapes that do not fit.
    """
    check_float(x, "deform_conv")
    same_dtype("deform_conv", *[each for each in (x, offset, mask) if each is not None])
    if x.ndim != 4 or len(kernel_shape) != 2 or dims(x)[1] % offset_groups:
        raise OperatorError(f"deform_conv of {dims(x)} with {offset_groups} groups of offsets: give images [N, C, H, W]")
    (batch, channels, height, width), (kh, kw) = dims(x), kernel_shape
    out = tuple([(size + pads[at] + pads[at + 2] - dilations[at] * (kernel_shape[at] - 1) - 1) // strides[at] + 1
                 for at, size in enumerate((height, width))])
    cells = kh * kw
    if dims(offset) != (batch, offset_groups * cells * 2, *out) or (
            mask is not None and dims(mask) != (batch, offset_groups * cells, *out)):
        raise OperatorError(f"deform_conv: offsets {dims(offset)} and mask {None if mask is None else dims(mask)} for images "
                            f"{dims(x)} and results of {list(out)}: give {(batch, offset_groups * cells * 2, *out)}")
    each = channels // offset_groups

    def value(n: Expr, c: Expr, cell: Expr, place: Expr) -> Expr:
        group, i, j = c // each, place // out[1], place % out[1]
        row = i * strides[0] - pads[0] + cell // kw * dilations[0]
        column = j * strides[1] - pads[1] + cell % kw * dilations[1]
        at = (group * cells + cell) * 2
        y = row.astype(x.dtype) + offset(n, at, i, j)
        across = column.astype(x.dtype) + offset(n, at + 1, i, j)
        found = _bilinear(lambda r, s: x(n, c, r, s), y, across, height, width, x.dtype)
        return found if mask is None else found * mask(n, group * cells + cell, i, j)
    return made((batch, channels, cells, out[0] * out[1]), value, "deform_columns")


@operator("max_roi_pool", kind=Kind.OPAQUE)
def max_roi_pool(x: Tensor, rois: Tensor, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0) -> Tensor:
    """The greatest pixel of each part of regions [batch, x1, y1, x2, y2]; of an empty part 0. Source: ONNX MaxRoiPool."""
    check_float(x, "max_roi_pool")
    if x.ndim != 4 or rois.ndim != 2 or dims(rois)[1] != 5 or len(pooled_shape) != 2:
        raise OperatorError(f"max_roi_pool of {dims(x)} and regions {dims(rois)}: give [N, C, H, W] and [regions, 5]")
    batch, channels, height, width = dims(x)
    rows, columns = reduce_axis((0, height), "y"), reduce_axis((0, width), "x")

    def edges(r: Expr, part: Expr, low: int, count: int, extent: int) -> tuple[Expr, Expr]:
        """The first place of a part, and the first behind it."""
        start, end = (math.round(rois(r, at).astype(REAL) * spatial_scale) for at in (low, low + 2))
        size = maximum(end - start + 1, 1) / count
        first = math.floor(part.astype(REAL) * size) + start
        last = math.ceil((part + 1).astype(REAL) * size) + start
        return tuple(maximum(minimum(each, extent), 0).astype("int32") for each in (first, last))  # type: ignore[return-value]

    def greatest(r: Expr, c: Expr, i: Expr, j: Expr) -> Expr:
        top, bottom = edges(r, i, 2, pooled_shape[0], height)
        left, right = edges(r, j, 1, pooled_shape[1], width)
        inside = all_of(rows >= top, rows < bottom, columns >= left, columns < right)
        least = const(float("-inf"), x.dtype)
        pixel = x(within(rois(r, 0).astype("int32"), batch), c, rows, columns)
        found: Expr = reduce.max(select(inside, pixel, least), axis=[rows, columns])
        return found
    best = made((dims(rois)[0], channels, *pooled_shape), greatest, "greatest")
    least = const(float("-inf"), x.dtype)
    return made(dims(best), lambda *at: select(binary(ir.EQ, best(*at), least), const(0, x.dtype), best(*at)), "max_roi_pool")


@operator("roi_align", kind=Kind.OPAQUE)
def roi_align(
    x: Tensor, rois: Tensor, batches: Tensor, *, output_shape: Sequence[int], sampling_ratio: int = 0, spatial_scale: float = 1.0,
    mode: str = "avg", half_pixel: bool = True,
) -> Tensor:
    """The mean, or the greatest, of values between pixels in each part of regions [x1, y1, x2, y2] of images.

    batches        : the image of each region
    sampling_ratio : values a part along each side; 0 for as many as the part has pixels, none if it has no end

    Results of a region with NaN or infinity are not defined; those of others are what they are without it.

    Source: arXiv 1703.06870, ONNX RoiAlign; the greatest is of pixels times their weights, as ONNX defines it.
    Raises OperatorError for shapes or words that do not fit.
    """
    check_float(x, "roi_align")
    if x.ndim != 4 or rois.ndim != 2 or dims(rois)[1] != 4 or dims(batches) != dims(rois)[:1] or mode not in ("avg", "max"):
        raise OperatorError(f"roi_align of {dims(x)}, regions {dims(rois)}, images {dims(batches)}, mode={mode!r}: give "
                            "[N, C, H, W], [regions, 4], [regions], and avg or max")
    batch, channels, height, width = dims(x)
    high, wide = output_shape
    offset = 0.5 if half_pixel else 0.0

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        image, regions, where = ins

        def part(r: Expr, c: Expr, i: Expr, j: Expr) -> Stmt:
            total, counts = Buffer("total", (wrap(1),), x.dtype), Buffer("counts", (wrap(2),), INT32)
            zero, one = wrap(0), wrap(1)

            def side(at: int, count: int) -> tuple[Expr, Expr]:
                """Where a region starts, and how long a part of it is."""
                ends = [Load(regions, (r, wrap(each))).astype(REAL) * const(spatial_scale, REAL) - const(offset, REAL)
                        for each in (at, at + 2)]
                length = ends[1] - ends[0]
                return ends[0], (length if half_pixel else maximum(length, const(1, REAL))) / const(count, REAL)

            (top, tall), (left, broad) = side(1, high), side(0, wide)

            def number(size: Expr) -> Expr:
                if sampling_ratio > 0:
                    return wrap(sampling_ratio)
                known = size < const(2.0**31, REAL)  # neither NaN nor more than an int32
                return select(known, math.ceil(maximum(size, 0)).astype("int32"), wrap(0))
            numbers = [Load(counts, (at,)) for at in (zero, one)]
            u, v = Var("u"), Var("v")

            def place(start: Expr, size: Expr, number: Expr, cell: Expr, of: Expr) -> Expr:
                return start + cell.astype(REAL) * size + (of.astype(REAL) + const(0.5, REAL)) * size / number.astype(REAL)
            y, z = place(top, tall, numbers[0], i, u), place(left, broad, numbers[1], j, v)
            outside = any_of(y < -1, y > height, z < -1, z > width)
            parts = []
            sides = []
            for at, extent in ((y, height), (z, width)):
                kept = minimum(maximum(at, 0), extent - 1)
                low = math.floor(kept)
                more = kept - low
                first = cell_at(low, extent)
                sides.append(((first, 1 - more), (minimum(first + 1, extent - 1), more)))
            for row, by in sides[0]:
                for column, of in sides[1]:
                    image_at = (within(Load(where, (r,)), batch), c, row, column)
                    parts.append(Load(image, image_at) * select(outside, const(0, REAL), by * of).astype(x.dtype))
            here = Load(total, (zero,))
            if mode == "avg":
                step: Stmt = Store(total, (zero,), here + (parts[0] + parts[1] + parts[2] + parts[3]))
            else:
                step = Store(total, (zero,), maximum(here, maximum(maximum(parts[0], parts[1]), maximum(parts[2], parts[3]))))
            walk = For(u, numbers[0], For(v, numbers[1], step))
            size = maximum(numbers[0] * numbers[1], 1)
            empty = binary(ir.EQ, numbers[0] * numbers[1], zero)
            found = here / size.astype(x.dtype) if mode == "avg" else select(empty, const(0, x.dtype), here)
            start = const(0 if mode == "avg" else float("-inf"), x.dtype)
            return Allocate(total, Allocate(counts, seq(
                Store(total, (zero,), start), Store(counts, (zero,), number(tall)), Store(counts, (one,), number(broad)), walk,
                Store(outs[0], (r, c, i, j), found),
            )))
        return loops((dims(rois)[0], channels, high, wide), part)
    found: Tensor = extern((dims(rois)[0], channels, high, wide), [x, rois, batches], body, name="roi_align", dtype=x.dtype)
    return found


@operator("tensor_scatter", kind=Kind.INJECTIVE)
def tensor_scatter(
    cache: Tensor, update: Tensor, places: Tensor | None = None, *, axis: int = -2, circular: bool = False,
) -> Tensor:
    """A cache [B, ...] with an update written along an axis from a place of each of the batch on, 0 if none is given.

    circular : whether what goes beyond the end goes on at the start. Source: ONNX TensorScatter.
    Raises OperatorError for shapes that do not fit.
    """
    same_dtype("tensor_scatter", cache, update)
    at_axis = axis_of(axis, cache.ndim, "tensor_scatter")
    extent, length = dims(cache)[at_axis], dims(update)[at_axis] if update.ndim == cache.ndim else 0
    rest = [tuple(size for at, size in enumerate(dims(each)) if at != at_axis) for each in (cache, update)]
    if not at_axis or update.ndim != cache.ndim or rest[0] != rest[1] or length > extent or (
            places is not None and dims(places) != dims(cache)[:1]):
        raise OperatorError(f"tensor_scatter: update {dims(update)} along axis {axis} of {dims(cache)}: give as many elements "
                            "or less along that axis, which is not the first, as many along the others, and a place for each "
                            "of the batch")

    def value(*at: Expr) -> Expr:
        off: Expr = at[at_axis].astype("int64")
        if places is not None:
            off = off - places(at[0]).astype("int64")
        if circular:
            off = math.floormod(off, const(extent, "int64"))
        known = all_of(off >= 0, off < length)
        place = maximum(minimum(off, length - 1), 0).astype("int32")
        return select(known, update(*at[:at_axis], place, *at[at_axis + 1:]), cache(*at))
    return made(dims(cache), value, "tensor_scatter")
