"""Convolutions in bfloat16 on request: weights and what is kept between layers in bfloat16, sums in float32.

A convolution with constant weights reads bfloat16 whose channels lie in blocks and adds up exact products in float32, where a
bias, a residual and an activation follow before the result is rounded to bfloat16. Everything else stays in float32.
"""

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.passes.layout import ELEMENTS, with_blocks
from vtakit.compiler.graph.passes.replacing import Replacing
from vtakit.compiler.graph.passes.savings import MEANS
from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.nn.conv.blocked import blocked_vectors
from vtakit.compiler.nn.conv.packed_weights import block_of, packed_weight
from vtakit.compiler.nn.conv.winograd import KERNEL
from vtakit.compiler.nn.conv.winograd_forms import Conv3x3, pairs_are_faster

_MOST_BLOCK = 32  # channels whose bfloat16 fill a register
_TOGETHER = 2  # that an instruction adds up
FEWEST_CHANNELS = 16  # of data that instructions on pairs are fed with: fewer fill no loop over channels
FEWEST_ROWS = 16  # of a product that are worth laying out as pixels: fewer wait for weights
Pays = Callable[[Node], bool]
_UNKNOWN = Machine()


@dataclass(slots=True, eq=False)
class _Packed:
    """Forms of a value in blocks: float32 as computed, bfloat16 as stored."""

    wide: Value | None = None
    narrow: Value | None = None


def half_precision(
    graph: Graph, pays: Pays | None = None, decisions: ModelDecisions | None = None, *,
    saved_per_moved: int = _UNKNOWN.layout_macs,
) -> Graph:
    """With convolutions, and products of what they make, in bfloat16.

    pays      : which convolutions are so by default, with those of single channels that read what these make; all if None
    decisions : precision, of each convolution and product
    saved_per_moved : multiply-adds that a product must save for each element that changes its layout

    ::

        %y: float32[1, 64, 56, 56] = conv(%x, %w, pads=(1, 1, 1, 1))        # x: float32[1, 64, 56, 56]
        %z: float32[1, 64, 56, 56] = relu(%y)

        %x.1: float32[1, 2, 56, 56, 32] = block_channels(%x, block=32)
        %x.2: bfloat16[1, 2, 56, 56, 32] = cast(%x.1, to='bfloat16')
        %y: float32[1, 2, 56, 56, 32] = conv_packed(%x.2, %w, block=32, pads=(1, 1, 1, 1))    # w: bfloat16[2, 2, 3, 3, 16, 32, 2]
        %z.1: float32[1, 2, 56, 56, 32] = relu(%y)
        %z.2: bfloat16[1, 2, 56, 56, 32] = cast(%z.1, to='bfloat16')
    """
    return _Rewriter(graph, pays, ModelDecisions() if decisions is None else decisions, saved_per_moved).run()


def pairs_pay(node: Node, machine: Machine, *, winograd: bool) -> bool:
    """Return whether a convolution is faster by dot products of pairs of bfloat16 than in float32.

    winograd : whether that may be Winograd's form
    """
    filters, depth, *kernel = node.reads[1].type.shape
    images, _, height, width = node.outputs[0].type.shape
    if depth < FEWEST_CHANNELS:
        return False
    steps, spread = ([*(node.attrs.get(word) or (1,))] for word in ("strides", "dilations"))
    if not winograd or kernel != [KERNEL] * 2 or {*steps, *spread} != {1}:
        return True
    return pairs_are_faster(Conv3x3(images, depth, filters, height, width), machine)


def _block(channels: int) -> int:
    return min(_MOST_BLOCK, block_of(channels))


def _is_plain(node: Node) -> bool:
    """Return whether a product has no factors, and its rows of data are those of the result."""
    attrs = node.attrs
    return attrs.get("alpha", 1.0) == attrs.get("beta", 1.0) == 1.0 and not attrs.get("trans_a")


