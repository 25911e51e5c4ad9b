"""Layouts for a CPU: where channels lie in blocks, a vector of the processor each.

A convolution with constant weights takes and makes such data; operators on elements, pooling, reductions of images and
concatenations between convolutions take what they are given. Data changes its layout once, where it enters such a region and
where it leaves it; weights and vectors of constants are laid out here. The first convolution of a network reads its few channels
as they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.passes.replacing import Replacing
from vtakit.compiler.graph.passes.savings import MEANS, POOLS, is_depthwise, saved
from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.nn.conv.blocked import blocked_vectors, blocked_weight
from vtakit.compiler.nn.conv.blocked_transposed import has_phases, phase_weights
from vtakit.compiler.nn.moves.transposes_cpu import LEAST

BY_ELEMENT = 3  # times as long an element takes to move whose channels lie in no whole blocks: a copy instead of a shuffle

# Operators on elements: of shapes that broadcast, without attributes that name dimensions.
ELEMENTS = frozenset((
    "abs", "add", "celu", "clip", "div", "elu", "erf", "exp", "gelu", "hard_sigmoid", "hard_swish", "identity", "leaky_relu",
    "max", "min", "mish", "mul", "neg", "prelu", "relu", "selu", "sigmoid", "softplus", "softsign", "sqrt", "sub", "sum", "swish",
    "tanh",
))
_UNKNOWN = Machine()
REDUCTIONS = frozenset(("reduce_max", "reduce_mean", "reduce_min", "reduce_sum"))


def block_layouts(
    graph: Graph, lanes: int, *, saved_per_moved: int = _UNKNOWN.layout_macs, decisions: ModelDecisions | None = None,
) -> Graph:
    """With channels in blocks of `lanes` wherever that saves enough multiplications for each element that changes its layout.

    Decisions: layout, of the first node of a region that hands data in blocks from node to node.

    ::

        %y: float32[1, 64, 56, 56] = conv(%x, %w, pads=(1, 1, 1, 1))        # x: float32[1, 64, 56, 56]
        %z: float32[1, 64, 56, 56] = relu(%y)

        %x.1: float32[1, 4, 56, 56, 16] = block_channels(%x, block=16)
        %y: float32[1, 4, 56, 56, 16] = conv_blocked(%x.1, %w, pads=(1, 1, 1, 1))    # w: float32[4, 4, 3, 3, 16, 16]
        %z: float32[1, 4, 56, 56, 16] = relu(%y)
        %z.1: float32[1, 64, 56, 56] = unblock_channels(%z, channels=64)
    """
    decisions = ModelDecisions() if decisions is None else decisions
    chosen = {
        node for region in _Regions(graph, lanes).found()
        if decisions.choose(region.nodes[0], "layout", ["plain", "blocks"],
                            "blocks" if region.saved > saved_per_moved * region.moved else "plain", block_layouts) == "blocks"
        for node in region.nodes
    }
    return _Rewriter(graph, lanes, frozenset(chosen)).run() if chosen else graph


@dataclass(eq=False)
class _Region:
    """Nodes that hand data in blocks to each other: what that saves, and the elements that change their layout."""

    nodes: list[Node]
    saved: int = 0
    moved: int = 0


class _Regions:
    def __init__(self, graph: Graph, lanes: int) -> None:
        self.graph, self.lanes = graph, lanes
        self.of: dict[Value, _Region] = {}  # which region makes a value

    def found(self) -> list[_Region]:
        """The regions, in the order of their last nodes."""
        for node in self.graph.nodes:
            if not self._takes(node):
                continue
            region = _Region([node], saved(node, self.lanes))
            for found in dict.fromkeys([self.of[value] for value in node.reads if value in self.of]):
                region = self._joined(found, region)
            self.of[node.outputs[0]] = region
        self._count_moved()
        return [*dict.fromkeys(self.of.values())]

    def _joined(self, into: _Region, region: _Region) -> _Region:
        into.nodes += region.nodes
        into.saved += region.saved
        for value in [value for value, found in self.of.items() if found is region]:
            self.of[value] = into
        return into

    def _count_moved(self) -> None:
        entered: set[tuple[Value, _Region]] = set()
        left: set[Value] = set()
        for node in self.graph.nodes:
            own = self.of.get(node.outputs[0])
            for value in node.reads:
                region = self.of.get(value)
                if own is None and region is not None:
                    left.add(value)
                elif own is not None and region is None and not self._known(value) and not self._plain(value):
                    entered.add((value, own))
        left |= {value for _, value in self.graph.outputs if value in self.of}
        for value in left:
            self.of[value].moved += value.type.size * (BY_ELEMENT if gcd(value.type.shape[1], self.lanes) < LEAST else 1)
        for value, region in entered:
            region.moved += value.type.size * (BY_ELEMENT if value.type.shape[1] % self.lanes else 1)

    def _known(self, value: Value) -> bool:
        return value in self.graph.constants

    def _plain(self, value: Value) -> bool:
        """Return whether a convolution reads the value unblocked, since it has too few channels."""
        return value.type.shape[1] < self.lanes

    def _takes(self, node: Node) -> bool:
        """Return whether a node can take and produce data in blocks, after its operands were laid out."""
        if any(value.type.dtype is not FLOAT32 for value in (*node.reads, *node.outputs)):
            return False
        if node.op == "conv":
            return self._takes_conv(node)
        if node.op == "conv_transpose":
            return self._takes_transposed(node)
        blocked = [value for value in node.reads if value in self.of]
        if node.op in POOLS:
            return bool(blocked) or not node.reads[0].type.shape[1] % self.lanes
        if node.op in MEANS:
            return bool(blocked) or not node.reads[0].type.shape[1] % self.lanes
        if node.op in REDUCTIONS:
            return bool(blocked) and _are_spatial(node)
        if node.op == "concat":
            return node.attrs["axis"] % len(node.outputs[0].type.shape) == 1 and all(
                value in self.of and not value.type.shape[1] % self.lanes for value in node.reads)
        shape = node.outputs[0].type.shape
        return node.op in ELEMENTS and bool(blocked) and all(
            (value.type.shape[:2] == shape[:2] and len(value.type.shape) == len(shape)) if value in self.of
            else self._known(value) and _is_by_channel(value, shape) for value in node.reads)

    def _takes_conv(self, node: Node) -> bool:
        x, weight = node.reads
        groups, channels = node.attrs.get("groups", 1), x.type.shape[1]
        filters, depth, *_ = weight.type.shape
        if not self._known(weight) or 3 * (-filters % self.lanes) > filters:
            return False  # too much of the last block would be filled up
        if is_depthwise(node):
            return True
        if groups > 1:
            return not depth % self.lanes and not filters // groups % self.lanes
        return x in self.of or self._plain(x) or 3 * (-channels % self.lanes) <= channels

    def _takes_transposed(self, node: Node) -> bool:
        x, weight = node.reads
        channels, filters = weight.type.shape[:2]
        count = len(x.type.shape) - 2
        if not self._known(weight) or node.attrs.get("groups", 1) > 1 or set(node.attrs.get("dilations") or (1,)) != {1}:
            return False
        if 3 * (-filters % self.lanes) > filters or not (x in self.of or 3 * (-channels % self.lanes) <= channels):
            return False
        words = [_numbers(node, name, value, size) for name, value, size in (
            ("strides", 1, count), ("pads", 0, 2 * count), ("output_padding", 0, count))]
        return has_phases(x.type.shape[2:], weight.type.shape[2:], *words)


def _numbers(node: Node, name: str, default: int, count: int) -> tuple[int, ...]:
    """An attribute with a number for each dimension or side."""
    found = node.attrs.get(name)
    return (default,) * count if found is None else tuple(found)


def _are_spatial(node: Node) -> bool:
    """Return whether a reduction is along spatial dimensions only."""
    ndim = len(node.reads[0].type.shape)
    axes: tuple[int, ...] = tuple(node.attrs.get("axes") or ())
    return bool(axes) and all(axis % ndim >= 2 for axis in axes)


def _is_by_channel(value: Value, shape: tuple[int, ...]) -> bool:
    """Return whether a constant has one element, or one for each channel of data of a shape."""
    own = value.type.shape
    lead = (1,) * (len(shape) - len(own)) + own
    return prod(own) == 1 or (len(lead) == len(shape) and lead[1] == shape[1] == prod(own))


class _Rewriter(Replacing):
    """The graph being made.

    blocked : what stands for a value of the old graph with channels in blocks
    """

    def __init__(self, graph: Graph, lanes: int, chosen: frozenset[Node]) -> None:
        super().__init__(graph)
        self.lanes, self.chosen = lanes, chosen
        self.blocked: dict[Value, Value] = {}

    def replaces(self, node: Node) -> bool:
        if node in self.chosen:
            self.blocked[node.outputs[0]] = self._in_blocks(node)
        return node in self.chosen

    def as_it_was(self, value: Value) -> Value:
        if value in self.blocked and value not in self.plain:
            channels = value.type.shape[1]
            self.plain[value] = self.made("unblock_channels", self.blocked[value], attrs={"channels": channels}, like=value)
        return super().as_it_was(value)

    def _block(self, value: Value) -> Value:
        if value not in self.blocked:
            self.blocked[value] = self.made("block_channels", value, attrs={"block": self.lanes}, like=value)
        return self.blocked[value]

    def _in_blocks(self, node: Node) -> Value:
        attrs = dict(node.attrs)
        out, name = node.outputs[0], node.name
        if node.op == "conv":
            return self._conv(node, attrs)
        if node.op == "conv_transpose":
            return self._transposed(node)
        operands = [None if value is None else self._operand(value, len(out.type.shape)) for value in node.inputs]
        if node.op in POOLS:
            return self.made(node.op, *operands, attrs=with_blocks(attrs), like=out, name=name)
        if node.op in MEANS:
            axes = tuple(range(2, len(out.type.shape)))
            return self.made(MEANS[node.op], *operands, attrs={"axes": axes}, like=out, name=name)
        if node.op in REDUCTIONS:
            ndim = len(node.reads[0].type.shape)
            attrs["axes"] = tuple([axis % ndim for axis in attrs["axes"]])
        if node.op == "concat":
            attrs["axis"] = 1  # counted from the end it would be another of the data in blocks
        return self.made(node.op, *operands, attrs=attrs, like=out, name=name)

    def _operand(self, value: Value, ndim: int) -> Value:
        """Return an operand of an elementwise operator: data in blocks, one element, or one for each channel in blocks."""
        if value not in self.graph.constants:
            return self._block(value)
        array = self.graph.constants[value]
        if array.size == 1:
            return value
        by_channel = array.reshape((1,) * (ndim - array.ndim) + array.shape)
        return self._laid_out(value, lambda: blocked_vectors(by_channel, self.lanes, 1))

    def _conv(self, node: Node, attrs: dict[str, Any]) -> Value:
        x, weight = node.reads
        array = self.graph.constants[weight]
        out, name = node.outputs[0], node.name
        if is_depthwise(node):
            del attrs["groups"]
            packed = self._laid_out(weight, lambda: blocked_vectors(array[:, 0], self.lanes, 0))
            return self.made("depthwise_blocked", self._block(x), packed, attrs=attrs, like=out, name=name)
        as_it_is = x not in self.blocked and x.type.shape[1] < self.lanes
        groups = attrs.get("groups", 1)
        packed = self._laid_out(weight, lambda: blocked_weight(array, self.lanes, 1 if as_it_is else self.lanes, groups))
        return self.made("conv_blocked", x if as_it_is else self._block(x), packed, attrs=attrs, like=out, name=name)

    def _transposed(self, node: Node) -> Value:
        x, weight = node.reads
        count, array = len(x.type.shape) - 2, self.graph.constants[weight]
        strides, pads = _numbers(node, "strides", 1, count), _numbers(node, "pads", 0, 2 * count)
        packed = self._laid_out(weight, lambda: phase_weights(array, self.lanes, self.lanes, strides, pads))
        attrs = {"kernel": array.shape[2:], "strides": strides, "pads": pads}
        attrs["output_padding"] = _numbers(node, "output_padding", 0, count)
        return self.made("conv_transpose_blocked", self._block(x), packed, attrs=attrs, like=node.outputs[0], name=node.name)

    def _laid_out(self, value: Value, make: Callable[[], Any]) -> Value:
        return self.constant(make(), name=value.name)


def with_blocks(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a window with a further spatial dimension, that of the blocks, of which it takes one cell."""
    found = {**attrs, "kernel_shape": (*attrs["kernel_shape"], 1)}
    for word in ("strides", "dilations"):
        if attrs.get(word) is not None:
            found[word] = (*attrs[word], 1)
    if attrs.get("pads") is not None:
        count = len(attrs["pads"]) // 2
        found["pads"] = (*attrs["pads"][:count], 0, *attrs["pads"][count:], 0)
    return found
