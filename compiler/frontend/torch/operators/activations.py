"""Activations with parameters of their own."""

from vtakit.compiler.frontend.torch.nodes import AtenNode, converts
from vtakit.compiler.graph.ir import Value


@converts("gelu.default")
def gelu(n: AtenNode) -> Value:
    return n.apply("gelu", n.value("self"), approximate=n["approximate"])


@converts("leaky_relu.default")
def leaky_relu(n: AtenNode) -> Value:
    return n.apply("leaky_relu", n.value("self"), alpha=float(n["negative_slope"]))


@converts("elu.default")
def elu(n: AtenNode) -> Value:
    """``scale * x`` above zero, ``scale * alpha * (exp(input_scale * x) - 1)`` below; SELU and CELU are written so too."""
    if n["input_scale"] != 1:
        n.unsupported(f"with input_scale {n['input_scale']}")
    y = n.apply("elu", n.value("self"), alpha=float(n["alpha"]))
    return y if n["scale"] == 1 else n.apply("mul", y, n.like(float(n["scale"]), y))


@converts("hardsigmoid.default")
def hardsigmoid(n: AtenNode) -> Value:
    return n.apply("hard_sigmoid", n.value("self"), alpha=1 / 6, beta=0.5)


@converts("softplus.default")
def softplus(n: AtenNode) -> Value:
    """``log(1 + exp(beta * x)) / beta``, which PyTorch replaces by x beyond its threshold: equal but for rounding there."""
    x, beta = n.value("self"), float(n["beta"])
    if beta == 1:
        return n.apply("softplus", x)
    return n.apply("mul", n.apply("softplus", n.apply("mul", x, n.like(beta, x))), n.like(1 / beta, x))


@converts("prelu.default")
def prelu(n: AtenNode) -> Value:
    x, slope = n.value("self"), n.value("weight")
    channels = slope.type.size
    shape = (1, channels, *(1,) * (len(x.type.shape) - 2)) if channels > 1 and len(x.type.shape) > 1 else (channels,)
    return n.apply("prelu", x, n.reshape(slope, shape))
