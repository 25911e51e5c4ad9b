"""Graphs with nodes that cannot be compiled, split into parts that are compiled and parts that PyTorch runs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch.fx.passes.split_module import split_module

_MOVES = frozenset({  # operators that compute nothing
    "view", "reshape", "permute", "transpose", "squeeze", "unsqueeze", "expand", "slice", "select", "alias", "clone", "getitem",
    "t", "_to_copy", "full", "zeros", "ones", "arange", "detach", "sym_size", "lift_fresh_copy",
})
LEAST_WORK = 2  # operators that compute, in a part that is worth a call


def split(module: torch.fx.GraphModule, left: Collection[str]) -> "tuple[torch.fx.GraphModule, list[str]]":
    """Return a graph whose parts are modules, and the names of those that are to be compiled.

    left : names of nodes that PyTorch runs

    Parts are levels: a node is in the part of the last thing that it reads, or in the next one of its own kind, so that no two
    parts wait for each other.
    """
    levels: dict[Any, int] = {}
    for node in module.graph.nodes:
        if node.op == "call_function":
            level = max((levels[read] for read in node.all_input_nodes if read in levels), default=0)
            levels[node] = level + ((level % 2 == 0) != (node.name not in left))
    made = split_module(module, None, lambda node: levels[node], keep_original_order=False)
    _carry_values(module, made)
    work = {level: 0 for level in levels.values()}
    for node, level in levels.items():
        work[level] += getattr(node.target, "_schema", None) is not None and str(node.target).split(".")[1] not in _MOVES
    worth = [f"submod_{level}" for level, count in sorted(work.items()) if level % 2 == 0 and count >= LEAST_WORK]
    return made, worth


def _carry_values(module: torch.fx.GraphModule, made: torch.fx.GraphModule) -> None:
    """Give the arguments of parts the values of what they are."""
    values = {node.name: node.meta.get("val") for node in module.graph.nodes}
    for node in made.graph.nodes:
        if node.op == "call_module":
            part = made.get_submodule(node.target)
            inside = [each for each in part.graph.nodes if each.op == "placeholder"]
            for each in inside:
                each.meta["val"] = each.meta.get("val", values.get(each.name))


class Compiled(torch.nn.Module):  # type: ignore[misc]  # torch is an extra, which who checks types may lack
    """A part that is compiled, in place of the one that PyTorch would run."""

    def __init__(self, run: Callable[[Sequence[Any]], list[Any]], single: bool) -> None:
        super().__init__()
        self.run, self.single = run, single

    def forward(self, *args: Any) -> Any:
        """Run on the arguments of the part."""
        made = self.run(args)
        return made[0] if self.single else tuple(made)


def single_output(part: torch.fx.GraphModule) -> bool:
    """Return whether a part gives one value and no tuple of values; if so, make it a tuple."""
    (output,) = [node for node in part.graph.nodes if node.op == "output"]
    found = not isinstance(output.args[0], tuple | list)
    if found:
        output.args = ((output.args[0],),)
        part.recompile()
    return found


def constants_of(
    made: torch.fx.GraphModule, name: str, weights: "Mapping[int, torch.Tensor]",
) -> "dict[int, torch.Tensor]":
    """Return the weights among the arguments of a part, by their positions there."""
    positions = {node: at for at, node in enumerate([each for each in made.graph.nodes if each.op == "placeholder"])}
    (call,) = [node for node in made.graph.nodes if node.op == "call_module" and node.target == name]
    return {at: weights[positions[node]] for at, node in enumerate(call.args) if positions.get(node) in weights}
