"""Quantized numbers."""

from typing import Any

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.frontend.onnx.operators.conv import window
from vtakit.compiler.graph.ir import Value
from vtakit.compiler.ir.dtypes import dtype


@converts("QuantizeLinear")
def quantize_linear(n: OnnxNode) -> Value:
    kind = n.kind("output_dtype") if n.attr("output_dtype", 0) else n.dtype(2) if n.has(2) else dtype("uint8")
    given: dict[str, Any] = {"axis": _axis(n), "block_size": n.attr("block_size", 0)}
    if kind.is_storage:
        given["saturate"] = bool(n.attr("saturate", 1))
    if n.attr("precision", 0):
        given["precision"] = str(n.kind("precision"))
    return n.apply("quantize_linear", n[0], n[1], n.maybe(2), dtype=str(kind), **given)


@converts("DequantizeLinear")
def dequantize_linear(n: OnnxNode) -> Value:
    given: dict[str, Any] = {"dtype": str(n.kind("output_dtype"))} if n.attr("output_dtype", 0) else {}
    return n.apply("dequantize_linear", n[0], n[1], n.maybe(2), axis=_axis(n), block_size=n.attr("block_size", 0), **given)


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
