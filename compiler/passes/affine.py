"""Linear forms with integer coefficients, and what they say about which elements accesses share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import NamedTuple

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Expr, IntImm, Var


@dataclass(frozen=True, slots=True)
class Linear:
    """``sum of coefficient * atom + constant``; an atom is a variable or whatever else is not linear."""

    terms: Mapping[Expr, int]
    constant: int

    def without(self, atoms: Iterable[Expr]) -> "Linear":
        """The form with these atoms taken out."""
        gone = set(atoms)
        return Linear({atom: c for atom, c in self.terms.items() if atom not in gone}, self.constant)

    def expr(self) -> Expr:
        """The form as an expression of int32, or of the atoms' type."""
        total: Expr | None = None
        for atom, c in self.terms.items():
            term = atom * abs(c) if abs(c) != 1 else atom
            total = (term if c > 0 else -term) if total is None else total + term if c > 0 else total - term
        if total is None:
            return IntImm(self.constant, INT32)
        return total + self.constant if self.constant >= 0 else total - -self.constant

    def __sub__(self, other: "Linear") -> "Linear":
        return _combine(self, other, -1)


def linear(e: Expr) -> Linear:
    """The linear form of an integer expression; widening casts are looked through."""
    terms: dict[Expr, int] = {}
    constant = _add_terms(e, 1, terms)
    return Linear({atom: c for atom, c in terms.items() if c}, constant)


def _add_terms(e: Expr, times: int, terms: dict[Expr, int]) -> int:
    """Adds an expression's terms, so many times; returns its constant."""
    kind = type(e)
    if kind is Var:
        terms[e] = terms.get(e, 0) + times
        return 0
    if isinstance(e, IntImm):
        return e.value * times
    if isinstance(e, ir.Add):
        return _add_terms(e.a, times, terms) + _add_terms(e.b, times, terms)
    if isinstance(e, ir.Sub):
        return _add_terms(e.a, times, terms) + _add_terms(e.b, -times, terms)
    if isinstance(e, ir.Mul):
        if isinstance(e.b, IntImm):
            return _add_terms(e.a, times * e.b.value, terms)
        if isinstance(e.a, IntImm):
            return _add_terms(e.b, times * e.a.value, terms)
    if isinstance(e, ir.Cast) and e.dtype.code == "int" and e.value.dtype.code == "int" and e.dtype.bits >= e.value.dtype.bits:
        return _add_terms(e.value, times, terms)
    terms[e] = terms.get(e, 0) + times
    return 0


def _combine(a: Linear, b: Linear, sign: int) -> Linear:
    terms = dict(a.terms)
    for atom, c in b.terms.items():
        terms[atom] = terms.get(atom, 0) + sign * c
        if not terms[atom]:
            del terms[atom]
    return Linear(terms, a.constant + sign * b.constant)


def span(form: Linear, extents: Mapping[Var, int]) -> tuple[int, int] | None:
    """The least and greatest value while each variable runs over ``0 <= v < extent``; None if an atom is not among them."""
    low = high = form.constant
    for atom, c in form.terms.items():
        if not isinstance(atom, Var) or atom not in extents:
            return None
        most = c * (extents[atom] - 1)
        low, high = low + min(0, most), high + max(0, most)
    return low, high


def is_injective(form: Linear, extents: Mapping[Var, int]) -> bool:
    """Return whether different values of the variables in `extents` give different values, whatever the other atoms are."""
    reach = 1
    for step, extent in sorted((abs(form.terms.get(var, 0)), extent) for var, extent in extents.items() if extent > 1):
        if step < reach:
            return False
        reach += step * (extent - 1)
    return True


class Slice(NamedTuple):
    """``var % high // low``; without `high`, ``var // low``."""

    var: Var
    low: int
    high: int | None


def slice_of(e: Expr) -> Slice | None:
    """Return an expression as digits of one variable; None if it is anything else."""
    if isinstance(e, Var):
        return Slice(e, 1, None)
    if isinstance(e, ir.FloorDiv | ir.FloorMod) and isinstance(e.b, IntImm) and e.b.value > 0:
        found, by = slice_of(e.a), e.b.value
        if found is None:
            return None
        var, low, high = found
        if isinstance(e, ir.FloorDiv):
            return Slice(var, low * by, high)
        if high is None or high % (low * by) == 0:
            return Slice(var, low, low * by)
    return None


