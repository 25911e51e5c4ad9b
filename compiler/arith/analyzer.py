"""The analyzer: simplification, interval and residue analysis, and proofs of index arithmetic."""

import math
from collections.abc import Callable, Mapping

from vtakit.compiler.arith.linear import Linear, constant
from vtakit.compiler.arith.ranges import floor_div, is_index, join, meet, product_bounds, quotient_bounds, type_bounds
from vtakit.compiler.arith.state import ANY, Bounds, Modular
from vtakit.compiler.arith.structures import Structures
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.expr import Expr, IntImm, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.values import unify, wrap

__all__ = ["Analyzer", "Bounds", "Modular"]
_REAL = dtype("float64")
_WHOLE: Mapping[str, Callable[[float], int]] = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "nearbyint": round}


class Analyzer(Structures):
    """Simplify, bound and prove, with what is bound and given of the variables.

    int32 and int64 are the integers: index arithmetic is assumed not to overflow. Other integer types wrap around. A divisor
    is never 0. A variable with ``size=True`` is at least 0.
    """

    def bind(self, var: Var, to: Range | Expr | int) -> None:
        """Bind a variable to a range, or to a value."""
        if not isinstance(to, Range):
            self._set(var, self.linear(wrap(to)))
            return
        first, extent = self.linear(to.min), self.linear(to.extent)
        if not extent.terms and extent.const == 1:
            self._set(var, first)
            return
        atom = self.leaf(var)
        last = first.plus(extent).shifted(-1)
        self.frame.limits[atom] = Bounds(self.linear_bounds(first).lo, self.linear_bounds(last).hi)
        if first.terms or last.terms:
            self.frame.symbolic[atom] = first, last
        else:
            self.frame.symbolic.pop(atom, None)
        removed = self.frame.values.pop(var, None)
        if atom in self.frame.bounds or removed is not None or id(var) in self.frame.linears:
            self.frame.forget()

    def _set(self, var: Var, value: Linear) -> None:
        if var not in self._atoms and var not in self.frame.values:  # nothing that is known mentions it
            lo, hi = self.linear_bounds(value)
            self.frame.values[var] = constant(lo) if lo == hi and isinstance(lo, int) else value
            return
        self.frame.values[var] = value
        self.frame.forget()
        self.settle()

    def learn(self, condition: Expr) -> None:
        """The condition holds from now on (as long as the innermost `given`)."""
        self.assume(self.condition(condition))

    def simplify(self, e: Expr | int) -> Expr:
        """The normal form. Equal index expressions mostly have the same; simplifying it again changes nothing."""
        e = wrap(e)
        if type(e) is IntImm:
            return e
        known = self.frame.results.get(id(e))
        if known is not None:
            return known[1]
        if is_index(e.dtype):
            found = self.emit(self.linear(e), e.dtype)
        elif e.dtype.is_bool and e.dtype.lanes == 1:
            found = self.condition(e)
        else:
            found = self.other(e)
        self.frame.results[id(e)] = e, found
        return found

    def bounds(self, e: Expr | int) -> Bounds:
        """Return an interval that certainly contains the value."""
        e = wrap(e)
        if is_index(e.dtype):
            return self.linear_bounds(self.linear(e))
        if e.dtype.is_bool and e.dtype.lanes == 1:
            e = self.condition(e)
        if isinstance(e, Var):
            return self.atom_bounds(self.leaf(e))
        return self._expr_bounds(e)

    def leaf_bounds(self, e: Expr) -> Bounds:
        return super().leaf_bounds(e) if isinstance(e, Var) else self._expr_bounds(e)

    def _expr_bounds(self, e: Expr) -> Bounds:
        """Return the interval of an expression that is an atom of linear combinations."""
        whole = type_bounds(e.dtype)
        found = ANY
        if isinstance(e, IntImm):
            found = Bounds(e.value, e.value)
        elif isinstance(e, ir.Select | ir.IfThenElse):
            found = join(self.bounds(e.true), self.bounds(e.false))
        elif isinstance(e, ir.Cast) and (e.value.dtype.is_int or e.value.dtype.is_bool):
            found = self.bounds(e.value)
            limit = Bounds(e.dtype.min, e.dtype.max) if e.dtype.is_int or e.dtype.is_bool else ANY
            return found if limit.lo <= found.lo and found.hi <= limit.hi else limit
        elif isinstance(e, ir.Cast) and e.dtype.is_int and (real := self._real_bounds(e.value)) is not None:
            found = Bounds(math.trunc(real.lo), math.trunc(real.hi))
        elif isinstance(e, ir.Binary) and not e.compares and e.dtype.is_int and e.dtype.lanes == 1:
            found = self._binary_bounds(e, self.bounds(e.a), self.bounds(e.b))
        elif isinstance(e, ir.Call) and e.name == "abs" and e.dtype.is_int:
            lo, hi = self.bounds(e.args[0])
            found = Bounds(max(lo, -hi, 0), max(-lo, hi))
        elif isinstance(e, ir.Call) and e.name in ("popcount", "clz") and e.args:
            found = Bounds(0, e.args[0].dtype.bits)
        return found if whole.lo <= found.lo and found.hi <= whole.hi else whole

    def _binary_bounds(self, e: ir.Binary, a: Bounds, b: Bounds) -> Bounds:
        if isinstance(e, ir.Add):
            return Bounds(a.lo + b.lo, a.hi + b.hi)
        if isinstance(e, ir.Sub):
            return Bounds(a.lo - b.hi, a.hi - b.lo)
        if isinstance(e, ir.Mul):
            return product_bounds(a, b)
        if isinstance(e, ir.Min | ir.Max):
            choose = min if isinstance(e, ir.Min) else max
            return Bounds(choose(a.lo, b.lo), choose(a.hi, b.hi))
        if isinstance(e, ir.FloorDiv):
            return quotient_bounds(a, b)
        if isinstance(e, ir.TruncDiv):
            if a.lo >= 0 and b.lo >= 0:
                return quotient_bounds(a, b)
            if isinstance(e.b, IntImm) and e.b.value:
                ends = [-floor_div(-x, abs(b.lo)) if x < 0 else floor_div(x, abs(b.lo)) for x in a]
                return Bounds(*ends) if b.lo > 0 else Bounds(-ends[1], -ends[0])
            most = max(abs(a.lo), abs(a.hi))
            return Bounds(-most, most)
        if isinstance(e, ir.FloorMod):
            found = Bounds(min(b.lo + 1, 0), max(b.hi - 1, 0))
            return Bounds(0, min(a.hi, found.hi)) if a.lo >= 0 and b.lo >= 0 else found
        if isinstance(e, ir.TruncMod):
            most = min(max(abs(b.lo), abs(b.hi)) - 1, max(abs(a.lo), abs(a.hi)))
            return Bounds(0 if a.lo >= 0 else -most, 0 if a.hi <= 0 else most)
        if isinstance(e, ir.BitAnd):
            ends = [x.hi for x in (a, b) if x.lo >= 0]
            return Bounds(0, min(ends)) if ends else ANY
        if isinstance(e, ir.ShiftRight) and b.lo >= 0:
            return Bounds(min(a.lo, 0), max(a.hi, 0) if a.lo < 0 else a.hi)
        return ANY

    def _real_bounds(self, e: Expr) -> Bounds | None:
        """Return the interval of a coordinate in float64 that is never NaN; None for any other expression.

        Rounding to float64 is monotone, so float64 arithmetic on the ends bounds it in between.
        """
        if e.dtype is not _REAL:
            return None
        if isinstance(e, ir.FloatImm):
            return Bounds(e.value, e.value) if math.isfinite(e.value) else None
        if isinstance(e, ir.Cast) and e.value.dtype.is_int and e.value.dtype.lanes == 1:
            limit = Bounds(e.value.dtype.min, e.value.dtype.max)
            lo, hi = meet(self.bounds(e.value), limit)
            return Bounds(float(lo), float(hi))
        if isinstance(e, ir.Call) and e.name in _WHOLE:
            real, whole = self._real_bounds(e.args[0]), _WHOLE[e.name]
            return None if real is None else Bounds(whole(real.lo), whole(real.hi))
        if not isinstance(e, ir.Binary):
            return None
        a, b = self._real_bounds(e.a), self._real_bounds(e.b)
        if a is None or b is None:
            return None
        if isinstance(e, ir.Min | ir.Max | ir.Add | ir.Sub):
            return self._binary_bounds(e, a, b)
        if isinstance(e, ir.Mul | ir.Div) and b.lo == b.hi != 0:
            ends = [end * b.lo if isinstance(e, ir.Mul) else end / b.lo for end in a]
            return Bounds(min(ends), max(ends)) if all(map(math.isfinite, ends)) else None
        return None

    def modular(self, e: Expr | int) -> Modular:
        """Return the residue class ``coeff * k + base`` that contains the value."""
        e = wrap(e)
        return self.linear_modular(self.linear(e)) if is_index(e.dtype) else Modular(1, 0)

    def prove(self, condition: Expr | bool) -> bool:
        """Return true if the condition certainly holds."""
        found = self.condition(wrap(condition))
        return isinstance(found, IntImm) and bool(found.value)

    def prove_equal(self, a: Expr | int, b: Expr | int) -> bool:
        """Return true if two values are certainly equal."""
        x, y = unify(a, b)
        if is_index(x.dtype):
            return self.is_zero(self.linear(x).plus(self.linear(y), -1))
        return ir.same(self.simplify(x), self.simplify(y))
