"""Convolutions, pools and images of another size. Data are images of four dimensions, taken with their channels first."""

from collections.abc import Sequence

from vtakit.compiler.frontend.tflite.nodes import TfliteNode, converts
from vtakit.compiler.frontend.tflite.tensors import FIRST
from vtakit.compiler.graph.ir import Value

_SAME = 0


def pads(
    padding: int, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int] = (1, 1),
) -> tuple[int, ...]:
    """Elements added before each spatial dimension, then after each. Source: TensorFlow, `tf.nn.convolution`, padding."""
    if padding != _SAME:
        return (0,) * (2 * len(kernel))
    totals = [
        max(0, (-(-size // step) - 1) * step + (reach - 1) * spread + 1 - size)
        for size, reach, step, spread in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    return (*[total // 2 for total in totals], *[total - total // 2 for total in totals])


def add_bias(n: TfliteNode, y: Value, at: int) -> Value:
    """y and the bias of each channel, which is operand `at` where it is given."""
    if not n.has(at):
        return y
    bias = n.value(at)
    return n.apply("add", y, n.reshape(bias, (1, bias.type.size, *[1] * (len(y.type.shape) - 2))))


@converts("CONV_2D")
def conv(n: TfliteNode) -> None:
    o = n.options("Conv2DOptions")
    x, weight = n.value(0, FIRST), n.value(1, FIRST)
    _, channels, *sizes = x.type.shape
    _, depth, *kernel = weight.type.shape
    strides, dilations = (o.StrideH(), o.StrideW()), (o.DilationHFactor(), o.DilationWFactor())
    if not depth or channels % depth:
        n.unsupported(f"with {channels} channels and filters of {depth}")
    y = n.apply("conv", x, weight, strides=strides, dilations=dilations, groups=channels // depth,
                pads=pads(o.Padding(), sizes, kernel, strides, dilations))
    n.put(add_bias(n, y, 2), order=FIRST, activation=o.FusedActivationFunction())


@converts("DEPTHWISE_CONV_2D")
def depthwise(n: TfliteNode) -> None:
    o = n.options("DepthwiseConv2DOptions")
    x, weight = n.value(0, FIRST), n.value(1, (3, 0, 1, 2))
    _, channels, *sizes = x.type.shape
    kernel = weight.type.shape[2:]
    strides, dilations = (o.StrideH(), o.StrideW()), (o.DilationHFactor(), o.DilationWFactor())
    y = n.apply("conv", x, weight, strides=strides, dilations=dilations, groups=channels,
                pads=pads(o.Padding(), sizes, kernel, strides, dilations))
    n.put(add_bias(n, y, 2), order=FIRST, activation=o.FusedActivationFunction())


@converts("TRANSPOSE_CONV")
def transpose_conv(n: TfliteNode) -> None:
    o = n.options("TransposeConvOptions")
    wanted, x, weight = n.ints(0), n.value(2, FIRST), n.value(1, (3, 0, 1, 2))
    kernel, sizes, strides = weight.type.shape[2:], x.type.shape[2:], (o.StrideH(), o.StrideW())
    # The forward convolution of the wanted size has these pads; what it does not reach at the end is padded to.
    before = pads(o.Padding(), wanted[1:3], kernel, strides)[:2]
    over = [
        (size - 1) * step + reach - less - to for size, step, reach, less, to in
        zip(sizes, strides, kernel, before, wanted[1:3], strict=True)
    ]
    y = n.apply("conv_transpose", x, weight, strides=strides, pads=(*before, *[max(0, each) for each in over]),
                output_padding=tuple([max(0, -each) for each in over]))
    n.put(add_bias(n, y, 3), order=FIRST, activation=o.FusedActivationFunction())


@converts("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
def pool(n: TfliteNode) -> None:
    o = n.options("Pool2DOptions")
    take, put = n.moves(0) if n.op == "MAX_POOL_2D" and not o.FusedActivationFunction() else (n.value, n.put)
    x = take(0, FIRST)
    sizes = x.type.shape[2:]
    kernel, strides = (o.FilterHeight(), o.FilterWidth()), (o.StrideH(), o.StrideW())
    window = {"kernel_shape": kernel, "strides": strides, "pads": pads(o.Padding(), sizes, kernel, strides)}
    if n.op == "MAX_POOL_2D":
        y = n.apply("max_pool", x, **window)
    elif n.op == "AVERAGE_POOL_2D":
        y = n.apply("average_pool", x, count_include_pad=False, **window)
    else:
        y = n.apply("sqrt", n.apply("average_pool", n.apply("mul", x, x), count_include_pad=False, **window))
    if put == n.put:
        n.put(y, order=FIRST, activation=o.FusedActivationFunction())
    else:
        put(y, order=FIRST)


@converts("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resize(n: TfliteNode) -> None:
    nearest = n.op == "RESIZE_NEAREST_NEIGHBOR"
    o = n.options("ResizeNearestNeighborOptions" if nearest else "ResizeBilinearOptions")
    take, put = n.moves(0) if nearest else (n.value, n.put)
    x = take(0, FIRST)
    sizes = (*x.type.shape[:2], *n.ints(1))
    coordinates = "align_corners" if o.AlignCorners() else "half_pixel" if o.HalfPixelCenters() else "asymmetric"
    rounding = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    put(n.apply("resize", x, sizes=sizes, mode="nearest" if nearest else "linear", coordinates=coordinates,
                nearest_mode=rounding), order=FIRST)


@converts("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def depth_and_space(n: TfliteNode) -> None:
    o = n.options("DepthToSpaceOptions" if n.op == "DEPTH_TO_SPACE" else "SpaceToDepthOptions")
    take, put = n.moves(0)
    put(n.apply(n.op.lower(), take(0, FIRST), blocksize=o.BlockSize()), order=FIRST)


@converts("LOCAL_RESPONSE_NORMALIZATION")
def local_response(n: TfliteNode) -> None:
    o = n.options("LocalResponseNormalizationOptions")
    size = 2 * o.Radius() + 1
    n.put(n.apply("lrn", n.value(0, FIRST), size=size, alpha=o.Alpha() * size, beta=o.Beta(), bias=o.Bias()), order=FIRST)


@converts("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
def batch_and_space(n: TfliteNode) -> None:
    """Blocks of pixels as images of their own, as dilated convolutions were written."""
    take, put = n.moves(0)
    blocks, edges = n.ints(1), n.known(2).reshape(-1, 2).astype(int).tolist()
    x, count = take(0), len(blocks)
    if n.op == "SPACE_TO_BATCH_ND":
        rest = x.type.shape[1 + count:]
        low, high = ([0, *[edge[at] for edge in edges], *[0] * len(rest)] for at in (0, 1))
        if any((*low, *high)):
            x = n.apply("pad", x, _pad_value(n, x), pads=(*low, *high))
        batch, *sizes = x.type.shape[:1 + count]
        split = [each for size, block in zip(sizes, blocks, strict=True) for each in (size // block, block)]
        x = n.reshape(x, (batch, *split, *rest))
        perm = (*range(2, 2 + 2 * count, 2), 0, *range(1, 1 + 2 * count, 2), *range(1 + 2 * count, len(x.type.shape)))
        x = n.apply("transpose", x, perm=perm)
        put(n.reshape(x, (-1 if not batch else batch * _product(blocks), *[s // b for s, b in zip(sizes, blocks, strict=True)],
                          *rest)))
        return
    batch, *sizes = x.type.shape[:1 + count]
    rest, fewer = x.type.shape[1 + count:], batch // _product(blocks)
    x = n.reshape(x, (*blocks, fewer, *sizes, *rest))
    perm = (count, *[each for at in range(count) for each in (count + 1 + at, at)], *range(2 * count + 1, len(x.type.shape)))
    x = n.reshape(n.apply("transpose", x, perm=perm), (fewer, *[s * b for s, b in zip(sizes, blocks, strict=True)], *rest))
    starts = tuple([edge[0] for edge in edges])
    ends = tuple([size - edge[1] for size, edge in zip(x.type.shape[1:], edges, strict=False)])
    if any(any(edge) for edge in edges):
        x = n.apply("slice", x, starts=starts, ends=ends, axes=tuple(range(1, 1 + count)))
    put(x)


def _product(numbers: Sequence[int]) -> int:
    found = 1
    for each in numbers:
        found *= each
    return found


def _pad_value(n: TfliteNode, x: Value) -> Value:
    """Return what stands for zero among an operand's elements, as stored or real."""
    stored = n.tensor(0).zeros if x.type.dtype is n.tensor(0).kind and n.tensor(0).scales.size else None
    return n.like(float(stored[0]) if stored is not None and stored.size else 0.0, x)