class _Rewriter(Replacing):
    """The graph being made.

    packed : what stands for a value of the old graph in blocks
    """

    def __init__(self, graph: Graph, pays: Pays | None, decisions: ModelDecisions, saved_per_moved: int) -> None:
        super().__init__(graph)
        self.pays, self.decisions, self.saved_per_moved = pays, decisions, saved_per_moved
        self.packed: dict[Value, _Packed] = {}
        consumers = graph.consumers()
        given = [value for _, value in graph.outputs]
        values = [*graph.inputs, *(value for node in graph.nodes for value in node.outputs)]
        self.readers = {value: len(consumers.get(value, ())) + given.count(value) for value in values}

    def replaces(self, node: Node) -> bool:
        if any(value.type.dtype is not FLOAT32 for value in (*node.reads, *node.outputs)):
            return False
        found = self._taken(node)
        if found is not None:
            self.packed[node.outputs[0]] = found
        return found is not None or self._is_product_of_many_rows(node)

    def as_it_was(self, value: Value) -> Value:
        if value in self.packed and value not in self.plain:
            shape = value.type.shape
            found = self.made("unblock_channels", self._wide(value), attrs={"channels": shape[1]}, like=value)
            self.plain[value] = found if len(shape) == 4 else self.made("reshape", found, attrs={"shape": shape}, like=value)
        return super().as_it_was(value)

    def _wide(self, value: Value) -> Value:
        """In float32: as computed for the only reader, else from what is kept."""
        packed = self.packed[value]
        if packed.wide is not None and self.readers[value] == 1:
            return packed.wide
        return self.made("cast", self._narrow(value), attrs={"to": "float32"}, like=value)

    def _narrow(self, value: Value) -> Value:
        """In bfloat16."""
        if value not in self.packed:
            attrs = {"block": _block(value.type.shape[1])}
            self.packed[value] = _Packed(self.made("block_channels", value, attrs=attrs, like=value))
        packed = self.packed[value]
        if packed.narrow is None:
            assert packed.wide is not None, value
            packed.narrow = self.made("cast", packed.wide, attrs={"to": "bfloat16"}, like=value)
        return packed.narrow

    def _taken(self, node: Node) -> _Packed | None:
        """Return a node's result in blocks; None if the node stays as it is."""
        x, shape = node.reads[0], node.outputs[0].type.shape
        if node.op == "conv":
            return self._conv(node)
        if node.op == "gemm":
            return self._product(node)
        if node.op == "reshape" and x in self.packed and x.type.shape == (*shape, 1, 1):
            return self.packed[x]
        if node.op in ELEMENTS and any(value in self.packed for value in node.reads):
            return self._elements(node)
        if x not in self.packed or len(x.type.shape) != 4:
            return None
        if node.op == "max_pool":
            attrs = with_blocks(node.attrs)
            return _Packed(narrow=self.made("max_pool_half", self._narrow(x), attrs=attrs, like=node.outputs[0], name=node.name))
        if node.op in MEANS:
            return _Packed(self.made(MEANS[node.op], self._wide(x), attrs={"axes": (2, 3)}, like=node.outputs[0], name=node.name))
        return None

    def _weights(self, node: Node, at: int = 1) -> np.ndarray | None:
        value = node.inputs[at]
        return None if value is None else self.graph.constants.get(value)

    def _is_narrow(self, node: Node, *, default: bool = True) -> bool:
        """Decide whether a convolution or product is in bfloat16."""
        kinds = ["float32", "bfloat16"]
        return bool(self.decisions.choose(node, "precision", kinds, kinds[default], half_precision) == kinds[True])

    def _conv(self, node: Node) -> _Packed | None:
        x, weight = node.reads[0], self._weights(node)
        if weight is None or weight.ndim != 4 or len(node.reads) != 2:
            return None
        filters, depth = weight.shape[:2]
        block, groups = _block(filters), node.attrs.get("groups", 1)
        if filters % block:  # what fills up a block might become no number
            return None
        if groups > 1 and (depth != 1 or groups != filters):
            return None
        if not self._is_narrow(node, default=self.pays is None or (groups > 1 and x in self.packed) or self.pays(node)):
            return None
        attrs = {word: tuple(node.attrs[word]) for word in ("strides", "pads", "dilations") if node.attrs.get(word) is not None}
        half = weight.astype(ml_dtypes.bfloat16)
        if groups == 1:
            data = self._narrow(x)
            packed = self._constant(packed_weight(half, data.type.shape[-1], block, _TOGETHER), node)
            return _Packed(self.made("conv_packed", data, packed, attrs={**attrs, "block": block}, like=node.outputs[0],
                                     name=node.name))
        packed = self._constant(blocked_vectors(half[:, 0], block, 0), node)
        return _Packed(self.made("depthwise_packed", self._narrow(x), packed, attrs=attrs, like=node.outputs[0], name=node.name))

    def _product(self, node: Node) -> _Packed | None:
        """A product of what an image of one pixel became, by constant weights, with a bias."""
        x, weight = node.reads[0], self._weights(node)
        bias = self._weights(node, 2) if len(node.inputs) > 2 else None
        if x not in self.packed or len(x.type.shape) != 2 or weight is None or not _is_plain(node):
            return None
        if (bias is None and len(node.reads) > 2) or not self._is_narrow(node):
            return None
        filters = weight if node.attrs.get("trans_b") else weight.T
        block, data = _block(len(filters)), self._narrow(x)
        half = np.ascontiguousarray(filters).astype(ml_dtypes.bfloat16)[:, :, None, None]
        packed = self._constant(packed_weight(half, data.type.shape[-1], block, _TOGETHER), node)
        sums = self.made("conv_packed", data, packed, attrs={"block": block}, like=node.outputs[0], name=node.name)
        if bias is None:
            return _Packed(sums)
        by_filter = np.broadcast_to(bias.reshape(1, -1), (1, len(filters)))[:, :, None, None]
        vector = self.constant(blocked_vectors(by_filter, block, 1))
        return _Packed(self.made("add", sums, vector, attrs={}, like=node.outputs[0], name=node.name))

    def _is_product_of_many_rows(self, node: Node) -> bool:
        """Make a product of many rows by constant weights, each row being a pixel.

        It takes half of float32's time at most, and what it reads and makes changes its layout.
        """
        weight = self._weights(node) if node.op in ("gemm", "matmul") else None
        if weight is None or weight.ndim != 2 or not weight.size or not node.outputs[0].type.size or not _is_plain(node):
            return False
        x, out = node.reads[0], node.outputs[0]
        filters = weight if node.attrs.get("trans_b") else weight.T
        count, depth = filters.shape
        rows, block = out.type.size // count, _block(count)
        if not self._is_narrow(node, default=rows >= FEWEST_ROWS and depth * count > self.saved_per_moved * 2 * (depth + count)):
            return False
        image = self.made("reshape", self.as_it_was(x), attrs={"shape": (1, 1, rows, depth)}, like=x)
        turned = self.made("transpose", image, attrs={"perm": (0, 3, 1, 2)}, like=x)
        blocks = self.made("block_channels", turned, attrs={"block": _block(depth)}, like=x)
        data = self.made("cast", blocks, attrs={"to": "bfloat16"}, like=x)
        half = np.ascontiguousarray(filters).astype(ml_dtypes.bfloat16)[:, :, None, None]
        packed = self._constant(packed_weight(half, data.type.shape[-1], block, _TOGETHER), node)
        sums = self.made("conv_packed", data, packed, attrs={"block": block}, like=out, name=node.name)
        pixels = self.made("unblock_channels", sums, attrs={"channels": count}, like=out)
        made = self.made("transpose", pixels, attrs={"perm": (0, 2, 3, 1)}, like=out)
        made = self.made("reshape", made, attrs={"shape": out.type.shape}, like=out)
        for bias in node.reads[2:]:
            made = self.made("add", made, self.as_it_was(bias), attrs={}, like=out)
        self.plain[out] = made
        return True

    def _elements(self, node: Node) -> _Packed | None:
        """An operator on elements, of values in blocks and constants that are one number or one for each channel."""
        out = node.outputs[0]
        shape = out.type.shape
        operands: list[Value | None] = []
        if len(shape) != 4 or not all(value in self.graph.constants or value.type.shape == shape for value in node.reads):
            return None
        block = _block(shape[1])
        if shape[1] % block:
            return None
        for value in node.reads:
            array = self.graph.constants.get(value)
            if array is not None and array.size > 1:
                lead = array.reshape((1,) * (4 - array.ndim) + array.shape)
                if lead.shape[1] != shape[1] or lead.size != shape[1]:
                    return None
        for given in node.inputs:
            array = None if given is None else self.graph.constants.get(given)
            if given is None or (array is not None and array.size == 1):
                operands.append(given)
            elif array is not None:
                lead = array.reshape((1,) * (4 - array.ndim) + array.shape)
                operands.append(self.constant(blocked_vectors(lead, block, 1), name=given.name))
            else:
                operands.append(given)
        known = [value for value in operands if value is not None]
        data = [value for value in known if value in node.reads and value not in self.graph.constants]
        if node.op == "add" and len(data) == 2:
            return self._residual(node, data)
        final = [self._in_blocks(value) if value is not None and value in data else value for value in operands]
        (made,) = self.add(node.op, *final, attrs=node.attrs, name=node.name, names=(out.name,))
        return _Packed(made)

    def _in_blocks(self, value: Value) -> Value:
        if value not in self.packed:
            self._narrow(value)
        return self._wide(value)

    def _residual(self, node: Node, data: list[Value]) -> _Packed:
        """A sum of what was just computed and what is kept, which is read as it is."""
        out = node.outputs[0]
        for first, second in (data, data[::-1]):
            fresh = self.packed.get(first)
            if fresh is not None and fresh.wide is not None and self.readers[first] == 1:
                return _Packed(self.made("add_half", fresh.wide, self._narrow(second), attrs={}, like=out, name=node.name))
        return _Packed(self.made("add", *map(self._in_blocks, data), attrs={}, like=out, name=node.name))

    def _constant(self, array: np.ndarray, node: Node) -> Value:
        return self.constant(array, name=node.reads[1].name)
