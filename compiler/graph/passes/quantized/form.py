"""Quantized models as networks in integers: what lies between values of 8 bits is computed from them, without floating point.

``q(relu(conv(dq(x), dq(w)) + dq(b) + dq(skip)))``  ->  ``requantize(scaled_add(conv_integer(x, w), skip), …, low=0)``
``q(hard_swish(dq(x)))``                             ->  ``lookup(x, table)``

It holds for activations with one scale and one zero point each, int8 or uint8, and constant weights of 8 bits. uint8 activations
become int8: a number less 128, and its zero point too, stand for the same. All else stays in floating point, as the model has it;
a value that the model quantizes is quantized here too, so that both differ in nothing but rounding.
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
from vtakit.compiler.graph.passes.quantized.known import INT8, UINT8, UNSIGNED_ZERO, Constants, QParams, Quantized
from vtakit.compiler.graph.passes.quantized.narrow import clip_before_quantizing
from vtakit.compiler.graph.passes.quantized.real import dequantized_sums
from vtakit.compiler.graph.passes.quantized.scales import Fixed, skip_factors, sum_factors
from vtakit.compiler.graph.passes.quantized.tables import function_of, origin
from vtakit.compiler.graph.reference import COORDINATES
from vtakit.compiler.ir.dtypes import FLOAT32, DType

MOVES = ("reshape", "transpose", "concat", "slice", "max_pool", "global_max_pool", "depth_to_space",
         "space_to_depth")
_SPATIAL = 2  # the first spatial dimension


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which int8 numbers a result is clipped."""

    low: int = -128
    high: int = 127

    def within(self, low: float, high: float, params: QParams) -> "Bounds":
        """Those of what is clipped to `low` and `high`, which are real, and then to these."""
        first, last = (int(np.clip(np.rint(np.clip(each / params.scale, -1e4, 1e4)) + params.zero, self.low, self.high))
                       for each in (low, high))
        return Bounds(first, last)


def integer_form(graph: Graph) -> Graph:
    """The graph with integers where its quantized values allow it; itself where it has none."""
    if not any(node.op in ("quantize_linear", "qlinear_conv", "qlinear_matmul") for node in graph.nodes):
        return graph
    return dequantized_sums(_Form(clip_before_quantizing(merge_common(graph))).graph())


