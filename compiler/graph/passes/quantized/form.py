"""Quantized models as networks in integers: what lies between int8 values is computed from them, without floating point.

``q(relu(conv(dq(x), dq(w)) + dq(b) + dq(skip)))``  ->  ``requantize(scaled_add(conv_integer(x, w), skip), …, low=0)``

It holds for symmetric int8 activations with one scale and int8 weights without zero points. All else stays in floating point, as
the model has it; a value that the model quantizes is quantized here too, so that both differ in nothing but rounding.
"""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.passes.cse import merge_common
from vtakit.compiler.graph.passes.dead import remove_dead
from vtakit.compiler.graph.passes.quantized.anchors import Anchors, Sums
from vtakit.compiler.graph.passes.quantized.known import INT8, Constants, Quantized
from vtakit.compiler.graph.passes.quantized.scales import Fixed, skip_factors, sum_factors
from vtakit.compiler.graph.reference import COORDINATES
from vtakit.compiler.ir.dtypes import FLOAT32

MOVES = ("reshape", "transpose", "concat", "slice", "max_pool", "global_max_pool")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which real numbers a result is clipped, in quanta."""

    low: int = -128
    high: int = 127

    def within(self, low: float, high: float, scale: float) -> "Bounds":
        """Those of what is clipped to `low` and `high`, which are real, and then to these."""
        first, last = (int(np.clip(np.rint(np.clip(each / scale, -1e4, 1e4)), self.low, self.high)) for each in (low, high))
        return Bounds(first, last)


def integer_form(graph: Graph) -> Graph:
    """The graph with integers where its quantized values allow it; itself where it has none."""
    if not any(node.op in ("quantize_linear", "qlinear_conv", "qlinear_matmul") for node in graph.nodes):
        return graph
    return _Form(merge_common(graph)).graph()


class _Form:
    def __init__(self, old: Graph) -> None:
        self.old, self.build = old, Builder(old.name)
        self.build.inputs, self.build.constants = list(old.inputs), dict(old.constants)
        self.constants, self.producers = Constants(old), old.producers()
        self.readers: dict[Value, int] = {value: len(nodes) for value, nodes in old.consumers().items()}
        for _, value in old.outputs:
            self.readers[value] = self.readers.get(value, 0) + 2  # it must be there
        self.now: dict[Value, Value] = {}  # what stands for a value of the old graph
        self.integers: dict[Value, Quantized] = {}  # of float values of the old graph
        self.anchors = Anchors(self.constants, self.producers, self.readers, self.integers)

    def graph(self) -> Graph:
        for node in self.old.nodes:
            made = self.integer_of(node)
            if made is not None:
                self.now[node.outputs[0]] = made
            else:
                self.keep(node)
        outputs = tuple([(name, self.now.get(value, value)) for name, value in self.old.outputs])
        build = self.build
        return remove_dead(Graph(build.name, self.old.inputs, outputs, tuple(build.nodes), build.constants))

    def keep(self, node: Node) -> None:
        """The node as it is; and what it makes as int8, if it does no more than move or dequantize int8."""
        moved = replace(node, inputs=tuple([None if value is None else self.now.get(value, value) for value in node.inputs]))
        if node.op == "dequantize_linear" and node.reads[0] not in self.old.constants:
            scale = self.constants.scale(node)
            if scale is not None:
                self.integers[node.outputs[0]] = Quantized(moved.reads[0], scale)
        elif self.is_move(node) and (parts := self.operands(node)) and len({part.scale for part in parts}) == 1:
            inner = Quantized(self.move(node, [part.value for part in parts]), parts[0].scale)
            self.integers[node.outputs[0]] = inner
            scale_value = self.build.constant(np.float32(inner.scale), name=f"{node.outputs[0].name}.scale")
            self.now[node.outputs[0]] = self.build.one(
                "dequantize_linear", inner.value, scale_value, attrs={"axis": 0, "block_size": 0}, name=node.name)
            return
        self.build.nodes.append(moved)
        self.build.producers |= dict.fromkeys(moved.outputs, moved)

    def operands(self, node: Node) -> list[Quantized]:
        """Return the operands of a move as int8; empty if one of them has no int8 form."""
        found = [self.integers.get(value) for value in moved_by(node)]
        return [each for each in found if each is not None] if None not in found else []

    def integer_of(self, node: Node) -> Value | None:
        """An int8 value made of integers, in place of one that the old graph quantizes."""
        if node.op == "quantize_linear":
            scale = self.constants.scale(node)
            return None if scale is None else self.quantized(node.reads[0], scale, Bounds(), node.outputs[0].name)
        if node.op in ("qlinear_conv", "qlinear_matmul"):
            result = node.inputs[6:8]
            scale = self.constants.of_parameters(*result)
            sums = self.anchors.qlinear(node)
            if scale is None or sums is None or node.outputs[0].type.dtype is not INT8:
                return None
            first = self.now.get(node.reads[0], node.reads[0])
            return self.finished(sums, first, None, 0.0, scale, Bounds(), node.outputs[0].name)
        return None

    def quantized(self, value: Value, scale: float, bounds: Bounds, name: str) -> Value | None:
        """A float value of the old graph, clipped to bounds, as int8 of a scale; None if that cannot be made of integers."""
        there = self.integers.get(value)
        if there is not None:
            return self.rescaled(there, scale, bounds, name)
        node = self.producers.get(value)
        if node is None or self.readers.get(value, 0) > 1:
            return None
        if node.op == "relu":
            return self.quantized(node.reads[0], scale, bounds.within(0, np.inf, scale), name)
        if node.op == "clip":
            ends = [default if each is None else self.constants.of(each) for each, default in zip(
                (*node.inputs[1:], None, None), (np.float32(-np.inf), np.float32(np.inf)), strict=False)]
            if any(end is None or end.size != 1 for end in ends):
                return None
            low, high = (float(np.reshape(end, ())) for end in ends if end is not None)
            return self.quantized(node.reads[0], scale, bounds.within(low, max(low, high), scale), name)
        if self.is_move(node):
            if node.op == "pad" and not bounds.low <= 0 <= bounds.high:
                return None
            parts = [self.quantized(each, scale, bounds, f"{name}.{i}") for i, each in enumerate(moved_by(node))]
            there_all = [part for part in parts if part is not None]
            return self.move(node, there_all, name) if len(there_all) == len(parts) else None
        return self.layer(node, scale, bounds, name)

    def layer(self, node: Node, scale: float, bounds: Bounds, name: str) -> Value | None:
        """Sums, with a residual if there is one, quantized."""
        sums = self.anchors.sums(node)
        if sums is not None:
            return self.finished(sums, self.integers[sums.data].value, None, 0.0, scale, bounds, name)
        if node.op != "add" or node.reads[0].type != node.reads[1].type:
            return None
        for data, other in (node.reads, node.reads[::-1]):
            skip, first, maker = self.integers.get(other), self.integers.get(data), self.producers.get(data)
            if skip is None:
                continue
            if first is not None:
                return self.sum(first, skip, scale, bounds, name)
            if maker is None or self.readers.get(data, 0) > 1:
                continue
            sums = self.anchors.sums(maker)
            if sums is not None and sums.by_channel:
                return self.finished(sums, self.integers[sums.data].value, skip.value, skip.scale, scale, bounds, name)
        return None

    def finished(
        self, sums: Sums, data: Value, skip: Value | None, skip_scale: float, scale: float, bounds: Bounds, name: str
    ) -> Value | None:
        """Sums of integers, a residual added, as int8 of a scale."""
        fixed = Fixed.of(sums.unit / scale, sums.bias / sums.unit)
        factors = None if skip is None else skip_factors(sums.unit, skip_scale, scale)
        if fixed is None or (skip is not None and factors is None):
            return None
        acc = sums.emit(self.build, data)
        if skip is not None:
            acc = self.build.one("scaled_add", acc, skip, self.build.constant(factors, name=f"{name}.factor"), name=name)
        found = self.requantize(acc, fixed, bounds, name)
        if found.type.shape == sums.shape:
            return found
        return self.build.one("reshape", found, attrs={"shape": sums.shape}, name=name)

    def sum(self, a: Quantized, b: Quantized, scale: float, bounds: Bounds, name: str) -> Value | None:
        """The sum of two int8 values of scales of their own."""
        factors, shape = sum_factors(a.scale, b.scale, scale), a.value.type.shape
        if factors is None or len(shape) < 2:
            return None
        channels = shape[1]
        fixed = Fixed.of(np.full(channels, factors[2] / scale), np.zeros(channels))
        if fixed is None:
            return None
        vectors = [self.build.constant(np.full(channels, factor, np.int32), name=f"{name}.factor") for factor in factors[:2]]
        return self.requantize(self.build.one("scaled_sum", a.value, b.value, *vectors, name=name), fixed, bounds, name)

    def rescaled(self, x: Quantized, scale: float, bounds: Bounds, name: str) -> Value | None:
        """An int8 value with another scale, clipped; where it was just requantized and the scale stays, by that."""
        if x.scale == scale and bounds == Bounds():
            return x.value
        shape, maker = x.value.type.shape, self.build.producers.get(x.value)
        if x.scale == scale and maker is not None and maker.op == "requantize" and self.private(x.value):
            low, high = (int(np.clip(maker.attrs[end], bounds.low, bounds.high)) for end in ("low", "high"))
            made = self.build.add("requantize", *maker.inputs, attrs={**maker.attrs, "low": low, "high": high}, name=maker.name,
                                  names=(name,))
            return made[0]
        if len(shape) < 2:
            return None
        fixed = Fixed.of(np.full(shape[1], x.scale / scale), np.zeros(shape[1]))
        if fixed is None:
            return None
        flat = shape if len(shape) == 4 else (*shape[:2], prod(shape[2:]), 1)
        data = x.value if flat == shape else self.build.one("reshape", x.value, attrs={"shape": flat}, name=name)
        acc = self.build.one("sum_pool", data, attrs={"kernel_shape": (1, 1)}, name=name)
        found = self.requantize(acc, fixed, bounds, name)
        return found if flat == shape else self.build.one("reshape", found, attrs={"shape": shape}, name=name)

    def private(self, value: Value) -> bool:
        """Return whether a value of the new graph stands for exactly one of the old graph, and both are read once."""
        olds = [old for old, new in self.now.items() if new is value]
        floats = [old for old, made in self.integers.items() if made.value is value]
        return len(olds) == len(floats) == 1 and all(self.readers.get(old, 0) == 1 for old in (*olds, *floats))

    def requantize(self, acc: Value, fixed: Fixed, bounds: Bounds, name: str) -> Value:
        vectors = [self.build.constant(getattr(fixed, word), name=f"{name}.{word}") for word in ("bias", "multiplier", "shift")]
        attrs: dict[str, Any] = {"zero_point": 0, "low": bounds.low, "high": bounds.high}
        maker = self.build.producers[acc]
        return self.build.add("requantize", acc, *vectors, attrs=attrs, name=maker.name, names=(name,))[0]

    def is_move(self, node: Node) -> bool:
        """Return whether a node only copies elements, or zeros, chosen by place or by order."""
        if len(node.outputs) > 1 or not all(value.type.dtype is FLOAT32 for value in moved_by(node)):
            return False
        if node.op == "resize":
            return node.attrs["mode"] == "nearest" and node.attrs.get("coordinates", "half_pixel") in COORDINATES
        if node.op == "pad":
            value = node.inputs[1] if len(node.inputs) > 1 else None
            return node.attrs.get("mode", "constant") == "constant" and self.constants.is_zero(value)
        return node.op in MOVES

    def move(self, node: Node, values: list[Value], name: str = "") -> Value:
        """A move of int8 values."""
        attrs, op = dict(node.attrs), node.op
        if op == "pad":
            values = [*values, self.build.constant(np.int8(0), name="zero")] if node.attrs["mode"] == "constant" else values
        elif op == "global_max_pool":
            op, attrs = "max_pool", {"kernel_shape": values[0].type.shape[2:]}
        return self.build.add(op, *values, attrs=attrs, name=node.name, names=(name or node.outputs[0].name,))[0]


def moved_by(node: Node) -> tuple[Value, ...]:
    """Return the values whose elements a move copies."""
    return node.reads if node.op == "concat" else node.reads[:1]
