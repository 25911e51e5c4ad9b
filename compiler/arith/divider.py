"""Division, least and greatest of combinations, in normal form."""

import math

from vtakit.compiler.arith.linear import Atom, Extreme, Linear, Quotient, constant, factors
from vtakit.compiler.arith.prover import Prover
from vtakit.compiler.arith.ranges import Number, floor_div, times
from vtakit.compiler.arith.state import INF, Bounds, Frame


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
        groups, rest = self.residues(x)
        outside, given = Linear({}, 0), x
        for k, base, by in groups:
            if k % c == 0:
                remainder = self.remainder(base, by)
                outside, x = outside.plus(remainder, k // c), x.plus(remainder, -k)
            elif math.gcd(by.content(), by.const) * k % c == 0:  # k * (base % by) = k * base - k * by * (base // by)
                multiple = self.multiply(self.divide(base, by), by).scaled(-k)
                after = x.plus(multiple, -1)
                if not any(found.same(base) for _, found, _ in self.residues(after)[0]):  # else it would be found for ever
                    outside, x = outside.plus(multiple.divided(c)), after
        if x is not given:
            return outside.plus(self.divide_by(x, c))
        whole: dict[Atom, int] = {}
        part: dict[Atom, int] = {}
        for atom, coefficient in rest.terms.items():
            if coefficient % c:
                part[atom] = coefficient  # not reduced: the parts of a fused loop stay together
            else:
                whole[atom] = coefficient // c
        outside, inside = Linear(whole, rest.const // c), Linear(part, rest.const % c)
        for k, base, by in groups:
            inside = inside.plus(self.remainder(base, by), k)
        if not inside.terms:
            return outside.shifted(inside.const // c)
        if whole and len(inside.terms) > 1:  # without what came out, others of its remainders show
            return outside.plus(self.divide_by(inside, c))
        common = math.gcd(c, inside.content())
        if common > 1:
            return outside.plus(self.divide_by(inside.divided(common), c // common))
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
            beside = [atom.dividend.terms.keys() for atom in rest.terms if isinstance(atom, Quotient)]
            if all(q.dividend.terms.keys().isdisjoint(atoms) for atoms in (rest.terms.keys(), *beside)):  # else it may not end
                return self.divide_by(q.dividend.plus(rest, q.by), c * q.by)
        atom = self.quotient_atom(x, constant(c))
        if self.frame.limits:
            lo, hi = self.linear_bounds(atom)
            if lo == hi:
                return constant(int(lo))
        return atom

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
        found, rest = self._take_multiples(x, d)
        if (len(d.terms) > 1 or d.const) and len(rest.terms) >= len(x.terms):
            found, rest = Linear({}, 0), x
        if self.linear_bounds(d).lo >= 0:
            before = self.frame
            try:
                if self.linear_bounds(d).lo == 0:
                    self.frame = Frame(before)
                    self.assume_nonnegative(d.shifted(-1))  # being a divisor, it is not 0
                if self.nonnegative(rest) and self.nonnegative(d.plus(rest, -1).shifted(-1)):
                    return found
                if self.nonnegative(rest.plus(d)) and self.nonnegative(rest.scaled(-1).shifted(-1)):
                    return found.shifted(-1)
            finally:
                self.frame = before
        if not rest.terms and not rest.const:
            return found
        inner = rest.single()
        if isinstance(inner, Quotient) and min(self.linear_bounds(by).lo for by in (inner.divisor, d)) >= 0:
            return found.plus(self.divide(inner.dividend, self.multiply(inner.divisor, d)))  # y // a // b = y // (a * b)
        common = math.gcd(rest.content(), rest.const, d.content(), d.const)
        return found.plus(self.quotient_atom(rest.divided(common), d.divided(common)))

    def _take_multiples(self, x: Linear, d: Linear) -> tuple[Linear, Linear]:
        """The q and r of ``x = q * d + r`` where no term of r is a multiple of d's leading term."""
        found = Linear({}, 0)
        lead = max(d.terms, key=lambda atom: (len(factors(atom)), atom.order))
        for _ in range(4):  # each time the degree falls
            part = Linear({}, 0)
            for atom, value in x.terms.items():
                k, odd = divmod(value, d.terms[lead])
                ratio = None if odd else _ratio(atom, lead)
                if ratio is not None:
                    one = constant(1) if not ratio else Linear({ratio[0] if len(ratio) == 1 else self.product_atom(*ratio): 1}, 0)
                    part = part.plus(one, k)
            if not part.terms and not part.const:
                break
            found, x = found.plus(part), x.plus(self.multiply(part, d), -1)
        return found, x

    def extreme(self, args: list[Linear], greatest: bool) -> Linear:
        """The least or the greatest of combinations."""
        flat = [one for arg in args for one in _opened(arg, greatest)]
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
        """Return an extreme, with all that its arguments share taken out: equal terms, the first's constant, a factor, a sign."""
        first = args[0]
        shared = {
            atom: value for atom, value in first.terms.items() if all(arg.terms.get(atom) == value for arg in args[1:])
        }
        outside = Linear(shared, 0)
        inside = [arg.plus(outside, -1) for arg in args]
        common = math.gcd(*(arg.content() for arg in inside), *(arg.const - inside[0].const for arg in inside[1:]))
        mirrored = [arg.scaled(-1) for arg in inside]
        ahead, behind = _arrangement(inside), _arrangement(mirrored)
        if behind < ahead or (greatest and behind == ahead):
            inside, common, greatest = mirrored, -common, not greatest
        inside.sort(key=_place)
        shift = inside[0].const
        outside = outside.shifted(shift if common > 0 else -shift)
        inside = [arg.shifted(-shift).divided(abs(common)) for arg in inside]
        return outside.plus(self.extreme_atom(tuple(inside), greatest), common)


def _opened(x: Linear, greatest: bool) -> list[Linear]:
    """The arguments of the one extreme in a combination, with the rest added to each."""
    found = [
        atom for atom, value in x.terms.items() if isinstance(atom, Extreme) and atom.greatest == (greatest == (value > 0))
    ]
    if len(found) != 1:
        return [x]
    atom = found[0]
    rest = Linear({other: value for other, value in x.terms.items() if other is not atom}, x.const)
    return [one for arg in atom.args for one in _opened(rest.plus(arg, x.terms[atom]), greatest)]


def _place(x: Linear) -> tuple[bool, list[tuple[int, int, bool]]]:
    """Return the sort key of a combination among arguments: constants last, positive before negative."""
    return not x.terms, sorted((abs(value), atom.order, value < 0) for atom, value in x.terms.items())


def _arrangement(args: list[Linear]) -> tuple[int, list[tuple[bool, list[tuple[int, int, bool]]]]]:
    """Return the sort key of a way to write an extreme: fewer negative coefficients first, then small positive ones."""
    return sum(value < 0 for arg in args for value in arg.terms.values()), sorted(map(_place, args))


def _ratio(atom: Atom, by: Atom) -> tuple[Atom, ...] | None:
    """The factors of the atom without those of another, if it has them all."""
    left = list(factors(atom))
    for factor in factors(by):
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


