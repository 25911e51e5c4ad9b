"""Indices and conditions as sums of loop variables, evaluated while outer loops run at compile time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import add, and_, floordiv, le, lt, mod, mul, or_, sub
from typing import Any

from vtakit.compiler.codegen.vta.errors import UnfitError
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr, IntImm, Var
from vtakit.compiler.ir.values import wrapped
from vtakit.compiler.ir.walk import free_vars
from vtakit.compiler.passes.affine import Linear, linear

Env = Mapping[Var, int]

_OPERATIONS: dict[type[ir.Binary], Any] = {
    ir.Add: add, ir.Sub: sub, ir.Mul: mul, ir.FloorDiv: floordiv, ir.FloorMod: mod, ir.Min: min, ir.Max: max,
    ir.LT: lt, ir.LE: le, ir.And: and_, ir.Or: or_,
}


def evaluate(e: Expr, env: Env) -> int:
    """The value of an expression of integers while outer loops stand where `env` says.

    Raises UnfitError for what is not known when the program is made: data, symbolic sizes.
    """
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, Var):
        if e not in env:
            raise UnfitError(f"{e.name} is not known when the program is made")
        return env[e]
    if isinstance(e, ir.Binary):
        operation = _OPERATIONS.get(type(e))
        if operation is not None:
            return int(operation(evaluate(e.a, env), evaluate(e.b, env)))
        if isinstance(e, ir.EQ | ir.NE):
            return (evaluate(e.a, env) == evaluate(e.b, env)) is isinstance(e, ir.EQ)
    if isinstance(e, ir.Not):
        return not evaluate(e.a, env)
    if isinstance(e, ir.Select | ir.IfThenElse):
        return evaluate(e.true if evaluate(e.condition, env) else e.false, env)
    if isinstance(e, ir.Cast) and e.dtype.is_int:
        return wrapped(evaluate(e.value, env), e.dtype)
    raise UnfitError(f"{e} is not known when the program is made")


@dataclass(frozen=True, slots=True)
class Form:
    """``constant + sum of outer terms + sum of step * inner loop``.

    outer : coefficient and what it multiplies, known while the program is made
    steps : of each inner loop, which an instruction runs
    """

    constant: int
    outer: tuple[tuple[int, Expr], ...]
    steps: tuple[int, ...]

    def base(self, env: Env) -> int:
        """The value with all inner loops at 0."""
        total = self.constant
        for times, atom in self.outer:
            total += times * (env[atom] if type(atom) is Var and atom in env else evaluate(atom, env))
        return total


def form(e: Expr, inner: Sequence[Var]) -> Form:
    """An index in terms of the inner loops; they may stand in it only as linear terms (`bent` is empty)."""
    return _form(linear(e), inner)


def _form(found: Linear, inner: Sequence[Var]) -> Form:
    own = set(inner)
    outer = tuple((c, atom) for atom, c in found.terms.items() if atom not in own)
    return Form(found.constant, outer, tuple(found.terms.get(var, 0) for var in inner))


def bent(e: Expr, inner: Sequence[Var]) -> set[Var]:
    """The loops on which an index depends in another way than linearly."""
    own = set(inner)
    found: set[Var] = set()
    for atom in linear(e).terms:
        if type(atom) is not Var:
            found |= free_vars(atom) & own
    return found


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition that a sum is at most 0; at most one inner loop stands in it."""

    form: Form

    def clip(self, env: Env, ranges: list[range]) -> bool:
        """Narrow the range of the loop that the condition bounds; whether it holds, where it bounds none."""
        base = self.form.base(env)
        for at, step in enumerate(self.form.steps):
            if step > 0:
                ranges[at] = range(ranges[at].start, max(ranges[at].start, min(ranges[at].stop, -base // step + 1)))
            elif step < 0:
                ranges[at] = range(min(ranges[at].stop, max(ranges[at].start, -(-base // -step))), ranges[at].stop)
            if step:
                return len(ranges[at]) > 0
        return base <= 0


def conditions(e: Expr) -> list[Linear]:
    """The sums that must all be at most 0 for a condition to hold.

    Raises UnfitError for a condition that is no conjunction of linear comparisons.
    """
    match e:
        case ir.And():
            return [*conditions(e.a), *conditions(e.b)]
        case ir.LT() | ir.LE():
            found = linear(e.a) - linear(e.b)
            return [Linear(found.terms, found.constant + isinstance(e, ir.LT))]
        case ir.EQ():
            return [linear(e.a) - linear(e.b), linear(e.b) - linear(e.a)]
        case IntImm() if e.value:
            return []
    raise UnfitError(f"the condition {e} is no conjunction of comparisons of sums")


def guards(e: Expr, inner: Sequence[Var]) -> tuple[Guard, ...]:
    """A condition in terms of the inner loops; `tangled` of it is empty."""
    return tuple(Guard(_form(found, inner)) for found in conditions(e))


def tangled(e: Expr, inner: Sequence[Var]) -> set[Var]:
    """The loops that must run outside for a condition to bound only single inner loops."""
    found: set[Var] = set()
    for sum_ in conditions(e):
        own = [var for var in inner if var in sum_.terms]
        found |= set(own[:-1])
        for atom in sum_.terms:
            if type(atom) is not Var:
                found |= free_vars(atom) & set(inner)
    return found
