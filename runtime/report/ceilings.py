"""What this processor reaches at most with compiled code, measured: the roofs of a model's roofline."""

from dataclasses import dataclass

import numpy as np

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.compile import compile_graph
from vtakit.runtime.image import image_of
from vtakit.runtime.module import Module
from vtakit.runtime.profile import Timed

_SIDE = 512  # of the matrices: a megabyte each, which caches hold
_ELEMENTS = 1 << 23  # of the vectors: 32 megabytes each, which caches do not hold


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Float32 multiplications a second, and bytes of memory a second that are read or written."""

    macs: float
    bytes: float


def measure(target: Target) -> Ceilings:
    """By a product of two matrices and a sum of two vectors, with as many threads as models have."""
    product, total = _timed("matmul", (_SIDE, _SIDE), target), _timed("add", (_ELEMENTS,), target)
    return Ceilings(product.layer.macs / product.seconds, total.layer.bytes / total.seconds)


def _timed(op: str, shape: tuple[int, ...], target: Target) -> Timed:
    build = Builder(f"ceiling_of_{op}")
    a, b = (build.input(name, shape, "float32") for name in "ab")
    module = Module(image_of(compile_graph(build.finish([("y", build.one(op, a, b))]), target), ""))
    array = np.ones(shape, np.float32)
    (timed,) = module.profile({"a": array, "b": array}).layers
    return timed
