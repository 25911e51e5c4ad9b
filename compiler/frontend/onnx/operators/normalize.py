"""Normalization, and what makes probabilities of numbers."""

from math import prod

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value


@converts("BatchNormalization")
def batch_norm(n: OnnxNode) -> list[Value]:
    if n.version < 14 and len([name for name in n.outputs if name]) > 1:
        raise n.unsupported("in training mode")
    operands, epsilon = [n[at] for at in range(5)], n.attr("epsilon", 1e-5)
    if not n.attr("training_mode", 0):
        return [n.apply("batch_norm", *operands, epsilon=epsilon)]
    axes = (0, *range(2, n.ndim(0)))
    real = n.apply("cast", n[0], to="float32") if n.dtype(0).bits < 32 else n[0]
    mean = n.apply("reduce_mean", real, axes=axes, keepdims=True)
    off = n.apply("sub", real, mean)
    var = n.apply("reduce_mean", n.apply("mul", off, off), axes=axes, keepdims=False)
    mean = n.apply("reshape", mean, shape=n.shape(0)[1:2])
    momentum = n.attr("momentum", 0.9)
    statistics = [each if each.type.dtype is n.dtype(3) else n.apply("cast", each, to=str(n.dtype(3))) for each in (mean, var)]
    running = [
        n.apply("add", n.apply("mul", old, n.like(momentum, old)), n.apply("mul", new, n.like(1 - momentum, new)))
        for old, new in zip(operands[3:], statistics, strict=True)
    ]
    return [n.apply("batch_norm", *operands[:3], *statistics, epsilon=epsilon), *running]


@converts("LayerNormalization")
def layer_norm(n: OnnxNode) -> tuple[Value, ...]:
    if n.attr("stash_type", 1) != 1:
        raise n.unsupported(f"with stash_type {n.attr('stash_type')}")
    return n.all("layer_norm", n[0], n[1], n.maybe(2), axis=n.attr("axis", -1), epsilon=n.attr("epsilon", 1e-5))


@converts("RMSNormalization")
def rms_norm(n: OnnxNode) -> Value:
    return n.apply("rms_norm", n[0], n[1], axis=n.attr("axis", -1), epsilon=n.attr("epsilon", 1e-5))


@converts("InstanceNormalization")
def instance_norm(n: OnnxNode) -> Value:
    return n.apply("instance_norm", n[0], n[1], n[2], epsilon=n.attr("epsilon", 1e-5))


@converts("GroupNormalization")
def group_norm(n: OnnxNode) -> Value:
    groups, scale, bias = n.required("num_groups"), n[1], n[2]
    if n.version < 21:  # one number for each group rather than each channel
        per = n.shape(0)[1] // groups
        scale, bias = (
            n.apply("reshape", n.apply("expand", n.apply("reshape", each, shape=(groups, 1)), shape=(groups, per)), shape=(
                groups * per,)) for each in (scale, bias)
        )
    return n.apply("group_norm", n[0], scale, bias, groups=groups, epsilon=n.attr("epsilon", 1e-5))


@converts("LRN")
def lrn(n: OnnxNode) -> Value:
    given = {"alpha": n.attr("alpha", 1e-4), "beta": n.attr("beta", 0.75), "bias": n.attr("bias", 1.0)}
    return n.apply("lrn", n[0], size=n.required("size"), **given)


@converts("LpNormalization")
def lp_normalization(n: OnnxNode) -> Value:
    return n.apply("lp_normalization", n[0], axis=n.attr("axis", -1), p=n.attr("p", 2))


@converts("Softmax", "LogSoftmax", "Hardmax")
def softmax(n: OnnxNode) -> Value:
    name = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Hardmax": "hardmax"}[n.op]
    if n.version >= 13:
        return n.apply(name, n[0], axis=n.attr("axis", -1))
    axis, shape = n.attr("axis", 1), n.shape(0)
    axis += len(shape) if axis < 0 else 0
    flat = n.apply("reshape", n[0], shape=(prod(shape[:axis]), prod(shape[axis:])))  # up to opset 12 all axes behind are one
    return n.apply("reshape", n.apply(name, flat, axis=-1), shape=shape)
