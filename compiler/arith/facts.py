"""Taking facts into a frame."""

from vtakit.compiler.arith.emitter import Emitter
from vtakit.compiler.arith.linear import Atom, Extreme, Leaf, Linear, Quotient, constant, mentions
from vtakit.compiler.arith.ranges import floor_div, is_index, meet
from vtakit.compiler.arith.state import ANY, INF, Bounds
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.expr import Expr, IntImm
from vtakit.compiler.ir.ops import negate


class Facts(Emitter):
    """Learning conditions. Every condition given here is in normal form."""

    def assume(self, e: Expr, truth: bool = True) -> None:
        """Takes it as true, or as false, in the frame in force."""
        self._assume(e, truth)
        self.settle()

    def settle(self) -> None:
        """Brings the values of variables to normal form again, after something was learnt."""
        sizes = set(map(len, self.frame.floors))
        for _ in range(3):
            changed = False
            for var, value in list(self.frame.values.items()):
                if not value.terms:
                    continue
                free = self._is_sum_of_free(value, var.dtype)
                if free and len(value.terms) not in sizes and self._is_open(value):
                    continue
                lo, hi = self.linear_bounds(value)
                if lo == hi and not isinstance(lo, float):
                    new = constant(lo)
                elif free:
                    continue
                else:
                    new = self.linear(self.emit(value, var.dtype))
                if not new.same(value) and not any(mentions(atom, (self.leaf(var),)) for atom in new.terms):
                    self.frame.values[var] = new
                    changed = True
            if not changed:
                return
            self.frame.forget()

    def _is_open(self, x: Linear) -> bool:
        """Return whether an atom has more than one value."""
        known = self.frame.bounds
        for atom in x.terms:
            low, high = known.get(atom) or self.atom_bounds(atom)
            if low != high:
                return True
        return False

    def _is_sum_of_free(self, x: Linear, dtype: DType) -> bool:
        """Return whether a combination has variables without a value as its only atoms: its normal form is itself."""
        values = self.frame.values
        for atom in x.terms:
            if type(atom) is not Leaf or type(atom.expr) is not ir.Var or atom.expr.dtype is not dtype or atom.expr in values:
                return False
        return True

    def _assume(self, e: Expr, truth: bool) -> None:
        if isinstance(e, IntImm):
            return
        if isinstance(e, ir.Not):
            self._assume(e.a, not truth)
            return
        if isinstance(e, ir.And | ir.Or) and truth == isinstance(e, ir.And):
            self._assume(e.a, truth)
            self._assume(e.b, truth)
            return
        compares = isinstance(e, ir.LT | ir.LE | ir.EQ | ir.NE) and is_index(e.a.dtype)
        if not compares or isinstance(e, ir.EQ | ir.NE):
            self.frame.truths[e] = truth
            other = negate(e)
            if not isinstance(other, ir.Not):
                self.frame.truths[other] = not truth
        if isinstance(e, ir.LT | ir.LE | ir.EQ | ir.NE) and compares:
            gap = self.linear(e.b).plus(self.linear(e.a), -1)
            if isinstance(e, ir.LT):
                gap = gap.shifted(-1)
            if isinstance(e, ir.LT | ir.LE):
                self.assume_nonnegative(gap if truth else gap.scaled(-1).shifted(-1))
            elif truth == isinstance(e, ir.EQ):
                self.assume_zero(gap)
            else:
                self._assume_nonzero(gap)

    def assume_zero(self, x: Linear) -> None:
        """Takes ``x = 0``: a variable in it becomes what the rest says, or a multiple."""
        self.frame.forget()
        groups, rest = self.residues(x)
        if len(groups) == 1 and not rest.terms and not groups[0][2].terms:
            k, base, by = groups[0]
            atom = base.single() or Linear(base.terms, 0).single()
            value, odd = divmod(-rest.const, k)
            if isinstance(atom, Leaf) and isinstance(atom.expr, ir.Var) and not odd:
                self.frame.values[atom.expr] = self.stride(atom, by.const, (value - base.const) % by.const)
                self.frame.forget()
                return
        for atom in sorted(x.terms, key=lambda atom: -atom.order):
            coefficient = x.terms[atom]
            if isinstance(atom, Leaf) and isinstance(atom.expr, ir.Var):
                rest = Linear({a: c for a, c in x.terms.items() if a is not atom}, x.const)
                if abs(coefficient) == 1 and not any(mentions(a, (atom,)) for a in rest.terms):
                    self.frame.values[atom.expr] = rest.scaled(-coefficient)
                    break
                if not rest.terms and rest.const % coefficient == 0:
                    self.frame.values[atom.expr] = Linear({}, -rest.const // coefficient)
                    break
        self.assume_nonnegative(x)
        self.assume_nonnegative(x.scaled(-1))

    def _assume_nonzero(self, x: Linear) -> None:
        lo, hi = self.linear_bounds(x)
        if lo == 0:
            self.assume_nonnegative(x.shifted(-1))
        elif hi == 0:
            self.assume_nonnegative(x.scaled(-1).shifted(-1))

    def assume_nonnegative(self, x: Linear) -> None:
        """Takes ``x >= 0``."""
        self.frame.forget()
        if not x.terms:
            return
        x = x.divided(x.content())
        if len(x.terms) > 1:
            items = x.key[1]
            before = self.frame.floors.get(items)
            if before is None or before < -x.const:
                self.frame.floors[items] = -x.const
                self.frame.facts.append(x)
        for atom, coefficient in x.terms.items():
            rest = Linear({a: c for a, c in x.terms.items() if a is not atom}, x.const)
            high = self.linear_bounds(rest).hi
            if high != INF:
                end = floor_div(high, abs(coefficient))
                self._limit(atom, Bounds(-end, INF) if coefficient > 0 else Bounds(-INF, end))
            if isinstance(atom, Extreme) and atom.greatest == (coefficient < 0):
                for arg in atom.args:
                    self.assume_nonnegative(rest.plus(arg, coefficient))
        self.frame.forget()

    def _limit(self, atom: Atom, limit: Bounds) -> None:
        before = self.frame.limits.get(atom, ANY)
        after = meet(before, limit)
        if after == before:
            return
        self.frame.limits[atom] = after
        self.frame.bounds.pop(atom, None)
        if isinstance(atom, Leaf) and isinstance(atom.expr, ir.Var) and after.lo == after.hi:
            self.frame.values[atom.expr] = constant(int(after.lo))
        if isinstance(atom, Quotient) and atom.by:
            if limit.lo != -INF:
                self.assume_nonnegative(atom.dividend.shifted(-int(limit.lo) * atom.by))
            if limit.hi != INF:
                self.assume_nonnegative(atom.dividend.scaled(-1).shifted(int(limit.hi) * atom.by + atom.by - 1))
