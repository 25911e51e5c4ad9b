"""Factors of what convolutions read, as part of their weights."""

import numpy as np

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.passes.batch_norm import Rewriter, is_by_channel

_THROUGH = frozenset(("relu", "leaky_relu", "abs"))  # ``f(x * s) = f(x) * s`` for factors above zero


def fold_input_scales(graph: Graph) -> Graph:
    """Constants, one number or one for each channel, go into the weights of all convolutions behind them.

    ``conv(x * f, w)`` -> ``conv(x, w * f)``, ``conv(x / f, w)`` -> ``conv(x, w * (1 / f))``, and with factors that are known and
    above zero ``conv(relu(x * f), w)`` -> ``conv(relu(x), w * f)``. Where anything else reads the product, it has to be made
    anyway, and stays. What is then made of constants alone is left to folding.
    """
    readers = graph.consumers()
    given = {value for _, value in graph.outputs}

    def only_for(value: Value, wanted: frozenset[str], r: Rewriter) -> bool:
        return value not in given and all(
            reader.op in wanted and (reader.op != "conv" or (reader.reads[0] is value and r.is_known(reader.reads[1])))
            for reader in readers[value])

    def into_weight(r: Rewriter, node: Node) -> Value | None:
        if node.op != "conv":
            return None
        x, weight = node.reads
        maker = r.producers.get(x)
        if maker is None or not r.is_known(weight) or not only_for(x, frozenset(("conv",)), r):
            return None
        through = maker if maker.op in _THROUGH else None
        if through is not None:
            maker = r.producers.get(through.reads[0])
            if maker is None or not only_for(through.reads[0], frozenset((through.op,)), r):
                return None
        found = _factor(r, maker)
        if found is None or found[1].type.dtype is not weight.type.dtype or not weight.type.dtype.is_float:
            return None
        data, factor = found
        if through is not None:
            if factor not in r.constants or not (r.constants[factor] > 0).all():
                return None
            data = r.one(through.op, data, attrs=through.attrs, name=through.name)
        scaled = _scaled(r, weight, factor, node.attrs.get("groups", 1))
        return r.one("conv", data, scaled, attrs=node.attrs, name=node.name)
    return Rewriter(graph).run(into_weight)


def _factor(r: Rewriter, node: Node) -> tuple[Value, Value] | None:
    """Return the data and the constant factor (one number, or one for each channel) of a node that multiplies them; else None."""
    if node.op == "div":
        data, divisor = node.reads
        if not is_by_channel(r, divisor, data) or data.type != node.outputs[0].type:
            return None
        return data, r.one("div", r.constant(np.ones(()), divisor.type.dtype), divisor)
    if node.op == "mul":
        for data, factor in (node.reads, node.reads[::-1]):
            if is_by_channel(r, factor, data) and data.type == node.outputs[0].type:
                return data, factor
    return None


def _scaled(b: Builder, weight: Value, factor: Value, groups: int) -> Value:
    """A convolution's weight [K, C / groups, ...] times what its channels were multiplied by."""
    filters, depth, *kernel = weight.type.shape
    ones = (1,) * len(kernel)
    by = b.one("reshape", factor, attrs={"shape": (groups, 1, depth, *ones) if factor.type.size > 1 else (1, 1, 1, *ones)})
    apart = b.one("reshape", weight, attrs={"shape": (groups, filters // groups, depth, *kernel)})
    return b.one("reshape", b.one("mul", apart, by), attrs={"shape": weight.type.shape})
