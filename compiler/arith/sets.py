"""Intervals with symbolic ends: which elements an index touches while loop variables run over their ranges."""

from collections.abc import Mapping
from typing import NamedTuple

from vtakit.compiler.arith.analyzer import Analyzer
from vtakit.compiler.arith.linear import Atom, Extreme, Linear, Product, Quotient, Stride, constant, in_order, mentions
from vtakit.compiler.arith.ranges import is_index
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import binary, maximum, minimum
from vtakit.compiler.ir.values import TRUE, const
from vtakit.compiler.ir.walk import free_vars


class Interval(NamedTuple):
    """``min <= value <= max``."""

    min: Expr
    max: Expr

    def extent(self, analyzer: Analyzer) -> Expr:
        """The number of values, in normal form."""
        return analyzer.simplify(binary(ir.Sub, self.max, self.min) + 1)

    def range(self, analyzer: Analyzer) -> Range:
        """Return the same values as a range."""
        return Range(self.min, self.extent(analyzer))


_Ends = tuple[Linear | None, Linear | None]


def interval(range_: Range, analyzer: Analyzer) -> Interval:
    """The values of a range."""
    return Interval(analyzer.simplify(range_.min), analyzer.simplify(range_.min + range_.extent - 1))


def union(a: Interval, b: Interval, analyzer: Analyzer) -> Interval:
    """The least interval around two."""
    return Interval(analyzer.simplify(minimum(a.min, b.min)), analyzer.simplify(maximum(a.max, b.max)))


def intersect(a: Interval, b: Interval, analyzer: Analyzer) -> Interval:
    """The values in both; empty if its min is above its max."""
    return Interval(analyzer.simplify(maximum(a.min, b.min)), analyzer.simplify(minimum(a.max, b.max)))


def region(e: Expr, relax: Mapping[Var, Range], analyzer: Analyzer, where: Expr = TRUE) -> Interval | None:
    """The interval of an index while some variables run over their ranges and the others stay; None if it has no ends.

    A range may itself depend on variables that are relaxed. The interval holds every value; it is the least one if each
    relaxed variable stands once. Points where a condition does not hold are left out as far as its parts each bound one
    relaxed variable, or the index itself: what a padded read touches.
    """
    if not is_index(e.dtype):
        if not free_vars(e) & set(relax):
            return Interval(e, e)
        lo, hi = analyzer.bounds(e)
        return None if isinstance(lo, float) or isinstance(hi, float) else Interval(const(lo, e.dtype), const(hi, e.dtype))
    relaxed = Relaxed(relax, analyzer)
    limits = [claim for claim in claims(where, analyzer) if claim is not None]
    for claim in limits:
        relaxed.tighten(claim)
    x = analyzer.linear(e)
    least, greatest = relaxed.ends(x)
    for claim in limits:
        low, high = relaxed.limits_of(x, claim)
        least = low if least is None else least if low is None else analyzer.extreme([least, low], True)
        greatest = high if greatest is None else greatest if high is None else analyzer.extreme([greatest, high], False)
    if least is None or greatest is None:
        return None
    return Interval(analyzer.emit(least, e.dtype), analyzer.emit(greatest, e.dtype))


def conjuncts(condition: Expr) -> list[Expr]:
    """The parts of a conjunction."""
    return conjuncts(condition.a) + conjuncts(condition.b) if isinstance(condition, ir.And) else [condition]


def claims(condition: Expr, analyzer: Analyzer) -> list[Linear | None]:
    """A conjunction as combinations that are at least 0; None for a part that is no such thing."""
    found: list[Linear | None] = []
    for part in conjuncts(condition):
        if isinstance(part, ir.LT | ir.LE | ir.EQ) and is_index(part.a.dtype):
            gap = analyzer.linear(part.b).plus(analyzer.linear(part.a), -1)
            found.append(gap.shifted(-1) if isinstance(part, ir.LT) else gap)
            if isinstance(part, ir.EQ):
                found.append(gap.scaled(-1))
        else:
            found.append(None)
    return found


