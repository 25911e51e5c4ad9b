"""Common subexpressions: what is computed twice is computed once, and what is kept twice is kept once."""

import hashlib
from collections import Counter
from collections.abc import Hashable
from dataclasses import replace

from vtakit.compiler.graph.ir import Graph, Node, Value

_HASHED_BYTES = 1 << 16  # constants up to this are compared by their bytes


def merge_common(graph: Graph) -> Graph:
    """With one node for all that apply one operator to the same operands, and one constant for all small ones that are equal."""
    same: dict[Value, Value] = {}
    constants = {}
    first: dict[Hashable, Value] = {}
    for value, array in graph.constants.items():
        if array.nbytes <= _HASHED_BYTES:
            kept = first.setdefault((value.type, array.tobytes()), value)
            if kept is not value:
                same[value] = kept
                continue
        constants[value] = array
    made: dict[Hashable, Node] = {}
    nodes = []
    for node in graph.nodes:
        inputs = tuple([None if value is None else same.get(value, value) for value in node.inputs])
        known = made.get(key := (node.op, inputs, repr(sorted(node.attrs.items()))))
        if known is not None:
            same |= dict(zip(node.outputs, known.outputs, strict=True))
            continue
        made[key] = node if inputs == node.inputs else replace(node, inputs=inputs)
        nodes.append(made[key])
    outputs = tuple([(name, same.get(value, value)) for name, value in graph.outputs])
    return replace(graph, nodes=tuple(nodes), constants=constants, outputs=outputs)


def merge_constants(graph: Graph) -> Graph:
    """With one constant for all that are equal, of whatever size: the weights of layers that share them, once they are packed."""
    several = {kind for kind, count in Counter(value.type for value in graph.constants).items() if count > 1}
    same: dict[Value, Value] = {}
    first: dict[Hashable, Value] = {}
    for value, array in graph.constants.items():
        if value.type in several:
            kept = first.setdefault((value.type, hashlib.sha256(array.tobytes()).digest()), value)
            if kept is not value:
                same[value] = kept
    if not same:
        return graph
    nodes = [
        replace(node, inputs=tuple([None if value is None else same.get(value, value) for value in node.inputs]))
        if any(value in same for value in node.reads) else node for node in graph.nodes
    ]
    constants = {value: array for value, array in graph.constants.items() if value not in same}
    outputs = tuple([(name, same.get(value, value)) for name, value in graph.outputs])
    return replace(graph, nodes=tuple(nodes), constants=constants, outputs=outputs)
