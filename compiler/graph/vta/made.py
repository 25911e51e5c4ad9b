"""Operators of the accelerator from what graphs have: plain shapes and arrays, and activations that are packed already."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.ir import Array, TensorType
from vtakit.compiler.nn.moves.packed import as_image
from vtakit.compiler.nn.vta.digits import Higher, digits_of
from vtakit.compiler.nn.vta.epilogue import Epilogue, made, shape_of
from vtakit.compiler.nn.vta.layer import Layer
from vtakit.compiler.nn.vta.packing import blocks, identity, pack_vector
from vtakit.compiler.nn.vta.requantize import Requantize
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.language import placeholder
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.insns import Feature
from vtakit.hw.isa.program import UOPS

RESULT = "result"  # of an operator: the stage that has its decisions
MOST_SUM = (1 << 31) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A requantize node's numbers; those of channels as arrays of int64."""

    bias: Array
    multiplier: Array
    shift: Array
    zero_point: int = 0
    low: int = -128
    high: int = 127
    table: tuple[int, ...] | None = None  # what the results become, for -128 to 127

    def ordered(self, order: Array) -> "Numbers":
        """The numbers of the channels in another order; -1 is a channel that only fills a block."""
        def taken(numbers: Array) -> Array:
            return np.where(order < 0, 0, numbers[order])
        return replace(self, bias=taken(self.bias), multiplier=taken(self.multiplier), shift=taken(self.shift))


@dataclass(frozen=True, slots=True, eq=False)
class Skip:
    """A residual: activations, packed, and what each channel of them is multiplied by."""

    tensor: Tensor
    scale: Array


