"""Weights of more bits than a device multiplies, as digits of its own weights' type."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.nn.vta.epilogue import made, shape_of
from vtakit.compiler.nn.vta.packing import Ints
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.tensor import Tensor


class Higher(NamedTuple):
    """A digit of weights that is not the last: a tensor of the weights' type.

    shift : bits by which the sums with this digit, and with those before it, are shifted before the next digit's are added
    """

    weights: Tensor
    shift: int


class DigitSums(NamedTuple):
    """The sums of a convolution with a digit of its weights and those before it, and these sums shifted for the next digit."""

    sums: Tensor
    shifted: Tensor
    weights: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Digit:
    """Numbers of few bits, and the bits by which the sums with them are shifted before those with the next digit are added."""

    numbers: Ints
    shift: int


def digits_of(weights: Ints, bits: int) -> tuple[Digit, ...]:
    """Return the digits of integers, the most significant first: the fewest of `bits` bits, signed, that hold all of them.

    ``sum_0 << shift_0``, plus ``sum_1``, the whole ``<< shift_1`` and so on is the sum with the weights. All digits but the
    first few have the weight of a power of ``2**bits``. What is left for the most significant place may be more than one
    digit holds; then several digits, which are not shifted between, add up to it: 8 bits are two digits of 4 from -136 to 119,
    and three up to 127.

    Raises VtaError for digits of one bit, 0 and -1, which hold no positive number.
    """
    if bits < 2:
        raise VtaError("weights of one bit, 0 and -1, are no digits of positive numbers")
    half, given = 1 << bits - 1, weights.astype(np.int64)
    best: list[Digit] | None = None
    lower: list[Digit] = []
    top = given
    while best is None or len(lower) + 1 < len(best):
        places = _sum_of(top, half, bits if lower else 0)
        if best is None or len(places) + len(lower) < len(best):
            best = places + lower
        digit = (top + half & 2 * half - 1) - half
        lower = [Digit(digit, bits if lower else 0), *lower]
        top = top - digit >> bits
    return tuple(best)


def _sum_of(numbers: Ints, half: int, shift: int) -> list[Digit]:
    """Return digits that add up to numbers; the sums with the last of them are shifted."""
    found: list[Digit] = []
    while not found or numbers.any():
        part = np.clip(numbers, -half, half - 1)
        found.append(Digit(part, 0))
        numbers = numbers - part
    return [*found[:-1], Digit(found[-1].numbers, shift)]


def shifts(higher: tuple[Higher, ...]) -> int:
    """Return the ALU passes over a tile that shift sums between digits."""
    return sum(digit.shift > 0 for digit in higher)


def check_digits(what: str, weights: Tensor, higher: tuple[Higher, ...]) -> None:
    """Raise VtaError unless all digits of weights have one shape and type."""
    for digit, _ in higher:
        if shape_of(digit) != shape_of(weights) or digit.dtype is not weights.dtype:
            raise VtaError(f"{what}: digits of its weights are {shape_of(digit)} of {digit.dtype} and {shape_of(weights)} of "
                           f"{weights.dtype}: give them one shape and type")


def digit_sums(
    name: str, higher: tuple[Higher, ...], sums: Callable[[Tensor, Tensor | None, str], Tensor],
) -> tuple[DigitSums, ...]:
    """Return the sums with each of the higher digits.

    sums : of a digit's tensor, the accumulators that they begin with, and a name
    """
    found: list[DigitSums] = []
    for at, (weights, shift) in enumerate(higher):
        own = sums(weights, found[-1].shifted if found else None, f"{name}_digit{at}")
        found.append(DigitSums(own, _shifted(own, shift), weights))
    return tuple(found)


def _shifted(sums: Tensor, shift: int) -> Tensor:
    """Accumulators shifted left."""
    return made(sums.shape, lambda *at: sums(*at) << shift, f"{sums.name}_shifted") if shift else sums


def place_digits(s: Schedule, digits: tuple[DigitSums, ...], out: Stage, at: IterVar) -> None:
    """Compute the sums with higher digits for each tile of a stage."""
    for tensor in dict.fromkeys(tensor for digit in digits for tensor in (digit.sums, digit.shifted)):
        s[tensor].set_scope("acc")
        s[tensor].compute_at(out, at)
