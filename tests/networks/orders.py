"""Topological orders of ONNX nodes: depth first, breadth first, newest first, or at random."""

from collections.abc import Callable, Sequence

import numpy as np
from onnx import NodeProto

Choose = Callable[[list[int]], int]  # of the nodes that are ready, in the order in which they became so, the place of the next
ORDERS = ("drawn", "depth", "breadth", "newest", "random", "random", "random layers")


def ordered(nodes: Sequence[NodeProto], order: str, rng: np.random.Generator) -> list[NodeProto]:
    """The nodes in another order in which each stands behind those that make what it reads.

    order : "drawn" leaves them; "depth" goes from random outputs to what they need; "breadth" and "newest" take of the ready
            nodes the first and the last; "random" any
    """
    if order == "drawn":
        return list(nodes)
    maker = {name: at for at, node in enumerate(nodes) for name in node.output}
    needs = [{maker[name] for name in node.input if name in maker} for node in nodes]
    if order == "depth":
        return [nodes[at] for at in _depth_first(needs, rng)]
    choose: dict[str, Choose] = {
        "breadth": lambda ready: 0, "newest": lambda ready: len(ready) - 1, "random": lambda ready: int(rng.integers(len(ready)))}
    return [nodes[at] for at in extension(needs, choose[order], rng)]


def extension(needs: Sequence[set[int]], choose: Choose, rng: np.random.Generator) -> list[int]:
    """Numbers 0, 1, … in an order in which each comes behind those that it needs."""
    left = [len(each) for each in needs]
    readers: list[list[int]] = [[] for _ in needs]
    for at, each in enumerate(needs):
        for before in each:
            readers[before].append(at)
    ready = [at for at, count in enumerate(left) if not count]
    rng.shuffle(ready)
    found = []
    while ready:
        at = ready.pop(choose(ready))
        found.append(at)
        more = []
        for reader in readers[at]:
            left[reader] -= 1
            if not left[reader]:
                more.append(reader)
        rng.shuffle(more)
        ready += more
    return found


def _depth_first(needs: Sequence[set[int]], rng: np.random.Generator) -> list[int]:
    read = set().union(*needs)
    ends = [at for at in range(len(needs)) if at not in read]
    rng.shuffle(ends)
    found: dict[int, None] = {}
    stack = [(at, False) for at in ends]
    while stack:
        at, done = stack.pop()
        if done:
            found[at] = None
        elif at not in found:
            stack.append((at, True))
            before = sorted(needs[at])
            rng.shuffle(before)
            stack += [(each, False) for each in before if each not in found]
    return list(found)
