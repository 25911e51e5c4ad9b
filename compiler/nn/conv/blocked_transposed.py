"""Transposed convolutions whose channels lie in blocks, by phases: pixels of the result that are equal modulo the stride.

A phase reads every stride-th cell of the kernel, so it is a convolution without strides by a smaller kernel; the phases of a row
lie beside each other, which is the result's order in memory.
"""

from collections.abc import Sequence
from math import gcd, prod

import numpy as np

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.nn.common import Shape, dims, flattened, made, same_dtype
from vtakit.compiler.nn.conv.conv import padded, spatial
from vtakit.compiler.nn.product.matmul import accumulator
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor

AHEAD = 64  # rows behind the last one, which are asked for ahead of their time like others, and never read
MOST_WASTE = 2  # multiplications, those by zeros that fill up phases among them, for each one of the kernel's


def phase_weights(weight: np.ndarray, block: int, x_block: int, strides: Sequence[int], pads: Sequence[int]) -> np.ndarray:
    """Weights [C, K, R...] of a transposed convolution as `conv_transpose_blocked` takes them.

    block   : of the result's channels
    x_block : of the data's channels
    """
    channels, filters, *kernel = weight.shape
    count, inner = len(kernel), gcd(channels, x_block)
    taps = [-(-extent // step) for extent, step in zip(kernel, strides, strict=True)]
    full = np.zeros((channels, -(-filters // block) * block, *[t * s for t, s in zip(taps, strides, strict=True)]), weight.dtype)
    full[:, :filters, *[slice(extent) for extent in kernel]] = weight
    for at, (step, pad) in enumerate(zip(strides, pads, strict=False)):  # cell tap * step + (phase + pad) % step, taps backwards
        cells = [[(taps[at] - 1 - tap) * step + (phase + pad) % step for tap in range(taps[at])] for phase in range(step)]
        full = np.take(full, np.asarray(cells), axis=2 + 2 * at)
    parts = full.reshape(channels // inner, inner, -1, block, *full.shape[2:])
    phases, windows = [4 + 2 * at for at in range(count)], [5 + 2 * at for at in range(count)]
    rows = parts.transpose(2, *phases, 0, *windows, 1, 3).reshape(parts.shape[2], *strides, -1, block)
    return np.pad(rows, [*[(0, 0)] * (1 + count), (0, AHEAD), (0, 0)])


def result_sizes(sizes: Shape, kernel: Shape, strides: Shape, pads: Shape, more: Shape) -> Shape:
    """The spatial extents of a transposed convolution's result, without dilation."""
    return tuple([(extent - 1) * step + cells + extra - begin - end for extent, cells, step, begin, end, extra in zip(
        sizes, kernel, strides, pads, pads[len(sizes):], more, strict=False)])


def has_phases(sizes: Shape, kernel: Shape, strides: Shape, pads: Shape, more: Shape) -> bool:
    """Return whether a transposed convolution can be computed by phases with few multiplications by padding zeros.

    Each row of the result has whole groups of phases, and pads do not cut off whole cells of the data.
    """
    out = result_sizes(sizes, kernel, strides, pads, more)
    taps = [-(-cells // step) for cells, step in zip(kernel, strides, strict=True)]
    fits = all(o > 0 and not o % s and min(begin, end, *_around(d, o, t, s, begin)) >= 0
               for d, o, t, s, begin, end in zip(sizes, out, taps, strides, pads, pads[len(sizes):], strict=False))
    return fits and prod([t * s for t, s in zip(taps, strides, strict=True)]) <= MOST_WASTE * prod(kernel)


def _around(size: int, out: int, taps: int, step: int, pad: int) -> tuple[int, int]:
    """Zeros before and behind a row of the data; less than nothing where the phases do not reach its ends."""
    front = taps - 1 - pad // step
    return front, out // step + taps - 1 + (pad % step > 0) - front - size


@operator("conv_transpose_blocked", kind=Kind.ANCHOR)
def conv_transpose_blocked(
    x: Tensor, weight: Tensor, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    output_padding: Sequence[int] | None = None,
) -> Tensor:
    """Transposed convolution with channels in blocks, without groups and dilation.

    x       [N, C / u, D..., u]
    weight  [K / v, S..., C * T... + AHEAD, v]   made by `phase_weights` for S strides, T = ceil(R / S)
    result  [N, K / v, O..., v]                  O = (D - 1) * S + R + output_padding - pads, a multiple of S

    kernel : R...
    Raises OperatorError for shapes, types or attributes that do not fit together, or that `has_phases` does not know.
    """
    what = "conv_transpose_blocked"
    same_dtype(what, x, weight)
    count, kind = x.ndim - 3, accumulator(x.dtype)
    if count < 1 or weight.ndim != 3 + count:
        raise OperatorError(f"{what}: data {dims(x)} and weights {dims(weight)}: data has two dimensions, the spatial ones "
                            "and its block's, and weights three and the strides")
    images, outer, *sizes, width = dims(x)
    blocks, *steps, depth, block = dims(weight)
    pad = spatial(pads, 0, 2 * count, f"{what}: pads", least=0)
    more = spatial(output_padding, 0, count, f"{what}: output_padding", least=0)
    cells = tuple(kernel)
    taps = tuple([-(-extent // step) for extent, step in zip(cells, strides, strict=True)])
    channels, rest = divmod(depth - AHEAD, prod(taps))
    inner = gcd(channels, width)
    if list(strides) != steps or rest or -(-channels // max(width, 1)) != outer:
        raise OperatorError(f"{what}: data {dims(x)} and weights {dims(weight)} are not those of a kernel {cells} with strides "
                            f"{tuple(strides)}")
    if not has_phases(tuple(sizes), cells, tuple(steps), pad, more):
        raise OperatorError(f"{what}: data {dims(x)}, kernel {cells}, strides {tuple(steps)}, pads {pad}, output_padding {more}: "
                            "the result has no whole phases, use conv_transpose")
    out = result_sizes(tuple(sizes), cells, tuple(steps), pad, more)
    around = [_around(*item) for item in zip(sizes, out, taps, steps, pad, strict=False)]
    source = padded(x, (*[front for front, _ in around], 0, *[back for _, back in around], 0))
    per_block = width // inner
    c, lane = reduce_axis((0, channels // inner), "c"), reduce_axis((0, inner), "lane")
    tap = [reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(taps)]

    def term(n: Expr, m: Expr, *at: Expr) -> Expr:
        cell, phase, k = at[:-1:2], at[1::2], at[-1]
        places = [q + (r + p % s) // s + t for q, r, p, s, t in zip(cell, phase, pad, steps, tap, strict=False)]
        read = source(n, c // per_block, *places, c % per_block * inner + lane)
        row = flattened([c, *tap, lane], [channels // inner, *taps, inner])
        total: Expr = sum_of(read.astype(kind) * weight(m, *phase, row, k).astype(kind), axis=[c, *tap, lane])
        return total
    apart = [extent for o, s in zip(out, steps, strict=True) for extent in (o // s, s)]
    sums = made((images, blocks, *apart, block), term, "sums", tag=what)
    return made((images, blocks, *out, block), lambda n, m, *at: sums(
        n, m, *[index for o, s in zip(at[:-1], steps, strict=True) for index in (o // s, o % s)], at[-1]).astype(x.dtype),
        what, tag="unpanel")
