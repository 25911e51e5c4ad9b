"""Proving inequalities between combinations with symbolic ranges and facts.

To prove ``x >= 0``: if the interval of x does not show it, an atom of x is eliminated with something that is known of it
(``r >= 0`` where the atom has a coefficient of the same sign), which leaves a smaller claim; and so on, a few steps deep.
"""

import math
from collections.abc import Iterator

from vtakit.compiler.arith.linear import Atom, Extreme, Leaf, Linear, Product, Quotient, Stride, constant, in_order
from vtakit.compiler.arith.ranges import Ranges

DEPTH = 5  # eliminations one after another
BUDGET = 48  # claims looked at in one proof


class Prover(Ranges):
    """Claims ``x >= 0``."""

    def nonnegative(self, x: Linear) -> bool:
        """Return whether ``x >= 0`` is certain."""
        lo, hi = self.linear_bounds(x)
        if lo >= 0 or hi < 0:
            return lo >= 0
        return self.search(x)

    def search(self, x: Linear) -> bool:
        """Return whether ``x >= 0`` is certain, where its interval leaves that open."""
        common = x.content()
        if common > 1:  # the same claim, and a sharper one where the constant is rounded down
            x = x.divided(common)
            lo, hi = self.linear_bounds(x)
            if lo >= 0 or hi < 0:
                return lo >= 0
        frame = self.frame
        if not frame.facts and not frame.symbolic and all(type(atom) is Leaf for atom in x.terms):
            return False
        key = x.key
        known = self.frame.proofs.get(key)
        if known is None:
            self.frame.proofs[key] = False  # should the search ask the same again
            known = self.frame.proofs[key] = self._search(x, DEPTH, [BUDGET])
        return known

    def at_most(self, a: Linear, b: Linear) -> bool:
        """Return whether ``a <= b`` is certain."""
        return self.nonnegative(b.plus(a, -1))

    def is_zero(self, x: Linear) -> bool:
        return (not x.const and not x.terms) or (self.nonnegative(x) and self.nonnegative(x.scaled(-1)))

    def _search(self, x: Linear, depth: int, budget: list[int]) -> bool:
        groups, rest = self.residues(x)
        for at, (k, _, by) in enumerate(groups):
            if by.terms and self.nonnegative(by):  # being a divisor, it is not 0: the remainder is from 0 to by - 1
                others = rest if k > 0 else rest.plus(by.shifted(-1), k)
                for j, (other, of, d) in enumerate(groups):
                    others = others if j == at else others.plus(self.remainder(of, d), other)
                if self._claim(others, depth, budget):
                    return True
        for atom in in_order(x.terms)[::-1]:
            coefficient = x.terms[atom]
            if isinstance(atom, Extreme) and atom.greatest == (coefficient < 0):
                rest = Linear({a: c for a, c in x.terms.items() if a is not atom}, x.const)
                if all(self._claim(rest.plus(arg, coefficient), depth, budget) for arg in atom.args):
                    return True
            if isinstance(atom, Quotient) and not atom.by and self.nonnegative(atom.divisor):
                rest = Linear({a: c for a, c in x.terms.items() if a is not atom}, x.const)
                if abs(coefficient) > 1:  # k * q <= rest means q <= rest // k
                    rest = self.divide(rest, constant(abs(coefficient)))
                if self._claim(self._multiplied(atom, 1 if coefficient > 0 else -1, rest), depth, budget):
                    return True
            for fact in self._known_of(atom, coefficient > 0):
                there = fact.terms[atom]
                common = math.gcd(coefficient, there)
                scale, take = abs(there) // common, abs(coefficient) // common
                claim = x.scaled(scale).shifted(scale - 1).plus(fact, -take)  # x >= 0 means scale * x > -scale
                if self._claim(claim, depth, budget):
                    return True
        return False

    def _multiplied(self, quotient: Quotient, sign: int, rest: Linear) -> Linear:
        """Return a combination that is at least 0 exactly where ``sign * quotient + rest`` is, for a divisor of at least 1."""
        if sign > 0:
            return quotient.dividend.plus(self.multiply(rest, quotient.divisor))
        return self.multiply(rest.shifted(1), quotient.divisor).plus(quotient.dividend, -1).shifted(-1)

    def _claim(self, x: Linear, depth: int, budget: list[int]) -> bool:
        common = x.content()
        if common > 1:
            x = x.divided(common)
        lo, hi = self.linear_bounds(x)
        if lo >= 0 or hi < 0:
            return lo >= 0
        budget[0] -= 1
        return depth > 1 and budget[0] > 0 and self._search(x, depth - 1, budget)

    def _known_of(self, atom: Atom, positive: bool) -> Iterator[Linear]:
        """Combinations that are at least 0 and have the atom with a positive coefficient, or with a negative one."""
        ends = self.frame.symbolic.get(atom)
        if ends is not None:
            yield Linear({atom: 1}, 0).plus(ends[0], -1) if positive else ends[1].plus(Linear({atom: 1}, 0), -1)
        for fact in self.frame.facts:
            there = fact.terms.get(atom)
            if there is not None and (there > 0) == positive:
                yield fact
        if isinstance(atom, Quotient) and atom.by:
            for fact in self.frame.facts:  # a + d * r <= c  ->  a // d + r <= c // d
                rest = fact.plus(atom.dividend, -1 if positive else 1)
                if len(rest.terms) < len(fact.terms) and not rest.content() % atom.by and atom not in rest.terms:
                    yield rest.shifted(positive * (atom.by - 1)).divided(atom.by).plus(Linear({atom: 1 if positive else -1}, 0))
            multiple = Linear({atom: atom.by}, 0)
            yield multiple.plus(atom.dividend, -1).shifted(atom.by - 1) if positive else atom.dividend.plus(multiple, -1)
        elif isinstance(atom, Extreme) and atom.greatest == positive:
            one = Linear({atom: 1}, 0)
            for arg in atom.args:
                yield one.plus(arg, -1) if positive else arg.plus(one, -1)
        elif isinstance(atom, Product):
            yield from self._known_of_product(atom, positive)
        elif isinstance(atom, Stride):
            ends = self.frame.symbolic.get(atom.var)
            if ends is not None:
                value = Linear({atom: atom.step}, atom.base)
                yield value.plus(ends[0], -1) if positive else ends[1].plus(value, -1)

    def _known_of_product(self, product: Product, positive: bool) -> Iterator[Linear]:
        """From what is known of one factor, times the others where these are not negative."""
        for at, factor in enumerate(product.factors):
            others = Linear({_product(self, product.factors[:at] + product.factors[at + 1:]): 1}, 0)
            if isinstance(factor, Quotient) and not factor.by:
                whole = self.multiply(factor.divisor, Linear({factor: 1}, 0))
                there = whole.terms.get(product)
                if there is not None and self.linear_bounds(factor.divisor).lo >= 0:  # and it is not 0, being a divisor
                    yield (whole.plus(factor.dividend, -1).plus(factor.divisor).shifted(-1) if positive == (there > 0)
                           else factor.dividend.plus(whole, -1))
                    continue
            if self.linear_bounds(others).lo < 0:
                continue
            for fact in (*self._known_of(factor, positive), *self._ends_of(factor, positive)):
                found = self.multiply(fact, others)
                there = found.terms.get(product)
                if there is not None and (there > 0) == positive:
                    yield found

    def _ends_of(self, atom: Atom, positive: bool) -> Iterator[Linear]:
        """Yield what an atom's interval implies, as `_known_of` does.

        The interval of a product loses which factor bounds it.
        """
        lo, hi = self.atom_bounds(atom)
        end = lo if positive else hi
        if isinstance(end, int):
            yield Linear({atom: 1}, -end) if positive else Linear({atom: -1}, end)


def _product(state: Ranges, parts: tuple[Atom, ...]) -> Atom:
    return parts[0] if len(parts) == 1 else state.product_atom(*parts)
