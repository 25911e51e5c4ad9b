"""Remainders, found again in combinations that hold quotients only."""

from itertools import pairwise

from vtakit.compiler.arith.linear import Atom, Linear, Product, Quotient, constant, factors
from vtakit.compiler.arith.state import State

Residues = tuple[list[tuple[int, Linear, Linear]], Linear]


class Digits(State):
    """``base - c * (base // c)`` as ``base % c``."""

    def residues(self, x: Linear) -> Residues:
        """Finds remainders: ``x = sum of k * (base % modulus), plus rest``, as [(k, base, modulus)], rest."""
        quotients, symbolic = _quotients(x)
        if not quotients and not symbolic:
            return [], x
        key = x.key
        known = self.frame.residues.get(key)
        if known is None:
            known = self.frame.residues[key] = self._find_residues(x, quotients, symbolic, every=False)
        return known

    def digits(self, x: Linear) -> Residues:
        """Return the residues of a combination, with a remainder between any two quotients of one dividend.

        ``x + 4 * (x // 4)`` has ``x % 4`` too.
        """
        return self._find_residues(x, *_quotients(x), every=True)

    def _find_residues(
        self, x: Linear, quotients: list[Quotient], symbolic: list[tuple[Atom, Quotient]], *, every: bool,
    ) -> Residues:
        found: list[tuple[int, Linear, Linear]] = []
        rest = x
        for of, q in symbolic:
            whole = self.multiply(q.divisor, Linear({q: 1}, 0))
            have, need = rest.terms.get(of, 0), whole.terms.get(of, 0)
            if need and have and have % need == 0:
                k = -have // need
                part = q.dividend.plus(whole, -1)
                if abs(_contained(rest, part, k)) >= abs(k):
                    rest = rest.plus(part, -k)
                    found.append((k, q.dividend, q.divisor))
                    continue
            for p, k in [*rest.terms.items()]:  # y // d - n * (y // (d * n)) = y // d % n
                between = self._between(p, q) if type(p) is Quotient and p is not q else None
                if between is None:
                    continue
                whole = self.multiply(between, Linear({q: 1}, 0))
                if abs(_contained(rest, whole, -1 if k > 0 else 1)) >= abs(k):
                    rest = rest.plus(Linear({p: k}, 0), -1).plus(whole, k)
                    found.append((k, Linear({p: 1}, 0), between))
                    break
        for quotients_of in _chains(quotients):
            chain = [q for q in quotients_of if q in rest.terms]  # those of an outer quotient's dividend may be gone
            if not chain:
                continue
            lowest = chain[0]
            size, odd = divmod(abs(rest.terms[lowest]), lowest.by)
            k = _contained(rest, lowest.dividend, -1 if rest.terms[lowest] > 0 else 1)
            if not k and every:
                k = _contained(rest, lowest.dividend, 1 if rest.terms[lowest] > 0 else -1)
            if not odd and len(chain) == 1 and size <= abs(k):
                k = size if k > 0 else -size
            weights = [k] * (k != 0) + [rest.terms[q] for q in chain]
            if not every and all((a > 0) == (b > 0) for a, b in pairwise(weights)):
                continue
            base, by = lowest.dividend, lowest.by  # from the lowest digit up: k * B = k * (B % m) + k * m * (B // m)
            for q, after in zip(chain, [*chain[1:], None], strict=True):
                if k:
                    found.append((k, base, constant(by)))
                    rest = rest.plus(base, -k).plus(Linear({q: 1}, 0), k * by)
                if after is not None:
                    k = rest.terms.get(q, 0)
                    base, by = Linear({q: 1}, (after.dividend.const - q.dividend.const) // q.by), after.by // q.by
        return found, rest

    def _between(self, p: Quotient, q: Quotient) -> Linear | None:
        """Return the factor between the divisors of q and p, if both have one dividend and no divisor is negative; else None."""
        if not p.dividend.same(q.dividend) or self.linear_bounds(p.divisor).lo < 0:
            return None
        by = self.divide(q.divisor, p.divisor)
        if self.linear_bounds(by).lo < 0 or not self.multiply(by, p.divisor).same(q.divisor):
            return None
        return by


def _quotients(x: Linear) -> tuple[list[Quotient], list[tuple[Atom, Quotient]]]:
    """The quotients by constants among a combination's atoms, and those by something else with the atom that each is in."""
    return [atom for atom in x.terms if type(atom) is Quotient and atom.by], [
        (atom, factor) for atom in x.terms if type(atom) is Product or type(atom) is Quotient
        for factor in factors(atom) if type(factor) is Quotient and not factor.by
    ]


def _chains(quotients: list[Quotient]) -> list[list[Quotient]]:
    """Quotients of one dividend, each a quotient of the one before, from the smallest divisor up; outer dividends first."""
    found: list[list[Quotient]] = []
    for q in sorted(quotients, key=lambda q: (q.by, q.order)):
        for chain in found:
            p = chain[-1]
            if p.dividend.terms == q.dividend.terms and q.by % p.by == 0 and p.by < q.by \
                    and (q.dividend.const - p.dividend.const) % p.by == 0:
                chain.append(q)
                break
        else:
            found.append([q])
    return sorted(found, key=lambda chain: -chain[0].order)


def _contained(x: Linear, part: Linear, sign: int) -> int:
    """The k of that sign, farthest from 0, for which ``k * part`` is within x term by term."""
    limit: int | None = None
    for atom, coefficient in part.terms.items():
        have, need = x.terms.get(atom, 0), coefficient if sign > 0 else -coefficient
        most = have // need if (have > 0) == (need > 0) and have else 0
        limit = most if limit is None else min(limit, most)
    return (limit or 0) if sign > 0 else -(limit or 0)
