"""Converters of ONNX's operators: importing this package fills the table of `vtakit.compiler.frontend.onnx.nodes`."""

from vtakit.compiler.frontend.onnx.nodes import CONVERTERS
from vtakit.compiler.frontend.onnx.operators import conv, elementwise

FAMILIES = (conv, elementwise)

__all__ = ["CONVERTERS", "FAMILIES"]
