"""Converters of ONNX's operators: importing this package fills the table of `vtakit.compiler.frontend.onnx.nodes`."""

from vtakit.compiler.frontend.onnx.nodes import CONVERTERS
from vtakit.compiler.frontend.onnx.operators import (
    constants,
    conv,
    decided,
    elementwise,
    indexing,
    matmul,
    microsoft,
    normalize,
    pool,
    quantize,
    recurrent,
    reduction,
    resize,
    shape,
    signal,
)

FAMILIES = (
    constants, conv, decided, elementwise, indexing, matmul, microsoft, normalize, pool, quantize, recurrent, reduction, resize,
    shape, signal,
)

__all__ = ["CONVERTERS", "FAMILIES"]
