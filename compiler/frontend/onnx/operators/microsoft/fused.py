"""An operator with what follows it, and activations: what onnxruntime's optimizer writes of them in a model of floats."""

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.frontend.onnx.operators.conv import add_bias, window
from vtakit.compiler.frontend.onnx.operators.microsoft.quantized import DOMAIN, WINDOW
from vtakit.compiler.graph.ir import Value

_ALONE = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Elu": "elu", "Softplus": "softplus", "Softsign": "softsign",
    "HardSwish": "hard_swish",
}


def activated(n: OnnxNode, y: Value, *numbers: float | None) -> Value:
    """A value through the activation that a fused node names; `numbers` are its parameters, in order."""
    given = [each for each in numbers if each is not None]
    match n.attr("activation", ""):
        case "":
            return y
        case "LeakyRelu":
            return n.apply("leaky_relu", y, alpha=given[0] if given else 0.01)
        case "HardSigmoid":
            return n.apply("hard_sigmoid", y, **dict(zip(("alpha", "beta"), given, strict=False)))
        case "Clip":
            return n.apply("clip", y, *[n.like(each, y) for each in given])
        case name if name in _ALONE and not given:
            return n.apply(_ALONE[name], y)
        case name:
            raise n.unsupported(f"with the activation {name!r}")


@converts("FusedConv", domain=DOMAIN)
def fused_conv(n: OnnxNode) -> Value:
    """A convolution, its bias, a sum with another value, an activation."""
    n.reads("activation", "activation_params", *WINDOW, "group")
    y = n.apply("conv", n[0], n[1], **window(n, n.shape(1)[2:]))
    if n.has(2):
        y = add_bias(n, y, n[2])
    if n.has(3):
        y = n.apply("add", y, n[3])
    return activated(n, y, *n.attr("activation_params", ()))


@converts("FusedGemm", domain=DOMAIN)
def fused_gemm(n: OnnxNode) -> Value:
    n.reads("activation", "activation_alpha", "activation_beta", "activation_gamma", "alpha", "beta", "transA", "transB")
    y = n.apply(
        "gemm", n[0], n[1], n.maybe(2), alpha=n.attr("alpha", 1.0), beta=n.attr("beta", 1.0), trans_a=bool(n.attr("transA", 0)),
        trans_b=bool(n.attr("transB", 0)),
    )
    return activated(n, y, *[n.attr(f"activation_{word}") for word in ("alpha", "beta", "gamma")])


def _turned(n: OnnxNode, value: Value, last: bool, batch: bool) -> Value:
    """An operand of a product with its last two axes exchanged, or its batch axis (the first of all) put before the last one.

    ``transBatch`` of [b, m, k…] stands for a product of the axes in the order [m…, b, k].
    """
    rank = len(value.type.shape)
    if rank < 2:
        return value
    perm = [*range(rank)]
    if batch:
        perm = [*range(1, rank - 1), 0, rank - 1]
    if last:
        perm[-2:] = perm[:-3:-1]
    return value if perm == [*range(rank)] else n.apply("transpose", value, perm=tuple(perm))


@converts("FusedMatMul", "TransposeMatMul", domain=DOMAIN)
def fused_matmul(n: OnnxNode) -> Value:
    """``alpha * A @ B``, either transposed."""
    n.reads("alpha", "transA", "transB", "transBatchA", "transBatchB")
    a, b = (_turned(n, n[at], bool(n.attr(f"trans{word}", 0)), bool(n.attr(f"transBatch{word}", 0)))
            for at, word in enumerate("AB"))
    y = n.apply("matmul", a, b)
    alpha = n.attr("alpha", 1.0)
    return y if alpha == 1 else n.apply("mul", y, n.like(alpha, y))


@converts("Gelu", domain=DOMAIN)
def gelu(n: OnnxNode) -> Value:
    return n.apply("gelu", n[0])


@converts("BiasGelu", domain=DOMAIN)
def bias_gelu(n: OnnxNode) -> Value:
    return n.apply("gelu", n.apply("add", n[0], n[1]))


@converts("FastGelu", domain=DOMAIN)
def fast_gelu(n: OnnxNode) -> Value:
    return n.apply("gelu", n.apply("add", n[0], n[1]) if n.has(1) else n[0], approximate="tanh")


@converts("QuickGelu", domain=DOMAIN)
def quick_gelu(n: OnnxNode) -> Value:
    n.reads("alpha")
    return n.apply("swish", n[0], alpha=n.attr("alpha", 1.702))


@converts("NhwcMaxPool", domain=DOMAIN)
def max_pool_with_channels_last(n: OnnxNode) -> Value:
    from vtakit.compiler.frontend.onnx.operators.pool import window as pool_window

    n.reads(*WINDOW, "ceil_mode")
    rank = n.ndim(0)
    n.inputs[0] = n.apply("transpose", n[0], perm=(0, rank - 1, *range(1, rank - 1)))
    return n.apply("transpose", n.apply("max_pool", n[0], **pool_window(n)), perm=(0, *range(2, rank), 1))
