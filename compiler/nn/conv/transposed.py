"""Transposed convolutions, and columns put back into images."""

from collections.abc import Sequence
from math import prod
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, binary, minimum
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import dims, flattened, made, same_dtype, unflattened
from vtakit.compiler.nn.conv.conv import spatial
from vtakit.compiler.nn.product.matmul import accumulator, in_type
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor

Numbers = Sequence[int] | None


@operator("conv_transpose", kind=Kind.OPAQUE)
def conv_transpose(
    x: Tensor, weight: Tensor, *, strides: Numbers = None, pads: Numbers = None, dilations: Numbers = None, groups: int = 1,
    output_padding: Numbers = None,
) -> Tensor:
    """Transposed convolution: each element of x adds a kernel to the result. Source: ONNX ConvTranspose.

    x       [N, C, D...]             weight  [C, M / groups, K...]
    result  [N, M, O...]             O = (D - 1) * stride + (K - 1) * dilation + 1 + output_padding - pads

    Computed as a product of matrices, weights by the pixels of x, whose rows are then added where they belong.
    Raises OperatorError for shapes, types or attributes that do not fit together.
    """
    same_dtype("conv_transpose", x, weight)
    if x.ndim < 3 or weight.ndim != x.ndim:
        raise OperatorError(f"conv_transpose: data {dims(x)} and weights {dims(weight)}: each has two dimensions, then the "
                            "spatial ones")
    (images, channels, *sizes), (depth, per_group, *kernel) = dims(x), dims(weight)
    count, kind = len(sizes), accumulator(x.dtype)
    if groups < 1 or depth != channels or channels % groups:
        raise OperatorError(f"conv_transpose: data of {channels} channels and weights {dims(weight)} do not make {groups} groups")
    steps = spatial(strides, 1, count, "conv_transpose: strides")
    spread = spatial(dilations, 1, count, "conv_transpose: dilations")
    pad = spatial(pads, 0, 2 * count, "conv_transpose: pads", least=-(1 << 31))
    more = spatial(output_padding, 0, count, "conv_transpose: output_padding", least=0)
    out = [(sizes[at] - 1) * steps[at] + (kernel[at] - 1) * spread[at] + 1 + more[at] - pad[at] - pad[at + count]
           for at in range(count)]
    if min(out) < 0:
        raise OperatorError(f"conv_transpose: pads {list(pad)} leave less than nothing of the result {out}")
    columns = made((images, channels, prod(sizes)), lambda n, c, p: x(n, c, *unflattened(p, sizes)), "columns",
                   attrs={"plain": True, "row": 0})
    own, c = channels // groups, reduce_axis((0, channels // groups), "c")
    rows = per_group * prod(kernel)

    def product(n: Expr, row: Expr, p: Expr) -> Any:
        group = row // rows
        channel = group * own + c
        weighed = weight(channel, *unflattened(row % rows, (per_group, *kernel))) if groups > 1 else weight(
            c, *unflattened(row, (per_group, *kernel)))
        return sum_of(weighed.astype(kind) * columns(n, channel if groups > 1 else c, p).astype(kind), axis=c)
    products = made((images, groups * rows, prod(sizes)), product, "products", tag="conv", attrs={"groups": groups})
    apart = made((images, groups * rows, *sizes), lambda n, row, *at: products(n, row, flattened(at, sizes)), "apart",
                 tag="unflatten")
    placed = _placed(apart, (images, groups * per_group), kernel, sizes, out, steps, spread, pad[:count])
    return in_type(placed, x.dtype)


