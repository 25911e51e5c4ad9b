"""Batch normalization as a factor and a term for each channel, and these as part of the convolution before it."""

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.passes.dead import remove_dead

Expand = Callable[["Rewriter", Node], Value | None]


class Rewriter(Builder):
    """A graph being made of another's nodes, some of them exchanged.

    now : what stands for each of the other graph's values
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name)
        self.graph = graph
        self.inputs = list(graph.inputs)
        self.constants = dict(graph.constants)
        self.now: dict[Value, Value] = {}
        self.readers: dict[Value, int] = {value: len(nodes) for value, nodes in graph.consumers().items()}
        for _, value in graph.outputs:
            self.readers[value] = self.readers.get(value, 0) + 1

    def run(self, expand: Expand) -> Graph:
        """The graph with what `expand` makes of a node in its place, where it makes something."""
        for node in self.graph.nodes:
            moved = replace(node, inputs=tuple([None if v is None else self.now.get(v, v) for v in node.inputs]))
            found = expand(self, moved)
            if found is None:
                self.nodes.append(moved)
                self.producers |= dict.fromkeys(moved.outputs, moved)
            else:
                self.now[node.outputs[0]] = found
                self.readers[found] = self.readers.get(node.outputs[0], 0)
        outputs = tuple([(name, self.now.get(value, value)) for name, value in self.graph.outputs])
        return remove_dead(Graph(self.name, self.graph.inputs, outputs, tuple(self.nodes), self.constants))

    def is_known(self, value: Value) -> bool:
        """Return whether a value depends on constants only."""
        return not self.needed(value) & set(self.inputs)

    def read_once(self, value: Value) -> bool:
        """Return whether exactly one node reads the value and it is no output."""
        return self.readers.get(value, 0) == 1


def simplify_inference(graph: Graph) -> Graph:
    """``batch_norm(x, scale, bias, mean, var)`` -> ``x * factor + term``, each one number for each channel."""
    return Rewriter(graph).run(_factor_and_term)


def _factor_and_term(r: Rewriter, node: Node) -> Value | None:
    if node.op != "batch_norm":
        return None
    x, scale, bias, mean, var = node.reads
    kind, ndim = x.type.dtype, len(x.type.shape)
    if any(value.type.dtype is not kind for value in (scale, bias, mean, var)):
        return None
    epsilon = r.constant(np.asarray(node.attrs["epsilon"]), kind, "epsilon")
    factor = r.one("div", scale, r.one("sqrt", r.one("add", var, epsilon)))
    term = r.one("sub", bias, r.one("mul", mean, factor))
    shape = (1, -1, *[1] * (ndim - 2))
    factor, term = (
        r.one("reshape", each, attrs={"shape": tuple(each.type.size if n < 0 else n for n in shape)}) for each in (factor, term)
    )
    return r.one("add", r.one("mul", x, factor, name=node.name), term, name=node.name)


_CHANNEL_OF = {"conv": 0}  # the dimension of the weight that makes the result's channels


def fold_scales(graph: Graph) -> Graph:
    """Constants, one number or one for each channel, go into the weight before them.

    ``conv(x, w) * f`` -> ``conv(x, w * f)``, ``(conv(x, w) + b) * f`` -> ``conv(x, w * f) + b * f`` and
    ``(conv(x, w) + b) + c`` -> ``conv(x, w) + (b + c)``. Sums of anything else stay in their order, which programs that round by
    adding and subtracting a large number count on. What is then made of constants alone is left to folding.
    """
    return Rewriter(graph).run(_into_weight)


def _into_weight(r: Rewriter, node: Node) -> Value | None:
    if node.op == "add":
        return _one_term(r, node)
    if node.op != "mul":
        return None
    for data, factor in (node.reads, node.reads[::-1]):
        if not is_by_channel(r, factor, data) or not r.read_once(data):
            continue
        maker = r.producers.get(data)
        if maker is None:
            continue
        if maker.op in _CHANNEL_OF:
            return _scaled(r, maker, factor)
        if maker.op == "add":
            for inner, term in (maker.reads, maker.reads[::-1]):
                conv = r.producers.get(inner)
                if conv is not None and conv.op in _CHANNEL_OF and is_by_channel(r, term, inner) and r.read_once(inner):
                    scaled = _scaled(r, conv, factor)
                    if scaled is not None:
                        return r.one("add", scaled, r.one("mul", term, factor), name=node.name)
    return None


def _one_term(r: Rewriter, node: Node) -> Value | None:
    for data, term in (node.reads, node.reads[::-1]):
        maker = r.producers.get(data)
        if maker is None or maker.op != "add" or not r.read_once(data) or not data.type.dtype.is_float:
            continue
        for inner, first in (maker.reads, maker.reads[::-1]):
            conv = r.producers.get(inner)
            if conv is None or conv.op not in _CHANNEL_OF:
                continue
            same = inner.type == data.type == node.outputs[0].type
            if same and is_by_channel(r, term, data) and is_by_channel(r, first, inner):
                return r.one("add", inner, r.one("add", first, term), name=node.name)
    return None


def is_by_channel(r: Rewriter, factor: Value, data: Value) -> bool:
    """Return whether a value depends on constants only and has one element, or one for each channel of other data."""
    shape, to = factor.type.shape, data.type.shape
    if len(to) < 2 or len(shape) > len(to):
        return False
    lead = (1,) * (len(to) - len(shape)) + shape
    return lead[1] in (1, to[1]) and prod(lead) == lead[1] and r.is_known(factor)


def _scaled(r: Rewriter, conv: Node, factor: Value) -> Value | None:
    """The convolution with its weight times a factor; None unless the weight is made of constants."""
    x, weight = conv.reads[:2]
    if not r.is_known(weight) or factor.type.dtype is not weight.type.dtype:
        return None
    shape = (factor.type.size, *[1] * (len(weight.type.shape) - 1))
    by = r.one("reshape", factor, attrs={"shape": shape})
    return r.one("conv", x, r.one("mul", weight, by), attrs=conv.attrs, name=conv.name)
