"""Pooling."""

from typing import Any

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.frontend.onnx.operators.conv import pads_of
from vtakit.compiler.graph.ir import Value


def window(n: OnnxNode) -> dict[str, Any]:
    """The attributes that all pools have."""
    kernel = n.required("kernel_shape")
    ones = (1,) * len(kernel)
    strides, dilations = n.attr("strides", ones), n.attr("dilations", ones)
    pads = pads_of(n, n.shape(0)[2:], kernel, strides, dilations)
    return {
        "kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations,
        "ceil_mode": bool(n.attr("ceil_mode", 0)),
    }


@converts("MaxPool")
def max_pool(n: OnnxNode) -> tuple[Value, ...]:
    if len(n.outputs) < 2:
        return (n.apply("max_pool", n[0], **window(n)),)
    return n.all("max_pool_with_indices", n[0], storage_order=n.attr("storage_order", 0), **window(n))


@converts("AveragePool")
def average_pool(n: OnnxNode) -> Value:
    return n.apply("average_pool", n[0], count_include_pad=bool(n.attr("count_include_pad", 0)), **window(n))


@converts("LpPool")
def lp_pool(n: OnnxNode) -> Value:
    return n.apply("lp_pool", n[0], p=n.attr("p", 2), **window(n))


@converts("GlobalAveragePool")
def global_average_pool(n: OnnxNode) -> Value:
    return n.apply("global_average_pool", n[0])


@converts("GlobalMaxPool")
def global_max_pool(n: OnnxNode) -> Value:
    return n.apply("global_max_pool", n[0])


@converts("GlobalLpPool")
def global_lp_pool(n: OnnxNode) -> Value:
    return n.apply("global_lp_pool", n[0], p=n.attr("p", 2))
