"""Intervals and residues of linear combinations."""

import math

from vtakit.compiler.arith.digits import Digits
from vtakit.compiler.arith.linear import Atom, Extreme, Leaf, Linear, Product, Quotient, Stride
from vtakit.compiler.arith.state import ANY, EVERY, INF, Bounds, Modular
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.expr import Expr

Number = int | float
BEYOND = 1 << 128


def is_index(dtype: DType) -> bool:
    """Return whether the type's arithmetic is that of the integers: int32 and int64, which index arithmetic does not overflow."""
    return dtype.code == "int" and dtype.bits >= 32 and dtype.lanes == 1


def type_bounds(dtype: DType) -> Bounds:
    """All values of a type; of the index types there are no ends."""
    if is_index(dtype) or not (dtype.is_int or dtype.is_bool):
        return ANY
    return Bounds(dtype.min, dtype.max)


def floor_div(a: Number, b: Number) -> Number:
    """Division rounded down, of ends that may be infinite; b is not 0."""
    if abs(b) == INF:
        return 0 if abs(a) == INF or a == 0 or (a < 0) == (b < 0) else -1
    return a // b if abs(a) != INF else a if b > 0 else -a


def times(a: Number, b: Number) -> Number:
    return a * b if a and b else 0


def product_bounds(a: Bounds, b: Bounds) -> Bounds:
    """Return the bounds of ``a * b``.

    Ends beyond all types become infinite: as exact numbers, those of nested products would double in length each time.
    """
    ends = (times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi))
    lo, hi = min(ends), max(ends)
    return Bounds(min(lo, BEYOND) if lo > -BEYOND else -INF, max(hi, -BEYOND) if hi < BEYOND else INF)


def quotient_bounds(a: Bounds, b: Bounds) -> Bounds:
    """Return the bounds of ``a // b``; 0 is no divisor."""
    ends: list[Number] = []
    for lo, hi in ((b.lo, min(b.hi, -1)), (max(b.lo, 1), b.hi)):
        if lo <= hi:
            ends += [floor_div(x, y) for x in a for y in (lo, hi)]
    return Bounds(min(ends), max(ends)) if ends else ANY


def meet(a: Bounds, b: Bounds) -> Bounds:
    return Bounds(max(a.lo, b.lo), min(a.hi, b.hi))


def join(a: Bounds, b: Bounds) -> Bounds:
    return Bounds(min(a.lo, b.lo), max(a.hi, b.hi))


def modular_sum(a: Modular, b: Modular, by: int = 1) -> Modular:
    """Return the modulus and the remainder of ``a + by * b``."""
    coeff = math.gcd(a.coeff, by * b.coeff)
    base = a.base + by * b.base
    return Modular(coeff, base % coeff if coeff else base)


def modular_join(a: Modular, b: Modular) -> Modular:
    coeff = math.gcd(a.coeff, b.coeff, a.base - b.base)
    return Modular(coeff, a.base % coeff if coeff else a.base)


