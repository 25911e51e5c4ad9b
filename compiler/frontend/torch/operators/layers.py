"""Convolutions, normalizations and products of matrices."""

from collections.abc import Sequence
from typing import Any

from vtakit.compiler.frontend.torch.nodes import AtenNode, converts
from vtakit.compiler.frontend.torch.operators.pools import each
from vtakit.compiler.graph.ir import Value


def _with_bias(n: AtenNode, y: Value, bias: Value | None) -> Value:
    """A bias for each channel, the second dimension."""
    if bias is None:
        return y
    return n.apply("add", y, n.reshape(bias, (1, bias.type.shape[0], *(1,) * (len(y.type.shape) - 2))))


@converts("convolution.default")
def convolution(n: AtenNode) -> Value:
    x, weight = n.value("input"), n.value("weight")
    count = len(weight.type.shape) - 2
    pads = each(n["padding"], count)
    given: dict[str, Any] = {
        "strides": each(n["stride"], count), "pads": (*pads, *pads), "dilations": each(n["dilation"], count),
        "groups": n["groups"],
    }
    if n["transposed"]:
        y = n.apply("conv_transpose", x, weight, output_padding=each(n["output_padding"], count), **given)
    else:
        y = n.apply("conv", x, weight, **given)
    return _with_bias(n, y, n.maybe("bias"))


@converts("upsample_nearest2d.vec", "upsample_bilinear2d.vec", "upsample_bicubic2d.vec")
def upsample(n: AtenNode) -> Value:
    x, shape = n.value("input"), n.type.shape
    if n["scale_factors"] is None:
        scales = tuple([to / size for to, size in zip(shape, x.type.shape, strict=True)])
    else:
        scales = (1.0, 1.0, *map(float, n["scale_factors"]))
    if "nearest" in n.op:
        return n.apply(
            "resize", x, sizes=shape, scales=scales, mode="nearest", coordinates="asymmetric", nearest_mode="floor"
        )
    coordinates = "align_corners" if n["align_corners"] else "half_pixel"
    return n.apply(
        "resize", x, sizes=shape, scales=scales, mode="cubic" if "bicubic" in n.op else "linear", coordinates=coordinates
    )


def _filled(n: AtenNode, value: Value | None, like: Value, number: float, shape: Sequence[int]) -> Value:
    """An operand, or where it is not given that many times a number."""
    return n.apply("expand", n.like(number, like), shape=tuple(shape)) if value is None else value


@converts("_native_batch_norm_legit_no_training.default")
def batch_norm(n: AtenNode) -> list[Value | None]:
    x = n.value("input")
    channels = (x.type.shape[1],)
    scale, bias = (_filled(n, n.maybe(name), x, number, channels) for name, number in (("weight", 1), ("bias", 0)))
    y = n.apply("batch_norm", x, scale, bias, n.value("running_mean"), n.value("running_var"), epsilon=n["eps"])
    return [y, None, None]


@converts("_native_batch_norm_legit.no_stats")
def instance_norm(n: AtenNode) -> list[Value | None]:
    """Convert nn.InstanceNorm: all instances become channels of one image, normalized by its own statistics."""
    x = n.value("input")
    if x.type.shape[0] != 1:
        n.unsupported("of several images")
    channels = (x.type.shape[1],)
    scale, bias = (_filled(n, n.maybe(name), x, number, channels) for name, number in (("weight", 1), ("bias", 0)))
    return [n.apply("instance_norm", x, scale, bias, epsilon=n["eps"]), None, None]


@converts("native_group_norm.default")
def group_norm(n: AtenNode) -> list[Value | None]:
    x = n.value("input")
    scale, bias = (_filled(n, n.maybe(name), x, number, (n["C"],)) for name, number in (("weight", 1), ("bias", 0)))
    return [n.apply("group_norm", x, scale, bias, groups=n["group"], epsilon=n["eps"]), None, None]


@converts("layer_norm.default", "native_layer_norm.default")
def layer_norm(n: AtenNode) -> list[Value | None]:
    x = n.value("input")
    axis = len(x.type.shape) - len(n["normalized_shape"])
    return [n.all("layer_norm", x, n.maybe("weight"), n.maybe("bias"), axis=axis, epsilon=n["eps"])[0], None, None]


@converts("rms_norm.default")
def rms_norm(n: AtenNode) -> Value:
    import torch

    x = n.value("input")
    epsilon = torch.finfo(getattr(torch, str(x.type.dtype))).eps if n["eps"] is None else n["eps"]
    scale = _filled(n, n.maybe("weight"), x, 1, n["normalized_shape"])
    return n.apply("rms_norm", x, scale, axis=len(x.type.shape) - len(n["normalized_shape"]), epsilon=epsilon)


@converts("linear.default")
def linear(n: AtenNode) -> Value:
    """``input @ weight.T + bias``; all but the last dimension of the input are rows."""
    x, weight = n.value("input"), n.value("weight")
    if len(weight.type.shape) != 2:
        n.unsupported(f"with a weight of {len(weight.type.shape)} dimensions")
    rows = n.reshape(x, (x.type.size // max(1, x.type.shape[-1]), x.type.shape[-1]))
    return n.reshape(n.apply("gemm", rows, weight, n.maybe("bias"), trans_b=True), n.type.shape)


@converts("mm.default", "bmm.default", "matmul.default")
def matmul(n: AtenNode) -> Value:
    second = "mat2" if "mat2" in n.operands else "other"
    return n.apply("matmul", n.value("self"), n.value(second))


@converts("addmm.default")
def addmm(n: AtenNode) -> Value:
    return n.apply("gemm", n.value("mat1"), n.value("mat2"), n.value("self"), alpha=float(n["alpha"]), beta=float(n["beta"]))


@converts("_trilinear.default")
def trilinear(n: AtenNode) -> Value:
    """The product of three tensors, each with more dimensions of size 1, summed over some."""
    rank = len(n.value("i1").type.shape) + len(n["expand1"])
    parts = []
    for name, axes in (("i1", n["expand1"]), ("i2", n["expand2"]), ("i3", n["expand3"])):
        x = n.value(name)
        sizes = iter(x.type.shape)
        parts.append(n.reshape(x, [1 if axis in axes else next(sizes) for axis in range(rank)]))
    product = n.apply("mul", n.apply("mul", parts[0], parts[2]), parts[1])
    return n.apply("reduce_sum", product, axes=tuple(n["sumdim"]), keepdims=False)


@converts("_softmax.default", "_log_softmax.default", "softmax.int", "log_softmax.int")
def softmax(n: AtenNode) -> Value:
    x = n.cast(n.value("self"), n.type.dtype)
    return n.apply("log_softmax" if "log" in n.op else "softmax", x, axis=n["dim"] % max(1, len(x.type.shape)))


@converts("embedding.default")
def embedding(n: AtenNode) -> Value:
    return n.apply("gather", n.value("weight"), n.value("indices"), axis=0)
