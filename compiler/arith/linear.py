"""Integer linear combinations over atoms: what an index expression is in normal form.

There is no atom for a remainder: ``x % c`` is ``x - c * (x // c)``. Splits, fuses and nested remainders then cancel by
addition alone; `vtakit.compiler.arith.ranges` finds the remainders again where a range or a text needs them.
"""

import math
from collections.abc import Collection, Iterable
from typing import Any

from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.walk import free_vars


class Atom:
    """Opaque atom of linear combinations. Two atoms are equal only if they are one object (a `State` makes each once).

    order : the number of atoms made before it
    """

    __slots__ = ("order",)

    def __init__(self, order: int) -> None:
        self.order = order


class Leaf(Atom):
    """A variable, or an expression with a meaning of its own: a read, a call, a select, a cast."""

    __slots__ = ("expr",)

    def __init__(self, order: int, expr: Expr) -> None:
        self.order, self.expr = order, expr


class Stride(Atom):
    """The k of a variable that is known to be ``step * k + base``."""

    __slots__ = ("base", "step", "var")

    def __init__(self, order: int, var: Leaf, step: int, base: int) -> None:
        self.order, self.var, self.step, self.base = order, var, step, base


class Quotient(Atom):
    """``dividend // divisor``, rounded down.

    by : the divisor if it is a constant (then at least 2), else 0
    """

    __slots__ = ("by", "dividend", "divisor")

    def __init__(self, order: int, dividend: "Linear", divisor: "Linear") -> None:
        self.order, self.dividend, self.divisor = order, dividend, divisor
        self.by = divisor.const if not divisor.terms else 0


class Product(Atom):
    """The product of two or more atoms, in their order; none of them is a product."""

    __slots__ = ("factors",)

    def __init__(self, order: int, factors: tuple[Atom, ...]) -> None:
        self.order, self.factors = order, factors


class Extreme(Atom):
    """The least or the greatest of two or more combinations."""

    __slots__ = ("args", "greatest")

    def __init__(self, order: int, args: "tuple[Linear, ...]", greatest: bool) -> None:
        self.order, self.args, self.greatest = order, args, greatest


class Linear:
    """``sum of coefficient * atom, plus const``; no coefficient is 0. Nothing changes one after it is made."""

    __slots__ = ("_key", "const", "terms")

    def __init__(self, terms: dict[Atom, int], const: int) -> None:
        self.terms, self.const = terms, const

    @property
    def key(self) -> tuple[int, frozenset[tuple[Atom, int]]]:
        """Return the hash key, which is the same for equal combinations."""
        try:
            return self._key
        except AttributeError:
            self._key: tuple[int, frozenset[tuple[Atom, int]]] = (self.const, frozenset(self.terms.items()))
            return self._key

    def plus(self, other: "Linear", times: int = 1) -> "Linear":
        """``self + times * other``."""
        if not other.terms:
            return Linear(self.terms, self.const + times * other.const) if other.const else self
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + times * coefficient
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Linear(terms, self.const + times * other.const)

    def shifted(self, by: int) -> "Linear":
        return Linear(self.terms, self.const + by) if by else self

    def scaled(self, by: int) -> "Linear":
        if by == 1:
            return self
        return Linear({atom: coefficient * by for atom, coefficient in self.terms.items()}, self.const * by) if by else ZERO

    def divided(self, by: int) -> "Linear":
        """Each coefficient divided by `by`, which divides it, and the constant rounded down."""
        if by == 1:
            return self
        return Linear({atom: coefficient // by for atom, coefficient in self.terms.items()}, self.const // by)

    def content(self) -> int:
        """The greatest common divisor of the coefficients; 0 if there is none."""
        return math.gcd(*self.terms.values())

    def single(self) -> Atom | None:
        """The atom, if this is one atom and nothing else."""
        if len(self.terms) == 1 and not self.const:
            atom, coefficient = next(iter(self.terms.items()))
            if coefficient == 1:
                return atom
        return None

    def same(self, other: "Linear") -> bool:
        return self is other or (self.const == other.const and self.terms == other.terms)

    def __repr__(self) -> str:
        return " + ".join([f"{value}*#{atom.order}" for atom, value in self.terms.items()] + [str(self.const)])


ZERO = Linear({}, 0)


def constant(value: int) -> Linear:
    return Linear({}, value)


def factors(atom: Atom) -> tuple[Atom, ...]:
    return atom.factors if type(atom) is Product else (atom,)


def in_order(atoms: Iterable[Any]) -> list[Any]:
    """Atoms by age."""
    return sorted(atoms, key=lambda atom: atom.order)


def mentions(atom: Atom, variables: Collection[Atom]) -> bool:
    """Return whether an atom's value depends on some variables."""
    if atom in variables:
        return True
    if isinstance(atom, Leaf):
        if isinstance(atom.expr, Var):
            return False
        used = free_vars(atom.expr)
        return any(isinstance(one, Leaf) and one.expr in used for one in variables)
    if isinstance(atom, Stride):
        return atom.var in variables
    inner: Iterable[Atom]
    if isinstance(atom, Quotient):
        inner = (*atom.dividend.terms, *atom.divisor.terms)
    elif isinstance(atom, Extreme):
        inner = [one for arg in atom.args for one in arg.terms]
    else:
        assert isinstance(atom, Product)
        inner = atom.factors
    return any(mentions(one, variables) for one in inner)
