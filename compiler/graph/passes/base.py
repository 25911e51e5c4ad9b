"""Passes over graphs, and the function that runs a list of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vtakit.compiler.graph.ir import Graph, check


@dataclass(frozen=True, slots=True)
class GraphPass:
    """A named step from a graph to one that computes the same."""

    name: str
    run: Callable[[Graph], Graph]


Seen = Callable[[GraphPass, Graph, Graph], None]


def run_passes(graph: Graph, passes: Iterable[GraphPass], after: Seen | None = None) -> Graph:
    """The graph after all passes; each result is checked, and `after` sees each step with the graph before and after it."""
    for step in passes:
        changed = step.run(graph)
        check(changed)
        if after is not None:
            after(step, graph, changed)
        graph = changed
    return graph
