"""Graphs as text, a node a line."""

from collections.abc import Mapping
from typing import Any

from vtakit.compiler.graph.ir import Graph, Value

_MOST_ELEMENTS = 8  # of a constant that is written out


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
    """The graph's text:

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
