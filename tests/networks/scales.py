"""Scales with which no result lies in the middle of two integers.

Activations have scales ``c / 91`` with ``c`` odd, times a power of two. A result is ``sum * p / q`` with integers, and q is
odd, so that it is no half; the nearest half is ``1 / (2 * q)`` away. In a result of int8, a factor of 16 bits is off by 2**-10 at
most and float32 by 2**-12, so that q up to 151 leaves every correct runtime one result.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

UNIT = Fraction(1, 91)
MOST_RATIO = 151
MOST_FACTOR = 127  # of two operands that are added in integers, exactly
_ODD = (1, 3, 5, 7, 9, 11, 13, 15)


class Scales:
    """Choose scales; any at all if not `exact`."""

    def __init__(self, rng: np.random.Generator, exact: bool) -> None:
        self.rng, self.exact = rng, exact

    def any(self) -> Fraction:
        """Choose a scale for a layer whose weights fit any."""
        if not self.exact:
            return Fraction(float(np.float32(np.exp(self.rng.uniform(-5, -1.5)))))
        return UNIT * int(self.rng.choice(_ODD))

    def of_sum(self, units: Sequence[Fraction], spread: float) -> Fraction | None:
        """Choose a scale for sums of integer multiples of the units; None if there is none.

        spread : about how large the sums are, in real numbers; the scale puts it near 60
        """
        wanted = spread / 60 * float(np.exp(self.rng.uniform(-0.5, 0.5)))
        if not self.exact:
            return Fraction(float(np.float32(wanted)))
        twos = min(_twos(unit / UNIT) for unit in units)
        found = [UNIT * odd * Fraction(2) ** power for odd in _ODD for power in (twos, twos - 1, twos - 2)]
        best = min(found, key=lambda scale: abs(np.log(float(scale) / wanted)))
        denominator = max((unit / best).denominator for unit in units)
        return best if denominator <= MOST_RATIO else None

    def of_product(self, a: Fraction, b: Fraction) -> Fraction | None:
        """Choose a scale for products of two values, which are computed in float32."""
        return self.of_sum([a * b], float(a * b) * 60 * 40)

    def ratio(self, wanted: float) -> Fraction:
        """Choose by what sums of products are divided."""
        if not self.exact:
            return Fraction(max(wanted, 1.0) * float(self.rng.uniform(0.7, 1.4)))
        return Fraction(2 * int(np.clip(wanted / 2, 1, MOST_RATIO // 2)) + 1)

    def residual(self, skip: Fraction, wanted: float) -> tuple[Fraction, Fraction] | None:
        """Choose the scale of a result, and by what its sums are divided, so that a residual is a multiple of their unit."""
        if not self.exact:  # the unit is a hundredth or so off a whole part of the residual's
            scale = self.any()
            factor = max(1, round(wanted * float(skip / scale)))
            ratio = factor * float(scale / skip)
            return scale, Fraction(ratio * (1 + float(self.rng.uniform(-1, 1)) * min(0.01, 0.001 * ratio / factor)))
        twos = _twos(skip / UNIT)
        scale = UNIT * int(self.rng.choice(_ODD)) * Fraction(2) ** twos
        by = (scale / skip).numerator
        times = 2 * int(max(0, min(wanted, MOST_RATIO) / by / 2 - 1)) + 1
        return (scale, Fraction(by * times)) if by * times <= MOST_RATIO else None


def exact_pair(a: Fraction, b: Fraction) -> bool:
    """Return whether two scales are multiples of one unit by factors that integers have room for."""
    ratio = a / b
    return max(ratio.numerator, ratio.denominator) <= MOST_FACTOR


def _twos(number: Fraction) -> int:
    """The power of two in a fraction."""
    up, down = number.numerator, number.denominator
    return (up & -up).bit_length() - (down & -down).bit_length()
