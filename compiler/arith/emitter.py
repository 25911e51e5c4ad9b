"""Linear combinations as expressions again: the text of the normal form.

Terms with a positive coefficient come first, the largest coefficient before others; then those that are subtracted, then
the constant. ``base - c * (base // c)`` is written ``base % c``.
"""

import math
from collections.abc import Iterable

from vtakit.compiler.arith.divider import Divider
from vtakit.compiler.arith.linear import Atom, Extreme, Leaf, Linear, Product, Quotient, Stride, factors
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.expr import Expr, IntImm
from vtakit.compiler.ir.values import wrapped

Term = tuple[int, tuple[int, ...], Expr]


def _number(value: int, dtype: DType) -> IntImm:
    return IntImm(wrapped(value, dtype), dtype)


class Emitter(Divider):
    """Expressions of combinations."""

    def emit(self, x: Linear, dtype: DType) -> Expr:
        """The expression of a combination, of an index type."""
        if not x.terms:
            return _number(x.const, dtype)
        key = (x.key, str(dtype))
        known = self.frame.exprs.get(key)
        if known is None:
            terms, const = self.emit_terms(x, dtype)
            known = self.frame.exprs[key] = add_up(terms, const, dtype)
        return known

    def emit_terms(self, x: Linear, dtype: DType) -> tuple[list[Term], int]:
        """The terms as (coefficient, order, expression) in the order in which they are written, and the constant."""
        groups, rest = self.residues(x)
        const = rest.const
        terms: list[Term] = []
        for atom, coefficient in rest.terms.items():
            if isinstance(atom, Stride):
                whole = math.gcd(coefficient, atom.step)
                k, step = coefficient // whole, atom.step // whole
                leaf = self._leaf(atom.var, dtype)
                terms.append((k, (atom.var.order,), leaf if step == 1 else ir.FloorDiv(leaf, _number(step, dtype))))
                const -= k * (atom.base // step)
            else:
                terms.append((coefficient, tuple(factor.order for factor in factors(atom)), self.emit_atom(atom, dtype)))
        for k, base, by in groups:
            e = ir.FloorMod(self.emit(base, dtype), self.emit(by, dtype))
            terms.append((k, (max((atom.order for atom in base.terms), default=0),), e))
        terms.sort(key=lambda term: (term[0] < 0, -abs(term[0]), term[1]))
        return terms, const

    def emit_atom(self, atom: Atom, dtype: DType) -> Expr:
        if isinstance(atom, Leaf):
            return self._leaf(atom, dtype)
        if isinstance(atom, Quotient):
            return ir.FloorDiv(self.emit(atom.dividend, dtype), self.emit(atom.divisor, dtype))
        if isinstance(atom, Product):
            found, *others = (self.emit(Linear({factor: 1}, 0), dtype) for factor in atom.factors)
            for other in others:
                found = ir.Mul(found, other)
            return found
        assert isinstance(atom, Extreme)
        node = ir.Max if atom.greatest else ir.Min
        e, *rest = (self.emit(arg, dtype) for arg in atom.args)
        for other in rest:
            e = node(e, other)
        return e

    def _leaf(self, atom: Leaf, dtype: DType) -> Expr:
        return atom.expr if atom.expr.dtype is dtype else ir.Cast(dtype, atom.expr)


def add_up(terms: Iterable[Term], const: int, dtype: DType) -> Expr:
    """The sum of terms, positive ones first, and a constant."""
    total: Expr | None = None
    for coefficient, _, e in terms:
        size = abs(coefficient)
        one = e if size == 1 else ir.Mul(e, _number(size, dtype))
        if total is not None:
            total = ir.Add(total, one) if coefficient > 0 else ir.Sub(total, one)
        elif coefficient > 0:
            total = one
        else:
            total, const = ir.Sub(_number(const, dtype), one), 0
    if total is None:
        return _number(const, dtype)
    if const:
        return ir.Add(total, _number(const, dtype)) if const > 0 else ir.Sub(total, _number(-const, dtype))
    return total


