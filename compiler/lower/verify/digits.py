"""Loop variables taken apart: which values an index takes, all of them, and whether several indices take them independently.

An index of loops that were split and fused is a sum of digits: each is a loop variable (or a sum that itself takes every value
below some extent), divided by something and taken modulo something, times a constant. Digits of one source that do not
overlap are independent; a sum of digits whose factors fit together takes every value from 0 on.
"""

from collections.abc import Iterable, Mapping

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.arith.linear import Atom, Leaf, Linear, Quotient, constant
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.values import const
from vtakit.compiler.ir.walk import divides
from vtakit.compiler.lower.verify.digit import ONE, Digit, Key, Limit, NotAffineError, Values, common_step
from vtakit.compiler.lower.verify.running import Running


class Digits(Running):
    """Indices over loops that run, with the conditions under which their iterations count.

    extents : the running loops' variables; every other variable stands still
    conditions : taken into account where they limit a sum of running variables, found in an index, from above
    overlaps : whether an index may take a value more than once
    divisors : sizes by which an index divides; where one is 0, what is said of its values means nothing
    """

    def __init__(self, analyzer: Analyzer, extents: Mapping[Var, Expr], conditions: Iterable[Expr]) -> None:
        super().__init__(analyzer, extents)
        self._marks: dict[Key, tuple[Linear, list[Limit]]] = {}
        self._sums: dict[Key, tuple[Var, frozenset[Atom]]] = {}
        self.sums: dict[Key, list[Digit]] = {}  # of each sum that has a variable, by that as a source, its own digits
        self.limits: list[Limit] = []
        self.overlaps = False
        self.divisors: list[Linear] = []
        self._others: list[Expr] = []
        for condition in sorted(conditions, key=divides):  # what divides may divide what the others limit
            limit = self._limit(condition)
            if limit is None:
                self._others.append(condition)
            else:
                self.limits.append(limit)

    def left(self) -> list[Expr]:
        """The conditions that no index taken so far has used."""
        return self._others + [limit.condition for limit in self.limits if not limit.used]

    def _limit(self, condition: Expr) -> Limit | None:
        if not isinstance(condition, ir.LT | ir.LE) or not condition.a.dtype.is_int or not condition.b.dtype.is_int:
            return None
        sides = [self.analyzer.linear(self._with_sums(e)) for e in (condition.a, condition.b)]
        for limit in self.limits:
            limit.used = False  # a condition does not use it: the indices do
        difference = sides[0].plus(sides[1], -1)
        moving, still = self.parted(difference)
        if not moving.terms:
            return None
        content = moving.content()
        end = still.scaled(-1)  # sum < end, or sum <= end
        if isinstance(condition, ir.LE):
            end = end.shifted(1)
        if content > 1:
            moving, end = moving.divided(content), self.analyzer.divide_by(end.shifted(content - 1), content)
        return Limit(condition, moving, end)

    # -- one index -------------------------------------------------------------------------------------------------------

    def values(self, index: Expr) -> Values:
        """The values that an index takes; raises NotAffineError."""
        x = self.analyzer.linear(self._with_sums(index))
        moving, still = self.parted(x)
        if not moving.terms:
            return Values(x, ONE, [], [])
        digits, more = self.digits(moving)
        step = common_step(digits)
        count = self._in_a_row([digit._replace(times=digit.times.divided(step)) for digit in digits] if step > 1 else digits)
        first, ends = still.plus(more), []
        sums = moving.divided(step) if step > 1 and not moving.content() % step else moving
        for limit in self.limits:
            if limit.sum.same(sums):
                limit.used = True
                if self.analyzer.at_most(limit.end, count):
                    count = limit.end
                elif not self.analyzer.at_most(count, limit.end):
                    ends.append(still.plus(limit.end, step if sums is not moving else 1))
        return Values(first, count, ends, digits, step)

    def _with_sums(self, e: Expr) -> Expr:
        """The index with a variable of its own for each sum of running loops that is divided, so that it stays one source."""
        e = e.rebuild(self._with_sums)
        if not isinstance(e, ir.FloorDiv | ir.FloorMod):
            return e
        moving, still = self.parted(self.analyzer.linear(e.a))
        if still.terms or still.const or len(self.atoms(moving)) < 2:
            return e
        known = self._sums.get(moving.key)
        if known is None:
            try:
                extent = self.mark(moving)
            except NotAffineError:
                return e
            var = Var("sum", e.dtype)
            known = self._sums[moving.key] = var, self.atoms(moving)
            atom = self.analyzer.leaf(var)
            self.extents[atom] = extent
            self.sums[Linear({atom: 1}, 0).key] = self.digits(moving)[0]
            self.analyzer.bind(var, Range(const(0, e.dtype), self.analyzer.emit(extent, e.dtype)))
        else:
            self.mark(moving)  # it uses the limits again
        return e.replace(a=known[0])

    def mark(self, moving: Linear) -> Linear:
        """Return the number of values that a sum of running variables takes, all from 0 on. Raises NotAffineError for gaps."""
        known = self._marks.get(moving.key)
        if known is None:
            used = [limit for limit in self.limits if limit.used]
            for limit in used:
                limit.used = False
            digits, more = self.digits(moving)
            if more.terms or more.const:
                raise NotAffineError("an offset within a division")
            extent = self._mark(moving, digits)
            known = self._marks[moving.key] = extent, [limit for limit in self.limits if limit.used]
            for limit in used:
                limit.used = True
        for limit in known[1]:
            limit.used = True
        return known[0]

    def _mark(self, moving: Linear, digits: list[Digit]) -> Linear:
        extent = self._in_a_row(digits)
        for limit in self.limits:
            if limit.sum.same(moving):
                limit.used = True
                extent = self._lesser(extent, limit.end)
        return extent

    def _lesser(self, a: Linear, b: Linear) -> Linear:
        if self.analyzer.at_most(b, a):
            return b
        if self.analyzer.at_most(a, b):
            return a
        raise NotAffineError("a limit that may be above or below the loops'")

    def _in_a_row(self, digits: list[Digit]) -> Linear:
        """Return the number of values that the sum takes, all from 0 on. Raises NotAffineError for a sum that leaves some out."""
        span, rest = ONE, sorted(digits, key=lambda d: (bool(d.times.terms), d.times.const))
        while rest:
            for digit in rest:
                exact = self.analyzer.is_zero(digit.times.plus(span, -1))
                if exact or (not digit.times.terms and not span.terms and 0 < digit.times.const <= span.const):
                    self.overlaps = self.overlaps or not exact
                    span = self.analyzer.multiply(digit.times, digit.extent.shifted(-1)).plus(span)
                    rest.remove(digit)
                    break
            else:
                raise NotAffineError("steps that leave values out")
        return span

    # -- digits ----------------------------------------------------------------------------------------------------------

    def digits(self, moving: Linear) -> tuple[list[Digit], Linear]:
        """The digits of a sum, and what stands still after all."""
        found: list[Digit] = []
        groups, rest = self._remainders(moving)
        still = constant(0)
        for times, base, by in groups:
            part, fixed = self.parted(base)
            if any(map(self.moves, by.terms)):
                raise NotAffineError("a divisor that a loop changes")
            if not part.terms:
                still = still.plus(self.analyzer.multiply(self.analyzer.remainder(base, by), times))
                continue
            if not self.analyzer.is_zero(self.analyzer.remainder(fixed, by)):
                raise NotAffineError("an offset within a division")
            found.append(self._remainder(times, part, by))
        still = still.shifted(rest.const)
        terms = dict(rest.terms)
        for limit in self.limits:
            if len(limit.sum.terms) == len(terms) and not groups:
                continue  # the limit of the sum as a whole is the caller's
            k = self._contained(limit.sum, terms)
            if k:
                for atom in limit.sum.terms:
                    del terms[atom]
                found.append(self._whole(constant(k), limit.sum))
        alone = moving.single()  # its limit too is the caller's
        for atom, times in self.by_atom(terms).items():
            found.append(self._loop(atom, ONE) if atom is alone and atom in self.extents else self._term(atom, times))
        return found, still

    def _remainders(self, moving: Linear) -> tuple[list[tuple[Linear, Linear, Linear]], Linear]:
        """``base % by`` in a sum, each with how many times it is taken, sizes too; and the rest."""
        found, rest = self.analyzer.residues(moving)
        groups = [(constant(k), base, by) for k, base, by in found]
        for factor, part in self.by_factor(rest):
            found, left = self.analyzer.residues(part)
            groups += [(factor.scaled(k), base, by) for k, base, by in found]
            rest = rest.plus(self.analyzer.multiply(part.plus(left, -1), factor), -1)
        merged: dict[tuple[Key, Key], tuple[Linear, Linear, Linear]] = {}
        for times, base, by in groups:
            key = base.key, by.key
            merged[key] = (merged[key][0].plus(times) if key in merged else times), base, by
        return [*merged.values()], rest

    def _contained(self, part: Linear, terms: Mapping[Atom, int]) -> int:
        """Return how many times the part is contained in the terms, with all of its own terms; 0 if it is not."""
        if not all(atom in terms for atom in part.terms):
            return 0
        ratios = {divmod(terms[atom], k) for atom, k in part.terms.items()}
        if len(ratios) != 1:
            return 0
        k, odd = ratios.pop()
        return k if not odd and k > 0 else 0

    def _term(self, atom: Atom, times: Linear) -> Digit:
        match atom:
            case Leaf() if atom in self.extents:
                return self._whole(times, Linear({atom: 1}, 0))
            case Quotient():
                part, fixed = self.parted(atom.dividend)
                if any(map(self.moves, atom.divisor.terms)):
                    raise NotAffineError("a divisor that a loop changes")
                if not self.analyzer.is_zero(fixed):
                    raise NotAffineError("an offset within a division")
                return self._quotient(times, part, atom.divisor)
        raise NotAffineError("no sum of the loops' variables, divided and taken modulo something")

    def _loop(self, atom: Atom, times: Linear) -> Digit:
        """A loop's variable."""
        extent = self.extents[atom]
        if any(map(self.moves, extent.terms)):
            raise NotAffineError("a loop as long as another one says")
        assert isinstance(atom, Leaf)
        atoms = next((atoms for var, atoms in self._sums.values() if var is atom.expr), frozenset((atom,)))
        return Digit(times, Linear({atom: 1}, 0).key, atoms, extent, ONE, extent, extent)

    def _whole(self, times: Linear, source: Linear) -> Digit:
        atom = source.single()
        if atom is not None and atom in self.extents:
            digit = self._loop(atom, times)
            for limit in self.limits:
                if limit.sum.same(source):
                    limit.used = True
                    extent = self._lesser(digit.extent, limit.end)
                    digit = digit._replace(total=extent, extent=extent, width=extent)
            return digit
        extent = self.mark(source)
        return Digit(times, source.key, self.atoms(source), extent, ONE, extent, extent)

    def _remainder(self, times: Linear, base: Linear, by: Linear) -> Digit:
        """``base % by``."""
        self._note(by)
        atom = base.single()
        digit = self._term(atom, ONE) if isinstance(atom, Quotient) else self._whole(times, base)
        exact = self.analyzer.is_zero(self.analyzer.remainder(digit.extent, by))  # perhaps no values at all
        if not exact and not self.analyzer.at_most(by, digit.extent):
            raise NotAffineError("a remainder that does not take all its values")
        found = digit._replace(times=times, extent=by, width=by)
        remainder = self.analyzer.remainder(base, by)
        for limit in self.limits:
            if limit.sum.same(remainder):
                limit.used = True
                found = found._replace(extent=self._lesser(found.extent, limit.end))
        return found

    def _quotient(self, times: Linear, base: Linear, by: Linear) -> Digit:
        """``base // by``."""
        self._note(by)
        atom = base.single()
        inner = self._term(atom, ONE) if isinstance(atom, Quotient) else self._whole(times, base)
        exact = self.analyzer.is_zero(self.analyzer.remainder(inner.extent, by))
        extent = self.analyzer.divide(inner.extent if exact else inner.extent.plus(by).shifted(-1), by)
        return inner._replace(times=times, lower=self.analyzer.multiply(inner.lower, by), extent=extent, width=extent)

    def _note(self, by: Linear) -> None:
        if by.terms:
            self.divisors.append(by)