@dataclass(slots=True, eq=False)
class Maker:
    """Makes one operator.

    name      : of it, an identifier that no other operator of the program has
    constants : the values of its parameters, as they are made
    inside    : whether its convolutions leave out products with pads
    between   : whether its convolutions store blocks between products
    """

    target: Target
    name: str
    constants: dict[Tensor, Array] = field(default_factory=dict)
    inside: bool = False
    between: bool = False

    def constant(self, array: Array, scope: str, what: str) -> Tensor:
        """A parameter of a scope's type."""
        kind = self.target.dtype(scope)
        bits = self.target.config.wgt_bits
        most = 1 << bits - 1
        if scope == "wgt" and array.size and (array.min() < -most or array.max() >= most):
            raise VtaError(f"{what} from {array.min()} to {array.max()} do not fit the {bits} bits of this device's weights")
        found = placeholder(array.shape, kind, name=f"{self.name}__{what}")
        self.constants[found] = array.astype(np.int8 if scope == "wgt" else np.int32)
        return found

    def digits(self, array: Array, what: str = "weights") -> tuple[Tensor, tuple[Higher, ...]]:
        """Weights, as digits if they have more bits than the device's: the last digit, and those above it."""
        half = 1 << self.target.config.wgt_bits - 1
        if not array.size or (array.min() >= -half and array.max() < half):
            return self.constant(array, "wgt", what), ()
        *higher, last = digits_of(array, self.target.config.wgt_bits)
        above = [Higher(self.constant(digit.numbers, "wgt", f"{what}_digit{at}"), digit.shift) for at, digit in enumerate(higher)]
        return self.constant(last.numbers, "wgt", what), tuple(above)

    def identity(self, scale: int = 1, what: str = "identity") -> Tensor:
        """One element of weights that keeps every channel, times a scale."""
        return self.constant(identity(self.target, scale), "wgt", what)

    def vector(self, numbers: Array, what: str) -> Tensor:
        """A number for each channel."""
        return self.constant(pack_vector(self.target, numbers), "acc", what)

    def scale(self, numbers: Array, what: str) -> Tensor | int:
        """Return the factors of channels: where the ALU has no MUL, one number if it is the same for all."""
        if self.target.has(Feature.ALU_MUL) or not (numbers == numbers[0]).all():
            return self.vector(numbers, what)
        return int(numbers[0])

    def requantize(self, numbers: Numbers, largest: int) -> Requantize:
        """A requantization of sums of at most `largest`, either way. Raises VtaError where the device is not exact with it."""
        name = f"{self.name}__requant"
        multiplier, shift = _least(numbers.multiplier, numbers.shift)
        try:
            found = Requantize(
                target=self.target, channels=len(numbers.bias), bias=numbers.bias, multiplier=multiplier, shift=shift,
                zero_point=numbers.zero_point, low=numbers.low, high=numbers.high, largest=min(largest, MOST_SUM),
                table=numbers.table, name=name,
            )
        except VtaError as error:  # without a name that no model has
            raise VtaError(str(error).removeprefix(f"{name}: ")) from None
        self.constants[found.parameters] = found.words.astype(self.target.dtype("acc"))
        return found

    def epilogue(self, numbers: Numbers, largest: int, skip: Skip | None = None) -> Epilogue:
        """Return the epilogue of sums of at most `largest`: the residual if there is one, then the requantization."""
        if skip is None:
            return Epilogue(requantize=self.requantize(numbers, largest))
        most = largest + 128 * int(np.abs(skip.scale).max(initial=0))
        return Epilogue(
            add=skip.tensor, add_scale=self.scale(skip.scale, "skip_scale"), requantize=self.requantize(numbers, most),
            identity=None if self.target.has(Feature.ACC_8BIT) else self.identity(1, "skip_identity"),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """An operator that was made.

    value     : its result as [images, blocks, rows, columns, batch, block]
    constants : the values of its parameters
    operands  : stages that only give what it reads another shape, to be computed where that is read
    parts     : operators that make what it reads, or other blocks of the value, by name
    """

    layer: Layer
    value: Tensor
    constants: Mapping[Tensor, Array]
    operands: tuple[Tensor, ...] = ()
    parts: Mapping[str, Layer] = field(default_factory=dict)

    @property
    def layers(self) -> dict[str, Layer]:
        """Return all its operators by name; the one of the result is "result"."""
        return {RESULT: self.layer, **self.parts}

    def schedule(self, s: Schedule) -> None:
        """Schedule its stages in a schedule that has them. Raises VtaError if no part of it fits."""
        for layer in self.layers.values():
            layer.schedule(s)
        for tensor in self.operands:
            s[tensor].compute_inline()

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Return the tensors that its operators read, once each."""
        return tuple(dict.fromkeys(tensor for layer in self.layers.values() for tensor in layer.inputs))

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """Return the tensors that its stages read."""
        return (*self.inputs, *[tensor for operand in self.operands for tensor in operand.op.input_tensors])

    @property
    def view(self) -> Tensor | None:
        """A stage that only gives the result another shape, to be computed where it is read."""
        return None if self.value is self.layer.result else self.value


def _least(multiplier: Array, shift: Array) -> tuple[Array, Array]:
    """Return the same factors with the smallest multipliers, which leave an ALU the most room."""
    multiplier, shift = multiplier.copy(), shift.copy()
    while (even := (multiplier % 2 == 0) & (multiplier > 0) & (shift > 0)).any():
        multiplier, shift = np.where(even, multiplier // 2, multiplier), shift - even
    return multiplier, shift


def identifier(name: str, otherwise: str) -> str:
    """A name as one of an operator, without two underscores in a row, which names of its constants have."""
    plain = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") or otherwise
    return plain if plain.isidentifier() and plain != UOPS else f"n_{plain}"


def packed_shape(target: Target, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of a value [N, C], [N, C, W] or [N, C, H, W] as it lies in the device's memory."""
    batch, block = target.element("inp")
    images, channels, rows, columns = as_image(tuple(shape))
    return blocks(images, batch), blocks(channels, block), rows, columns, batch, block


def viewed(layer: Layer, shape: tuple[int, ...]) -> Tensor:
    """A layer's result in a packed shape, in which it lies in memory already."""
    result, have = layer.result, tuple(shape_of(layer.result))
    if have == shape:
        return result
    name = f"{layer.name}__view"
    if len(have) == len(shape) + 1:  # groups
        per_group = have[2]
        return made(shape, lambda n, c, *at: result(n, c // per_group, c % per_group, *at), name)
    if len(have) == len(shape) + 3:  # groups, each with phases
        per_group, down, across = have[2], have[4], have[6]
        return made(shape, lambda n, c, y, x, b, k: result(
            n, c // per_group, c % per_group, y // down, y % down, x // across, x % across, b, k), name)
    if len(have) == len(shape) + 2:  # phases
        down, across = have[3], have[5]
        return made(shape, lambda n, c, y, x, b, k: result(n, c, y // down, y % down, x // across, x % across, b, k), name)
    rows, columns = shape[2:4]
    assert prod(have) == prod(shape), f"{have} of {layer.name} does not lie in memory as {shape}"
    return made(shape, lambda n, c, y, x, b, k: result(n, (c * rows + y) * columns + x, 0, 0, b, k), name)


def check_words(target: Target) -> None:
    """Raise VtaError for a configuration whose activations, weights and accumulators are not those of quantized networks."""
    cfg = target.config
    have = cfg.inp_bits, cfg.wgt_bits, cfg.acc_bits
    if have[0] not in (2, 4, 8) or have[1] not in (2, 4, 8) or have[2] != 32:
        raise VtaError(
            f"networks have activations and weights of 8, 4 or 2 bits and sums of 32, and this one has activations of {have[0]} "
            f"bits, weights of {have[1]} and sums of {have[2]}: choose one of these"
        )


def pairs(given: Sequence[int] | None, spatial: int, otherwise: int) -> tuple[int, int]:
    """(down, across) of an attribute with a number for each of one or two spatial dimensions, or None."""
    found = tuple(given) if given is not None else (otherwise,) * spatial
    down, across = (otherwise, otherwise, *found)[-2:]
    return down, across


def four_pads(given: Sequence[int] | None, spatial: int) -> tuple[int, int, int, int]:
    """(above, below, left, right) of pads in front of each spatial dimension, then behind each."""
    found = tuple(given) if given is not None else (0,) * (2 * spatial)
    (above, left), (below, right) = pairs(found[:spatial], spatial, 0), pairs(found[spatial:], spatial, 0)
    return above, below, left, right


def largest_sum(weights: Array, axes: tuple[int, ...]) -> int:
    """The greatest sum, either way, that int8 data can give: weights are summed over axes."""
    return 128 * int(np.abs(weights.astype(np.int64)).sum(axis=axes).max(initial=0))


def spatial_of(kind: TensorType) -> int:
    """The number of spatial dimensions of a value."""
    return len(kind.shape) - 2


Attrs = Mapping[str, Any]
