"""Converters of ONNX's operators: importing this package fills the table of `vtakit.compiler.frontend.onnx.nodes`."""

from vtakit.compiler.frontend.onnx.nodes import CONVERTERS
from vtakit.compiler.frontend.onnx.operators import (
    constants, conv, elementwise, matmul, normalise, pool, reduction, shape,
)

FAMILIES = (constants, conv, elementwise, matmul, normalise, pool, reduction, shape)

__all__ = ["CONVERTERS", "FAMILIES"]
