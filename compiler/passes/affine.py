"""Linear forms with integer coefficients, and what they say about which elements accesses share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd

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
    """Whether different values of all the variables in `extents` give different values, whatever the other atoms are."""
    steps = [(abs(form.terms.get(var, 0)), extent) for var, extent in extents.items() if extent > 1]
    return _mixed_radix(steps) is not None


def _mixed_radix(steps: Iterable[tuple[int, int]], reach: int = 1) -> int | None:
    """How far the values of ``sum of step * index`` reach, plus one, if all are at least `reach` apart; else None."""
    for step, extent in sorted(steps):
        if step < reach:
            return None
        reach += step * (extent - 1)
    return reach


def same_thread_only(a: Linear, b: Linear, threads: Mapping[Var, int], extents: Mapping[Var, int]) -> bool:
    """Whether equal values of the forms imply equal thread indices; variables other than `threads` are independent in each.

    Both must have the same coefficients of the threads. Beside their part stand variables of smaller steps, which must not
    reach to the next thread, and others of which the steps are multiples of some G that all of it must stay below.

    extents : of the loop variables where they are known
    """
    steps = sorted((abs(a.terms.get(var, 0)), extent) for var, extent in threads.items() if extent > 1)
    if any(a.terms.get(var, 0) != b.terms.get(var, 0) for var in threads):
        return False
    if not steps:
        return True
    low = high = a.constant - b.constant
    far: list[int] = []
    for form, sign in ((a, 1), (b, -1)):
        for atom, c in form.terms.items():
            extent = extents.get(atom) if isinstance(atom, Var) else None
            if atom in threads or extent == 1:
                continue
            if extent is not None and abs(c) < steps[0][0]:
                most = sign * c * (extent - 1)
                low, high = low + min(0, most), high + max(0, most)
            else:
                far.append(c)
    step = gcd(*far)
    if step:
        middle = ((low + high) // 2 + step // 2) // step * step
        low, high = low - middle, high - middle
    reach = _mixed_radix(steps, 1 + max(abs(low), abs(high)))
    return reach is not None and (step == 0 or reach <= step)
