"""Sums of products of quantized numbers: which node makes them, what a unit of them means, and the same in integers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Node, Value
from vtakit.compiler.graph.passes.quantized.known import INT8, Constants, Quantized, Weight

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sums:
    """Sums that a node makes of int8 data.

    data  : its value in the graph     unit, bias : of each channel, in real numbers; unit is that of 1 in a sum
    shape : of the result
    rows  : of a product of matrices whose rows have been put together: the shape of data as the product takes it
    """

    data: Value
    op: str
    name: str
    unit: Floats
    shape: tuple[int, ...]
    weight: npt.NDArray[np.int8] | None = None
    attrs: dict[str, Any] = field(default_factory=dict)
    bias: Floats | float = 0.0
    rows: tuple[int, ...] | None = None

    @property
    def by_channel(self) -> bool:
        """Return whether dimension 1 of the result has a scale for each of its indices."""
        return self.rows is None or len(self.shape) == 2

    def emit(self, build: Builder, data: Value) -> Value:
        """The sums, of int8 data."""
        if self.rows is not None and data.type.shape != self.rows:
            data = build.one("reshape", data, attrs={"shape": self.rows}, name=self.name)
        weights = () if self.weight is None else (build.constant(self.weight, name=f"{self.name}.weight"),)
        return build.one(self.op, data, *weights, attrs=self.attrs, name=self.name)


class Anchors:
    """The nodes of a graph that make sums of quantized numbers.

    integers : the float values that are there as int8
    readers  : how many read each value
    """

    def __init__(
        self, constants: Constants, producers: Mapping[Value, Node], readers: Mapping[Value, int],
        integers: Mapping[Value, Quantized],
    ) -> None:
        self.constants, self.producers, self.readers, self.integers = constants, producers, readers, integers

    def sums(self, node: Node) -> Sums | None:
        """The sums that a node makes of data in `integers`, a bias added; else None."""
        if node.op == "add":
            return self._with_bias(node)
        there = self.integers.get(node.reads[0]) if node.reads else None
        if there is None:
            return None
        if node.op in ("conv", "conv_transpose"):
            return self._conv(node, self.constants.weight(node.reads[1]), there.scale)
        if node.op in ("gemm", "matmul"):
            return self._product(node, self.constants.weight(node.reads[1]), there.scale)
        return _pool(node, there.scale)

    def qlinear(self, node: Node) -> Sums | None:
        """The sums that QLinearConv or QLinearMatMul makes of int8 without zero points."""
        x, scale, zero, weight, weight_scale, weight_zero = node.reads[:6]
        step = self.constants.of_parameters(scale, zero)
        if step is None or x.type.dtype is not INT8:
            return None
        axis = 0 if node.op == "qlinear_conv" else len(weight.type.shape) - 1
        found = self.constants.quantized(weight, weight_scale, weight_zero, axis)
        if node.op == "qlinear_matmul":
            return self._product(node, found, step)
        sums, bias = self._conv(node, found, step), node.inputs[8] if len(node.inputs) > 8 else None
        if sums is None or bias is None:
            return sums
        known = self.constants.of(bias)
        return None if known is None else replace(sums, bias=known * sums.unit)

    def _with_bias(self, node: Node) -> Sums | None:
        for data, term in (node.reads, node.reads[::-1]):
            known, maker = self.constants.of(term), self.producers.get(data)
            if known is None or maker is None or maker.op == "add" or self.readers.get(data, 0) > 1:
                continue
            sums = self.sums(maker)
            if sums is None or data.type != node.outputs[0].type or known.ndim > len(sums.shape):
                continue
            axis = 1 if sums.rows is None else len(sums.shape) - 1
            shape = (1,) * (len(sums.shape) - known.ndim) + known.shape
            if prod(shape) == shape[axis] and shape[axis] in (1, sums.shape[axis]):
                added = np.broadcast_to(known.astype(np.float64).reshape(-1), sums.unit.shape)
                return replace(sums, bias=sums.bias + added)
        return None

    def _conv(self, node: Node, weight: Weight | None, scale: float) -> Sums | None:
        if weight is None:
            return None
        transposed = node.op == "conv_transpose"
        steps = weight.along(1 if transposed else 0)
        if transposed and node.attrs.get("groups", 1) > 1:  # channels of several groups share an index of the weight
            steps = np.broadcast_to(weight.scale, node.outputs[0].type.shape[1:2]) if weight.scale.size == 1 else None
        if steps is None:
            return None
        return Sums(
            data=node.reads[0], op="conv_transpose_integer" if transposed else "conv_integer", name=node.name, unit=scale * steps,
            shape=node.outputs[0].type.shape, weight=weight.numbers, attrs=dict(node.attrs))

    def _product(self, node: Node, weight: Weight | None, scale: float) -> Sums | None:
        if weight is None or weight.numbers.ndim != 2 or len(node.reads[0].type.shape) < 2 or node.attrs.get("trans_a"):
            return None
        alpha, beta = node.attrs.get("alpha", 1.0), node.attrs.get("beta", 1.0)
        swapped = node.attrs.get("trans_b", False)
        steps = weight.along(0 if swapped else 1)
        if steps is None or alpha <= 0:
            return None
        numbers = np.ascontiguousarray(weight.numbers.T if swapped else weight.numbers)
        bias: Floats | float = 0.0
        if node.op == "gemm" and len(node.reads) > 2:
            known = self.constants.of(node.reads[2])
            if known is None or known.size not in (1, numbers.shape[1]) or known.shape[-1:] not in ((), (1,), numbers.shape[1:]):
                return None
            bias = beta * np.broadcast_to(known.astype(np.float64).reshape(-1), numbers.shape[1:])
        lead = prod(node.reads[0].type.shape[:-1])
        return Sums(
            data=node.reads[0], op="matmul_integer", name=node.name, unit=alpha * scale * steps, shape=node.outputs[0].type.shape,
            weight=numbers, bias=bias, rows=(lead, len(numbers)))


def _pool(node: Node, scale: float) -> Sums | None:
    """The sums of a mean over windows that all have as many elements."""
    shape = node.reads[0].type.shape
    spatial, count = tuple(range(2, len(shape))), len(shape) - 2
    attrs: dict[str, Any] = {"kernel_shape": shape[2:]}
    if node.op == "average_pool":
        pads, strides = node.attrs.get("pads") or (0,) * 2 * count, node.attrs.get("strides") or (1,) * count
        kernel = tuple(node.attrs["kernel_shape"])
        if max(node.attrs.get("dilations") or (1,)) > 1 or (any(pads) and not node.attrs.get("count_include_pad")):
            return None
        places = [(size + pads[at] + pads[at + count] - kernel[at]) // strides[at] + 1 for at, size in enumerate(shape[2:])]
        if tuple(places) != node.outputs[0].type.shape[2:]:
            return None  # a last window hangs over
        attrs = {"kernel_shape": kernel, "strides": tuple(strides), "pads": tuple(pads)}
    elif node.op == "reduce_mean":
        axes = node.attrs.get("axes")
        if count < 1 or axes is None or sorted(axis % len(shape) for axis in axes) != [*spatial]:
            return None
    elif node.op != "global_average_pool":
        return None
    unit = np.full(shape[1], scale / prod(attrs["kernel_shape"]))
    return Sums(data=node.reads[0], op="sum_pool", name=node.name, unit=unit, shape=node.outputs[0].type.shape, attrs=attrs)
