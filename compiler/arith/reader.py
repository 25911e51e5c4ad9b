"""Index expressions as linear combinations."""

from collections.abc import Callable
from typing import Any

from vtakit.compiler.arith.conditions import Conditions
from vtakit.compiler.arith.linear import Atom, Leaf, Linear, factors
from vtakit.compiler.arith.ranges import is_index
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr, IntImm


class Reader(Conditions):
    """Reads expressions of an index type."""

    def linear(self, e: Expr) -> Linear:
        """The combination of an expression of an index type."""
        known = self.frame.linears.get(id(e))
        if known is not None:
            return known[1]
        terms: dict[Atom, int] = {}
        const = self._gather(e, 1, terms, 0)
        found = Linear({atom: value for atom, value in terms.items() if value}, const)
        self.frame.linears[id(e)] = e, found
        return found

    def _gather(self, e: Expr, scale: int, terms: dict[Atom, int], depth: int) -> int:
        """Adds ``scale * e`` to the terms; returns the constant.

        depth : of sums around `e`. A deep one is remembered by itself, as it may be one object in many places
        """
        if isinstance(e, _SUMS) and depth < _DEEP_SUM:
            second = scale if type(e) is ir.Add else -scale
            return self._gather(e.a, scale, terms, depth + 1) + self._gather(e.b, second, terms, depth + 1)
        if type(e) is IntImm:
            value: int = e.value
            return scale * value
        if type(e) is ir.Mul:
            if type(e.b) is IntImm:
                return self._gather(e.a, scale * e.b.value, terms, depth)
            if type(e.a) is IntImm:
                return self._gather(e.b, scale * e.a.value, terms, depth)
        if type(e) is ir.Var and e not in self.frame.values:
            atom = self._atoms.get(e) or self.leaf(e)
            terms[atom] = terms.get(atom, 0) + scale
            return 0
        found = self.linear(e) if isinstance(e, _SUMS) else self._compound(e)
        for atom, value in found.terms.items():
            terms[atom] = terms.get(atom, 0) + scale * value
        return scale * found.const

    def _compound(self, e: Expr) -> Linear:
        known = self.frame.linears.get(id(e))
        if known is not None:
            return known[1]
        read = _READ.get(type(e))
        found = read(self, e) if read is not None else self._opaque(e)
        self.frame.linears[id(e)] = e, found
        return found

    def _opaque(self, e: Expr) -> Linear:
        """An expression that is an atom once its parts are in normal form."""
        new = e.rebuild(self.simplify)
        return Linear({self.leaf(new): 1}, 0)

    def _mul(self, e: ir.Mul) -> Linear:
        a, b = self.linear(e.a), self.linear(e.b)
        if len(a.terms) * len(b.terms) > _MOST_TERMS or _degree(a) + _degree(b) > _MOST_FACTORS:
            return self._opaque(e)
        return self.multiply(a, b)

    def _floordiv(self, e: ir.Binary) -> Linear:
        d = self.linear(e.b)
        return self.divide(self.linear(e.a), d) if d.terms or d.const else self._opaque(e)

    def _floormod(self, e: ir.Binary) -> Linear:
        d = self.linear(e.b)
        return self.remainder(self.linear(e.a), d) if d.terms or d.const else self._opaque(e)

    def _truncdiv(self, e: ir.Binary) -> Linear:
        a, b = self.linear(e.a), self.linear(e.b)
        for x, xs in ((a, 1), (a.scaled(-1), -1)):
            for y, ys in ((b, 1), (b.scaled(-1), -1)):
                if self.nonnegative(x) and self.nonnegative(y) and (y.terms or y.const):
                    return self.divide(x, y).scaled(xs * ys)
        return self._opaque(e)

    def _truncmod(self, e: ir.Binary) -> Linear:
        a, b = self.linear(e.a), self.linear(e.b)
        for x, sign in ((a, 1), (a.scaled(-1), -1)):
            for y in (b, b.scaled(-1)):
                if self.nonnegative(x) and self.nonnegative(y) and (y.terms or y.const):
                    return self.remainder(x, y).scaled(sign)
        return self._opaque(e)

    def _min(self, e: ir.Min) -> Linear:
        return self.extreme([self.linear(e.a), self.linear(e.b)], False)

    def _max(self, e: ir.Max) -> Linear:
        return self.extreme([self.linear(e.a), self.linear(e.b)], True)

    def _shift_left(self, e: ir.ShiftLeft) -> Linear:
        count = self.linear(e.b)
        if count.terms or not 0 <= count.const < e.dtype.bits:
            return self._opaque(e)
        return self.linear(e.a).scaled(1 << count.const)

    def _shift_right(self, e: ir.ShiftRight) -> Linear:
        count = self.linear(e.b)
        if count.terms or not 0 <= count.const < e.dtype.bits:
            return self._opaque(e)
        return self.divide_by(self.linear(e.a), 1 << count.const)

    def _bit_and(self, e: ir.BitAnd) -> Linear:
        a, b = self.linear(e.a), self.linear(e.b)
        if not a.terms:
            a, b = b, a
        if b.terms or b.const < 0 or b.const & b.const + 1:
            return self._opaque(e)
        return a.plus(self.divide_by(a, b.const + 1), -b.const - 1)

    def _cast(self, e: ir.Cast) -> Linear:
        source = e.value.dtype
        if is_index(source) and source.bits <= e.dtype.bits:
            return self.linear(e.value)
        if is_index(source):
            value = self.linear(e.value)
            narrow = all(isinstance(atom, Leaf) and atom.expr.dtype.bits <= e.dtype.bits for atom in value.terms)
            lo, hi = self.linear_bounds(value)
            if narrow and (value.single() or (e.dtype.min <= lo and hi <= e.dtype.max)):
                return value
        return self._opaque(e)

    def _reduce(self, e: ir.Reduce) -> Linear:
        return Linear({self.leaf(self.other(e)): 1}, 0)

    def _choice(self, e: Any) -> Linear:
        chosen = self.choose(e)
        return Linear({self.leaf(chosen): 1}, 0) if isinstance(chosen, ir.Select | ir.IfThenElse) else self.linear(chosen)

    def _let(self, e: ir.Let) -> Linear:
        found = self.other(e)
        return Linear({self.leaf(found): 1}, 0) if isinstance(found, ir.Let) else self.linear(found)


_SUMS = (ir.Add, ir.Sub)
_DEEP_SUM = 8
_MOST_TERMS, _MOST_FACTORS = 16, 6  # of a product that is multiplied out


def _degree(x: Linear) -> int:
    """The number of factors in the longest product of a combination."""
    return max([len(factors(atom)) for atom in x.terms], default=0)


_READ: dict[type[Expr], Callable[[Any, Any], Linear]] = {
    ir.Mul: Reader._mul, ir.FloorDiv: Reader._floordiv, ir.FloorMod: Reader._floormod, ir.TruncDiv: Reader._truncdiv,
    ir.TruncMod: Reader._truncmod, ir.Min: Reader._min, ir.Max: Reader._max, ir.ShiftLeft: Reader._shift_left,
    ir.ShiftRight: Reader._shift_right, ir.BitAnd: Reader._bit_and, ir.Cast: Reader._cast, ir.Select: Reader._choice,
    ir.IfThenElse: Reader._choice, ir.Let: Reader._let, ir.Reduce: Reader._reduce,
    ir.Var: lambda self, e: self.frame.values[e],
}
