"""The numbers that a body of one's own keeps: what each may be between two stores.

A number is an expression of loop variables, sizes and variables of its own making: one that is either of some values (after an
`if`), one that lies between two ends (within a loop that changes it), or one that stands for data.
"""

from collections.abc import Sequence
from itertools import islice, product
from typing import NamedTuple

from vtakit.compiler.arith import Analyzer, linear_coefficients
from vtakit.compiler.arith.ranges import is_index
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import FLOAT_MATH, FLOAT_PAIRS, FLOAT_TESTS, OTHER_MATH
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import maximum, minimum
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import free_vars, subexpressions, substitute

MATH = frozenset((*FLOAT_MATH, *FLOAT_PAIRS, *FLOAT_TESTS, *OTHER_MATH))
MOST_WAYS = 16  # that are told apart by which a number may have got its value

Held = Expr | None  # what a buffer of one element, or any element of another, is; None while nothing was stored
State = dict[Buffer, Held]


class Ends(NamedTuple):
    """The least and the greatest value; None where none is known."""

    least: Expr | None
    greatest: Expr | None


def comes_from_tensors(e: Expr, data: set[Var]) -> bool:
    """Return whether a value is read from a tensor, or computed by something unknown."""
    for node in subexpressions(e):
        match node:
            case Load():
                return True
            case ir.Call() if node.name not in MATH:
                return True
            case Var() if node in data:
                return True
    return False


def is_single(buffer: Buffer) -> bool:
    """Return whether a buffer holds one number."""
    return all(int_value(extent) == 1 for extent in buffer.shape)


def extreme(values: Sequence[Expr], greatest: bool) -> Expr:
    """The least or the greatest of some values."""
    found = values[0]
    for value in values[1:]:
        found = maximum(found, value) if greatest else minimum(found, value)
    return found


