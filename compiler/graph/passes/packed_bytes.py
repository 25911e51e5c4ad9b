"""Networks in integers on a CPU: channels in blocks, and activations of int8 as uint8 with the zero point 128.

A value [N, C, H, W] becomes [N, ceil(C / u), H, W, u], where `block_of` says what u is; one of [N, C] has H and W of 1. Sums of
products of uint8 are more than those of int8 by a number for each channel, 128 times the sum of its weights, which is taken off
in requantizing. Everything is exact: the bytes are those of the network as it was.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.graph.bounds import ANY, bounds_of
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.passes.bit_serial import bit_form, bits_pay
from vtakit.compiler.graph.passes.layout import with_blocks
from vtakit.compiler.graph.passes.replacing import Replacing
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.nn.conv.bit_weights import packed_bits
from vtakit.compiler.nn.conv.blocked import blocked_vectors
from vtakit.compiler.nn.conv.packed_weights import (
    FEW,
    ZERO,
    block_of,
    packed_groups,
    packed_vector,
    packed_weight,
    packed_words,
    reach_of,
    wide_reach,
)

INT8 = dtype("int8")
Longs = npt.NDArray[np.int64]

MOST_BYTE = 255
_INT32 = np.iinfo(np.int32)
SHORT_SHIFT = 22  # by which 256 is shifted within int32


@dataclass(frozen=True, slots=True, eq=False)
class _Packed:
    """Packed form of a value: uint8, or int32 sums.

    excess : by how much sums of each channel are too large; None for uint8
    most   : what they are at most, of either sign
    reblocked : whether sums are in other blocks than `block_of` says
    """

    value: Value
    excess: Longs | None = None
    most: Longs | None = None
    reblocked: bool = False


def pack_bytes(graph: Graph, decisions: ModelDecisions | None = None, machine: Machine | None = None) -> Graph:
    """With int8 convolutions, and what lies between them, on uint8 in blocks.

    machine : the processor, whose rates decide where bit-serial products are faster

    Decisions: layout, of each convolution and product; arithmetic, of those whose data and weights have few bits: "bytes", or
    "bits" for `conv_bits`, which reads planes of bits.

    ::

        %a: int32[1, 64, 56, 56] = conv_integer(%x, %w, pads=(1, 1, 1, 1))         # x: int8[1, 64, 56, 56]
        %b: int32[1, 64, 56, 56] = scaled_add(%a, %s, %factor)
        %y: int8[1, 64, 56, 56] = requantize(%b, %bias, %multiplier, %shift, low=0, high=127)

        %x.1: uint8[1, 1, 56, 56, 64] = block_bytes(%x, block=64)
        %s.1: uint8[1, 1, 56, 56, 64] = block_bytes(%s, block=64)
        %a: int32[1, 1, 56, 56, 64] = conv_packed(%x.1, %w, block=64, pads=(1, 1, 1, 1), fill=128)
                                                                                     # w: int8[2, 1, 3, 3, 16, 32, 4]
        %b: int32[1, 1, 56, 56, 64] = scaled_add_bytes(%a, %s.1, %factor)
        %y.1: uint8[1, 1, 56, 56, 64] = requantize_bytes(%b, %least, %most, %multiplier, %offset, %shift)
        %y: int8[1, 64, 56, 56] = unblock_bytes(%y.1, shape=(1, 64, 56, 56))
    """
    if not any(node.op == "conv_integer" for node in graph.nodes):
        return graph
    return _Rewriter(graph, ModelDecisions() if decisions is None else decisions, machine or Machine()).run()


class _Rewriter(Replacing):
    """The graph being made.

    packed : what stands for a value of the old graph in blocks
    planes : bits of uint8 data, by the data and the attributes of `pack_bits`
    """

    def __init__(self, graph: Graph, decisions: ModelDecisions, machine: Machine) -> None:
        super().__init__(graph)
        self.decisions, self.machine, self.bounds = decisions, machine, bounds_of(graph)
        self.packed: dict[Value, _Packed] = {}
        self.planes: dict[tuple[Any, ...], Value] = {}

    def replaces(self, node: Node) -> bool:
        way = _WAYS.get(node.op)
        found = way(self, node) if way is not None else None
        if found is not None:
            self.packed[node.outputs[0]] = found
        return found is not None

    def as_it_was(self, value: Value) -> Value:
        if value in self.packed and value not in self.plain:
            found, attrs = self.packed[value], {"shape": value.type.shape}
            if found.excess is None:
                self.plain[value] = self.made("unblock_bytes", found.value, attrs=attrs, like=value)
            else:
                excess = self._vector(found.excess, np.int32, found.value, "excess")
                self.plain[value] = self.made("unblock_sums", found.value, excess, attrs=attrs, like=value)
        return super().as_it_was(value)

    def _bytes(self, value: Value) -> Value:
        """Return int8 [N, C, H, W] data in blocks."""
        if value not in self.packed:
            attrs = {"block": block_of(value.type.shape[1])}
            self.packed[value] = _Packed(self.made("block_bytes", value, attrs=attrs, like=value))
        return self.packed[value].value

    def _like(self, data: Value, other: Value, of: Value) -> Value:
        """Return uint8 blocks that stand for a value as blocks that another one is in."""
        blocks, block = other.type.shape[1], other.type.shape[-1]
        if (blocks, block) == (data.type.shape[1], data.type.shape[-1]):
            return data
        attrs = {"channels": of.type.shape[1], "block": block, "blocks": blocks}
        return self.made("reblock_bytes", data, attrs=attrs, like=of)

    def _vector(self, vector: npt.NDArray[Any], kind: Any, of: Value, name: str) -> Value:
        """Numbers of channels, in the blocks of a value."""
        return self.constant(packed_vector(vector.astype(kind), of.type.shape[-1], of.type.shape[1]), name=name)

    def _known(self, node: Node, first: int) -> list[npt.NDArray[Any]] | None:
        """The constants that a node reads from an operand on; None if one is not known."""
        values = node.inputs[first:]
        found = [self.graph.constants[value] for value in values if value is not None and value in self.graph.constants]
        return found if len(found) == len(values) else None

    def _is_plain(self, node: Node) -> bool:
        """Decide whether a convolution or product, which can be in blocks, stays as it is."""
        return bool(self.decisions.choose(node, "layout", ["plain", "blocks"], "blocks", pack_bytes) == "plain")

    def conv(self, node: Node) -> _Packed | None:
        """`conv_integer` without zero points, of constant weights."""
        x, known = node.reads[0], self._known(node, 1)
        if known is None or len(known) != 1 or known[0].dtype != np.int8 or x.type.dtype is not INT8 or len(x.type.shape) != 4:
            return None
        weight = known[0]
        attrs = {word: tuple(node.attrs[word]) for word in ("strides", "pads", "dilations") if node.attrs.get(word) is not None}
        fill = ZERO + node.attrs.get("fill", 0)
        groups = node.attrs.get("groups", 1)
        out, (filters, depth) = node.outputs[0], weight.shape[:2]
        sums = _sums(weight.reshape(filters, -1))
        by_itself = groups == filters > 1 and depth == 1
        block, reach, several = block_of(filters), 0, groups > 1 and depth > 1 and filters == groups * depth
        if several and not (reach := reach_of(filters, groups)):
            block, reach = wide_reach(filters, groups)
        if sums is None or (groups > 1 and not (by_itself or reach)) or self._is_plain(node):
            return None
        if by_itself:
            packed = self.constant(blocked_vectors(weight[:, 0], block, 0), name=node.reads[1].name)
            made = self.made("depthwise_packed", self._bytes(x), packed, attrs={**attrs, "fill": fill}, like=out, name=node.name)
        elif reach:
            packed = self.constant(packed_groups(weight, groups, block, reach, 4), name=node.reads[1].name)
            own, data = {**attrs, "block": block, "fill": fill, "reach": reach}, self._bytes(x)
            if data.type.shape[1] * data.type.shape[-1] % reach or max(block, reach) % data.type.shape[-1]:
                data = self.made("reblock_bytes", data, attrs={
                    "channels": filters, "block": block, "blocks": -(-filters // max(block, reach)) * max(block, reach) // block},
                    like=x)
            made = self.made("conv_packed", data, packed, attrs=own, like=out, name=node.name)
        elif depth <= FEW and x not in self.packed and max(attrs.get("dilations", (1,))) == 1:
            words = self.made("pixel_words", x, attrs={"pads": attrs.get("pads", (0,) * 4), "fill": fill}, like=x)
            packed = self.constant(packed_words(weight, block), name=node.reads[1].name)
            own = {"block": block, "strides": attrs.get("strides", (1, 1))}
            made = self.made("conv_words", words, packed, attrs=own, like=out, name=node.name)
        else:
            return self._dots(node, weight, attrs, node.attrs.get("fill", 0), sums)
        usual = block_of(filters)
        other = (made.type.shape[1], block) != (-(-filters // usual), usual)
        return _Packed(made, *sums, reblocked=several and other)

    def _dots(
        self, node: Node, weight: npt.NDArray[np.int8], attrs: dict[str, Any], fill: int, sums: tuple[Longs, Longs],
    ) -> _Packed:
        """Return the sums of an image [N, C, H, W], padded by `fill`, and weights [K, C, R, S], by one of the forms."""
        x, out, form = node.reads[0], node.outputs[0], bit_form(weight, self.bounds.get(node.reads[0], ANY), fill)
        data, block = self._bytes(x), block_of(len(weight))
        u, name = data.type.shape[-1], node.reads[1].name
        usual = "bits" if form is not None and bits_pay(node, form, self.machine) else "bytes"
        if form is None or self.decisions.choose(node, "arithmetic", ["bytes", "bits"], usual, pack_bytes) == "bytes":
            packed = self.constant(packed_weight(weight, u, block, 4), name=name)
            own = {**attrs, "block": block, "fill": ZERO + fill}
            return _Packed(self.made("conv_packed", data, packed, attrs=own, like=out, name=node.name), *sums)
        pads = {"pads": attrs["pads"], "fill": ZERO + fill} if any(attrs.get("pads", ())) else {}
        planes = self._planes(x, data, {"planes": form.planes, "channels": x.type.shape[1], "zero": ZERO + form.low, **pads})
        packed = self.constant(packed_bits(weight, form.encoding, u, block), name=name)
        own = {word: attrs[word] for word in ("strides", "dilations") if word in attrs}
        own |= {"block": block, "encoding": form.encoding.name}
        made = self.made("conv_bits", planes, packed, attrs=own, like=out, name=node.name)
        return _Packed(made, form.excess(weight), form.most(weight))

    def _planes(self, x: Value, data: Value, attrs: dict[str, Any]) -> Value:
        """Return bits of data, which convolutions share that take the same."""
        key = (data, *attrs.items())
        if key not in self.planes:
            self.planes[key] = self.made("pack_bits", data, attrs=attrs, like=x, name=f"{x.name}.planes")
        return self.planes[key]

    def product(self, node: Node) -> _Packed | None:
        """`matmul_integer` of what an image of one pixel became, by constant weights [C, M]."""
        x, known = node.reads[0], self._known(node, 1)
        if known is None or len(known) != 1 or known[0].dtype != np.int8 or len(x.type.shape) != 2 or not self._is_bytes(x):
            return None
        weight = np.ascontiguousarray(known[0].T)
        sums = _sums(weight)
        if sums is None or self._is_plain(node):
            return None
        return self._dots(node, weight[:, :, None, None], {}, 0, sums)

    def scaled_add(self, node: Node) -> _Packed | None:
        """A residual added to sums that are here."""
        (acc, skip), known = node.reads[:2], self._known(node, 2)
        if known is None or acc not in self.packed or len(skip.type.shape) != 4:
            return None
        sums, scale = self.packed[acc], known[0].astype(np.int64)
        assert sums.excess is not None, node
        assert sums.most is not None, node
        most = sums.most + MOST_BYTE * np.abs(scale)
        if most.max() > _INT32.max:
            return None
        factor = self._vector(scale, np.int32, sums.value, "factor")
        made = self.made("scaled_add_bytes", sums.value, self._like(self._bytes(skip), sums.value, skip), factor, attrs={},
                         like=node.outputs[0], name=node.name)
        return _Packed(made, sums.excess + ZERO * scale, most, sums.reblocked)

    def scaled_sum(self, node: Node) -> _Packed | None:
        """The sum of two activations of which one is here."""
        values, known = node.reads[:2], self._known(node, 2)
        if known is None or not any(map(self._is_bytes, values)) or len(values[0].type.shape) != 4:
            return None
        scales = np.stack(known).astype(np.int64)
        most = MOST_BYTE * np.abs(scales).sum(0)
        if most.max() > _INT32.max:
            return None
        data = [self._bytes(value) for value in values]
        vectors = [self._vector(scale, np.int32, data[0], "factor") for scale in scales]
        made = self.made("scaled_sum_bytes", *data, *vectors, attrs={}, like=node.outputs[0], name=node.name)
        return _Packed(made, ZERO * scales.sum(0), most)

    def sum_pool(self, node: Node) -> _Packed | None:
        """Sums of windows of what is here."""
        x = node.reads[0]
        if not self._is_bytes(x) or len(x.type.shape) != 4:
            return None
        count = int(np.prod(node.attrs["kernel_shape"]))
        if MOST_BYTE * count > _INT32.max:
            return None
        attrs = {**node.attrs, "fill": ZERO + node.attrs.get("fill", 0)}
        made = self.made("sum_pool_bytes", self._bytes(x), attrs=attrs, like=node.outputs[0], name=node.name)
        channels = x.type.shape[1]
        return _Packed(made, np.full(channels, ZERO * count), np.full(channels, MOST_BYTE * count))

    def sums_added(self, node: Node) -> _Packed | None:
        """The sum of two sums that are here."""
        both = [self.packed.get(value) for value in node.reads]
        sums = [each for each in both if each is not None and each.excess is not None]
        if len(sums) < 2 or node.reads[0].type != node.reads[1].type:
            return None
        excess = np.sum([each.excess for each in sums if each.excess is not None], axis=0)
        most = np.sum([each.most for each in sums if each.most is not None], axis=0)
        if most.max() > _INT32.max or len({each.value.type for each in sums}) > 1:
            return None
        made = self.made("add", *[each.value for each in sums], attrs={}, like=node.outputs[0], name=node.name)
        return _Packed(made, excess, most)

    def mul_integer(self, node: Node) -> _Packed | None:
        """The product of what is here, by numbers of the same shape or of each channel."""
        a, b = node.reads
        if not self._is_bytes(a) or len(a.type.shape) != 4:
            return None
        attrs = {word: ZERO + node.attrs.get(word, 0) for word in ("a_zero", "b_zero")}
        made = self.made("mul_bytes", self._bytes(a), self._bytes(b), attrs=attrs, like=node.outputs[0], name=node.name)
        channels = a.type.shape[1]
        return _Packed(made, np.zeros(channels, np.int64), np.full(channels, MOST_BYTE**2))

    def lookup(self, node: Node) -> _Packed | None:
        """What is here by a table."""
        x, known = node.reads[0], self._known(node, 1)
        if known is None or not self._is_bytes(x):
            return None
        table = self.constant((known[0].astype(np.int16) + ZERO).astype(np.uint8), name=node.reads[1].name)
        return _Packed(self.made("lookup_bytes", self._bytes(x), table, attrs={}, like=node.outputs[0], name=node.name))

    def concat(self, node: Node) -> _Packed | None:
        """Channels behind channels, where all but the last part are whole blocks of one size."""
        if not all(map(self._is_bytes, node.reads)) or node.attrs["axis"] % len(node.outputs[0].type.shape) != 1:
            return None
        data = [self._bytes(value) for value in node.reads]
        block = data[0].type.shape[-1]
        if any(each.type.shape[-1] != block for each in data) or any(v.type.shape[1] % block for v in node.reads[:-1]):
            return None
        return _Packed(self.made("concat", *data, attrs={"axis": 1}, like=node.outputs[0], name=node.name))

    def padded(self, node: Node) -> _Packed | None:
        """Rows and columns around what is here."""
        x, pads, known = node.reads[0], tuple(node.attrs["pads"]), self._known(node, 1)
        if known is None or not self._is_bytes(x) or len(x.type.shape) != 4 or any((*pads[:2], *pads[4:6])):
            return None
        value = self.constant(np.uint8(ZERO + (int(known[0].reshape(-1)[0]) if known else 0)), name=f"{node.name}.value")
        attrs = {**node.attrs, "pads": (*pads[:4], 0, *pads[4:], 0)}
        return _Packed(self.made("pad", self._bytes(x), value, attrs=attrs, like=node.outputs[0], name=node.name))

    def resize(self, node: Node) -> _Packed | None:
        """The nearest pixels of what is here."""
        x, out, attrs = node.reads[0], node.outputs[0].type.shape, dict(node.attrs)
        if not self._is_bytes(x) or len(out) != 4 or x.type.shape[:2] != out[:2] or len(node.reads) > 1 or attrs.get("roi"):
            return None
        data = self._bytes(x)
        blocks, block = data.type.shape[1], data.type.shape[-1]
        attrs["sizes"] = (out[0], blocks, *out[2:], block)
        if attrs.get("scales") is not None:
            attrs["scales"] = (*attrs["scales"], 1.0)
        return _Packed(self.made("resize", data, attrs=attrs, like=node.outputs[0], name=node.name))

    def interleave(self, node: Node) -> _Packed | None:
        """Phases of what is here."""
        x, channels = node.reads[0], node.outputs[0].type.shape[1]
        block = block_of(channels)
        if not self._is_bytes(x) or channels % block or self._bytes(x).type.shape[-1] % block:
            return None
        attrs = {**node.attrs, "block": block}
        return _Packed(self.made("interleave", self._bytes(x), attrs=attrs, like=node.outputs[0], name=node.name))

    def depth_taps(self, node: Node) -> _Packed | None:
        """Depths side by side as channels: blocks beside blocks, if these are full."""
        x = node.reads[0]
        data = self._bytes(x)
        if x.type.shape[1] % data.type.shape[-1]:
            return None
        attrs = {**node.attrs, "fill": ZERO + node.attrs.get("fill", 0)}
        return _Packed(self.made("depth_taps", data, attrs=attrs, like=node.outputs[0], name=node.name))

    def max_pool(self, node: Node) -> _Packed | None:
        """The greatest of windows of what is here."""
        x = node.reads[0]
        if not self._is_bytes(x) or len(x.type.shape) != 4:
            return None
        attrs = with_blocks(node.attrs)
        return _Packed(self.made("max_pool", self._bytes(x), attrs=attrs, like=node.outputs[0], name=node.name))

    def reshape(self, node: Node) -> _Packed | None:
        """An image of one pixel without its spatial dimensions."""
        x, shape = node.reads[0], node.outputs[0].type.shape
        if self._is_bytes(x) and x.type.shape == (*shape, 1, 1):
            return self.packed[x]
        return None

    def requantize(self, node: Node) -> _Packed | None:
        """Sums that are here as uint8."""
        acc, known = node.reads[0], self._known(node, 1)
        if known is None or acc not in self.packed:
            return None
        sums = self.packed[acc]
        assert sums.excess is not None, node
        numbers = requantized_bytes(known[0] - sums.excess, known[1], known[2], **node.attrs)
        if numbers is None:
            return None
        *bounds, multiplier, offset, shift = numbers
        vectors = [self._vector(vector, np.int32, sums.value, name) for vector, name in (
            (bounds[0], "least"), (bounds[1], "most"), (multiplier, "multiplier"))]
        wide = np.int64 if shift.max() > SHORT_SHIFT else np.int32
        vectors += [self._vector(offset, wide, sums.value, "offset"), self._vector(shift, np.int32, sums.value, "shift")]
        made = self.made("requantize_bytes", sums.value, *vectors, attrs={}, like=node.outputs[0], name=node.name)
        channels = node.outputs[0].type.shape[1]
        block = block_of(channels)
        if sums.reblocked:
            made = self.made("reblock_bytes", made, attrs={
                "channels": channels, "block": block, "blocks": -(-channels // block)}, like=node.outputs[0])
        return _Packed(made)

    def _is_bytes(self, value: Value) -> bool:
        return value in self.packed and self.packed[value].excess is None


def _sums(weight: npt.NDArray[np.int8]) -> tuple[Longs, Longs] | None:
    """Return the excess and the bounds of the sums of filters [K, …] on uint8; None where int32 does not hold the sums."""
    long = weight.astype(np.int64)
    most: Longs = MOST_BYTE * np.abs(long).sum(1)
    return (ZERO * long.sum(1), most) if most.max(initial=0) <= _INT32.max else None


def requantized_bytes(
    bias: Longs, multiplier: npt.NDArray[np.int32], shift: npt.NDArray[np.int32], *, zero_point: int = 0, low: int = -128,
    high: int = 127,
) -> tuple[Longs, Longs, Longs, Longs, Longs] | None:
    """least, most, multiplier, offset, shift of `requantize_bytes` with the result, plus 128, of `requantize` of the same sums.

    A multiplier's factors of 2 go into the shift. The bounds are the first and the last sum that give low and high, which there
    are where a sum's result is at most one more than that of the sum before; None where not.
    """
    factor, by = multiplier.astype(np.int64), shift.astype(np.int64)
    twos = np.minimum(np.where(factor > 0, np.log2(np.maximum(factor & -factor, 1)).astype(np.int64), 0), by)
    factor, by = factor >> twos, by - twos
    if (factor < 1).any() or (factor > 1 << by).any():
        return None
    half = (np.int64(1) << by) >> 1
    least = -((half - (np.int64(low - zero_point) << by)) // factor) - bias
    most = ((np.int64(high - zero_point + 1) << by) - 1 - half) // factor - bias
    if (least > _INT32.max).any() or (most < _INT32.min).any():
        return None
    offset = bias * factor + half + (np.int64(zero_point + ZERO) << by)
    return np.maximum(least, _INT32.min), np.minimum(most, _INT32.max), factor, offset, by


_WAYS: dict[str, Callable[[_Rewriter, Node], _Packed | None]] = {
    "conv_integer": _Rewriter.conv, "matmul_integer": _Rewriter.product, "scaled_add": _Rewriter.scaled_add,
    "scaled_sum": _Rewriter.scaled_sum, "sum_pool": _Rewriter.sum_pool, "max_pool": _Rewriter.max_pool,
    "reshape": _Rewriter.reshape, "requantize": _Rewriter.requantize, "add": _Rewriter.sums_added, "concat": _Rewriter.concat,
    "mul_integer": _Rewriter.mul_integer, "lookup": _Rewriter.lookup, "pad": _Rewriter.padded, "resize": _Rewriter.resize,
    "interleave": _Rewriter.interleave, "depth_taps": _Rewriter.depth_taps,
}
