"""Constants of a quantized model: weights, biases, scales."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from vtakit.compiler.graph.ir import Array, Graph, Node, Value
from vtakit.compiler.graph.reference import MEANING, evaluated
from vtakit.compiler.ir.dtypes import dtype

INT8 = dtype("int8")


@dataclass(frozen=True, slots=True, eq=False)
class Quantized:
    """An int8 value, and the real value of 1 in it."""

    value: Value
    scale: float


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """Symmetric int8 numbers.

    scale : the real value of 1, one number or one for each index of an axis
    """

    numbers: npt.NDArray[np.int8]
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

    def scale(self, node: Node) -> float | None:
        """Return the scale of a `quantize_linear` or `dequantize_linear` between int8 and float32; None unless it is plain.

        A plain one has one scale and no zero point.
        """
        whole = node.outputs[0] if node.op == "quantize_linear" else node.inputs[0]
        assert whole is not None
        if whole.type.dtype is not INT8:
            return None
        return self.of_parameters(*node.inputs[1:3])

    def of_parameters(self, scale: Value | None, zero: Value | None) -> float | None:
        """The one positive scale, if there is no zero point beside it."""
        step = None if scale is None else self.of(scale)
        if step is None or step.size != 1 or step.dtype != np.float32 or not self.is_zero(zero):
            return None
        found = float(step.reshape(())[()])
        return found if 0 < found < float("inf") else None

    def is_zero(self, zero: Value | None) -> bool:
        """Return whether a zero point is known to be 0, or absent."""
        known = None if zero is None else self.of(zero)
        return zero is None or (known is not None and not known.any())

    def weight(self, value: Value) -> Weight | None:
        """The weight that a value is: dequantized symmetric int8 constants, perhaps transposed."""
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
        if known is None or step is None or known.dtype != np.int8 or step.dtype != np.float32 or not self.is_zero(zero):
            return None
        if not (np.isfinite(step) & (step > 0)).all() or step.ndim > 1:
            return None
        return Weight(known, step.astype(np.float64).reshape(-1), axis % max(1, known.ndim))
