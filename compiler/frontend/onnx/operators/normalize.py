"""Normalization, and what makes probabilities of numbers."""

from math import prod

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value


@converts("BatchNormalization")
def batch_norm(n: OnnxNode) -> Value:
    if n.attr("training_mode", 0) or (n.version < 14 and len([name for name in n.outputs if name]) > 1):
        raise n.unsupported("in training mode")
    return n.apply("batch_norm", *[n[at] for at in range(5)], epsilon=n.attr("epsilon", 1e-5))


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
