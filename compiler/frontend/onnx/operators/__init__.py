"""Converters of ONNX's operators: importing this package fills the table of `vtakit.compiler.frontend.onnx.nodes`."""

from vtakit.compiler.frontend.onnx.nodes import CONVERTERS
from vtakit.compiler.frontend.onnx.operators import (
    constants,
    conv,
    decided,
    elementwise,
    fourier,
    indexing,
    matmul,
    microsoft,
    ml,
    normalize,
    pool,
    quantize,
    random,
    recurrent,
    reduction,
    regions,
    resize,
    shape,
    signal,
    trees,
)

FAMILIES = (
    constants, conv, decided, elementwise, fourier, indexing, matmul, microsoft, ml, normalize, pool, quantize, random, recurrent,
    reduction, regions, resize, shape, signal, trees,
)

__all__ = ["CONVERTERS", "FAMILIES"]
