"""The graph: values with shapes and types, nodes that make them, constants; and its text.

Nothing changes a graph, node or value once it is made: passes make new ones.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.ir.dtypes import DType

Array = npt.NDArray[Any]
_MOST_ELEMENTS = 8  # of a constant that is written out


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type of a value; written ``float32[1, 3, 224, 224]``."""

    shape: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.size * self.dtype.bytes


class Value:
    """A result of a node, or an input or constant of the graph; two are equal only if they are one object.

    name : for people; that of the model it came from, where it had one
    """

    __slots__ = ("name", "type")

    def __init__(self, name: str, type_: TensorType) -> None:
        self.name, self.type = name, type_

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operator applied to values.

    op     : its name in `vtakit.compiler.nn.registry.OPERATORS`
    inputs : None for an optional operand that is not given
    attrs  : its static attributes; all can be hashed
    name   : for people; that of the model's node it came from
    """

    op: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    @property
    def reads(self) -> tuple[Value, ...]:
        """The operands that are given."""
        return tuple([value for value in self.inputs if value is not None])

    def __repr__(self) -> str:
        return f"{self.op} {self.name!r} -> {', '.join(map(repr, self.outputs))}"


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A network.

    inputs    : what a run is given, in order
    outputs   : what a run gives, in order, with the name of each; a value may be given under several names
    nodes     : each after those whose values it reads
    constants : values that are known
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[tuple[str, Value], ...]
    nodes: tuple[Node, ...]
    constants: Mapping[Value, Array]

    def producers(self) -> dict[Value, Node]:
        """Return the node that makes each value; inputs and constants have none."""
        return {value: node for node in self.nodes for value in node.outputs}

    def consumers(self) -> dict[Value, list[Node]]:
        """Return the nodes that read each value, each once; the graph's outputs are not among them."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.reads):
                found.setdefault(value, []).append(node)
        return found

    def __str__(self) -> str:
        return graph_text(self)


def check(graph: Graph) -> None:
    """Raise GraphError for a value that is read before it is made, or made twice, and for a constant of another type."""
    known: set[Value] = set(graph.inputs)
    if len(known) < len(graph.inputs):
        raise GraphError(f"graph {graph.name!r} has an input twice")
    for value, array in graph.constants.items():
        if value in known:
            raise GraphError(f"{value} of graph {graph.name!r} is an input and a constant")
        if array.shape != value.type.shape or array.dtype.name != str(value.type.dtype):
            raise GraphError(f"the constant {value} of graph {graph.name!r} has an array of {array.dtype}{list(array.shape)}")
    known |= graph.constants.keys()
    for node in graph.nodes:
        for value in node.reads:
            if value not in known:
                raise GraphError(f"{node!r} of graph {graph.name!r} reads {value}, which nothing before it makes")
        for value in node.outputs:
            if value in known:
                raise GraphError(f"{node!r} of graph {graph.name!r} makes {value}, which is there already")
            known.add(value)
    for name, value in graph.outputs:
        if value not in known:
            raise GraphError(f"the output {name!r} of graph {graph.name!r} is {value}, which nothing makes")


def type_of(array: Array, dtype: DType) -> TensorType:
    """Return the type of a constant's value."""
    return TensorType(tuple(map(int, np.shape(array))), dtype)


class _Names:
    """A name for each value, made different from the others."""

    def __init__(self) -> None:
        self._of: dict[Value, str] = {}
        self._taken: set[str] = set()

    def __getitem__(self, value: Value) -> str:
        if value not in self._of:
            count, name = 0, value.name or "v"
            while name in self._taken:
                count += 1
                name = f"{value.name or 'v'}.{count}"
            self._taken.add(name)
            self._of[value] = f"%{name}"
        return self._of[value]


def graph_text(graph: Graph) -> str:
    """Return the graph as text, a node a line.

    ::

        graph mlp(%x: float32[1, 8]):
          const %w: float32[4, 8]
          %h: float32[1, 4] = dense(%x, %w)
          return y=%h
    """
    names = _Names()
    inputs = ", ".join(f"{names[value]}: {value.type}" for value in graph.inputs)
    lines = [f"graph {graph.name}({inputs}):"]
    for value, array in graph.constants.items():
        shown = f" = {array.tolist()}" if array.size <= _MOST_ELEMENTS else ""
        lines.append(f"  const {names[value]}: {value.type}{shown}")
    for node in graph.nodes:
        made = ", ".join(f"{names[value]}: {value.type}" for value in node.outputs)
        operands = ["none" if value is None else names[value] for value in node.inputs]
        lines.append(f"  {made} = {node.op}({', '.join([*operands, *_attrs(node.attrs)])})")
    lines.append(f"  return {', '.join(f'{name}={names[value]}' for name, value in graph.outputs)}")
    return "\n".join(lines)


def _attrs(attrs: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value!r}" for name, value in attrs.items()]
