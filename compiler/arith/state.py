"""State of an analyzer: its atoms, ranges of variables, facts."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from vtakit.compiler.arith.linear import Atom, Extreme, Leaf, Linear, Product, Quotient, Stride, factors, in_order
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range

INF = float("inf")


class Bounds(NamedTuple):
    """``lo <= value <= hi``: integers, or infinities where there is no bound."""

    lo: int | float
    hi: int | float


class Modular(NamedTuple):
    """``value = coeff * k + base`` for some integer k, ``0 <= base < coeff``; of a constant, `coeff` is 0."""

    coeff: int
    base: int


ANY = Bounds(-INF, INF)
EVERY = Modular(1, 0)


Key = tuple[int, frozenset[tuple[Atom, int]]]  # Linear.key


class Frame:
    """Facts that hold at one place, and results derived from them.

    limits    : bounds of atoms that hold besides what the atom itself says
    symbolic  : the least and greatest value of a variable, where they are no constants
    values    : what a variable stands for
    facts     : combinations of two or more atoms that are at least 0
    floors    : the same by their terms: terms -> the least value of their sum
    truths    : conditions known to be true or false
    """

    __slots__ = (
        "bounds", "conditions", "exprs", "facts", "floors", "gaps", "limits", "linears", "modulars", "proofs", "residues",
        "results", "symbolic", "truths", "values",
    )

    def __init__(self, parent: "Frame | None" = None) -> None:
        self.limits: dict[Atom, Bounds] = dict(parent.limits) if parent else {}
        self.symbolic: dict[Atom, tuple[Linear, Linear]] = dict(parent.symbolic) if parent else {}
        self.values: dict[Var, Linear] = dict(parent.values) if parent else {}
        self.facts: list[Linear] = list(parent.facts) if parent else []
        self.floors: dict[frozenset[tuple[Atom, int]], int] = dict(parent.floors) if parent else {}
        self.truths: dict[Expr, bool] = dict(parent.truths) if parent else {}
        self.forget()

    def forget(self) -> None:
        """Drops what was worked out."""
        self.linears: dict[int, tuple[Expr, Linear]] = {}  # by the expression's address; the expression is kept alive
        self.conditions: dict[int, tuple[Expr, Expr]] = {}
        self.gaps: dict[int, tuple[Expr, Linear]] = {}  # of a comparison in normal form, the combination that is at least 0
        self.results: dict[int, tuple[Expr, Expr]] = {}
        self.bounds: dict[Atom, Bounds] = {}
        self.modulars: dict[Atom, Modular] = {}
        self.proofs: dict[Key, bool] = {}
        self.residues: dict[Key, tuple[list[tuple[int, Linear, Linear]], Linear]] = {}
        self.exprs: dict[tuple[Key, str], Expr] = {}


class State(ABC):
    """Atoms, each made once, and the frame in force."""

    @abstractmethod
    def linear(self, e: Expr) -> Linear:
        """The combination of an expression of an index type."""

    @abstractmethod
    def condition(self, e: Expr) -> Expr:
        """The normal form of a condition."""

    @abstractmethod
    def simplify(self, e: Expr) -> Expr:
        """The normal form of an expression."""

    @abstractmethod
    def assume_nonnegative(self, x: Linear) -> None:
        """Takes ``x >= 0`` in the frame in force."""

    @abstractmethod
    def other(self, e: Expr) -> Expr:
        """The normal form of an expression that is neither index arithmetic nor made of conditions."""

    @abstractmethod
    def bind(self, var: Var, to: Range | Expr | int) -> None:
        """Takes a variable to be within a range, or to be a value."""

    @abstractmethod
    def bounds(self, e: Expr) -> Bounds:
        """The interval of an expression."""

    @abstractmethod
    def linear_bounds(self, x: Linear) -> Bounds:
        """The interval of a combination."""

    @abstractmethod
    def divide(self, x: Linear, d: Linear) -> Linear:
        """``x // d``, rounded down."""

    @abstractmethod
    def remainder(self, x: Linear, d: Linear) -> Linear:
        """``x % d``, with the sign of d."""

    def __init__(self) -> None:
        self._atoms: dict[object, Atom] = {}
        self.frame = Frame()
        self.branches = 0  # of selects around what is being simplified

    def leaf(self, e: Expr) -> Leaf:
        """The atom of an expression."""
        atom = self._atoms.get(e)
        if atom is None:
            atom = self._atoms[e] = Leaf(len(self._atoms), e)
        assert isinstance(atom, Leaf)
        return atom

    def stride(self, var: Leaf, step: int, base: int) -> Linear:
        key = (var, step, base)
        if key not in self._atoms:
            self._atoms[key] = Stride(len(self._atoms), var, step, base)
        return Linear({self._atoms[key]: step}, base)

    def quotient_atom(self, dividend: Linear, divisor: Linear) -> Linear:
        key = (dividend.key, divisor.key)
        atom = self._atoms.get(key)
        if atom is None:
            atom = self._atoms[key] = Quotient(len(self._atoms), dividend, divisor)
        return Linear({atom: 1}, 0)

    def product_atom(self, *parts: Atom) -> Atom:
        key = tuple(in_order([factor for part in parts for factor in factors(part)]))
        atom = self._atoms.get(key)
        if atom is None:
            atom = self._atoms[key] = Product(len(self._atoms), key)
        return atom

    def extreme_atom(self, args: tuple[Linear, ...], greatest: bool) -> Linear:
        key = (greatest, frozenset(arg.key for arg in args))
        atom = self._atoms.get(key)
        if atom is None:
            atom = self._atoms[key] = Extreme(len(self._atoms), args, greatest)
        return Linear({atom: 1}, 0)

    def multiply(self, a: Linear, b: Linear) -> Linear:
        """The product, multiplied out."""
        if not b.terms:
            return a.scaled(b.const)
        if not a.terms:
            return b.scaled(a.const)
        terms: dict[Atom, int] = {}
        for x, p in a.terms.items():
            for y, q in b.terms.items():
                atom = self.product_atom(x, y)
                terms[atom] = terms.get(atom, 0) + p * q
            if b.const:
                terms[x] = terms.get(x, 0) + p * b.const
        if a.const:
            for y, q in b.terms.items():
                terms[y] = terms.get(y, 0) + q * a.const
        return Linear({atom: value for atom, value in terms.items() if value}, a.const * b.const)