class Numbers:
    """The variables that stand for numbers of a body, and what is known of them; the analyzer learns it too.

    data  : the variables that stand for what is read from tensors
    known : for each other its ends, or the values of which it is one; in the order made
    """

    def __init__(self, analyzer: Analyzer, data: set[Var]) -> None:
        self.analyzer, self.data = analyzer, data
        self.known: dict[Var, Ends | tuple[Expr, ...]] = {}
        self._read: dict[tuple[Buffer, int, tuple[Expr, ...]], tuple[Expr, Expr]] = {}

    def read(self, load: Load, held: Held) -> Expr:
        """Return the value of a load; the same value for the same element, as long as nothing is stored."""
        if held is None:
            return self.unknown(load.buffer)
        if is_single(load.buffer):
            return held
        key = load.buffer, id(held), load.indices
        if key not in self._read:
            self._read[key] = self._another(held), held  # which keeps the id its own
        return self._read[key][0]

    def _another(self, e: Expr) -> Expr:
        """A value of which the same is known: the elements of a buffer differ."""
        new: dict[Var, Expr] = {}
        for var in free_vars(e) & self.known.keys():
            of = self.known[var]
            new[var] = self.between(var, of) if isinstance(of, Ends) else self._one_of(var, [*map(self._another, of)])
        return substitute(e, new)

    def stored(self, buffer: Buffer, held: Held, value: Expr) -> Held:
        """Return the state of a buffer after a store."""
        if comes_from_tensors(value, self.data):
            value = self.of_data(buffer)
        elif value.dtype.lanes > 1 or not is_index(value.dtype):
            value = self.unknown(buffer)
        return value if is_single(buffer) else self.either(buffer, held, value)

    def either(self, buffer: Buffer, a: Held, b: Held) -> Held:
        """Return the state of a buffer that is in either of two states."""
        if a is None or b is None or ir.same(a, b):
            return b if a is None else a
        if self.is_of_data(a) or self.is_of_data(b):
            return self.of_data(buffer)
        return self._one_of(Var(buffer.name, a.dtype), [a, b]) if is_index(a.dtype) else self.unknown(buffer)

    def _one_of(self, like: Var, ways: Sequence[Expr]) -> Var:
        var = Var(like.name, like.dtype)
        self.known[var] = tuple(ways)
        self._bind(var, Ends(extreme(ways, False), extreme(ways, True)))
        return var

    def between(self, like: Var, ends: Ends) -> Var:
        """A number between two ends, with the name and the type of another."""
        var = Var(like.name, like.dtype)
        self.known[var] = ends
        self._bind(var, ends)
        return var

    def _bind(self, var: Var, ends: Ends) -> None:
        a = self.analyzer
        if ends.least is not None and ends.greatest is not None:
            a.bind(var, Range(a.simplify(ends.least), a.simplify(ends.greatest - ends.least + 1)))
        elif ends.least is not None:
            a.learn(var >= ends.least)
        elif ends.greatest is not None:
            a.learn(var <= ends.greatest)

    def unknown(self, buffer: Buffer) -> Var:
        """A number of which nothing is known."""
        return self.between(Var(buffer.name, buffer.dtype), Ends(None, None))

    def of_data(self, buffer: Buffer) -> Var:
        """A number that comes from a tensor."""
        var = Var(buffer.name, buffer.dtype)
        self.data.add(var)
        return var

    def is_of_data(self, held: Held) -> bool:
        """Return whether the value in a buffer comes from a tensor."""
        return held is not None and not self.data.isdisjoint(free_vars(held))

    # -- without variables that were made since there were `since` of them -----------------------------------------------

    def ways(self, e: Expr, since: int) -> list[Expr]:
        """The values of which it is one; it alone if they are too many."""
        made = [(var, of) for var in self._made(e, since) if not isinstance(of := self.known[var], Ends)]
        if not made:
            return [e]
        found: list[Expr] = []
        for values in product(*[of for _, of in made]):
            found += self.ways(substitute(e, dict(zip([var for var, _ in made], values, strict=True))), since)
            if len(found) > MOST_WAYS:
                return [e]
        return found

    def ends(self, e: Expr, since: int) -> Ends:
        """The least and the greatest value that it may have."""
        made = self._made(e, since)
        if not made:
            return Ends(e, e)
        found = linear_coefficients(e, made, self.analyzer)
        if found is not None and not free_vars(found.base) & set(made):
            times = [int_value(k) for k in found.coefficients]
            signs = {var: k > 0 for var, k in zip(made, times, strict=True) if k is not None}
            if len(signs) == len(made):
                return Ends(self._at_ends(e, signs, since, False), self._at_ends(e, signs, since, True))
        if isinstance(e, ir.Min | ir.Max):
            of = self.ends(e.a, since), self.ends(e.b, since)
            return Ends(_of_two(isinstance(e, ir.Max), of[0].least, of[1].least, False),
                        _of_two(isinstance(e, ir.Max), of[0].greatest, of[1].greatest, True))
        return Ends(*[None if isinstance(end, float) else const(end, e.dtype) for end in self.analyzer.bounds(e)])

    def _at_ends(self, e: Expr, signs: dict[Var, bool], since: int, greatest: bool) -> Expr | None:
        values = {}
        for var, up in signs.items():
            of = self.known[var]
            end = of[up == greatest] if isinstance(of, Ends) else extreme(of, up == greatest)
            if end is None:
                return None
            values[var] = end
        return self.ends(substitute(e, values), since)[greatest]

    def _made(self, e: Expr, since: int) -> list[Var]:
        free = free_vars(e)
        return [var for var in islice(self.known, since, None) if var in free] if free else []


def _of_two(of_max: bool, a: Expr | None, b: Expr | None, greatest: bool) -> Expr | None:
    """An end of the greater or the lesser of two numbers, from theirs: for one side, one of them is enough."""
    known = [end for end in (a, b) if end is not None]
    return extreme(known, of_max) if len(known) == 2 or (known and of_max != greatest) else None
