"""Requantization of accumulators to activations: its parameters, their meaning, and the words that the device reads."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.numbers.fixed import MOST_SHIFT, MULTIPLIER_BITS, fixed_point, half, requantized
from vtakit.compiler.nn.vta.arguments import check_target, whole
from vtakit.compiler.nn.vta.packing import Ints, pack_vector
from vtakit.compiler.te.language import placeholder
from vtakit.compiler.te.tensor import Tensor
from vtakit.hw.isa.codec import encode_requant
from vtakit.hw.isa.errors import EncodingError
from vtakit.hw.isa.insns import REQUANT_WORDS, TABLE_BYTES, Feature
from vtakit.hw.isa.published import Ability

Numbers = int | npt.ArrayLike
CHANNEL = ("bias", "multiplier", "shift", "zero_point")  # numbers that each channel has of its own


@dataclass(frozen=True, eq=False, kw_only=True)
class Requantize:
    """``clip(((x + bias) * multiplier + half >> shift) + zero_point, low, high)``, exact in integers.

    half is ``2**shift / 2`` rounded down, so what lies in the middle goes up.

    bias, multiplier, shift, zero_point : a number, or one for each of the channels
    low, high : bounds, within the output's type; its own if they are None
    largest   : the greatest |x| that can occur; only asked for where the device has no REQUANT
    table     : what results become, for each from the least to the greatest; only where the device has LOOKUP

    On a device with REQUANT it costs no cycles, and any numbers will do that its fields hold. Elsewhere it is five ALU passes,
    four where all multipliers are 1. They are exact as long as ``(largest + |bias|) * multiplier + half + |zero_point| *
    2**shift`` fits an accumulator. Where the ALU has one shift for all lanes, all channels have the largest, and multipliers that
    are greater by as much.

    Raises VtaError for numbers that the device cannot hold or that could overflow.
    """

    target: Target
    channels: int
    bias: Numbers = 0
    multiplier: Numbers = 1
    shift: Numbers = 0
    zero_point: Numbers = 0
    low: int | None = None
    high: int | None = None
    largest: int | None = None
    table: tuple[int, ...] | None = None
    name: str = "requant"

    def __post_init__(self) -> None:
        check_target("a requantization", self.target)
        if not isinstance(self.name, str):
            raise VtaError(f"a requantization's name is {self.name!r:.40} and must be text")
        object.__setattr__(self, "channels", whole(f"{self.name}: the number of channels", self.channels, 1))
        for name, enough in (("low", None), ("high", None), ("largest", 0)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(f"{self.name}: {name}", getattr(self, name), enough))
        (least, most), (low, high) = self._bounds, self.clip
        if not least <= low <= high <= most:
            raise VtaError(f"{self.name}: a clip from {low} to {high}: give bounds from {least} to {most}, the lower first")
        for name in CHANNEL:
            self._numbers(name)
        if self.table is not None:
            self._check_table(self.table)
        if self.on_store:
            self._check_fields()
        elif self._needed > self._most:
            raise VtaError(f"{self.name}: this device has no REQUANT, and its ALU could overflow: {self._needed} may occur, and "
                           f"accumulators hold {self._most}; give multipliers of fewer bits, or `largest`, their bound")

    @classmethod
    def by_scale(cls, *, target: Target, scale: npt.ArrayLike, largest: int | None = None, **rest: Any) -> Self:
        """The requantization that multiplies by a positive scale for each channel, in as many bits as the device is exact with.

        A scale that makes less than half of every accumulator may become a multiplier of 0: the values are the zero point.

        Raises VtaError for a scale that is no positive number or too large, and for the reasons of the class.
        """
        check_target("a requantization", target)
        wanted = _scales(scale)
        at_once = target.has(Feature.REQUANT)
        most = MOST_SHIFT if at_once else target.config.acc_bits - 1
        for bits in range(MULTIPLIER_BITS, 0, -1):
            multiplier, shift = _fixed(wanted, bits, most)
            try:
                return cls(target=target, channels=len(wanted), multiplier=multiplier, shift=shift, largest=largest, **rest)
            except VtaError:
                if at_once or bits == 1:
                    raise
        raise AssertionError

    @property
    def on_store(self) -> bool:
        """Return whether REQUANT requantizes, on the way to DRAM."""
        return self.target.has(Feature.REQUANT)

    @property
    def passes(self) -> int:
        """ALU passes over a tile."""
        return 0 if self.on_store else 4 + self.multiplies

    @cached_property
    def multiplies(self) -> bool:
        """Return whether the ALU multiplies: also by 1, if there are channels that only fill a block, and it can make them 0."""
        fills = self.channels % self.target.config.block != 0 and self.target.has(Feature.ALU_MUL)
        return fills or bool((self._alu[0] != 1).any())

    @cached_property
    def one_shift(self) -> int | None:
        """The shift of all channels, for an ALU that takes it from the instruction; None for one that has each lane's own."""
        return None if self.target.isa.has(Ability.VECTOR_SHIFT) else int(self._alu[2].max(initial=0))

    @cached_property
    def _alu(self) -> tuple[Ints, Ints, Ints]:
        """Multiplier, what is added to the product, and shift of each channel, for the ALU."""
        bias, multiplier, shift, zero_point = map(self._numbers, CHANNEL)
        plus = bias * multiplier + half(shift) + (zero_point << shift)
        if self.target.isa.has(Ability.VECTOR_SHIFT):
            return multiplier, plus, shift
        more = shift.max(initial=0) - shift
        return multiplier << more, plus << more, shift + more

    @property
    def elements(self) -> int:
        """Accumulators of each block of channels that hold the parameters, and the table behind them."""
        return REQUANT_WORDS + (self.target.config.table_elements if self.table is not None else 0)

    @cached_property
    def parameters(self) -> Tensor:
        """Return the placeholder of the parameters that the program reads: acc type [blocks, elements, batch, block]."""
        blocks = -(-self.channels // self.target.config.block)
        return placeholder((blocks, self.elements, *self.target.element("acc")), self.target.dtype("acc"), name=self.name)

    @cached_property
    def words(self) -> Ints:
        """The values of `parameters`: with REQUANT those of the ISA, else multiplier, what is added to the product, and shift."""
        fill = (0, -self.channels % self.target.config.block)
        if self.on_store:
            numbers = [np.pad(self._numbers(name), fill) for name in CHANNEL]
            clip = dict(zip(("low", "high"), self.clip, strict=True))
            found = np.array([
                encode_requant(self.target.config, **dict(zip(CHANNEL, map(int, each), strict=True)), **clip)
                for each in zip(*numbers, strict=True)], np.int64).T
        else:
            found = np.stack([np.pad(numbers, fill) for numbers in self._alu])
        bits = self.target.config.acc_bits
        signed = (found + (1 << bits - 1) & (1 << bits) - 1) - (1 << bits - 1)
        packed = np.stack([pack_vector(self.target, word) for word in signed], axis=1)
        if self.table is None:
            return packed
        element = self.target.element("acc")
        held = np.zeros((self.target.config.table_elements, *element), "<i4")
        held.reshape(-1).view(np.int8)[:TABLE_BYTES] = self.table
        return np.concatenate([packed, np.broadcast_to(held, (len(packed), *held.shape))], axis=1)

    def filled(self, x: Ints) -> Ints:
        """Return what channels of accumulators become that only fill the last block."""
        low, high = self.clip
        if self.on_store or self.multiplies:  # by 0
            zero = min(max(0, low), high)
            return np.full_like(x, zero if self.table is None else self.table[zero + TABLE_BYTES // 2])
        found: Ints = np.clip(x >> (self.one_shift or 0), low, high)
        return found

    def reference(self, x: Ints) -> Ints:
        """Return the requantized accumulators [images, channels, …]: the definition."""
        bias, multiplier, shift, zero_point = (
            self._numbers(name).reshape(-1, *[1] * (x.ndim - 2)) for name in CHANNEL)
        found = requantized(x, bias, multiplier, shift, zero_point, *self.clip)
        return found if self.table is None else np.array(self.table)[found + TABLE_BYTES // 2]

    def _numbers(self, name: str) -> Ints:
        given = np.asarray(getattr(self, name))
        if given.dtype.kind not in "iu" or given.shape not in ((), (self.channels,)):
            raise VtaError(f"{self.name}: {name} is of shape {given.shape} and type {given.dtype}: give an integer, or one for "
                           f"each of the {self.channels} channels")
        return np.broadcast_to(given.astype(np.int64), (self.channels,))

    @property
    def clip(self) -> tuple[int, int]:
        """The bounds."""
        least, most = self._bounds
        return least if self.low is None else self.low, most if self.high is None else self.high

    @property
    def _bounds(self) -> tuple[int, int]:
        bits = self.target.config.out_bits
        return -(1 << bits - 1), (1 << bits - 1) - 1

    @property
    def _most(self) -> int:
        """The largest accumulator."""
        return (1 << self.target.config.acc_bits - 1) - 1

    @property
    def _needed(self) -> int:
        """The largest accumulator that the ALU passes may meet; Python's integers, which do not overflow."""
        largest = self._most if self.largest is None else self.largest
        most, longest = 0, int(self._numbers("shift").max(initial=0))
        vectors = self.target.isa.has(Ability.VECTOR_SHIFT)
        for bias, multiplier, shift, zero_point in zip(*(self._numbers(name).tolist() for name in CHANNEL), strict=True):
            if not 0 <= shift < self.target.config.acc_bits or multiplier < 0:
                raise VtaError(f"{self.name}: a multiplier of {multiplier} and a shift of {shift}: give at least 0, and shifts "
                               f"below {self.target.config.acc_bits}")
            needed = (largest + abs(bias)) * multiplier + (1 << shift >> 1) + (abs(zero_point) << shift)
            most = max(most, needed << (0 if vectors else longest - shift))
        return most

    def _check_table(self, table: tuple[int, ...]) -> None:
        least, most = self._bounds
        if not self.target.has(Feature.LOOKUP):
            raise VtaError(f"{self.name}: this device has no table for results: leave the table to the CPU")
        if len(table) != TABLE_BYTES or not least <= min(table) <= max(table) <= most:
            raise VtaError(f"{self.name}: a table of {len(table)} numbers from {min(table, default=0)} to "
                           f"{max(table, default=0)}: give {TABLE_BYTES} from {least} to {most}")

    def _check_fields(self) -> None:
        for name in CHANNEL:
            numbers = self._numbers(name)
            for number in (int(numbers.min(initial=0)), int(numbers.max(initial=0))):
                try:
                    encode_requant(self.target.config, **{name: number})
                except EncodingError as error:
                    raise VtaError(f"{self.name}: {error}") from None


def _scales(given: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """A scale for each channel, or one. Raises VtaError for what is no positive number."""
    try:
        found = np.atleast_1d(np.asarray(given, np.float64))
    except (TypeError, ValueError):
        raise VtaError(f"scales are {given!r:.40} and must be positive numbers") from None
    if found.ndim > 1 or not found.size:
        raise VtaError(f"scales are of shape {found.shape}: give a number, or one for each channel")
    if not (np.isfinite(found).all() and (found > 0).all()):
        raise VtaError(f"a scale of {found[~(found > 0) | ~np.isfinite(found)][0]}: scales are positive numbers")
    return found


def skip_multipliers(scale: npt.ArrayLike, skip_scale: float) -> Ints:
    """Return the multipliers of a residual that is added to accumulators: ``skip_scale / scale`` of each channel, rounded.

    scale      : what one unit of an accumulator means, for each channel; skip_scale : one unit of the residual
    A residual with a zero point needs ``- zero_point * multiplier`` in the bias. An integer m is wrong by 1 part in 2 m at most.

    Raises VtaError for scales that are no positive numbers, and where an integer would be 0 or too large for an accumulator.
    """
    found = np.rint(_scales(skip_scale) / _scales(scale))
    if not ((found >= 1) & (found < 1 << 23)).all():
        raise VtaError(f"the residual's scale {skip_scale} is {found.min():g} to {found.max():g} times that of the accumulators; "
                       "it can be added where it is 1 to 8,388,607 times as large")
    return found.astype(np.int64)


def _fixed(scale: npt.NDArray[np.float64], bits: int, most: int) -> tuple[Ints, Ints]:
    """`fixed_point` of scales that it reaches. Raises VtaError for others."""
    multiplier, shift = fixed_point(scale, bits, most)
    if (shift < 0).any():
        raise VtaError(f"a scale of {scale[shift < 0][0]:g}: a multiplier of {bits} bits reaches {(1 << bits) - 1}")
    return multiplier, shift
