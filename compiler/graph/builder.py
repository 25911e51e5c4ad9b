"""Making a graph node by node."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vtakit.base.limits import check_shape
from vtakit.compiler.graph.apply import result_types
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.ir import Array, Graph, Node, TensorType, Value, type_of
from vtakit.compiler.graph.passes.dead import remove_dead
from vtakit.compiler.ir.dtypes import DType, dtype


class Builder:
    """A graph being made. Its nodes' types come from their operators' definitions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.constants: dict[Value, Array] = {}
        self.producers: dict[Value, Node] = {}

    def input(self, name: str, shape: Sequence[int], kind: DType | str) -> Value:
        """A further input of the graph."""
        value = Value(name, TensorType(tuple(shape), dtype(kind)))
        self.inputs.append(value)
        return value

    def constant(self, array: Any, kind: DType | str | None = None, name: str = "const") -> Value:
        """A known value; `kind` is its type, that of the array by default."""
        plain = np.asarray(array)
        known = dtype(plain.dtype if kind is None else kind)
        held = np.ascontiguousarray(plain.astype(numpy_dtype(known), copy=False)).reshape(plain.shape)
        value = Value(name, type_of(held, known))
        self.constants[value] = held
        return value

    def add(
        self, op: str, *operands: Value | None, attrs: Mapping[str, Any] | None = None, name: str = "",
        names: Sequence[str] = (),
    ) -> tuple[Value, ...]:
        """Apply an operator; returns all that it makes, which are constants if they have no element.

        name  : of the node
        names : of its outputs

        Raises GraphError for operands or attributes that the operator does not take.
        """
        given = dict(attrs or {})
        try:
            kinds = result_types(op, [None if value is None else value.type for value in operands], given)
        except GraphError as error:
            raise GraphError(f"{name or op}: {error}") from None
        for kind in kinds:
            check_shape(kind.shape, f"the result of {name or op}")
        if kinds and not any(kind.size for kind in kinds):  # no element: known, whatever the operands are
            return tuple([self.constant(np.zeros(kind.shape, numpy_dtype(kind.dtype)), kind.dtype, name or op) for kind in kinds])
        called = [*names, *[f"{name or op}.{i}" if i else name or op for i in range(len(names), len(kinds))]]
        outputs = tuple([Value(each or op, kind) for each, kind in zip(called, kinds, strict=False)])
        node = Node(op, tuple(operands), outputs, given, name)
        self.nodes.append(node)
        self.producers |= dict.fromkeys(outputs, node)
        return outputs

    def one(self, op: str, *operands: Value | None, attrs: Mapping[str, Any] | None = None, name: str = "") -> Value:
        """Apply an operator that makes one value."""
        (value,) = self.add(op, *operands, attrs=attrs, name=name)
        return value

    def needed(self, value: Value) -> set[Value]:
        """The value and all values that it is made of, back to constants."""
        found, todo = {value}, [value]
        while todo:
            at = todo.pop()
            if at not in self.constants and at in self.producers:
                new = {read for read in self.producers[at].reads if read not in found}
                found |= new
                todo += new
        return found

    def part(self, value: Value, known: Mapping[Value, Array]) -> Graph:
        """Return the nodes that compute a value from constants and known values, as a graph without inputs."""
        nodes = tuple([node for node in self.nodes if known.keys().isdisjoint(node.outputs)])
        return remove_dead(Graph(self.name, (), (("value", value),), nodes, {**self.constants, **known}))

    def finish(self, outputs: Sequence[tuple[str, Value]]) -> Graph:
        """The graph, without the nodes and constants that its outputs do not need."""
        return remove_dead(Graph(self.name, tuple(self.inputs), tuple(outputs), tuple(self.nodes), dict(self.constants)))


def numpy_dtype(kind: DType) -> np.dtype[Any]:
    """The NumPy type of an element, ml_dtypes' for bfloat16 and what has less than 16 bits and is none of NumPy's own."""
    if kind.code == "bfloat" or kind.is_storage or kind.bits in (2, 4):
        import ml_dtypes  # only who uses them waits for it

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, str(kind)))
        return found
    return np.dtype(str(kind))
