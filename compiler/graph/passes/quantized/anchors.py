"""Sums of products of quantized numbers: which node makes them, what a unit of them means, and the same in integers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Node, Value
from vtakit.compiler.graph.passes.quantized.known import Constants, QParams, Quantized, Weight

Floats = npt.NDArray[np.float64]
_INT8 = np.iinfo(np.int8)
AFFINE = ("add", "sub", "mul", "div", "batch_norm")
_FILTERS = {"conv_integer": 0, "matmul_integer": 1}  # the axis of a weight along which its filters lie


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sums:
    """Sums that a node makes of int8 data.

    data   : its value in the graph     unit, bias : of each channel, in real numbers; unit is that of 1 in a sum
    shape  : of the result
    zero   : zero point of the data
    weight : less its zero points
    taps   : sum of the weights of each channel
    rows   : of a product of matrices whose rows have been put together: the shape of data as the product takes it
    second : of a product of matrices both of which are computed: the second one
    """

    data: Value
    op: str
    name: str
    unit: Floats
    shape: tuple[int, ...]
    zero: int
    taps: npt.NDArray[np.int64]
    weight: npt.NDArray[np.int16] | None = None
    attrs: dict[str, Any] = field(default_factory=dict)
    bias: Floats | float = 0.0
    rows: tuple[int, ...] | None = None
    second: Quantized | None = None

    @property
    def by_channel(self) -> bool:
        """Return whether dimension 1 of the result has a scale for each of its indices."""
        return self.rows is None or len(self.shape) == 2

    @property
    def offset(self) -> npt.NDArray[np.int64]:
        """Return what is added to the sums of each channel so that they are of data less its zero point."""
        return -self.zero * self.taps

    def times(self, factor: Floats, term: Floats) -> "Sums | None":
        """Return the sums times a factor of each channel, and a term added; None of pools by a factor of 0 or below.

        A unit is positive: weights of channels with a factor below 0 change their signs, those with a factor of 0 are 0.
        """
        if not (np.isfinite(factor).all() and np.isfinite(term).all()):
            return None
        unit = self.unit * np.where(factor == 0, 1, np.abs(factor))
        scaled = replace(self, unit=unit, bias=self.bias * factor + term)
        if (factor > 0).all():
            return scaled
        if self.weight is None or self.op not in _FILTERS:
            return None
        sign = np.sign(factor).astype(np.int16)
        along = [-1 if axis == _FILTERS[self.op] else 1 for axis in range(self.weight.ndim)]
        return replace(scaled, weight=self.weight * sign.reshape(along), taps=self.taps * sign)

    def emit(self, build: Builder, data: Value) -> Value:
        """The sums, of int8 data, its zero point not taken off but by a transposed convolution, whose holes have none."""
        if self.rows is not None and data.type.shape != self.rows:
            data = build.one("reshape", data, attrs={"shape": self.rows}, name=self.name)
        attrs = dict(self.attrs)
        if self.zero and self.op == "conv_transpose_integer":
            attrs["zero"] = self.zero
        elif self.zero and any(attrs.get("pads") or ()):
            attrs["fill"] = self.zero
        if self.second is not None:
            zeros = [build.constant(np.int8(zero), name=f"{self.name}.zero") for zero in (self.zero, self.second.params.zero)]
            return build.one(self.op, data, self.second.value, *(zeros if any(map(build.constants.get, zeros)) else []),
                             name=self.name)
        if self.weight is None:
            return build.one(self.op, data, attrs=attrs, name=self.name)
        found: Value | None = None
        for x, weight in self._narrow(build, data):
            part = build.one(self.op, x, build.constant(weight, name=f"{self.name}.weight"), attrs=attrs, name=self.name)
            found = part if found is None else build.one("add", found, part, name=self.name)
        assert found is not None, self.name
        return found

    def _narrow(self, build: Builder, data: Value) -> list[tuple[Value, npt.NDArray[np.int8]]]:
        """Data and int8 weights whose sums add up to the sums.

        What is beyond int8 is multiplied by a second copy of the data's channels that it is for, and of groups in sums of its
        own.
        """
        assert self.weight is not None
        rest, parts, read = self.weight, [], [data]
        axis = 1 if self.op == "conv_integer" else 0  # of the weight, along the data's channels
        while True:
            parts.append(np.clip(rest, _INT8.min, _INT8.max).astype(np.int8))
            rest = rest - parts[-1]
            beyond = np.flatnonzero(rest.any(tuple([at for at in range(rest.ndim) if at != axis])))
            if not beyond.size:
                break
            if self.attrs.get("groups", 1) > 1:
                read.append(data)
                continue
            first, end = int(beyond[0]), int(beyond[-1]) + 1
            rest = rest.take(range(first, end), axis)
            read.append(build.one("slice", read[-1], attrs={"starts": (first,), "ends": (end,), "axes": (1,)},
                                  name=f"{self.name}.again"))
        if len(read) > 1 and self.attrs.get("groups", 1) == 1:
            read = [build.one("concat", *read, attrs={"axis": 1}, name=f"{self.name}.twice")]
            parts = [np.concatenate(parts, axis)]
        return [(x, np.ascontiguousarray(part)) for x, part in zip(read, parts, strict=True)]


class Anchors:
    """The nodes of a graph that make sums of quantized numbers.

    integers : float values that are there as int8, with their quantization parameters
    readers  : how many read each value
    """

    def __init__(
        self, constants: Constants, producers: Mapping[Value, Node], readers: Mapping[Value, int],
        integers: Mapping[Value, Quantized],
    ) -> None:
        self.constants, self.producers, self.readers, self.integers = constants, producers, readers, integers

    def sums(self, node: Node) -> Sums | None:
        """The sums that a node makes of data in `integers`, a bias added; else None."""
        if node.op in AFFINE:
            return self._affine(node)
        there = self.integers.get(node.reads[0]) if node.reads else None
        if there is None:
            return None
        if node.op in ("conv", "conv_transpose"):
            return self._conv(node, self.constants.weight(node.reads[1]), there.params)
        if node.op == "matmul" and node.reads[1] in self.integers:
            return _computed(node, there.params, self.integers[node.reads[1]])
        if node.op in ("gemm", "matmul"):
            return self._product(node, self.constants.weight(node.reads[1]), there.params)
        return _pool(node, there.params)

    def qlinear(self, node: Node) -> Sums | None:
        """The sums that QLinearConv or QLinearMatMul makes."""
        x, scale, zero, weight, weight_scale, weight_zero = node.reads[:6]
        step = self.constants.params_of(scale, zero, x.type.dtype)
        if step is None:
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

    def _affine(self, node: Node) -> Sums | None:
        """Sums by which constants of each channel are multiplied, or to which they are added."""
        for data, factor, term in self._constants(node):
            maker = self.producers.get(data)
            if maker is None or self.readers.get(data, 0) > 1 or data.type != node.outputs[0].type:
                continue
            sums = self.sums(maker)
            by, more = (None if sums is None else _by_channel(sums, known) for known in (factor, term))
            if sums is not None and by is not None and more is not None:
                return sums.times(by, more)
        return None

    def _constants(self, node: Node) -> Iterator[tuple[Value, Floats, Floats]]:
        """The ways to see a node as ``data * factor + term`` with constants that broadcast to its result."""
        one, none = np.ones(()), np.zeros(())
        if node.op == "batch_norm":
            vectors = [self.of(value) for value in node.reads[1:]]
            known = [each.reshape(-1, *[1] * (len(node.reads[0].type.shape) - 2)) for each in vectors if each is not None]
            if len(known) == len(vectors):
                scale, bias, mean, var = known
                factor = scale / np.sqrt(var + node.attrs["epsilon"])
                yield node.reads[0], factor, bias - mean * factor
            return
        a, b = node.reads
        for data, other, first in ((a, b, True), (b, a, False)):
            found = self.of(other)
            if found is None:
                continue
            if node.op == "add":
                yield data, one, found
            elif node.op == "sub":
                yield (data, one, -found) if first else (data, -one, found)
            elif node.op == "mul":
                yield data, found, none
            elif first and found.all():
                yield data, 1 / found, none

    def of(self, value: Value) -> Floats | None:
        """A constant in float64."""
        known = self.constants.of(value)
        return None if known is None else known.astype(np.float64)

    def _conv(self, node: Node, weight: Weight | None, params: QParams) -> Sums | None:
        transposed = node.op == "conv_transpose"
        if weight is None:
            return None
        steps = weight.along(1 if transposed else 0)
        if transposed and node.attrs.get("groups", 1) > 1:  # channels of several groups share an index of the weight
            steps = np.broadcast_to(weight.scale, node.outputs[0].type.shape[1:2]) if weight.scale.size == 1 else None
        if steps is None:
            return None
        axes = tuple(range(1, weight.numbers.ndim))
        taps = np.zeros(steps.shape, np.int64) if transposed else weight.numbers.sum(axes, dtype=np.int64)
        return Sums(
            data=node.reads[0], op="conv_transpose_integer" if transposed else "conv_integer", name=node.name,
            unit=params.scale * steps, shape=node.outputs[0].type.shape, zero=params.zero, taps=taps,
            weight=weight.numbers, attrs=dict(node.attrs))

    def _product(self, node: Node, weight: Weight | None, params: QParams) -> Sums | None:
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
            data=node.reads[0], op="matmul_integer", name=node.name, unit=alpha * params.scale * steps,
            shape=node.outputs[0].type.shape, zero=params.zero, taps=numbers.sum(0, dtype=np.int64), weight=numbers, bias=bias,
            rows=(lead, len(numbers)))


def _computed(node: Node, first: QParams, second: Quantized) -> Sums | None:
    """The sums of a product of matrices both of which are computed; `emit` takes their zero points off."""
    shape = node.outputs[0].type.shape
    if min(len(value.type.shape) for value in node.reads) < 2:
        return None
    channels = shape[1]
    return Sums(
        data=node.reads[0], op="matmul_integer", name=node.name, unit=np.full(channels, first.scale * second.params.scale),
        shape=shape, zero=first.zero, taps=np.zeros(channels, np.int64), second=second)


def _by_channel(sums: Sums, known: Floats) -> Floats | None:
    """Constants that broadcast to the result of sums as one number for each channel; None if they differ within one."""
    axis = 1 if sums.rows is None else len(sums.shape) - 1
    shape = (1,) * (len(sums.shape) - known.ndim) + known.shape
    if len(shape) > len(sums.shape) or prod(shape) != shape[axis] or shape[axis] not in (1, sums.shape[axis]):
        return None
    return np.broadcast_to(known.reshape(-1), sums.unit.shape)


def _pool(node: Node, params: QParams) -> Sums | None:
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
    count = prod(attrs["kernel_shape"])
    return Sums(
        data=node.reads[0], op="sum_pool", name=node.name, unit=np.full(shape[1], params.scale / count),
        shape=node.outputs[0].type.shape, zero=params.zero, taps=np.full(shape[1], count), attrs=attrs)