def _placed(
    products: Tensor, lead: Sequence[int], kernel: Sequence[int], sizes: Sequence[int], out: Sequence[int], steps: Sequence[int],
    spread: Sequence[int], pad: Sequence[int],
) -> Tensor:
    """Sums of what overlaps: row (m, k...) of the products at p belongs to the pixel p * step + k * spread - pad."""
    if max(steps) > 1 == max(spread) and min(pad) >= 0:
        return _by_phases(products, lead, kernel, sizes, out, steps, pad)
    window = [reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(kernel)]

    def value(n: Expr, m: Expr, *at: Expr) -> Any:
        inside, places = [], []
        for o, step, k, d, front, extent in zip(at, steps, window, spread, pad, sizes, strict=True):
            off = o + front - k * d
            place = off // step if step > 1 else off
            inside += [binary(ir.EQ, off % step, const(0, "int32"))] if step > 1 else []
            inside += [place >= 0, place < extent]
            places.append(place)
        row = flattened([m, *window], [lead[1], *kernel])
        return sum_of(products(n, row, *places), axis=window, where=all_of(*inside))
    return made((*lead, *out), value, "conv_transpose")


def _by_phases(
    products: Tensor, lead: Sequence[int], kernel: Sequence[int], sizes: Sequence[int], out: Sequence[int], steps: Sequence[int],
    pad: Sequence[int],
) -> Tensor:
    """Return the sums of `_placed` by phases: of pixels that are equal modulo the steps, neighbours read neighbours."""
    taps = [reduce_axis((0, -(-cells // step)), f"k{at}") for at, (cells, step) in enumerate(zip(kernel, steps, strict=True))]
    count = len(steps)

    def value(n: Expr, m: Expr, *at: Expr) -> Any:
        inside, cells, places = [], [], []
        for phase, q, tap, step, extent, size in zip(at[:count], at[count:], taps, steps, sizes, kernel, strict=True):
            cell = tap * step + phase
            inside += [cell < size] if size % step else []
            inside += [q - tap >= 0, q - tap < extent]
            cells.append(minimum(cell, size - 1) if size % step else cell)
            places.append(q - tap)
        row = flattened([m, *cells], [lead[1], *kernel])
        return sum_of(products(n, row, *places), axis=taps, where=all_of(*inside))
    quotients = [(size - 1 + front) // step + 1 for size, step, front in zip(out, steps, pad, strict=True)]
    phases = made((*lead, *steps, *quotients), value, "phases")

    def read(n: Expr, m: Expr, *at: Expr) -> Expr:
        places = [o + front for o, front in zip(at, pad, strict=True)]
        found: Expr = phases(n, m, *[place % step for place, step in zip(places, steps, strict=True)],
                             *[place // step for place, step in zip(places, steps, strict=True)])
        return found
    return made((*lead, *out), read, "conv_transpose")


@operator("col2im", kind=Kind.OPAQUE)
def col2im(
    x: Tensor, *, image_shape: Sequence[int], block_shape: Sequence[int], strides: Numbers = None, pads: Numbers = None,
    dilations: Numbers = None,
) -> Tensor:
    """Columns [N, C * blocks, L] put back into images [N, C, D...], overlapping ones added. Source: ONNX Col2Im."""
    count = len(image_shape)
    steps, spread = spatial(strides, 1, count, "col2im: strides"), spatial(dilations, 1, count, "col2im: dilations")
    pad = spatial(pads, 0, 2 * count, "col2im: pads", least=0)
    block = spatial(block_shape, 1, count, "col2im: block_shape")
    sizes = [(image_shape[at] + pad[at] + pad[at + count] - (block[at] - 1) * spread[at] - 1) // steps[at] + 1
             for at in range(count)]
    if x.ndim != 3 or dims(x)[1] % prod(block) or dims(x)[2] != prod(sizes):
        raise OperatorError(f"col2im: columns {dims(x)} are not those of the {prod(sizes)} blocks {list(block)} of images "
                            f"{list(image_shape)}")
    lead = dims(x)[0], dims(x)[1] // prod(block)
    apart = made((*dims(x)[:2], *sizes), lambda n, row, *at: x(n, row, flattened(at, sizes)), "apart")
    return _placed(apart, lead, block, sizes, image_shape, steps, spread, pad[:count])