class _Form:
    def __init__(self, old: Graph) -> None:
        self.old, self.build = old, Builder(old.name)
        self.build.inputs, self.build.constants = list(old.inputs), dict(old.constants)
        self.constants, self.producers = Constants(old), old.producers()
        self.readers: dict[Value, int] = {value: len(nodes) for value, nodes in old.consumers().items()}
        for _, value in old.outputs:
            self.readers[value] = self.readers.get(value, 0) + 2  # it must be there
        self.now: dict[Value, Value] = {}  # what stands for a value of the old graph
        self.signed: dict[Value, Value] = {}  # int8 of uint8 values of the old graph
        self.integers: dict[Value, Quantized] = {}  # of float values of the old graph
        self.anchors = Anchors(self.constants, self.producers, self.readers, self.integers)

    def graph(self) -> Graph:
        for node in self.old.nodes:
            made = self.integer_of(node)
            if made is None:
                self.keep(node)
            elif node.outputs[0].type.dtype is UINT8:
                self.signed[node.outputs[0]] = made
            else:
                self.now[node.outputs[0]] = made
        outputs = tuple([(name, self.current(value)) for name, value in self.old.outputs])
        build = self.build
        return remove_dead(Graph(build.name, self.old.inputs, outputs, tuple(build.nodes), build.constants))

    def current(self, value: Value) -> Value:
        """The value that stands for one of the old graph, of its type."""
        if value in self.signed and value not in self.now:
            self.now[value] = self.build.one("to_uint8", self.signed[value], name=value.name)
        return self.now.get(value, value)

    def int8_of(self, value: Value) -> Value:
        """The int8 value that stands for an int8 or uint8 one of the old graph."""
        if value.type.dtype is INT8:
            return self.current(value)
        if value not in self.signed:
            self.signed[value] = self.build.one("to_int8", self.current(value), name=f"{value.name}.int8")
        return self.signed[value]

    def keep(self, node: Node) -> None:
        """Keep a node as it is; and note what it makes as int8, if it only moves, quantizes or dequantizes."""
        made = node.outputs[0]
        if made.type.dtype is UINT8 and (self.is_move(node, UINT8) or node.op == "quantize_linear") and self.on_int8(node):
            return
        if self.is_move(node) and (parts := self.operands(node)) and len({part.params for part in parts}) == 1:
            inner = Quantized(self.move(node, [part.value for part in parts], parts[0].params), parts[0].params)
            self.integers[made] = inner
            self.now[made] = self.build.one(
                "dequantize_linear", inner.value, *self.parameters(inner.params, made.name), attrs={"axis": 0, "block_size": 0},
                name=node.name)
            return
        whole = node.reads[0] if node.op == "dequantize_linear" else None
        params = self.constants.params(node) if whole is not None and whole not in self.old.constants else None
        if params is not None and whole is not None:
            inner = Quantized(self.int8_of(whole), params)
            self.integers[made] = inner
            if whole.type.dtype is UINT8:  # the same numbers, so that nothing needs the uint8
                self.now[made] = self.build.one(
                    "dequantize_linear", inner.value, *self.parameters(params, made.name), attrs={"axis": 0, "block_size": 0},
                    name=node.name)
                return
        moved = replace(node, inputs=tuple([None if value is None else self.current(value) for value in node.inputs]))
        self.build.nodes.append(moved)
        self.build.producers |= dict.fromkeys(moved.outputs, moved)

    def on_int8(self, node: Node) -> bool:
        """Make a node's uint8 result as int8; return whether that was possible."""
        made = node.outputs[0]
        if node.op == "quantize_linear":
            params = self.constants.params(node)
            if params is None:
                return False
            scale, zero = self.parameters(params, made.name)
            self.signed[made] = self.build.add(
                "quantize_linear", self.current(node.reads[0]), scale, zero, attrs={**node.attrs, "dtype": "int8"},
                name=node.name, names=(made.name,))[0]
            return True
        value = node.inputs[1] if node.op == "pad" and len(node.inputs) > 1 else None
        known = None if value is None else self.constants.of(value)
        if value is not None and known is None:
            return False
        zero_point = (0 if known is None else int(known.reshape(-1)[0])) - UNSIGNED_ZERO
        self.signed[made] = self.move(node, [self.int8_of(each) for each in moved_by(node)], QParams(1.0, zero_point), made.name)
        return True

    def parameters(self, params: QParams, name: str) -> tuple[Value, Value]:
        """Scale and zero point as constants."""
        return (self.build.constant(np.float32(params.scale), name=f"{name}.scale"),
                self.build.constant(np.int8(params.zero), name=f"{name}.zero"))

    def operands(self, node: Node) -> list[Quantized]:
        """Return the operands of a move as int8; empty if one of them has no int8 form."""
        found = [self.integers.get(value) for value in moved_by(node)]
        return [each for each in found if each is not None] if None not in found else []

    def integer_of(self, node: Node) -> Value | None:
        """An int8 value made of integers, in place of one that the old graph quantizes."""
        if node.op == "quantize_linear":
            params = self.constants.params(node)
            if params is None:
                return None
            found = self.quantized(node.reads[0], params, Bounds(), node.outputs[0].name)
            return self.table(node.reads[0], params, node.outputs[0].name) if found is None else found
        if node.op in ("qlinear_conv", "qlinear_matmul"):
            params = self.constants.params_of(node.inputs[6], node.inputs[7], node.outputs[0].type.dtype)
            sums = self.anchors.qlinear(node)
            if params is None or sums is None:
                return None
            return self.finished(sums, self.int8_of(node.reads[0]), None, params, Bounds(), node.outputs[0].name)
        return None

    def table(self, value: Value, params: QParams, name: str) -> Value | None:
        """A float value of the old graph that is a function of each element of one int8 value, as int8 of a table."""
        found = function_of(value, self.producers, self.integers, self.build, self.constants)
        if found is None:
            return None
        data, real = found
        scale, zero = self.parameters(params, name)
        entries = self.build.one(
            "quantize_linear", real, scale, zero, attrs={"axis": 0, "block_size": 0, "dtype": "int8"}, name=f"{name}.table")
        return self.build.add("lookup", data, entries, name=name, names=(name,))[0]

    def quantized(self, value: Value, scale: QParams, bounds: Bounds, name: str) -> Value | None:
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
            if node.op == "pad" and not bounds.low <= scale.zero <= bounds.high:
                return None
            parts = [self.quantized(each, scale, bounds, f"{name}.{i}") for i, each in enumerate(moved_by(node))]
            there_all = [part for part in parts if part is not None]
            return self.move(node, there_all, scale, name) if len(there_all) == len(parts) else None
        return self.layer(node, scale, bounds, name)

    def layer(self, node: Node, scale: QParams, bounds: Bounds, name: str) -> Value | None:
        """Sums, with a residual if there is one, or a product, quantized."""
        sums = self.anchors.sums(node)
        if sums is not None:
            return self.finished(sums, self.integers[sums.data].value, None, scale, bounds, name)
        if node.op == "mul":
            factors = [self.integers.get(value) for value in node.reads]
            return None if len(factors) != 2 or None in factors else self.product(node, scale, bounds, name)
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
                return self.finished(sums, self.integers[sums.data].value, skip, scale, bounds, name)
        return None

    def finished(
        self, sums: Sums, data: Value, skip: Quantized | None, scale: QParams, bounds: Bounds, name: str
    ) -> Value | None:
        """Sums of integers, a residual added, as int8 of a scale."""
        factors = None if skip is None else skip_factors(sums.unit, skip.params.scale, scale.scale)
        offset = sums.offset if skip is None or factors is None else sums.offset - skip.params.zero * factors.astype(np.int64)
        fixed = Fixed.of(sums.unit / scale.scale, sums.bias / sums.unit, offset)
        if fixed is None or (skip is not None and factors is None):
            return None
        acc = sums.emit(self.build, data)
        if skip is not None:
            acc = self.build.one("scaled_add", acc, skip.value, self.build.constant(factors, name=f"{name}.factor"), name=name)
        found = self.requantize(acc, fixed, scale, bounds, name)
        if found.type.shape == sums.shape:
            return found
        return self.build.one("reshape", found, attrs={"shape": sums.shape}, name=name)

    def sum(self, a: Quantized, b: Quantized, scale: QParams, bounds: Bounds, name: str) -> Value | None:
        """The sum of two int8 values of scales of their own."""
        factors, shape = sum_factors(a.params.scale, b.params.scale, scale.scale), a.value.type.shape
        if factors is None or len(shape) < 2:
            return None
        channels, offset = shape[1], -sum(x.params.zero * factor for x, factor in zip((a, b), factors[:2], strict=True))
        fixed = Fixed.of(np.full(channels, factors[2] / scale.scale), np.zeros(channels), np.full(channels, offset))
        if fixed is None:
            return None
        vectors = [self.build.constant(np.full(channels, factor, np.int32), name=f"{name}.factor") for factor in factors[:2]]
        return self.requantize(self.build.one("scaled_sum", a.value, b.value, *vectors, name=name), fixed, scale, bounds, name)

    def product(self, node: Node, scale: QParams, bounds: Bounds, name: str) -> Value | None:
        """The product of two int8 values of one shape, or of an image and a number for each of its channels.

        None of a number by a function of it, as x * sigmoid(x), which is a function of it too.
        """
        a, b = (self.integers[value] for value in node.reads)
        if origin(a.value, self.build)[0] is origin(b.value, self.build)[0]:
            return None
        if a.value.type.shape != node.outputs[0].type.shape:
            a, b = b, a
        shape, other = a.value.type.shape, b.value.type.shape
        each = (*shape[:2], *[1] * (len(shape) - 2))
        if shape != node.outputs[0].type.shape or len(shape) < 2 or other not in (shape, each):
            return None
        channels = shape[1]
        fixed = Fixed.of(np.full(channels, a.params.scale * b.params.scale / scale.scale), np.zeros(channels))
        if fixed is None:
            return None
        zeros = {"a_zero": a.params.zero, "b_zero": b.params.zero}
        return self.requantize(
            self.build.one("mul_integer", a.value, b.value, attrs=zeros, name=node.name), fixed, scale, bounds, name)

    def rescaled(self, x: Quantized, scale: QParams, bounds: Bounds, name: str) -> Value | None:
        """An int8 value with another scale, clipped; where it was just requantized and the scale stays, by that."""
        if x.params == scale and bounds == Bounds():
            return x.value
        shape, maker = x.value.type.shape, self.build.producers.get(x.value)
        if x.params == scale and maker is not None and maker.op == "requantize" and self.private(x.value):
            low, high = (int(np.clip(maker.attrs[end], bounds.low, bounds.high)) for end in ("low", "high"))
            made = self.build.add("requantize", *maker.inputs, attrs={**maker.attrs, "low": low, "high": high}, name=maker.name,
                                  names=(name,))
            return made[0]
        if len(shape) < 2:
            return None
        fixed = Fixed.of(np.full(shape[1], x.params.scale / scale.scale), np.zeros(shape[1]), np.full(shape[1], -x.params.zero))
        if fixed is None:
            return None
        flat = shape if len(shape) == 4 else (*shape[:2], prod(shape[2:]), 1)
        data = x.value if flat == shape else self.build.one("reshape", x.value, attrs={"shape": flat}, name=name)
        acc = self.build.one("sum_pool", data, attrs={"kernel_shape": (1, 1)}, name=name)
        found = self.requantize(acc, fixed, scale, bounds, name)
        return found if flat == shape else self.build.one("reshape", found, attrs={"shape": shape}, name=name)

    def private(self, value: Value) -> bool:
        """Return whether a value of the new graph stands for exactly one of the old graph, and both are read once."""
        olds = [old for old, new in (*self.now.items(), *self.signed.items()) if new is value]
        floats = [old for old, made in self.integers.items() if made.value is value]
        return len(olds) == len(floats) == 1 and all(self.readers.get(old, 0) == 1 for old in (*olds, *floats))

    def requantize(self, acc: Value, fixed: Fixed, scale: QParams, bounds: Bounds, name: str) -> Value:
        vectors = [self.build.constant(getattr(fixed, word), name=f"{name}.{word}") for word in ("bias", "multiplier", "shift")]
        attrs: dict[str, Any] = {"zero_point": scale.zero, "low": bounds.low, "high": bounds.high}
        maker = self.build.producers[acc]
        return self.build.add("requantize", acc, *vectors, attrs=attrs, name=maker.name, names=(name,))[0]

    def is_move(self, node: Node, kind: DType = FLOAT32) -> bool:
        """Return whether a node only copies elements of a type, or one that is padded with, chosen by place or by order."""
        if len(node.outputs) > 1 or not all(value.type.dtype is kind for value in moved_by(node)):
            return False
        if node.op == "resize":
            return of_one_pixel(node) or (
                node.attrs["mode"] == "nearest" and node.attrs.get("coordinates", "half_pixel") in COORDINATES)
        if node.op == "pad":
            value = node.inputs[1] if len(node.inputs) > 1 else None
            constant = node.attrs.get("mode", "constant") == "constant"
            return constant and (kind is not FLOAT32 or self.constants.is_zero(value))
        return node.op in MOVES

    def move(self, node: Node, values: list[Value], params: QParams, name: str = "") -> Value:
        """A move of int8 values; pads are the zero point."""
        attrs, op = dict(node.attrs), node.op
        if op == "pad":
            values = [*values, self.build.constant(np.int8(params.zero), name="zero")]
        elif op == "resize" and of_one_pixel(node):  # any mode repeats it
            attrs = {"sizes": node.outputs[0].type.shape, "mode": "nearest", "coordinates": "asymmetric", "nearest_mode": "floor"}
        elif op == "global_max_pool":
            op, attrs = "max_pool", {"kernel_shape": values[0].type.shape[2:]}
        return self.build.add(op, *values, attrs=attrs, name=node.name, names=(name or node.outputs[0].name,))[0]


def of_one_pixel(node: Node) -> bool:
    """Return whether a resize is of images of one pixel, and all its coordinates are that one."""
    old, new = node.reads[0].type.shape, node.outputs[0].type.shape
    return len(old) > _SPATIAL and set(old[_SPATIAL:]) == {1} and old[:_SPATIAL] == new[:_SPATIAL] and (
        node.attrs.get("coordinates", "half_pixel") in COORDINATES)


def moved_by(node: Node) -> tuple[Value, ...]:
    """Return the values whose elements a move copies."""
    return node.reads if node.op == "concat" else node.reads[:1]