class Ranges(Digits):
    """Intervals and residues."""

    def linear_bounds(self, x: Linear) -> Bounds:
        """The interval of a combination."""
        lo: Number = x.const
        hi: Number = x.const
        known, divides = self.frame.bounds, False
        for atom, coefficient in x.terms.items():
            low, high = known.get(atom) or self.atom_bounds(atom)
            if coefficient > 0:
                lo += coefficient * low if low else 0
                hi += coefficient * high if high else 0
            else:
                lo += coefficient * high if high else 0
                hi += coefficient * low if low else 0
            if type(atom) is not Leaf:
                divides = True
        found = Bounds(lo, hi)
        if divides and len(x.terms) > 1:
            found = meet(found, self._grouped_bounds(x))
        floors = self.frame.floors
        if floors:
            items = x.key[1]
            below = floors.get(items)
            if below is not None:
                found = Bounds(max(found.lo, below + x.const), found.hi)
            below = floors.get(frozenset((atom, -value) for atom, value in items))
            if below is not None:
                found = Bounds(found.lo, min(found.hi, x.const - below))
        return found

    def _grouped_bounds(self, x: Linear) -> Bounds:
        """With its remainders seen as such, and quotients by the same constant together."""
        groups, rest = self.residues(x)
        found = ANY
        if groups:
            found = self.linear_bounds(rest)
            for k, base, by in groups:
                lo, hi = self.remainder_bounds(base, by)
                found = Bounds(found.lo + times(k, lo if k > 0 else hi), found.hi + times(k, hi if k > 0 else lo))
        elif sum(type(atom) is Quotient for atom in x.terms) > 1:
            pairs = _pairs(rest)
            if pairs:
                found = self._paired_bounds(x, pairs)
            found = meet(found, self._nested_bounds(rest))
        return found

    def _nested_bounds(self, x: Linear) -> Bounds:
        """With ``a // c + k * q`` as ``(a + c * k * q) // c``, where a and the quotient q make a remainder together."""
        found = ANY
        for atom, by in x.terms.items():
            if not isinstance(atom, Quotient) or not atom.by:
                continue
            inner: dict[Atom, int] = {
                q: atom.by * (k // by) for q, k in x.terms.items() if q is not atom and isinstance(q, Quotient) and k % by == 0
                and atom.dividend.terms.keys() & q.dividend.terms.keys()
            }
            whole = atom.dividend.plus(Linear(inner, 0))
            if not inner or not self.residues(whole)[0]:
                continue
            lo, hi = self.linear_bounds(whole)
            part = Linear({q: k for q, k in x.terms.items() if q is not atom and q not in inner}, x.const)
            low, high = self.linear_bounds(part)
            ends = times(by, floor_div(lo, atom.by)), times(by, floor_div(hi, atom.by))
            found = meet(found, Bounds(low + min(ends), high + max(ends)))
        return found

    def _paired_bounds(self, x: Linear, pairs: list[tuple[Quotient, Quotient, int]]) -> Bounds:
        """With ``a // c - b // c`` between ``(a - b) // c`` and the same rounded up."""
        low: Number = 0
        high: Number = 0
        for a, b, k in pairs:
            lo, hi = self.linear_bounds(a.dividend.plus(b.dividend, -1))
            low, high = low + times(k, floor_div(lo, a.by)), high + times(k, -floor_div(-hi, a.by))
            x = x.plus(Linear({a: 1, b: -1}, 0), -k)
        lo, hi = self.linear_bounds(x)
        return Bounds(low + lo, high + hi)

    def remainder_bounds(self, base: Linear, by: Linear) -> Bounds:
        """Return the bounds of ``base % by``."""
        divisor = self.linear_bounds(by)
        if by.terms:
            return Bounds(0 if divisor.lo >= 0 else divisor.lo + 1, max(divisor.hi - 1, 0))
        m = by.const
        lo, hi = self.linear_bounds(base)
        if floor_div(lo, m) == floor_div(hi, m) and abs(lo) != INF and abs(hi) != INF:
            return Bounds(lo % m, hi % m)
        coeff, start = self.linear_modular(base)
        step = math.gcd(coeff, m)
        return Bounds(start % step, m - step + start % step)

    def atom_bounds(self, atom: Atom) -> Bounds:
        known = self.frame.bounds.get(atom)
        if known is None:
            known = self._atom_bounds(atom)
            limit = self.frame.limits.get(atom)
            if limit is not None:
                known = meet(known, limit)
            self.frame.bounds[atom] = known
        return known

    def _atom_bounds(self, atom: Atom) -> Bounds:
        if isinstance(atom, Leaf):
            return self.leaf_bounds(atom.expr)
        if isinstance(atom, Stride):
            lo, hi = self.atom_bounds(atom.var)
            return Bounds(-floor_div(atom.base - lo, atom.step), floor_div(hi - atom.base, atom.step))
        if isinstance(atom, Quotient):
            return quotient_bounds(self.linear_bounds(atom.dividend), self.linear_bounds(atom.divisor))
        if isinstance(atom, Extreme):
            args = [self.linear_bounds(arg) for arg in atom.args]
            choose = max if atom.greatest else min
            return Bounds(choose(arg.lo for arg in args), choose(arg.hi for arg in args))
        assert isinstance(atom, Product)
        found = Bounds(1, 1)
        for factor in dict.fromkeys(atom.factors):
            power = atom.factors.count(factor)
            one = self.atom_bounds(factor)
            part = Bounds(1, 1)
            for _ in range(power):
                part = product_bounds(part, one)
            found = product_bounds(found, part if power % 2 else Bounds(max(part.lo, 0), part.hi))
        return found

    def leaf_bounds(self, e: Expr) -> Bounds:
        """Return the bounds of an expression that is an atom."""
        if isinstance(e, ir.Var):
            return Bounds(0, type_bounds(e.dtype).hi) if e.size else type_bounds(e.dtype)
        return type_bounds(e.dtype)

    def linear_modular(self, x: Linear) -> Modular:
        """Return the modulus and the remainder of all values of a combination."""
        groups, rest = self.residues(x)
        found = Modular(0, rest.const)
        for atom, coefficient in rest.terms.items():
            found = modular_sum(found, self.atom_modular(atom), coefficient)
        for k, base, by in groups:
            coeff, start = self.linear_modular(base)
            found = modular_sum(found, EVERY if by.terms else Modular(math.gcd(coeff, by.const), start), k)
        return found

    def atom_modular(self, atom: Atom) -> Modular:
        known = self.frame.modulars.get(atom)
        if known is None:
            known = self.frame.modulars[atom] = self._atom_modular(atom)
        return known

    def _atom_modular(self, atom: Atom) -> Modular:
        if isinstance(atom, Quotient) and atom.by:
            coeff, base = self.linear_modular(atom.dividend)
            return Modular(coeff // atom.by, base // atom.by) if coeff and coeff % atom.by == 0 else EVERY
        if isinstance(atom, Extreme):
            first, *others = (self.linear_modular(arg) for arg in atom.args)
            for other in others:
                first = modular_join(first, other)
            return first
        if isinstance(atom, Product):
            found = Modular(0, 1)
            for factor in atom.factors:
                other = self.atom_modular(factor)
                coeff = math.gcd(found.coeff * other.coeff, found.coeff * other.base, found.base * other.coeff)
                base = found.base * other.base
                found = Modular(coeff, base % coeff if coeff else base)
            return found
        return EVERY


def _pairs(x: Linear) -> list[tuple[Quotient, Quotient, int]]:
    """Quotients a and b of x by the same constant, and the k > 0 for which ``k * (a - b)`` is part of x."""
    left = {atom: value for atom, value in x.terms.items() if type(atom) is Quotient and atom.by}
    found: list[tuple[Quotient, Quotient, int]] = []
    for a in list(left):
        for b in list(left):
            k = min(left[a], -left[b])
            if k > 0 and a.by == b.by:
                found.append((a, b, k))
                left[a] -= k
                left[b] += k
    return found
