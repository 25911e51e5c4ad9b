"""Conditions in normal form."""

from collections.abc import Iterator
from contextlib import contextmanager

from vtakit.compiler.arith.emitter import add_up
from vtakit.compiler.arith.facts import Facts
from vtakit.compiler.arith.linear import Linear
from vtakit.compiler.arith.ranges import is_index
from vtakit.compiler.arith.state import Frame
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.expr import Expr, IntImm, Var
from vtakit.compiler.ir.ops import all_of, any_of, binary, negate
from vtakit.compiler.ir.values import FALSE, TRUE
from vtakit.compiler.ir.walk import subexpressions

DEEPEST_BRANCH = 3  # of those in which the conditions around are used


class Conditions(Facts):
    """Reads conditions, and what depends on them."""

    @contextmanager
    def given(self, condition: Expr, truth: bool = True) -> Iterator[None]:
        """Facts that hold inside the ``with``: the condition is true (or false); so do bindings made there."""
        condition = self.condition(condition)
        before = self.frame
        self.frame = Frame(before)
        try:
            self.assume(condition, truth)
            yield
        finally:
            self.frame = before

    def choose(self, e: ir.Select | ir.IfThenElse) -> Expr:
        """A select with its parts in normal form, or the branch that is certain."""
        condition = self.condition(e.condition)
        if isinstance(condition, IntImm):
            return self.simplify(e.true if condition.value else e.false)
        true, false = (self._branch(e, branch, condition, truth) for branch, truth in ((e.true, True), (e.false, False)))
        if ir.same(true, false):
            return true
        found: Expr = type(e)(condition, true, false)
        return found

    def _branch(self, e: ir.Select | ir.IfThenElse, branch: Expr, condition: Expr, truth: bool) -> Expr:
        """A branch in normal form, where it is chosen; a select also evaluates the other, whose reads must stay as they are.

        What was worked out outside does not count in a branch, so of branches deep in others the conditions are not used: one
        object may be in all of them.
        """
        if isinstance(e, ir.Select) and _guards(branch):
            branch = self.simplify(branch)
            if _guards(branch):
                return branch
        if self.branches >= DEEPEST_BRANCH:
            return self.simplify(branch)
        self.branches += 1
        try:
            with self.given(condition, truth):
                return self.simplify(branch)
        finally:
            self.branches -= 1

    def condition(self, e: Expr) -> Expr:
        """The normal form of a condition."""
        if type(e) is IntImm:
            return e
        frame = self.frame
        known = frame.conditions.get(id(e))
        if known is not None:
            return known[1]
        found = self._known(e)
        if found is e:
            found = self._known(self._condition(e))
        frame.conditions[id(e)] = e, found
        return found

    def _known(self, e: Expr) -> Expr:
        """True or false if a fact says so, else the condition."""
        truth = self.frame.truths.get(e) if self.frame.truths else None
        return e if truth is None else TRUE if truth else FALSE

    def _condition(self, e: Expr) -> Expr:
        if isinstance(e, ir.And | ir.Or):
            return self._junction(e)
        if isinstance(e, ir.Not):
            inner = self.condition(e.a)
            if isinstance(inner, ir.And):
                return self.condition(any_of(negate(inner.a), negate(inner.b)))
            if isinstance(inner, ir.Or):
                return self.condition(all_of(negate(inner.a), negate(inner.b)))
            other = negate(inner)
            return other if isinstance(other, ir.Not) else self.condition(other)
        if isinstance(e, ir.Select | ir.IfThenElse):
            return self.choose(e)
        if isinstance(e, ir.LT | ir.LE | ir.EQ | ir.NE):
            if is_index(e.a.dtype):
                return self._index_comparison(e)
            return self._other_comparison(e)
        return self.other(e)

    def _index_comparison(self, e: ir.Binary) -> Expr:
        gap = self.linear(e.b).plus(self.linear(e.a), -1)
        if isinstance(e, ir.LT):
            return self.compare(gap.shifted(-1), e.a.dtype)
        if isinstance(e, ir.LE):
            return self.compare(gap, e.a.dtype)
        found = self.equate(gap, e.a.dtype)
        return negate(found) if isinstance(e, ir.NE) else found

    def compare(self, x: Linear, dtype: DType) -> Expr:
        """``x >= 0``."""
        if x.terms:
            x = x.divided(x.content())
            while True:
                shorter = self.low_digits(x, 0)
                if shorter is None:
                    break
                x = shorter[0]
        lo, hi = self.linear_bounds(x)
        if lo >= 0 or (hi >= 0 and self.search(x)):
            return TRUE
        if hi < 0 or self.search(x.scaled(-1).shifted(-1)):
            return FALSE
        key = (x.key, f"0 <= {dtype}")
        known = self.frame.exprs.get(key)
        if known is not None:
            return known
        terms, const = self.emit_terms(x, dtype)
        more = [term for term in terms if term[0] > 0]
        less = [(-k, order, e) for k, order, e in terms if k < 0]
        found = self.frame.exprs[key] = (
            ir.LT(add_up(less, 0, dtype), add_up(more, const + 1, dtype)) if less
            else ir.LE(IntImm(-const, dtype), add_up(more, 0, dtype))
        )
        self.frame.gaps[id(found)] = found, x
        return found

    def equate(self, x: Linear, dtype: DType) -> Expr:
        """``x = 0``."""
        if not x.terms:
            return FALSE if x.const else TRUE
        common = x.content()
        coeff, base = self.linear_modular(x)
        if x.const % common or (base % coeff if coeff else base):
            return FALSE
        x = x.divided(common)
        if self.nonnegative(x.shifted(-1)) or self.nonnegative(x.scaled(-1).shifted(-1)):
            return FALSE
        if self.is_zero(x):
            return TRUE
        if x.terms[min(x.terms, key=lambda atom: atom.order)] < 0:
            x = x.scaled(-1)
        terms, const = self.emit_terms(x, dtype)
        more = [term for term in terms if term[0] > 0]
        less = [(-k, order, e) for k, order, e in terms if k < 0]
        if not more:
            return ir.EQ(add_up(less, 0, dtype), IntImm(const, dtype))
        return ir.EQ(add_up(more, 0, dtype), add_up(less, -const, dtype))

    def _other_comparison(self, e: ir.Binary) -> Expr:
        a, b = self.simplify(e.a), self.simplify(e.b)
        if not a.dtype.is_float and a.dtype.lanes == 1:
            if ir.same(a, b):
                return TRUE if isinstance(e, ir.EQ | ir.LE) else FALSE
            x, y = self.bounds(a), self.bounds(b)
            if isinstance(e, ir.LT | ir.LE):
                if x.hi < y.lo or (x.hi == y.lo and isinstance(e, ir.LE)):
                    return TRUE
                if y.hi < x.lo or (y.hi == x.lo and isinstance(e, ir.LT)):
                    return FALSE
            elif x.hi < y.lo or y.hi < x.lo:
                return TRUE if isinstance(e, ir.NE) else FALSE
        return binary(type(e), a, b)

    def _junction(self, e: ir.And | ir.Or) -> Expr:
        """The parts, each under those before it, without what others imply."""
        kind, conjunction = type(e), isinstance(e, ir.And)
        end = FALSE if conjunction else TRUE
        kept: list[Expr] = []
        before = self.frame
        try:
            for part in _parts(e, kind):
                found = self.condition(part)
                if kept and not _plain(found):  # a minimum, a select … may become simpler where the parts before it hold
                    self.frame = Frame(before)
                    for other in kept:
                        self.assume(other, conjunction)
                    found = self.condition(found)
                    self.frame = before
                for one in _parts(found, kind):
                    if isinstance(one, IntImm):
                        if one.value == end.value:
                            return end
                    elif self._take(one, kept, conjunction):
                        return end
        finally:
            self.frame = before
        return (all_of if conjunction else any_of)(*kept)

    def _take(self, e: Expr, kept: list[Expr], conjunction: bool) -> bool:
        """Adds a part to the others unless they imply it, without those that it implies; whether they exclude each other."""
        gap = self._gap(e, conjunction)
        at = 0
        while at < len(kept):
            other = kept[at]
            there = None if gap is None else self._gap(other, conjunction)
            if gap is None or there is None:
                if ir.same(e, other):
                    return False
                if ir.same(e, negate(other)):
                    return True
            elif not gap.terms.keys().isdisjoint(there.terms):  # else neither can imply the other, or its ends would decide it
                if self._implies(there, gap):
                    return False
                if self._implies(there, gap.scaled(-1).shifted(-1)):
                    return True
                if self._implies(gap, there) and not any(map(_guards, [*kept[at + 1:], e])):
                    del kept[at]
                    continue
            at += 1
        kept.append(e)
        return False

    def _implies(self, x: Linear, y: Linear) -> bool:
        """Return whether ``x >= 0`` implies ``y >= 0`` because y is at least x."""
        return self.linear_bounds(y.plus(x, -1)).lo >= 0

    def _gap(self, e: Expr, truth: bool = True) -> Linear | None:
        """The combination that is at least 0 where an inequality in normal form is true, or false."""
        if not isinstance(e, ir.LT | ir.LE) or not is_index(e.a.dtype):
            return None
        known = self.frame.gaps.get(id(e))
        if known is None:
            gap = self.linear(e.b).plus(self.linear(e.a), -1)
            known = self.frame.gaps[id(e)] = e, gap.shifted(-1) if isinstance(e, ir.LT) else gap
        return known[1] if truth else known[1].scaled(-1).shifted(-1)


def _plain(e: Expr) -> bool:
    """Return whether an expression is a comparison of sums, which is simplified only if it is decided."""
    return isinstance(e, Var | IntImm) or (
        isinstance(e, ir.Add | ir.Sub | ir.Mul | ir.LT | ir.LE | ir.And | ir.Or) and all(map(_plain, (e.a, e.b)))
    )


def _parts(e: Expr, kind: type[Expr]) -> list[Expr]:
    if isinstance(e, kind) and isinstance(e, ir.And | ir.Or):
        return _parts(e.a, kind) + _parts(e.b, kind)
    return [e]


def _guards(e: Expr) -> bool:
    """Return whether an expression may need a condition before it: it reads memory, calls or divides."""
    return any(
        isinstance(node, ir.Load | ir.ProducerLoad | ir.Call | ir.FloorDiv | ir.FloorMod | ir.TruncDiv | ir.TruncMod)
        and not (isinstance(node, ir.Binary) and isinstance(node.b, IntImm)) for node in subexpressions(e)
    )
