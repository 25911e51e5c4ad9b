"""Operators of the domain com.microsoft, as onnxruntime's optimizers and quantizers write them. Source: ContribOperators.md.

Each is read as the ONNX operators that it stands for.
"""

from vtakit.compiler.frontend.onnx.operators.microsoft import attention, blocks, fused, norms, quantized

__all__ = ["attention", "blocks", "fused", "norms", "quantized"]
