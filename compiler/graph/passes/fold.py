"""Constant folding: what depends on constants alone is computed when the model is compiled."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from vtakit.compiler.graph.ir import Array, Graph, Node, Value
from vtakit.compiler.graph.passes.dead import remove_dead

Evaluate = Callable[[Graph], Sequence[Array]]

MOST_GROWTH_BYTES = 1 << 24  # by which a result may be larger than what it is computed from


def fold_constants(graph: Graph, evaluate: Evaluate) -> Graph:
    """With a constant for what nodes make of constants.

    evaluate : runs a graph without inputs; the result has an array for each of its outputs. It is called once at most

    Nothing is folded that would grow by more than 16 MiB, such as an Expand of a scalar to a large shape.
    """
    known = set(graph.constants)
    folded: list[Node] = []
    rest: list[Node] = []
    for node in graph.nodes:
        growth = sum(value.type.bytes for value in node.outputs) - sum(value.type.bytes for value in node.reads)
        if known.issuperset(node.reads) and growth <= MOST_GROWTH_BYTES:
            folded.append(node)
            known |= set(node.outputs)
        else:
            rest.append(node)
    if not folded:
        return graph
    read = {value for node in rest for value in node.reads} | {value for _, value in graph.outputs}
    wanted = [value for node in folded for value in node.outputs if value in read]
    part = Graph(
        f"{graph.name}_constants", (), tuple([(f"c{i}", value) for i, value in enumerate(wanted)]), tuple(folded), graph.constants
    )
    arrays: dict[Value, Array] = dict(zip(wanted, evaluate(remove_dead(part)), strict=True))
    return remove_dead(replace(graph, nodes=tuple(rest), constants={**graph.constants, **arrays}))
