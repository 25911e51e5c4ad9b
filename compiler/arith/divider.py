"""Division, least and greatest of combinations, in normal form."""

import math

from vtakit.compiler.arith.linear import Atom, Extreme, Linear, Quotient, constant, factors
from vtakit.compiler.arith.prover import Prover
from vtakit.compiler.arith.ranges import Number, floor_div, times
from vtakit.compiler.arith.state import INF, Bounds


def _toward_zero(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)


def _block(bounds: Bounds, size: int) -> int | None:
    """The k for which both ends are within ``k * size`` and ``(k + 1) * size - 1``, if there is one."""
    lo, hi = bounds
    if lo == -INF or hi == INF:
        return None
    k = floor_div(lo, size)
    return int(k) if k == floor_div(hi, size) else None


class Divider(Prover):
    """Quotients, remainders, extremes."""

    def divide(self, x: Linear, d: Linear) -> Linear:
        """``x // d``, rounded down."""
        if d.terms:
            return self._divide_symbolic(x, d)
        return self.divide_by(x, d.const) if d.const > 0 else self.divide_by(x.scaled(-1), -d.const)

    def remainder(self, x: Linear, d: Linear) -> Linear:
        """``x % d``, with the sign of d."""
        return x.plus(self.multiply(self.divide(x, d), d), -1)

    def divide_by(self, x: Linear, c: int) -> Linear:
        """``x // c`` for a constant c > 0."""
        if c == 1:
            return x
        whole: dict[Atom, int] = {}
        part: dict[Atom, int] = {}
        for atom, coefficient in x.terms.items():
            k = _toward_zero(coefficient, c)
            if k:
                whole[atom] = k
            if coefficient != k * c:
                part[atom] = coefficient - k * c
        outside = Linear(whole, x.const // c)
        if not part:
            return outside
        inside = Linear(part, x.const % c)
        common = math.gcd(c, inside.content())
        if common > 1:
            inside, c = inside.divided(common), c // common
        return outside.plus(self._divide_rest(inside, c))

    def _divide_rest(self, x: Linear, c: int) -> Linear:
        """``x // c`` where no coefficient is a multiple of c and c has no divisor in common with all of them."""
        k = _block(self.linear_bounds(x), c)
        if k is not None:
            return constant(k)
        found = self._divide_digits(x, c)
        if found is not None:
            return found
        inner = [atom for atom, coefficient in x.terms.items() if coefficient == 1 and type(atom) is Quotient and atom.by]
        if len(inner) == 1:  # (y // d + r) // c  =  (y + d * r) // (c * d)
            q = inner[0]
            rest = Linear({atom: value for atom, value in x.terms.items() if atom is not q}, x.const)
            return self.divide_by(q.dividend.plus(rest, q.by), c * q.by)
        return self.quotient_atom(x, constant(c))

    def _divide_digits(self, x: Linear, c: int) -> Linear | None:
        found = self.low_digits(x, c)
        return None if found is None else self.divide_by(found[0], c // found[1])

    def low_digits(self, x: Linear, c: int) -> tuple[Linear, int] | None:
        """``x // g`` and g, if some g > 1 divides c so that ``x = g * y + s`` with s between ``k * g`` and ``k * g + g - 1``.

        Every g divides a c of 0.
        """
        groups, rest = self.residues(x)
        sizes = {math.gcd(c, value) for value in rest.terms.values()} | {math.gcd(c, value) for value, _, _ in groups}
        sizes.discard(1)
        for g in sorted(sizes, reverse=True):
            low: Number = rest.const
            high: Number = rest.const
            kept = Linear({}, 0)
            for atom, value in rest.terms.items():
                if value % g == 0:
                    kept = kept.plus(Linear({atom: value // g}, 0))
                else:
                    lo, hi = self.atom_bounds(atom)
                    low, high = low + times(value, lo if value > 0 else hi), high + times(value, hi if value > 0 else lo)
            for value, base, by in groups:
                if value % g == 0:
                    kept = kept.plus(self.remainder(base, by), value // g)
                else:
                    lo, hi = self.remainder_bounds(base, by)
                    low, high = low + times(value, lo if value > 0 else hi), high + times(value, hi if value > 0 else lo)
            k = _block(Bounds(low, high), g)
            if k is not None:
                return kept.shifted(k), g
        return None

    def _divide_symbolic(self, x: Linear, d: Linear) -> Linear:
        found = Linear({}, 0)
        lead = max(d.terms, key=lambda atom: (len(factors(atom)), atom.order))
        for atom, value in x.terms.items():
            k = _toward_zero(value, d.terms[lead])
            ratio = _ratio(atom, lead) if k else None
            if ratio is not None:
                one = constant(1) if not ratio else Linear({ratio[0] if len(ratio) == 1 else self.product_atom(*ratio): 1}, 0)
                found = found.plus(one, k)
        rest = x.plus(self.multiply(found, d), -1) if found.terms or found.const else x
        if len(d.terms) > 1 and len(rest.terms) >= len(x.terms):
            found, rest = Linear({}, 0), x
        if self.linear_bounds(d).lo >= 0:  # and it is not 0, being a divisor
            if self.nonnegative(rest) and self.nonnegative(d.plus(rest, -1).shifted(-1)):
                return found
            if self.nonnegative(rest.plus(d)) and self.nonnegative(rest.scaled(-1).shifted(-1)):
                return found.shifted(-1)
        if not rest.terms and not rest.const:
            return found
        common = math.gcd(rest.content(), rest.const, d.content(), d.const)
        return found.plus(self.quotient_atom(rest.divided(common), d.divided(common)))

    def extreme(self, args: list[Linear], greatest: bool) -> Linear:
        """The least or the greatest of combinations."""
        flat: list[Linear] = []
        for arg in args:
            inner = arg.single() or (Linear(arg.terms, 0).single() if arg.const else None)
            if isinstance(inner, Extreme) and inner.greatest == greatest:
                flat += [one.shifted(arg.const) for one in inner.args]
            else:
                flat.append(arg)
        kept: list[Linear] = []
        for arg in flat:
            if any(self._dominates(other, arg, greatest) for other in kept):
                continue
            kept = [other for other in kept if not self._dominates(arg, other, greatest)]
            kept.append(arg)
        return kept[0] if len(kept) == 1 else self._extreme_atom(kept, greatest)

    def _dominates(self, a: Linear, b: Linear, greatest: bool) -> bool:
        return self.at_most(b, a) if greatest else self.at_most(a, b)

    def _extreme_atom(self, args: list[Linear], greatest: bool) -> Linear:
        """What all arguments share is taken out: equal terms, the constant of the first, a common factor and its sign."""
        first = args[0]
        shared = {
            atom: value for atom, value in first.terms.items() if all(arg.terms.get(atom) == value for arg in args[1:])
        }
        outside = Linear(shared, 0)
        inside = [arg.plus(outside, -1) for arg in args]
        inside.sort(key=_arrangement)
        shift = inside[0].const
        outside, inside = outside.shifted(shift), [arg.shifted(-shift) for arg in inside]
        common = math.gcd(*(arg.content() for arg in inside), *(arg.const for arg in inside))
        if inside[0].terms[max(inside[0].terms, key=lambda atom: atom.order)] < 0:
            common, greatest = -common, not greatest
        if common != 1:
            inside = [arg.divided(common) for arg in inside]
        return outside.plus(self.extreme_atom(tuple(inside), greatest), common)


def _arrangement(x: Linear) -> tuple[bool, list[tuple[int, int]]]:
    return not x.terms, sorted((-atom.order, value) for atom, value in x.terms.items())


def _ratio(atom: Atom, by: Atom) -> tuple[Atom, ...] | None:
    """The factors of the atom without those of another, if it has them all."""
    left = list(factors(atom))
    for factor in factors(by):
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


