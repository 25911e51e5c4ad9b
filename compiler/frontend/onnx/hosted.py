"""The table of ONNX operators in NumPy, filled: importing this module registers those of tensors and of sequences."""

from vtakit.compiler.frontend.onnx import host, sequences
from vtakit.compiler.frontend.onnx.host import HOST

FAMILIES = (host, sequences)

__all__ = ["FAMILIES", "HOST"]
