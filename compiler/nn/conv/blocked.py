"""Convolutions whose channels lie in blocks: a block's channels of one pixel are neighbours in memory, a vector of a processor.

Data of C channels in blocks of `v` is [N, ceil(C / v), D..., v]; what a last block has beyond C is any number, and no convolution
reads it. Operators on elements, and pooling with a window of 1 along the last dimension, take such data as it is.
"""

from collections.abc import Sequence
from math import gcd, prod

import numpy as np

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, if_then_else
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import Shape, dims, flattened, made, same_dtype, unflattened
from vtakit.compiler.nn.conv.conv import padded, spatial, window_sizes
from vtakit.compiler.nn.product.matmul import accumulator, in_type
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor


@operator("block_channels", kind=Kind.INJECTIVE)
def block_channels(x: Tensor, *, block: int) -> Tensor:
    """x [N, C, D...]  ->  [N, ceil(C / block), D..., block], what is missing of a block being 0."""
    images, channels, *sizes = dims(x)

    def value(n: Expr, outer: Expr, *rest: Expr) -> Expr:
        channel = outer * block + rest[-1]
        found: Expr = x(n, channel, *rest[:-1])
        return if_then_else(channel < channels, found, const(0, x.dtype)) if channels % block else found
    return made((images, -(-channels // block), *sizes, block), value, "block_channels")


@operator("unblock_channels", kind=Kind.INJECTIVE)
def unblock_channels(x: Tensor, *, channels: int) -> Tensor:
    """x [N, ceil(C / v), D..., v]  ->  [N, C, D...]. Raises OperatorError for data that does not hold so many channels."""
    images, blocks, *sizes, block = dims(x)
    if -(-channels // block) != blocks:
        raise OperatorError(f"unblock_channels: data {dims(x)} does not hold {channels} channels")
    return made((images, channels, *sizes), lambda n, c, *at: x(n, c // block, *at, c % block), "unblock_channels")


def blocked_weight(weight: np.ndarray, block: int, x_block: int, groups: int = 1) -> np.ndarray:
    """A convolution's weights [K, C / groups, R...] as `conv_blocked` takes them; filters that fill up the last block are 0.

    block   : of the result's channels
    x_block : of the data's channels; 1 for data that is not in blocks
    """
    filters, depth, *kernel = weight.shape
    inner = gcd(depth, x_block)
    full = weight
    if filters % block:
        full = np.zeros((-(-filters // block) * block, depth, *kernel), weight.dtype)
        full[:filters] = weight
    parts = full.reshape(-1, block, depth // inner, inner, *kernel)
    return np.ascontiguousarray(parts.transpose(0, 2, *range(4, parts.ndim), 3, 1))


def blocked_vectors(array: np.ndarray, block: int, axis: int) -> np.ndarray:
    """An array with an axis in blocks, which become the last axis; the last block is filled with zeros."""
    missing = -array.shape[axis] % block
    full = np.pad(array, [(0, missing if at == axis else 0) for at in range(array.ndim)])
    split = full.reshape(*array.shape[:axis], -1, block, *array.shape[axis + 1:])
    return np.ascontiguousarray(np.moveaxis(split, axis + 1, -1))


@operator("conv_blocked", kind=Kind.ANCHOR)
def conv_blocked(
    x: Tensor, weight: Tensor, *, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None, groups: int = 1,
) -> Tensor:
    """Convolution over one or more spatial dimensions, the channels of the result in blocks.

    x       [N, C / u, D..., u], or [N, C, D...] as it is
    weight  [K / v, C / groups / i, R..., i, v]           made by `blocked_weight`; i divides u
    result  [N, K / v, O..., v]                           O = (D + pads - (R - 1) * dilation - 1) // stride + 1

    Source: the layout is that of Georganas et al., "Anatomy of high-performance deep learning convolutions on SIMD architectures"
    (SC 2018), section II.
    Raises OperatorError for shapes, types or attributes that do not fit together.
    """
    same_dtype("conv_blocked", x, weight)
    kind = accumulator(x.dtype)
    filter_blocks, chunks, *kernel, inner, block = dims(weight) if weight.ndim > 4 else (0,) * 5
    count = len(kernel)
    if not filter_blocks or x.ndim not in (count + 2, count + 3):
        raise OperatorError(f"conv_blocked: data {dims(x)} and weights {dims(weight)}: data has two dimensions, the spatial ones "
                            "and its block's, and weights four and the spatial ones")
    plain = x.ndim == count + 2
    images, outer, *sizes = dims(x)[:count + 2]
    width = 1 if plain else dims(x)[-1]
    per_block = width // inner if inner else 0  # parts of a block that weights have side by side
    if groups < 1 or not per_block or width % inner or filter_blocks % groups or -(-chunks * groups // per_block) != outer:
        raise OperatorError(f"conv_blocked: data {dims(x)} and weights {dims(weight)} do not make {groups} groups")
    steps, spread = spatial(strides, 1, count, "conv_blocked: strides"), spatial(dilations, 1, count, "conv_blocked: dilations")
    pad = spatial(pads, 0, 2 * count, "conv_blocked: pads", least=0)
    out = window_sizes("conv_blocked", tuple(sizes), tuple(kernel), steps, pad, spread)
    source = _padded(x, pad, plain)
    c, lane = reduce_axis((0, chunks), "c"), reduce_axis((0, inner), "lane")
    window = [reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(kernel)]
    per_group = filter_blocks // groups

    def term(n: Expr, m: Expr, at: Sequence[Expr], k: Expr) -> Expr:
        chunk = c + m // per_group * chunks if groups > 1 else c
        places = [o * s + w * d for o, s, w, d in zip(at, steps, window, spread, strict=True)]
        read = source(n, chunk // per_block, *places, *([] if plain else [chunk % per_block * inner + lane]))
        total: Expr = sum_of(read.astype(kind) * weight(m, c, *window, lane, k).astype(kind), axis=[c, *window, lane])
        return total

    if prod(kernel) == prod(steps) == 1 and not any(pad):  # pixels are one row
        sums = made((images, filter_blocks, prod(out), block), lambda n, m, p, k: term(n, m, unflattened(p, out), k),
                    "sums", tag="conv_blocked")
        return made((images, filter_blocks, *out, block), lambda n, m, *at: sums(
            n, m, flattened(at[:-1], out), at[-1]).astype(x.dtype), "conv_blocked", tag="unflatten")
    sums = made((images, filter_blocks, *out, block), lambda n, m, *at: term(n, m, at[:-1], at[-1]), "sums", tag="conv_blocked")
    return in_type(sums, x.dtype)


@operator("depthwise_blocked", kind=Kind.ANCHOR)
def depthwise_blocked(
    x: Tensor, weight: Tensor, *, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
) -> Tensor:
    """Convolution of each channel by itself, channels in blocks.

    x       [N, C / v, D..., v]
    weight  [C / v, R..., v]
    result  [N, C / v, O..., v]     O = (D + pads - (R - 1) * dilation - 1) // stride + 1

    Raises OperatorError for shapes, types or attributes that do not fit together.
    """
    same_dtype("depthwise_blocked", x, weight)
    kind = accumulator(x.dtype)
    count = x.ndim - 3
    if count < 1 or weight.ndim != count + 2 or (dims(weight)[0], dims(weight)[-1]) != (dims(x)[1], dims(x)[-1]):
        raise OperatorError(f"depthwise_blocked: data {dims(x)} and weights {dims(weight)} have not the same channels in blocks")
    images, blocks, *sizes, block = dims(x)
    kernel = dims(weight)[1:-1]
    steps = spatial(strides, 1, count, "depthwise_blocked: strides")
    spread = spatial(dilations, 1, count, "depthwise_blocked: dilations")
    pad = spatial(pads, 0, 2 * count, "depthwise_blocked: pads", least=0)
    out = window_sizes("depthwise_blocked", tuple(sizes), kernel, steps, pad, spread)
    window = [reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(kernel)]

    def term(n: Expr, c: Expr, *at: Expr) -> Expr:
        places = [o * s + w * d - front for o, s, w, d, front in zip(at[:-1], steps, window, spread, pad, strict=False)]
        inside = [test for place, extent, front, back in zip(places, sizes, pad, pad[count:], strict=False)
                  for test in ([place >= 0] if front else []) + ([place < extent] if back else [])]
        products = x(n, c, *places, at[-1]).astype(kind) * weight(c, *window, at[-1]).astype(kind)
        total: Expr = sum_of(products, axis=window, where=all_of(*inside) if inside else None)
        return total
    return in_type(made((images, blocks, *out, block), term, "sums", tag="depthwise_blocked"), x.dtype)


def _padded(x: Tensor, pads: Shape, plain: bool) -> Tensor:
    """With zeros around the spatial dimensions."""
    count = len(pads) // 2
    return padded(x, pads if plain else (*pads[:count], 0, *pads[count:], 0))
