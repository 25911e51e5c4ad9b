"""Rows of tokens as pixels: what lets the accelerator multiply two matrices that are both computed.

The array multiplies activations, which lie pixel by pixel in blocks of channels, by weights, blocks of outputs by channels.
A matrix [R, C] whose rows are the pixels of a signal [C, R] lies in memory as weights of R outputs would, so that one operator's
result is the next one's weights, and nothing is moved.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.ir import Array, Graph, Node, Value
from vtakit.compiler.graph.passes.replacing import Replacing
from vtakit.compiler.graph.reference import evaluated
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.nn.vta.packing import blocks

INT8 = dtype("int8")
Places = npt.NDArray[np.int64]
_MOVES = frozenset(("reshape", "transpose", "slice"))
_ROWS, _HEADS = 2, 4  # least and most dimensions of operands of a product


def computed_product(node: Node, constants: Mapping[Value, Array]) -> bool:
    """Return whether a node is a product of two matrices that are both computed."""
    return node.op == "matmul_integer" and constants.keys().isdisjoint(node.reads[:2])


def as_signals(graph: Graph, target: Target) -> Graph:
    """With products of computed matrices between signals, and all products of rows as convolutions of signals.

    ::

        %q: int8[1, 3, 64, 64] = transpose(%a)                      # of heads, tokens, channels; a: int8[1, 64, 192]
        %k: int8[1, 3, 64, 64] = transpose(%b)                      # of heads, channels, tokens; b: int8[1, 64, 192]
        %s: int32[1, 3, 64, 64] = matmul_integer(%q, %k)
        %y: int8[1, 3, 64, 64] = requantize(%s, …)

        %a.1: int8[1, 192, 64], %b.1: int8[1, 192, 64]              # signals of 192 channels
        %s.1: int32[1, 3, 64, 64] = matmul_integer(transpose(reshape(%b.1)), reshape(%a.1))
        %y.1: int8[1, 192, 64] = reshape(requantize(%s.1, …))       # of heads and the tokens of b as channels

    A graph without such products, and one for a device whose elements of activations have several images, stays as it is.
    """
    if target.config.batch > 1 or not any(computed_product(node, graph.constants) for node in graph.nodes):
        return graph
    return _Signals(graph, target.config.block).run()


@dataclass(frozen=True, slots=True, eq=False)
class _Signal:
    """A stand-in for a value of the old graph.

    value  : [images, heads * channels, pixels]
    places : where in the old value its elements are; -1 for channels that fill a head's last block
    heads  : how many matrices of each image lie one after another
    """

    value: Value
    places: Places
    heads: int = 1


class _Signals(Replacing):
    """The graph being made.

    signals : stand-ins for values of the old graph
    packed  : a value of the old graph as the CPU makes a signal of it, by what it is for
    places  : of signals, by what they are for: networks have few shapes, each many times
    """

    def __init__(self, graph: Graph, block: int) -> None:
        super().__init__(graph)
        self.block = block
        self.made_by, self.readers = graph.producers(), graph.consumers()
        self.given = {value for _, value in graph.outputs}
        self.signals: dict[Value, _Signal] = {}
        self.packed: dict[tuple[object, ...], Value] = {}
        self.places: dict[tuple[object, ...], Places] = {}

    def replaces(self, node: Node) -> bool:
        way = _WAYS.get(node.op)
        return way is not None and way(self, node)

    def as_it_was(self, value: Value) -> Value:
        if value in self.signals and value not in self.plain:
            signal, shape = self.signals[value], value.type.shape
            images, channels, pixels = signal.places.shape
            apart = images, signal.heads, channels // signal.heads, pixels
            data = self.made("reshape", signal.value, attrs={"shape": apart}, like=value)
            if apart[2] > shape[-1]:
                data = self.made("slice", data, attrs={"starts": (0,), "ends": (shape[-1],), "axes": (2,)}, like=value)
            data = self.made("transpose", data, attrs={"perm": (0, 1, 3, 2)}, like=value)
            self.plain[value] = self.made("reshape", data, attrs={"shape": shape}, like=value)
        return super().as_it_was(value)

    def _origin(self, value: Value) -> tuple[Value, Places]:
        """Return the value whose elements a value has in another order, the next that has a signal, and their places in it."""
        moves = []
        while value not in self.signals and value in self.made_by and self.made_by[value].op in _MOVES:
            moves.append(self.made_by[value])
            value = moves[-1].reads[0]
        places = np.arange(value.type.size, dtype=np.int64).reshape(value.type.shape)
        for node in reversed(moves):
            places = evaluated(node, [places])
        return value, places

    def _found(self, root: Value, places: Places) -> Value | None:
        """Return [images, channels, pixels] of the elements at these places of a value, if its signal has them so."""
        signal = self.signals.get(root)
        if signal is None or signal.places.shape[::2] != places.shape[::2]:
            return None
        starts = np.flatnonzero(signal.places[0, :, 0] == places[0, 0, 0])
        if not starts.size or starts[0] % self.block:
            return None
        first, end = int(starts[0]), int(starts[0]) + places.shape[1]
        if not np.array_equal(signal.places[:, first:end], places):
            return None
        if end - first == signal.places.shape[1]:
            return signal.value
        return self._once((signal.value, first, end), lambda: self.made(
            "slice", signal.value, attrs={"starts": (first,), "ends": (end,), "axes": (1,)}, like=root))

    def _once(self, key: tuple[object, ...], make: Callable[[], Value]) -> Value:
        if key not in self.packed:
            self.packed[key] = make()
        return self.packed[key]

    def _places(self, of: Callable[..., Places], *sizes: int) -> Places:
        if (of, *sizes) not in self.places:
            self.places[(of, *sizes)] = of(*sizes)
        return self.places[(of, *sizes)]

    def _columns(self, value: Value) -> tuple[Value, int] | None:
        """Return rows [R, C] as a signal [images, C, R / images], and the images; None of what are no rows of tokens."""
        root, places = self._origin(value)
        rows, channels = value.type.shape
        if root in self.signals:
            images = len(self.signals[root].places)
            images = 1 if rows % images else images
            found = self._found(root, places.reshape(images, -1, channels).transpose(0, 2, 1))
            if found is not None:
                return found, images
        elif len(root.type.shape) != _ROWS + 1 or root.type.shape[1] == 1 or root.type.shape[-1] != channels:
            return None
        else:
            images = root.type.shape[0]
        return self._once((value, "columns"), lambda: self._transposed(
            self.made("reshape", self.as_it_was(value), attrs={"shape": (images, rows // images, channels)}, like=value),
            value)), images

    def _transposed(self, made: Value, like: Value) -> Value:
        perm = (*range(len(made.type.shape) - 2), len(made.type.shape) - 1, len(made.type.shape) - 2)
        return self.made("transpose", made, attrs={"perm": perm}, like=like)

    def _heads(self, value: Value, images: int, *, rows: bool, whole: bool) -> Value:
        """Return matrices [..., rows, channels] as a signal of an image's heads, their channels in whole blocks.

        rows  : whether that is the order of the last two dimensions, not [..., channels, rows]
        whole : whether the rows come in whole blocks too
        """
        root, places = self._origin(value)
        *lead, first, last = value.type.shape
        count, channels = (first, last) if rows else (last, first)
        heads = prod(lead) // images
        if channels % self.block == 0:
            split = places.reshape(images, heads, first, last)
            split = split.transpose(0, 1, 3, 2) if rows else split
            found = self._found(root, split.reshape(images, heads * channels, count))
            if found is not None:
                return self._padded(found, (0, 0, -count % self.block if whole else 0), value)

        def pack() -> Value:
            made = self.made("reshape", self.as_it_was(value), attrs={"shape": (images, heads, first, last)}, like=value)
            made = self._transposed(made, value) if rows else made
            made = self._padded(made, (0, 0, -channels % self.block, -count % self.block if whole else 0), value)
            shape = images, heads * made.type.shape[2], made.type.shape[3]
            return self.made("reshape", made, attrs={"shape": shape}, like=value)
        return self._once((value, images, rows, whole), pack)

    def _padded(self, value: Value, behind: tuple[int, ...], like: Value) -> Value:
        if not any(behind):
            return value
        zero = self.constant(np.int8(0), name="zero")
        return self._once((value, behind), lambda: self.made(
            "pad", value, zero, attrs={"pads": (0,) * len(behind) + behind}, like=like))

    def dense(self, node: Node) -> bool:
        """A product of rows of tokens by constant weights."""
        data, weights = node.reads[0], self.graph.constants.get(node.reads[1])
        if len(node.reads) > 2 or weights is None or weights.ndim != _ROWS or len(data.type.shape) != _ROWS or (
                data.type.dtype is not INT8):
            return False
        columns = self._columns(data)
        if columns is None:
            return False
        (signal, images), out = columns, node.outputs[0]
        kernels = self.constant(np.ascontiguousarray(weights.T[:, :, None]), name=node.reads[1].name)
        self._note(out, self.made("conv_integer", signal, kernels, attrs={}, like=out, name=node.name), images)
        return True

    def _note(self, old: Value, made: Value, images: int) -> None:
        """Note rows [R, C] of the old graph as a signal [images, C, R / images]."""
        self.signals[old] = _Signal(made, self._places(_of_rows, images, old.type.size, old.type.shape[-1]))

    def requantize(self, node: Node) -> bool:
        """Requantize a signal, or a product of computed matrices."""
        acc, out = node.reads[0], node.outputs[0]
        if acc in self.signals:
            signal = self.signals[acc]
            made = self.made("requantize", signal.value, *node.reads[1:], attrs=node.attrs, like=out, name=node.name)
            self._note(out, made, len(signal.places))
            return True
        maker = self.made_by.get(acc)
        if maker is None or not computed_product(maker, self.graph.constants):
            return False
        known = [self.graph.constants.get(value) for value in node.reads[1:]]
        vectors = [each for each in known if each is not None and (each == each[:1]).all()]
        a, b = maker.reads[:2]
        if len(vectors) < len(known) or len(maker.reads) > 2 or acc in self.given or len(self.readers[acc]) > 1 or (
                any(not _ROWS <= len(value.type.shape) <= _HEADS or value.type.dtype is not INT8 for value in (a, b))
                or a.type.shape[:-2] != b.type.shape[:-2]):
            return False
        *lead, rows, depth = a.type.shape
        outs = b.type.shape[-1]
        signals = [self.signals[root] for root in (self._origin(a)[0], self._origin(b)[0]) if root in self.signals]
        images = len(signals[0].places) if signals else lead[0] if len(lead) > 1 else 1
        if prod(lead) % images:
            images = 1
        heads, data = prod(lead) // images, self._heads(a, images, rows=True, whole=False)
        weights = self._heads(b, images, rows=False, whole=True)
        inner, whole = blocks(depth, self.block) * self.block, blocks(outs, self.block) * self.block
        split = self.made("reshape", data, attrs={"shape": (images, heads, inner, rows)}, like=a)
        turned = self._transposed(self.made("reshape", weights, attrs={"shape": (images, heads, inner, whole)}, like=b), b)
        sums = self.made("matmul_integer", turned, split, attrs={}, like=acc, name=maker.name)
        numbers = [self.constant(np.full(heads, vector[0], vector.dtype), name=node.name) for vector in vectors]
        made = self.made("requantize", sums, *numbers, attrs=node.attrs, like=out, name=node.name)
        made = self.made("reshape", made, attrs={"shape": (images, heads * whole, rows)}, like=out, name=node.name)
        self.signals[out] = _Signal(made, self._places(_of_heads, images, heads, rows, outs, whole), heads)
        return True

    def lookup(self, node: Node) -> bool:
        """A table of rows of tokens."""
        out = node.outputs[0]
        root, places = self._origin(node.reads[0])
        if root not in self.signals:
            return False
        images = len(self.signals[root].places)
        rows = places.reshape(-1, out.type.shape[-1])
        if len(rows) % images:
            return False
        found = self._found(root, rows.reshape(images, -1, rows.shape[1]).transpose(0, 2, 1))
        if found is None:
            return False
        self._note(out, self.made("lookup", found, node.reads[1], attrs={}, like=out, name=node.name), images)
        return True


def _of_rows(images: int, size: int, channels: int) -> Places:
    """Places of rows of so many channels in the order of signals."""
    return np.arange(size, dtype=np.int64).reshape(images, -1, channels).transpose(0, 2, 1)


def _of_heads(images: int, heads: int, rows: int, outs: int, whole: int) -> Places:
    """Places of a product's matrices in the order of signals, their columns filled up to `whole`."""
    places = np.full((images, heads, whole, rows), -1, np.int64)
    places[:, :, :outs] = np.arange(images * heads * rows * outs).reshape(images, heads, rows, outs).transpose(0, 1, 3, 2)
    return places.reshape(images, -1, rows)


_WAYS: dict[str, Callable[[_Signals, Node], bool]] = {
    "matmul_integer": _Signals.dense, "requantize": _Signals.requantize, "lookup": _Signals.lookup,
}
