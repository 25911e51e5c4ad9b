"""Nodes and constants that nothing needs."""

from dataclasses import replace

from vtakit.compiler.graph.ir import Graph


def remove_dead(graph: Graph) -> Graph:
    """Without the nodes and constants that no output needs; inputs stay, as a caller gives them."""
    needed = {value for _, value in graph.outputs}
    kept = []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed |= set(node.reads)
    constants = {value: array for value, array in graph.constants.items() if value in needed}
    return replace(graph, nodes=tuple(reversed(kept)), constants=constants)
