"""The parts of an index: digits of loop variables, and the conditions that limit their sums."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from vtakit.compiler.arith.linear import Atom, Linear, constant
from vtakit.compiler.ir.expr import Expr

ONE = constant(1)
Key = tuple[int, frozenset[tuple[Atom, int]]]


class Digit(NamedTuple):
    """``times * (source // lower % width)`` where that is below the extent."""

    times: Linear
    source: Key
    atoms: frozenset[Atom]  # the loop variables in the source
    total: Linear  # how many values the source takes
    lower: Linear
    extent: Linear
    width: Linear


class Limit:
    """A condition that says ``sum < end``, and whether an index has used it."""

    def __init__(self, condition: Expr, total: Linear, end: Linear) -> None:
        self.condition, self.sum, self.end = condition, total, end
        self.used = False


class Values(NamedTuple):
    """``first + step * x`` for all x from 0 to number - 1, as far as that is below all `ends`."""

    first: Linear
    number: Linear
    ends: list[Linear]
    digits: list[Digit]
    step: int = 1


def common_step(digits: Iterable[Digit]) -> int:
    """Return the greatest common divisor of a sum's constant steps, else 1: 3 for ``i * 3`` and ``i * 6 + j * 3``."""
    steps = [digit.times for digit in digits]
    return math.gcd(*[times.const for times in steps]) if not any(times.terms for times in steps) else 1


class NotAffineError(Exception):
    """An index that is no sum of digits, or takes not all values of an interval; the argument says what it is."""
