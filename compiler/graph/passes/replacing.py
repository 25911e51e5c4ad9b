"""Base of passes that make another graph of one, node by node."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.passes.dead import remove_dead


class Replacing(Builder, ABC):
    """The graph being made of `graph`: some nodes become others, the rest stay and read what the former now give.

    plain : what stands for a value of the old graph as it was, where that is another value
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name)
        self.graph = graph
        self.constants = dict(graph.constants)
        self.plain: dict[Value, Value] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if not self.replaces(node):
                inputs = tuple([None if value is None else self.as_it_was(value) for value in node.inputs])
                self.nodes.append(node if inputs == node.inputs else Node(node.op, inputs, node.outputs, node.attrs, node.name))
        outputs = tuple([(name, self.as_it_was(value)) for name, value in self.graph.outputs])
        return remove_dead(Graph(self.name, self.graph.inputs, outputs, tuple(self.nodes), self.constants))

    @abstractmethod
    def replaces(self, node: Node) -> bool:
        """Make what a node becomes; False, and nothing made, for one that stays."""

    def as_it_was(self, value: Value) -> Value:
        """Return the value in plain layout that a node left as it is, or an output of the graph, reads."""
        return self.plain.get(value, value)

    def made(self, op: str, *operands: Value | None, attrs: Mapping[str, Any], like: Value, name: str = "") -> Value:
        """Apply an operator that makes one value, which is called as another is."""
        (made,) = self.add(op, *operands, attrs=attrs, name=name, names=(like.name,))
        return made
