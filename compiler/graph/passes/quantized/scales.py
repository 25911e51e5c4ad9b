"""The integers that stand for real factors in a network in integers, and when they are precise enough."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vtakit.compiler.nn.numbers.fixed import MOST_SHIFT, MULTIPLIER_BITS, fixed_point

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

MOST = 127  # of an activation
SMALL_FACTOR, LARGE_FACTOR = 127, 32767  # the first fits a weight, and so costs a device nothing
SAME = 1 / 8192  # of a quantum of the result
PRECISE, TOLERABLE = 1 / 128, 1 / 4  # of a quantum of the result, by which the greatest activation may be off


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """A requantization's numbers, one for each channel."""

    bias: Ints
    multiplier: Ints
    shift: Ints

    @classmethod
    def of(cls, ratio: Floats, bias: Floats, offset: npt.NDArray[np.int64] | int = 0) -> "Fixed | None":
        """Return the fixed-point form of a ratio of scales and of a bias in accumulators; None if one is out of range.

        ratio  : one accumulator in quanta of the result
        offset : accumulators that are added to the bias, as zero points make them
        """
        whole = np.rint(bias) + offset
        if not (np.isfinite(ratio).all() and (ratio > 0).all() and (np.abs(whole) < 1 << 30).all()):
            return None
        multiplier, shift = fixed_point(ratio, MULTIPLIER_BITS, MOST_SHIFT)
        if (shift < 0).any():
            return None
        return cls(whole.astype(np.int32), multiplier.astype(np.int32), shift.astype(np.int32))


def skip_factors(acc: Floats, skip: float, result: float) -> Ints | None:
    """Return the integers that multiply a residual before it is added to accumulators; None where rounding them loses too much.

    acc : the real value of one accumulator of each channel     skip, result : that of one quantum
    """
    found = np.rint(skip / acc)
    off = MOST * np.abs(found * acc - skip) / result
    if not ((found >= 1) & (found < 1 << 23) & (off <= TOLERABLE)).all():
        return None
    return found.astype(np.int32)


def sum_factors(a: float, b: float, result: float) -> tuple[int, int, float] | None:
    """Integers p and q and a real unit so that ``p * unit`` is next to a and ``q * unit`` to b; None where none is near enough.

    a, b, result : the real value of one quantum

    Factors of 127 at most where they are precise, else of 32767 at most.
    """
    for most, enough in ((SMALL_FACTOR, PRECISE), (LARGE_FACTOR, TOLERABLE)):
        less = np.arange(1, most + 1, dtype=np.float64)
        more = np.rint(less * max(a, b) / min(a, b))
        less, more = less[more <= most], more[more <= most]
        if not less.size:
            continue
        p, q = (more, less) if a >= b else (less, more)
        unit = (a + b) / (p + q)
        off = MOST * (np.abs(p * unit - a) + np.abs(q * unit - b)) / result
        best = int(np.argmax(off <= off.min() + SAME))  # the least of those that stand for the same numbers
        if off[best] <= enough:
            return int(p[best]), int(q[best]), float(unit[best])
    return None
