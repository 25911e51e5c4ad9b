"""Constants of a quantized model: weights, biases, scales."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Array, Graph, Node, Value
from vtakit.compiler.graph.reference import MEANING, evaluated
from vtakit.compiler.ir.dtypes import DType, dtype

INT8, UINT8 = dtype("int8"), dtype("uint8")
UNSIGNED_ZERO = 128  # int8 of what a uint8 value is, less this, stands for the same number


@dataclass(frozen=True, slots=True)
class QParams:
    """Quantization parameters of int8 numbers: a number q stands for ``(q - zero) * scale``."""

    scale: float
    zero: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Quantized:
    """An int8 value and its quantization parameters."""

    value: Value
    params: QParams


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """Numbers less their zero points: -255 to 255, and symmetric ones -128 to 127.

    scale : the real value of 1, one number or one for each index of an axis
    """

    numbers: npt.NDArray[np.int16]
    scale: npt.NDArray[np.float64]
    axis: int

    def along(self, axis: int) -> npt.NDArray[np.float64] | None:
        """One scale for each index of an axis; None if they lie along another."""
        if self.scale.size > 1 and self.axis != axis:
            return None
        return np.broadcast_to(self.scale.reshape(-1), (self.numbers.shape[axis],))


class Constants:
    """The known values of a graph, among them those that quantizing and dequantizing make of constants."""

    def __init__(self, graph: Graph) -> None:
        self._producers: Mapping[Value, Node] = graph.producers()
        self._known: dict[Value, Array | None] = dict(graph.constants)

    def of(self, value: Value) -> Array | None:
        """The elements of a value that depends on constants alone, by operators that move or quantize."""
        if value not in self._known:
            node = self._producers.get(value)
            operands = [] if node is None or node.op not in MEANING or node.attrs.get("block_size") else [
                self.of(each) for each in node.reads]
            there = [each for each in operands if each is not None]
            self._known[value] = evaluated(node, there) if node is not None and there and len(there) == len(operands) else None
        return self._known[value]

    def params(self, node: Node) -> QParams | None:
        """Return the parameters of a `quantize_linear` or `dequantize_linear` between bytes and float32.

        None for several scales, and for other types than int8 and uint8.
        """
        whole = node.outputs[0] if node.op == "quantize_linear" else node.inputs[0]
        assert whole is not None
        scale, zero = (*node.inputs[1:3], None)[:2]
        return self.params_of(scale, zero, whole.type.dtype)

    def params_of(self, scale: Value | None, zero: Value | None, kind: DType) -> QParams | None:
        """The one positive scale and the zero point, for int8 numbers; those of uint8 are taken as 128 less."""
        step = None if scale is None else self.of(scale)
        if step is None or step.size != 1 or step.dtype != np.float32 or kind not in (INT8, UINT8):
            return None
        known = np.zeros(1, numpy_dtype(kind)) if zero is None else self.of(zero)
        found = float(step.reshape(())[()])
        if known is None or known.size != 1 or known.dtype != numpy_dtype(kind) or not 0 < found < float("inf"):
            return None
        return QParams(found, int(known.reshape(())[()]) - (UNSIGNED_ZERO if kind is UINT8 else 0))

    def is_zero(self, zero: Value | None) -> bool:
        """Return whether a zero point is known to be 0, or absent."""
        known = None if zero is None else self.of(zero)
        return zero is None or (known is not None and not known.any())

    def weight(self, value: Value) -> Weight | None:
        """The weight that a value is: dequantized constants of 8 bits, perhaps transposed."""
        node = self._producers.get(value)
        if node is None:
            return None
        if node.op == "transpose":
            inner = self.weight(node.reads[0])
            perm = node.attrs.get("perm") or tuple(range(len(value.type.shape)))[::-1]
            if inner is None:
                return None
            return replace(inner, numbers=inner.numbers.transpose(perm), axis=list(perm).index(inner.axis))
        if node.op != "dequantize_linear" or node.attrs.get("block_size"):
            return None
        return self.quantized(node.reads[0], node.reads[1], node.inputs[2] if len(node.inputs) > 2 else None, node.attrs["axis"])

    def quantized(self, numbers: Value, scale: Value, zero: Value | None, axis: int) -> Weight | None:
        """The weight of numbers, scales and zero points."""
        known, step = self.of(numbers), self.of(scale)
        if known is None or step is None or known.dtype not in (np.int8, np.uint8) or step.dtype != np.float32:
            return None
        if not (np.isfinite(step) & (step > 0)).all() or step.ndim > 1:
            return None
        at = axis % max(1, known.ndim)
        wide = known.astype(np.int16)
        if zero is not None:
            less = self.of(zero)
            if less is None or less.dtype != known.dtype or less.size not in (1, known.shape[at] if known.ndim else 1):
                return None
            wide = wide - less.astype(np.int16).reshape([-1 if n == at else 1 for n in range(known.ndim)])
        return Weight(wide, step.astype(np.float64).reshape(-1), at)
