"""Ceilings of this processor, measured with compiled code: the roofs of a model's roofline."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import onnx

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.compile import Layer, compile_graph
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.runtime.cpu.target import Cpu, image_of
from vtakit.runtime.model import compile
from vtakit.runtime.module import Module
from vtakit.runtime.target import Target
from vtakit.runtime.timed import Timed

_SIDE = 512  # of the matrices: a megabyte each, which caches hold
_ELEMENTS = 1 << 23  # of the vectors: 32 megabytes each, which caches do not hold
_CONVOLUTION = """
    <ir_version: 8, opset_import: ["": 13]>
    ceiling_of_int8 (float[1, 256, 28, 28] x) => (float[1, 256, 28, 28] y)
    <float s = {0.05}, int8 z = {0}>
    {
        q = QuantizeLinear(x, s, z)    d = DequantizeLinear(q, s, z)    v = DequantizeLinear(w, s, z)
        c = Conv<pads = [1, 1, 1, 1]>(d, v)
        r = QuantizeLinear(c, s, z)    y = DequantizeLinear(r, s, z)
    }
"""


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Multiply-accumulates a second, in floating point and in int8, and bytes of memory a second, read or written."""

    macs: float
    bytes: float
    int8_macs: float = 0.0

    def of(self, layer: Layer) -> float:
        """Return the peak for a layer's kind of number."""
        return self.int8_macs or self.macs if is_int8(layer) else self.macs

    def raised(self, layers: Iterable[Timed]) -> "Ceilings":
        """Return ceilings that no layer exceeds: a layer that is faster than what was measured is a better measurement.

        Layers that do not multiply what their MACs say do not count; see `other_way`.
        """
        found = self
        for timed in layers:
            if timed.layer.macs and timed.seconds and not other_way(timed.layer):
                rate = timed.layer.macs / timed.seconds
                name = "int8_macs" if is_int8(timed.layer) else "macs"
                found = replace(found, **{name: max(getattr(found, name), rate)})
        return found


def is_int8(layer: Layer) -> bool:
    """Return whether a layer multiplies integers."""
    return any(op.startswith(("requantize", "scaled_")) or op.endswith("_integer") for op in layer.ops)


def other_way(layer: Layer) -> str:
    """Return the operator by which a layer computes products in another way than by multiply-adds; "" if it has none."""
    return next((op for op in layer.ops if op in ("conv_winograd", "conv_bits")), "")


def measure(target: Target, layers: Iterable[Timed] = ()) -> Ceilings:
    """Measure with as many threads as models have: a product of two matrices, a sum of two vectors, an int8 convolution.

    target : its processor is measured; this machine if that is no CPU
    layers : of the model, none of which stands above the result; the convolution is left out if none is in int8
    """
    layers = tuple(layers)
    cpu = Cpu.adopt(target.processor) or Cpu.host()
    product, total = _timed("matmul", (_SIDE, _SIDE), cpu), _timed("add", (_ELEMENTS,), cpu)
    int8 = _int8_macs() if any(is_int8(timed.layer) for timed in layers) else 0.0
    measured = Ceilings(product.layer.macs / product.seconds, total.layer.bytes / total.seconds, int8)
    return measured.raised(layers)


def _timed(op: str, shape: tuple[int, ...], target: Cpu) -> Timed:
    build = Builder(f"ceiling_of_{op}")
    a, b = (build.input(name, shape, "float32") for name in "ab")
    module = Module(image_of(compile_graph(build.finish([("y", build.one(op, a, b))]), CpuKernels(target)), target, ""))
    array = np.ones(shape, np.float32)
    (timed,) = module.profile({"a": array, "b": array}).layers
    return timed


def _int8_macs() -> float:
    model = onnx.parser.parse_model(_CONVOLUTION)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((256, 256, 3, 3), np.int8), "w"))
    layers = compile(model).profile({"x": np.ones((1, 256, 28, 28), np.float32)}).layers
    return max(timed.layer.macs / timed.seconds for timed in layers)
