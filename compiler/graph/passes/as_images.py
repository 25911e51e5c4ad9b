"""Convolutions of bytes over one or three dimensions, and transposed ones, as convolutions of images.

A signal [N, C, L] is an image of one row. A volume [N, C, D, H, W] is N * D images [N * D, C, H, W]; a convolution reads those
of its depths side by side as channels (`depth_taps`). A transposed convolution has the filters of each phase of its strides, and
their pixels are put between each other once they are bytes (`interleave`). Everything is exact.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.passes.replacing import Replacing
from vtakit.compiler.ir.dtypes import dtype

INT8 = dtype("int8")
_CONV, _TRANSPOSED = "conv_integer", "conv_transpose_integer"
_INT32 = np.iinfo(np.int32)
_VOLUME, _IMAGE, _SIGNAL = 5, 4, 3  # dimensions


def as_images(graph: Graph) -> Graph:
    """With convolutions of images for those of signals and volumes, and for transposed ones that are requantized.

    ::

        %a: int32[1, 64, 1024] = conv_integer(%x, %w, pads=(4, 4))                 # x: int8[1, 64, 1024]
        %y: int8[1, 64, 1024] = requantize(%a, %bias, %multiplier, %shift)

        %x.1: int8[1, 64, 1, 1024] = reshape(%x, shape=(1, 64, 1, 1024))
        %a: int32[1, 64, 1, 1024] = conv_integer(%x.1, %w, pads=(0, 4, 0, 4))
        %y.1: int8[1, 64, 1, 1024] = requantize(%a, %bias, %multiplier, %shift)
        %y: int8[1, 64, 1024] = reshape(%y.1, shape=(1, 64, 1024))
    """
    if not any(node.op == _TRANSPOSED or (node.op == _CONV and len(node.reads[0].type.shape) != _IMAGE) for node in graph.nodes):
        return graph
    return _Images(graph).run()


class _Images(Replacing):
    """The graph being made.

    images : what stands for a signal or volume of the old graph
    phases : of sums of a transposed convolution: their image, sums of weights, strides and pads in front
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.images: dict[Value, Value] = {}
        self.phases: dict[Value, tuple[Value, npt.NDArray[np.int64], tuple[int, ...], tuple[int, ...]]] = {}
        self.readers = graph.consumers()
        self.given = {value for _, value in graph.outputs}

    def replaces(self, node: Node) -> bool:
        way = _WAYS.get(node.op)
        return way is not None and way(self, node)

    def as_it_was(self, value: Value) -> Value:
        if value in self.images and value not in self.plain:
            shape, found = value.type.shape, self.images[value]
            if len(shape) == _VOLUME:
                apart = (shape[0], shape[2], shape[1], *shape[3:])
                found = self.made("reshape", found, attrs={"shape": apart}, like=value)
                self.plain[value] = self.made("transpose", found, attrs={"perm": (0, 2, 1, 3, 4)}, like=value)
            else:
                self.plain[value] = self.made("reshape", found, attrs={"shape": shape}, like=value)
        return super().as_it_was(value)

    def _image(self, value: Value) -> Value:
        """Return images [N, C, H, W] of a value."""
        shape = value.type.shape
        if len(shape) == _IMAGE:
            return self.as_it_was(value)
        if value in self.graph.constants:
            known = self.graph.constants[value]
            if len(shape) == _VOLUME:
                known = known.transpose(0, 2, 1, 3, 4).reshape(shape[0] * shape[2], shape[1], *shape[3:])
            return self.constant(np.ascontiguousarray(known if len(shape) == _VOLUME else known[:, :, None]), name=value.name)
        if value not in self.images:
            found = self.as_it_was(value)
            if len(shape) == _VOLUME:
                found = self.made("transpose", found, attrs={"perm": (0, 2, 1, 3, 4)}, like=value)
                shape = (shape[0] * shape[2], shape[1], *shape[3:])
            else:
                shape = (*shape[:2], 1, shape[2])
            self.images[value] = self.made("reshape", found, attrs={"shape": shape}, like=value)
        return self.images[value]

    def _weight(self, node: Node) -> npt.NDArray[np.int8] | None:
        """Return the constant weights of a convolution of int8 data without zero points."""
        found = self.graph.constants.get(node.reads[1])
        plain = len(node.reads) == 2 and node.reads[0].type.dtype is INT8 and found is not None and found.dtype == np.int8
        return found if plain and node.outputs[0].type.size and node.reads[0].type.size else None

    def conv(self, node: Node) -> bool:
        """`conv_integer` over one or three dimensions."""
        x, weight = node.reads[0], self._weight(node)
        count, groups = len(x.type.shape) - 2, node.attrs.get("groups", 1)
        if weight is None or count not in (1, 3) or (count == 3 and groups > 1):
            return False
        steps, spread, pads = _lists(node, count)
        fill, out = node.attrs.get("fill", 0), node.outputs[0]
        data = self._image(x)
        if count == 1:
            weight, steps, spread, pads = weight[:, :, None], [1, *steps], [1, *spread], [0, pads[0], 0, pads[1]]
        else:
            depth, taps = x.type.shape[2], weight.shape[2]
            if taps > 1 or steps[0] > 1 or pads[0] or pads[3]:
                data = self.made("depth_taps", data, attrs={
                    "depth": depth, "taps": taps, "stride": steps[0], "pads": (pads[0], pads[3]), "dilation": spread[0],
                    "fill": fill}, like=x, name=node.name)
            weight = weight.transpose(0, 2, 1, 3, 4).reshape(len(weight), -1, *weight.shape[3:])
            steps, spread, pads = steps[1:], spread[1:], [*pads[1:3], *pads[4:]]
        packed = self.constant(np.ascontiguousarray(weight), name=node.reads[1].name)
        attrs = {"strides": tuple(steps), "pads": tuple(pads), "dilations": tuple(spread), "groups": groups, "fill": fill}
        self.images[out] = self.made(_CONV, data, packed, attrs=attrs, like=out, name=node.name)
        return True

    def transposed(self, node: Node) -> bool:
        """`conv_transpose_integer` of one or two dimensions, all of which a requantization reads."""
        x, out, weight = node.reads[0], node.outputs[0], self._weight(node)
        count, readers = len(x.type.shape) - 2, self.readers.get(node.outputs[0], [])
        if weight is None or count not in (1, 2) or node.attrs.get("groups", 1) > 1 or out in self.given or len(readers) != 1:
            return False
        steps, spread, pads = _lists(node, count)
        if readers[0].op != "requantize" or max(spread) > 1 or min(pads) < 0 or not all(
                value in self.graph.constants for value in readers[0].reads[1:]):
            return False
        sizes = [*out.type.shape[2:]]
        if count == 1:
            weight, steps, pads, sizes = weight[:, :, None], [1, *steps], [0, pads[0], 0, pads[1]], [1, *sizes]
        filters, zero, front = _by_phases(weight, steps), node.attrs.get("zero", 0), pads[:2]
        less = zero * filters.astype(np.int64).sum((1, 2, 3))
        if np.abs(np.tile(self.graph.constants[readers[0].reads[1]].astype(np.int64), prod(steps)) - less).max() > _INT32.max:
            return False
        data, taps = self._image(x), filters.shape[2:]
        there = data.type.shape[2:]
        behind = [max(0, (size - 1 + cut) // step + 1 - extent)
                  for size, cut, step, extent in zip(sizes, front, steps, there, strict=True)]
        attrs = {"pads": (*[tap - 1 for tap in taps], *behind), "strides": (1, 1), "fill": zero}
        sums = self.made(_CONV, data, self.constant(filters, name=node.reads[1].name), attrs=attrs, like=out, name=node.name)
        self.phases[out] = sums, less, tuple(steps), tuple(front)
        return True

    def requantize(self, node: Node) -> bool:
        """Requantize images; the pixels of phases are interleaved."""
        acc, out = node.reads[0], node.outputs[0]
        if acc not in self.phases:
            return self.elements(node)
        sums, less, steps, front = self.phases[acc]
        bias, *factors = (np.tile(self.graph.constants[value], prod(steps)) for value in node.reads[1:])
        vectors = [self.constant(vector.astype(np.int32), name=node.name) for vector in (bias - less, *factors)]
        made = self.made("requantize", sums, *vectors, attrs=node.attrs, like=out, name=node.name)
        shape = out.type.shape
        sizes = (1, shape[2]) if len(shape) == _SIGNAL else shape[2:]
        made = self.made("interleave", made, attrs={"strides": steps, "pads": front, "sizes": sizes, "channels": shape[1]},
                         like=out, name=node.name)
        (self.images if len(shape) == _SIGNAL else self.plain)[out] = made
        return True

    def elements(self, node: Node) -> bool:
        """An operator on elements, and numbers of each channel, of what is here."""
        shape = node.outputs[0].type.shape
        data = [value for value in node.reads if value.type.shape == shape]
        if len(shape) not in (_SIGNAL, _VOLUME) or not any(value in self.images for value in data):
            return False
        operands = [self._image(value) if value in data else self.as_it_was(value) for value in node.reads]
        self.images[node.outputs[0]] = self.made(node.op, *operands, attrs=node.attrs, like=node.outputs[0], name=node.name)
        return True


def _lists(node: Node, count: int) -> tuple[list[int], list[int], list[int]]:
    """Return a convolution's strides, dilations and pads."""
    def found(word: str, default: int, size: int) -> list[int]:
        known: Any = node.attrs.get(word)
        return [default] * size if known is None else [*known]
    return found("strides", 1, count), found("dilations", 1, count), found("pads", 0, 2 * count)


def _by_phases(weight: npt.NDArray[np.int8], steps: list[int]) -> npt.NDArray[np.int8]:
    """Filters [S * M, C, T, U] of the phases of a transposed convolution's weights [C, M, K, L], the last taps first."""
    depth, filters, *kernel = weight.shape
    taps = [-(-size // step) for size, step in zip(kernel, steps, strict=True)]
    full = np.zeros((depth, filters, taps[0] * steps[0], taps[1] * steps[1]), weight.dtype)
    full[:, :, :kernel[0], :kernel[1]] = weight
    apart = full.reshape(depth, filters, taps[0], steps[0], taps[1], steps[1])[:, :, ::-1, :, ::-1]
    return np.ascontiguousarray(apart.transpose(3, 5, 1, 0, 2, 4).reshape(-1, depth, *taps))


_WAYS: dict[str, Callable[[_Images, Node], bool]] = {
    _CONV: _Images.conv, _TRANSPOSED: _Images.transposed, "requantize": _Images.requantize, "lookup": _Images.elements,
    "scaled_add": _Images.elements, "scaled_sum": _Images.elements,
}
