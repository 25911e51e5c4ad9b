"""Real factors as an integer multiplier and a shift, and the requantization that they are for, in NumPy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.hw.isa.insns import REQUANT_PARAMS
from vtakit.hw.isa.requant import rescaled

Ints = npt.NDArray[np.integer[Any]]

MULTIPLIER_BITS = REQUANT_PARAMS.width("multiplier")
MOST_SHIFT = (1 << REQUANT_PARAMS.width("shift")) - 1


def fixed_point(scale: npt.NDArray[np.float64], bits: int, most: int) -> tuple[Ints, Ints]:
    """Return multipliers of `bits` bits and shifts of at most `most`: ``multiplier / 2**shift`` is nearest to each scale.

    A multiplier has fewer bits where the shift would pass `most`.

    A scale that such a multiplier does not reach has a shift below 0.
    """
    _, exponent = np.frexp(scale)
    shift = np.minimum(bits - exponent, most)
    multiplier = np.rint(np.ldexp(scale, shift))
    over = multiplier == 1 << bits  # rounded up to a power of two
    shift, multiplier = shift - over, np.where(over, multiplier / 2, multiplier)
    return multiplier.astype(np.int64), shift.astype(np.int64)


def half(shift: Ints) -> Ints:
    """Return what is added before a shift of up to 62 bits, so that it rounds to the nearest: ``2**shift / 2`` rounded down."""
    found: Ints = (np.int64(1) << shift) >> 1
    return found


def requantized(
    x: Ints, bias: Ints, multiplier: Ints, shift: Ints, zero_point: int | Ints, low: int, high: int
) -> Ints:
    """Return the results of REQUANT, int64; all broadcast against x."""
    found: Ints = np.clip(rescaled(x.astype(np.int64), bias, multiplier, shift, zero_point), low, high)
    return found
