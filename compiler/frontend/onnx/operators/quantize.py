"""Quantized numbers."""

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.frontend.onnx.operators.conv import window
from vtakit.compiler.graph.ir import Value


@converts("QuantizeLinear")
def quantize_linear(n: OnnxNode) -> Value:
    kind = str(n.kind("output_dtype")) if n.attr("output_dtype", 0) else "uint8"
    given = {"axis": _axis(n), "block_size": n.attr("block_size", 0)}
    return n.apply("quantize_linear", n[0], n[1], n.maybe(2), dtype=kind, **given)


@converts("DequantizeLinear")
def dequantize_linear(n: OnnxNode) -> Value:
    return n.apply("dequantize_linear", n[0], n[1], n.maybe(2), axis=_axis(n), block_size=n.attr("block_size", 0))


def _axis(n: OnnxNode) -> int:
    """The axis that the scales lie along; any for one scale."""
    return int(n.attr("axis", 1)) if n[1].type.size > 1 else 0


@converts("DynamicQuantizeLinear")
def dynamic_quantize_linear(n: OnnxNode) -> tuple[Value, ...]:
    return n.all("dynamic_quantize_linear", n[0])


@converts("ConvInteger")
def conv_integer(n: OnnxNode) -> Value:
    return n.apply("conv_integer", n[0], n[1], n.maybe(2), n.maybe(3), **window(n, n.shape(1)[2:]))


@converts("QLinearConv")
def qlinear_conv(n: OnnxNode) -> Value:
    return n.apply("qlinear_conv", *[n[at] for at in range(8)], n.maybe(8), **window(n, n.shape(3)[2:]))


@converts("QLinearMatMul")
def qlinear_matmul(n: OnnxNode) -> Value:
    return n.apply("qlinear_matmul", *[n[at] for at in range(8)])