class Relaxed:
    """Eliminates variables from combinations, each by the end of its range that makes the value least or greatest."""

    def __init__(self, relax: Mapping[Var, Range], analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.relax: dict[Atom, tuple[Linear, Linear]] = {}
        for var, dom in relax.items():
            first = analyzer.linear(dom.min)
            self.relax[analyzer.leaf(var)] = first, first.plus(analyzer.linear(dom.extent)).shifted(-1)
        self._moves: dict[Atom, bool] = {}

    def tighten(self, claim: Linear) -> None:
        """Narrows a variable's range by a combination that is at least 0 and in which no other moves."""
        a = self.analyzer
        moving = [atom for atom in claim.terms if self.moves(atom)]
        if len(moving) == 1 and moving[0] in self.relax:
            atom = moving[0]
            first, last = self.relax[atom]
            value = claim.terms[atom]
            end = a.divide_by(claim.plus(Linear({atom: value}, 0), -1), abs(value))
            if value > 0:
                first = a.extreme([first, end.scaled(-1)], True)
            else:
                last = a.extreme([last, end], False)
            self.relax[atom] = first, last

    def limits_of(self, x: Linear, claim: Linear) -> _Ends:
        """The ends of x that a combination sets which is at least 0 and moves as x does, or against it."""
        moving = {atom: value for atom, value in x.terms.items() if self.moves(atom)}
        there = {atom: value for atom, value in claim.terms.items() if self.moves(atom)}
        if len(moving) < 2 or moving.keys() != there.keys():  # of one variable, `tighten` has seen to it
            return None, None
        first = next(iter(moving))
        k, odd = divmod(there[first], moving[first])
        if odd or any(there[atom] != k * value for atom, value in moving.items()):
            return None, None
        end = self.analyzer.divide_by(claim.plus(x, -k), abs(k))  # claim = k * x + rest >= 0
        return (end.scaled(-1), None) if k > 0 else (None, end)

    def moves(self, atom: Atom) -> bool:
        """Return whether the atom's value depends on a relaxed variable."""
        known = self._moves.get(atom)
        if known is None:
            known = self._moves[atom] = mentions(atom, self.relax)
        return known

    def ends(self, x: Linear, depth: int = 0) -> _Ends:
        """The least and greatest value."""
        moving = [atom for atom in x.terms if self.moves(atom)]
        if not moving:
            return x, x
        a = self.analyzer
        groups, rest = a.residues(x)
        low: Linear | None = Linear({atom: value for atom, value in rest.terms.items() if not self.moves(atom)}, rest.const)
        high = low
        for atom in in_order(atom for atom in rest.terms if self.moves(atom)):
            low, high = _add((low, high), self.atom_ends(atom, depth), rest.terms[atom])
        for k, base, by in groups:
            low, high = _add((low, high), self.remainder_ends(base, by, depth), k)
        # ends may depend on other relaxed variables: ranges within ranges
        if low is not None and depth < 8 and any(map(self.moves, low.terms)):
            low = self.ends(low, depth + 1)[0]
        if high is not None and depth < 8 and any(map(self.moves, high.terms)):
            high = self.ends(high, depth + 1)[1]
        return low, high

    def atom_ends(self, atom: Atom, depth: int) -> _Ends:
        a = self.analyzer
        if atom in self.relax:
            return self.relax[atom]
        if isinstance(atom, Stride) and atom.var in self.relax:
            first, last = (end.shifted(-atom.base) for end in self.relax[atom.var])
            return a.divide_by(first.shifted(atom.step - 1), atom.step), a.divide_by(last, atom.step)
        if isinstance(atom, Quotient) and not any(map(self.moves, atom.divisor.terms)) and a.linear_bounds(atom.divisor).lo >= 0:
            d = atom.divisor
            below, above = self.ends(atom.dividend, depth + 1)
            return None if below is None else a.divide(below, d), None if above is None else a.divide(above, d)
        if isinstance(atom, Extreme):
            args = [self.ends(arg, depth + 1) for arg in atom.args]
            low, high = ([arg[at] for arg in args] for at in (0, 1))
            return self._extreme(low, atom.greatest, low=True), self._extreme(high, atom.greatest, low=False)
        if isinstance(atom, Product):
            found = self._product_ends(atom, depth)
            if found is not None:
                return found
        lo, hi = a.atom_bounds(atom)
        return None if isinstance(lo, float) else constant(lo), None if isinstance(hi, float) else constant(hi)

    def _extreme(self, args: list[Linear | None], greatest: bool, *, low: bool) -> Linear | None:
        """The end of an extreme, from the ends of its arguments; an argument without this end may not matter."""
        present = [arg for arg in args if arg is not None]
        bounded = greatest == low  # a maximum is at least each argument, whatever the others are
        if not present or (len(present) < len(args) and not bounded):
            return None
        return present[0] if len(present) == 1 else self.analyzer.extreme(present, greatest)

    def _product_ends(self, atom: Product, depth: int) -> _Ends | None:
        """Return the ends of one moving factor times fixed factors that are not negative; None for other products."""
        moving = [factor for factor in atom.factors if self.moves(factor)]
        if len(moving) != 1:
            return None
        others = constant(1)
        for factor in atom.factors:
            if factor is not moving[0]:
                others = self.analyzer.multiply(others, Linear({factor: 1}, 0))
        if self.analyzer.linear_bounds(others).lo < 0:
            return None
        low, high = self.ends(Linear({moving[0]: 1}, 0), depth + 1)
        multiply = self.analyzer.multiply
        return None if low is None else multiply(low, others), None if high is None else multiply(high, others)

    def remainder_ends(self, base: Linear, by: Linear, depth: int) -> _Ends:
        a = self.analyzer
        if any(map(self.moves, by.terms)):
            lo, hi = a.remainder_bounds(base, by)
            return None if isinstance(lo, float) else constant(lo), None if isinstance(hi, float) else constant(hi)
        low, high = self.ends(base, depth + 1)
        if low is not None and high is not None:
            below = a.divide(low, by)
            if below.same(a.divide(high, by)):  # no wrap within the range
                start = a.multiply(below, by)
                return low.plus(start, -1), high.plus(start, -1)
        if by.terms:
            return constant(0), by.shifted(-1)
        lo, hi = a.remainder_bounds(base, by)
        return constant(int(lo)), constant(int(hi))


def _add(ends: _Ends, part: _Ends, times: int) -> _Ends:
    """``ends + times * part``."""
    low, high = part if times > 0 else part[::-1]
    return (
        None if ends[0] is None or low is None else ends[0].plus(low, times),
        None if ends[1] is None or high is None else ends[1].plus(high, times),
    )


