"""Operators of the domain com.microsoft that onnxruntime's quantizer writes: quantized forms of ONNX's own.

Each is read as what it stands for: its operands dequantized, the operator of floats, its result quantized. That is how
onnxruntime defines them, and what the passes for quantized models look for. Source: onnxruntime's ContribOperators.md.
"""

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.frontend.onnx.operators.pool import window
from vtakit.compiler.graph.ir import Value

DOMAIN = "com.microsoft"
WINDOW = ("kernel_shape", "strides", "pads", "dilations", "auto_pad")  # attributes of what slides over an image


def _real(n: OnnxNode, at: int, *, axis: int = 0) -> Value:
    """The numbers that an operand stands for, which its scale and zero point follow; an axis, if there are several of them."""
    return n.apply("dequantize_linear", n[at], n[at + 1], n.maybe(at + 2), axis=axis if n[at + 1].type.size > 1 else 0)


def _quantized(n: OnnxNode, value: Value, at: int, of: int) -> Value:
    """A result in the scale and zero point that begin at an operand, in the type of another operand."""
    return n.apply("quantize_linear", value, n[at], n.maybe(at + 1), axis=0, dtype=str(n.dtype(of)))


@converts("QLinearAdd", "QLinearMul", domain=DOMAIN)
def of_two(n: OnnxNode) -> Value:
    return _quantized(n, n.apply(n.op.removeprefix("QLinear").lower(), _real(n, 0), _real(n, 3)), 6, 0)


@converts("QLinearSigmoid", domain=DOMAIN)
def sigmoid(n: OnnxNode) -> Value:
    return _quantized(n, n.apply("sigmoid", _real(n, 0)), 3, 0)


@converts("QLinearLeakyRelu", domain=DOMAIN)
def leaky_relu(n: OnnxNode) -> Value:
    return _quantized(n, n.apply("leaky_relu", _real(n, 0), alpha=n.attr("alpha", 0.01)), 3, 0)


@converts("QLinearSoftmax", domain=DOMAIN)
def softmax(n: OnnxNode) -> Value:
    n.reads("axis", "opset")
    if n.attr("opset", 13) < 13:
        raise n.unsupported("of an operator set before 13")
    return _quantized(n, n.apply("softmax", _real(n, 0), axis=n.attr("axis", -1)), 3, 0)


@converts("QLinearGlobalAveragePool", domain=DOMAIN)
def global_average_pool(n: OnnxNode) -> Value:
    n.reads(channels_last=0)
    return _quantized(n, n.apply("global_average_pool", _real(n, 0)), 3, 0)


@converts("QLinearAveragePool", domain=DOMAIN)
def average_pool(n: OnnxNode) -> Value:
    n.reads(*WINDOW, "count_include_pad", "ceil_mode", channels_last=0)
    padded = bool(n.attr("count_include_pad", 0))
    return _quantized(n, n.apply("average_pool", _real(n, 0), count_include_pad=padded, **window(n)), 3, 0)


@converts("QLinearConcat", domain=DOMAIN)
def concat(n: OnnxNode) -> Value:
    parts = [_real(n, at) for at in range(2, len(n), 3)]
    return _quantized(n, n.apply("concat", *parts, axis=n.required("axis")), 0, 2)


@converts("QLinearWhere", domain=DOMAIN)
def where(n: OnnxNode) -> Value:
    return _quantized(n, n.apply("where", n[0], _real(n, 1), _real(n, 4)), 7, 1)


@converts("QGemm", domain=DOMAIN)
def gemm(n: OnnxNode) -> Value:
    """``alpha * A @ B + C``, C in int32 with the scale ``alpha * a_scale * b_scale``; a result without a scale is float."""
    n.reads("alpha", "transA", "transB")
    trans_b = bool(n.attr("transB", 0))
    alpha = float(n.attr("alpha", 1.0))
    bias = None
    if n.has(6):
        scale = n.apply("mul", n.apply("mul", n[1], n[4]), n.like(alpha, n[1]))
        bias = n.apply("dequantize_linear", n[6], scale, None, axis=n.ndim(6) - 1)
    real = n.apply(
        "gemm", _real(n, 0), _real(n, 3, axis=0 if trans_b else 1), bias, alpha=alpha, beta=1.0,
        trans_a=bool(n.attr("transA", 0)), trans_b=trans_b,
    )
    return _quantized(n, real, 7, 0) if n.has(7) else real


@converts("QuantizeLinear", domain=DOMAIN)
def quantize(n: OnnxNode) -> Value:
    n.reads("axis")
    return n.apply("quantize_linear", n[0], n[1], n.maybe(2), axis=n.attr("axis", 1) if n[1].type.size > 1 else 0)


@converts("DequantizeLinear", domain=DOMAIN)
def dequantize(n: OnnxNode) -> Value:
    n.reads("axis")
    return _real(n, 0, axis=n.attr("axis", 1))


@converts("QLinearReduceMean", domain=DOMAIN)
def mean(n: OnnxNode) -> Value:
    n.reads("axes", "keepdims")
    real = n.apply("reduce_mean", _real(n, 0), axes=n.attr("axes"), keepdims=bool(n.attr("keepdims", 1)))
    return _quantized(n, real, 3, 0)
