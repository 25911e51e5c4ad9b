"""Moves by which transposed and three-dimensional convolutions of bytes are convolutions of images."""

from collections.abc import Sequence

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, if_then_else
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import dims, made
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.tensor import Tensor


@operator("interleave", kind=Kind.INJECTIVE)
def interleave(
    x: Tensor, *, strides: Sequence[int], pads: Sequence[int], sizes: Sequence[int], channels: int, block: int = 0,
) -> Tensor:
    """Pixels of each phase put between those of the others: y[s * q + r - pad] is that of the phase r at q.

    x       [N, S * M, Q, R]                result  [N, M, *sizes]           S phases, those of a row first; M channels
    with `block` v, which divides M and u:
    x       [N, ceil(S * M / u), Q, R, u]   result  [N, M / v, *sizes, v]

    pads : in front, that are cut off. Raises OperatorError for shapes that do not fit together.
    """
    phases = strides[0] * strides[1]
    images, outer, *there = dims(x)
    u = there.pop() if block else 1
    if len(there) != 2 or outer * u < phases * channels or (block and (channels % block or u % block)) or any(
            (size - 1 + front) // step >= extent for size, front, step, extent in zip(sizes, pads, strides, there, strict=True)):
        raise OperatorError(f"interleave: data {dims(x)} does not hold {phases} phases of {channels} channels and {tuple(sizes)}")
    width = max(block, 1)

    def value(n: Expr, m: Expr, y: Expr, z: Expr, *lane: Expr) -> Expr:
        down, across = y + pads[0], z + pads[1]
        first = (down % strides[0] * strides[1] + across % strides[1]) * channels + m * width
        place = down // strides[0], across // strides[1]
        if not block:
            found: Expr = x(n, first, *place)
            return found
        found = x(n, first // u, *place, first % u + lane[0])  # a block of the result lies within one of the data
        return found
    shape = (images, channels // width, *sizes)
    return made((*shape, block) if block else shape, value, "interleave")


@operator("depth_taps", kind=Kind.INJECTIVE)
def depth_taps(
    x: Tensor, *, depth: int, taps: int, stride: int = 1, pads: Sequence[int] = (0, 0), dilation: int = 1, fill: int = 0,
) -> Tensor:
    """Images of several depths side by side as channels: what a convolution over depth reads for each depth of its result.

    x       [N * depth, C, ...]
    result  [N * D, taps * C, ...]     D = (depth + pads - (taps - 1) * dilation - 1) // stride + 1

    fill : of images that are not there. Raises OperatorError for a number of images that is no multiple of the depth.
    """
    images, channels, *rest = dims(x)
    out = (depth + sum(pads) - (taps - 1) * dilation - 1) // stride + 1
    if images % depth or out < 1:
        raise OperatorError(f"depth_taps: data {dims(x)} of {depth} depths has not {taps} taps")

    def value(image: Expr, channel: Expr, *at: Expr) -> Expr:
        place = image % out * stride + channel // channels * dilation - pads[0]
        found: Expr = x(image // out * depth + place, channel % channels, *at)
        inside = [place >= 0] * bool(pads[0]) + [place < depth] * bool(pads[1])
        return if_then_else(all_of(*inside), found, const(fill, x.dtype)) if inside else found
    return made((images // depth * out, taps * channels, *rest), value, "depth_taps")