def by_digits(forms: Sequence[Linear], variables: Mapping[Var, int]) -> tuple[list[Linear], dict[Var, int]]:
    """Return the forms in terms of the digits of variables that they divide, with the digits' extents instead of the variables'.

    ``x // 4 * 64 + x % 4 * 2`` of an x below 32  ->  ``q * 64 + r * 2`` with q below 8, r below 4
    """
    found, extents = [*forms], dict(variables)
    for var, extent in variables.items():
        slices = {atom: part for form in found for atom in form.terms if (part := slice_of(atom)) is not None and part.var is var}
        known = {end for part in slices.values() for end in (part.low, part.high) if end is not None and end < extent}
        ends = sorted(known | {1})
        if len(ends) == 1 or any(high % low for low, high in pairwise((*ends, extent))):
            continue
        digits = {low: Var(f"{var.name}_{low}", var.dtype) for low in ends}
        sums = {atom: {digits[end]: end // part.low for end in ends if part.low <= end and (part.high is None or end < part.high)}
                for atom, part in slices.items()}
        found = [_with_sums(form, sums) for form in found]
        del extents[var]
        extents |= {digits[low]: high // low for low, high in pairwise((*ends, extent))}
    return found, extents


def _with_sums(form: Linear, sums: Mapping[Expr, Mapping[Var, int]]) -> Linear:
    terms: dict[Expr, int] = {}
    for atom, times in form.terms.items():
        for var, c in sums.get(atom, {atom: 1}).items():
            terms[var] = terms.get(var, 0) + times * c
    return Linear({atom: c for atom, c in terms.items() if c}, form.constant)


class _Part(NamedTuple):
    """``step * d`` for ``low <= d <= high``: how much a variable sets two accesses apart."""

    step: int
    low: int
    high: int
    thread: bool


def same_thread_only(a: Linear, b: Linear, threads: Mapping[Var, int], extents: Mapping[Var, int]) -> bool:
    """Return whether equal values of the forms imply equal thread indices. Other variables are independent in each form.

    ``4 * x + 256 * y + 64 * i + j`` does for threads x, y and loops i, j of 8, 8, 4 and 4: no digit reaches the next one.

    extents : of the loop variables where they are known
    """
    parts: list[_Part] = []
    far = 0  # what all atoms of unknown extent are multiples of
    for var, extent in threads.items():
        c = a.terms.get(var, 0)
        if extent > 1 and (c == 0 or b.terms.get(var, 0) != c):
            return False
        if extent > 1:
            parts.append(_Part(abs(c), 1 - extent, extent - 1, thread=True))
    for form, sign in ((a, 1), (b, -1)):
        for atom, c in form.terms.items():
            if atom in threads:
                continue
            count = extents.get(atom) if isinstance(atom, Var) else None
            if count is None:
                far = gcd(far, c)
            elif count > 1:
                ends = sorted((0, sign * c // abs(c) * (count - 1)))
                parts.append(_Part(abs(c), ends[0], ends[1], thread=False))
    return _threads_stay(sorted(parts), far, a.constant - b.constant)


def _threads_stay(parts: list[_Part], far: int, constant: int) -> bool:
    """Return whether all threads' differences are 0 wherever the parts, any multiple of `far` and the constant add up to 0.

    parts : in the order of their steps
    """
    if not any(part.thread for part in parts):
        return True
    if len(parts) == 1 and not far:
        step, _, high, _ = parts[0]
        return constant == 0 or constant % step != 0 or abs(constant) > step * high
    low = high = constant
    for at, part in enumerate(parts):
        low, high = low + part.step * part.low, high + part.step * part.high
        # All that follows is a multiple of `step`. If just one multiple is within reach, both sides have their value each.
        step = gcd(far, *[other.step for other in parts[at + 1:]])
        if step == 0:
            break
        first, last = -(-low // step), high // step
        if first > last:
            return True  # the sum is never 0
        if first == last:
            return _threads_stay(parts[:at + 1], 0, constant - first * step) and _threads_stay(parts[at + 1:], far, first * step)
    return False
