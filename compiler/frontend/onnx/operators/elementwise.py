"""Operators on each element."""

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value


@converts("Add")
def add(n: OnnxNode) -> Value:
    return n.apply("add", n[0], n[1])
