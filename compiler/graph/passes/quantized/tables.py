"""Functions of one quantized number, for tables of the 256 results that they can have."""

from collections.abc import Mapping

import numpy as np

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Node, Value
from vtakit.compiler.graph.passes.quantized.known import INT8, Constants, Quantized
from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.nn.elements import broadcasting, elementwise
from vtakit.compiler.nn.registry import OPERATORS

BY_ELEMENT = frozenset(
    name for name, each in OPERATORS.items() if each.define.__module__ in (elementwise.__name__, broadcasting.__name__))


def function_of(
    value: Value, producers: Mapping[Value, Node], integers: Mapping[Value, Quantized], build: Builder, constants: Constants,
) -> tuple[Value, Value] | None:
    """The int8 value that a float value is a function of, element by element, and the function of -128 to 127 in its order.

    integers : float values that are there as int8

    Return None for what is no function of one int8 value. The function is nodes that compute 256 numbers from constants.
    """
    found = _Function(producers, integers, build, constants)
    if not found.walk(value) or found.data is None or found.data.type.shape != value.type.shape:
        return None
    return found.data, found.of(value)


class _Function:
    def __init__(
        self, producers: Mapping[Value, Node], integers: Mapping[Value, Quantized], build: Builder, constants: Constants,
    ) -> None:
        self.producers, self.integers, self.build, self.constants = producers, integers, build, constants
        self.data: Value | None = None  # the int8 value that it is a function of
        self.known: dict[Value, Value] = {}

    def walk(self, value: Value) -> bool:
        """Find the one int8 value that a value depends on; return False if there are several, or other operators."""
        todo, seen = [value], {value}
        while todo:
            at = todo.pop()
            if at in self.integers:
                data, _ = origin(self.integers[at].value, self.build)
                if self.data not in (None, data):
                    return False
                self.data = data
                continue
            constant, node = self.constants.of(at), self.producers.get(at)
            if constant is not None and constant.size == 1:
                continue
            if node is None or node.op not in BY_ELEMENT or len(node.outputs) > 1 or at.type.dtype is not FLOAT32:
                return False
            new = [read for read in node.reads if read not in seen]
            todo += new
            seen |= set(new)
        return True

    def of(self, value: Value) -> Value:
        """The function that a value is, as 256 numbers."""
        if value not in self.known:
            self.known[value] = self._made(value)
        return self.known[value]

    def _made(self, value: Value) -> Value:
        if value in self.integers:
            there = self.integers[value]
            _, table = origin(there.value, self.build)
            numbers = self.build.constant(np.arange(-128, 128, dtype=np.int8), name="numbers") if table is None else table
            scale = self.build.constant(np.float32(there.params.scale), name="scale")
            zero = self.build.constant(there.params.zero, INT8, name="zero")
            return self.build.one("dequantize_linear", numbers, scale, zero, attrs={"axis": 0, "block_size": 0}, name=value.name)
        constant, node = self.constants.of(value), self.producers.get(value)
        if constant is not None:
            return self.build.constant(constant.reshape(()), name=value.name)
        assert node is not None, value
        inputs = [None if read is None else self.of(read) for read in node.inputs]
        return self.build.one(node.op, *inputs, attrs=node.attrs, name=value.name)


def origin(value: Value, build: Builder) -> tuple[Value, Value | None]:
    """The value that an int8 value is looked up by, and the table; itself, and None, if it is not looked up."""
    maker = build.producers.get(value)
    return (maker.reads[0], maker.reads[1]) if maker is not None and maker.op == "lookup" else (value, None)
