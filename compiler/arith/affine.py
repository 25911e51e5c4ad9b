"""Affine maps: bindings as sums of digits of loops, and the inverse map.

A digit is ``source // lower % extent`` of a source, which is a loop variable or itself a sum of digits without gaps (a
fused loop).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vtakit.compiler.arith.analyzer import Analyzer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.values import wrap


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A loop, counted from 0: that of a variable, or a fused one, which is a sum of digits of others."""

    var: Var | None
    digits: "tuple[Digit, ...]"
    extent: Expr


class Digit(NamedTuple):
    """``scale * (source // lower % extent)``."""

    source: Source
    lower: Expr
    extent: Expr
    scale: Expr


class Sum(NamedTuple):
    """``base + sum of digits``, the digit of the largest scale first: it takes `extent` values, equally far apart."""

    digits: tuple[Digit, ...]
    base: Expr
    extent: Expr


class IterMap(NamedTuple):
    """Bindings as sums of digits.

    sums       : one a binding
    one_to_one : whether no two points of the loops have the same values (no loop variable is left out, none used in part)
    predicates : what of the predicate no extent expresses: conditions on the loop variables that still are to be checked
    ranges     : of the loop variables
    """

    sums: tuple[Sum, ...]
    one_to_one: bool
    predicates: tuple[Expr, ...]
    ranges: Mapping[Var, Range]

    def inverse(self, outputs: Sequence[Expr | int], analyzer: Analyzer) -> dict[Var, Expr]:
        """The loop variables at which the bindings have the given values; one that no binding uses is left out.

        Raises ValueError if there is not one output a binding.
        """
        if len(outputs) != len(self.sums):
            raise ValueError(f"the map has {len(self.sums)} bindings, got {len(outputs)} outputs")
        values: dict[Source, Expr] = {}
        for one, output in zip(self.sums, outputs, strict=True):
            _spread(one.digits, wrap(output) - one.base, values)
        fused = [source for source in values if source.var is None]
        while fused:
            inside = {digit.source for source in fused for digit in source.digits}
            at = next(source for source in fused if source not in inside)  # all of its digits have been seen
            fused.remove(at)
            _spread(at.digits, values[at], values)
            fused += [digit.source for digit in at.digits if digit.source.var is None and digit.source not in fused]
        return {
            source.var: analyzer.simplify(value + self.ranges[source.var].min)
            for source, value in values.items() if source.var is not None
        }


def _spread(digits: tuple[Digit, ...], value: Expr, values: dict[Source, Expr]) -> None:
    """Adds to the sources' values what a sum's value says of them."""
    for at, digit in enumerate(digits):
        found = value // digit.scale
        found = (found % digit.extent if at else found) * digit.lower
        values[digit.source] = values[digit.source] + found if digit.source in values else found
