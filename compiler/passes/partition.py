"""Loops split where a guard begins or ceases to hold, so that most iterations have no condition."""

from collections.abc import Iterator
from typing import NamedTuple

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.expr import Expr, IntImm, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import all_of, maximum, minimum
from vtakit.compiler.ir.stmt import PARTITION, WHOLE, Function, LoopKind, Stmt
from vtakit.compiler.ir.values import TRUE, int_value
from vtakit.compiler.ir.walk import free_vars, map_expr, map_stmt, statements, subexpressions, substitute_stmt
from vtakit.compiler.lower.verify.double_buffers import doubled
from vtakit.compiler.passes.affine import linear
from vtakit.compiler.passes.copying import renewed

_DEEPEST = 4  # partitions within partitions: each may double the code
_Inner = tuple[dict[Var, Expr], set[Var]]  # the variables of the loops within a loop with their extents, and those of lets


def partition_loops(function: Function, *, constant_loops: bool = True) -> Function:
    """Take guards of uneven splits out of the iterations in which they hold anyway.

    ``for o in range(13): for i in range(8): if o * 8 + i < 100: S``  ->
    ``for o in range(12): for i in range(8): S;  for i in range(4): S``

    The branches of parallel and block loops stay in one loop, behind one condition: ``if o < 12: … else: …``; so do those of
    fused loops where a quotient decides. Thread loops stay whole, since threads that part could not meet at a barrier; and so
    does a loop with the note `WHOLE`. One with the note `PARTITION` is also split by what if_then_else asks in values:

    ``for i in range(10): A[i] = if_then_else(1 <= i, B[i - 1], 0)``  ->  ``A[0] = 0;  for i in range(9): A[i + 1] = B[i]``

    constant_loops : whether loops of constant extent are split too
    """
    return function._replace(body=_Partitioner(constant_loops=constant_loops).stmt(function.body, 0))


class _Solved(NamedTuple):
    """A guard holds in the iterations ``low <= v < high``, whatever the inner loops do; None: no bound."""

    guard: Expr
    low: Expr | None
    high: Expr | None


class _Partitioner:
    def __init__(self, *, constant_loops: bool) -> None:
        self.constant_loops = constant_loops
        self.analyzer = Analyzer()
        self.threads: set[Var] = set()

    def stmt(self, s: Stmt, depth: int) -> Stmt:
        if not isinstance(s, st.For):
            return s.rebuild(lambda inner: self.stmt(inner, depth), lambda e: e)
        self.analyzer.bind(s.var, Range(IntImm(0, s.var.dtype), s.extent))
        if s.thread.startswith("threadIdx"):
            self.threads.add(s.var)
        wanted = (self.constant_loops or int_value(s.extent) is None) and WHOLE not in s.notes
        hinted = PARTITION in s.notes
        if hinted:
            s = s.replace(notes={key: value for key, value in s.notes.items() if key != PARTITION})
        found = self._partition(s, depth, hinted) if wanted and depth < _DEEPEST and _may_split(s) else None
        return s.replace(body=self.stmt(s.body, depth)) if found is None else found

    def _partition(self, s: st.For, depth: int, hinted: bool) -> Stmt | None:
        inside = [*statements(s.body)]
        guards = [guard for x in inside if isinstance(x, st.If) for guard in _conjuncts(x.condition)]
        if hinted:
            asked = [e.condition for x in inside if isinstance(x, st.Store) for e in subexpressions(x.value)
                     if isinstance(e, ir.IfThenElse)]
            guards += [guard for condition in asked for guard in _conjuncts(condition)]
        if not guards:
            return None
        within = (
            {loop.var: loop.extent for loop in inside if isinstance(loop, st.For)},
            {let.var for let in inside if isinstance(let, st.LetStmt)},
        )
        solved = [found for guard in guards if (found := self._solve(s, guard, within)) is not None]
        zero = IntImm(0, s.var.dtype)
        low: Expr = zero
        high: Expr = s.extent
        taken: list[Expr] = []
        for guard, first, last in solved:
            new_low = low if first is None else self.analyzer.simplify(maximum(low, first))
            new_high = high if last is None else self.analyzer.simplify(minimum(high, last))
            if self.analyzer.prove(new_high <= new_low):
                continue
            low, high = new_low, new_high
            taken.append(guard)
        if not self.analyzer.prove(low <= s.extent):  # in some iterations of the loops around, no iteration is free of the guard
            low = self.analyzer.simplify(minimum(low, s.extent))
        whole = self.analyzer.prove_equal(low, 0) and self.analyzer.prove_equal(high, s.extent)
        if not taken or (whole and int_value(s.extent) is None):
            return self._apart(s, guards, within, depth)
        constant = int_value(low) is not None and int_value(high) is not None and int_value(s.extent) is not None
        if not constant and s.kind in (LoopKind.VECTORIZED, LoopKind.UNROLLED):
            return self._apart(s, guards, within, depth)
        free = _without_guards(s.body, taken)
        if whole:
            return self.stmt(s.replace(body=free), depth)
        if s.kind in (LoopKind.PARALLEL, LoopKind.THREAD):
            fits = self.analyzer.simplify(all_of(low <= s.var, s.var < high))
            rest = renewed(s.body)
            if self.analyzer.prove_equal(low, 0) and self.analyzer.prove_equal(high, s.extent - 1):
                rest = substitute_stmt(rest, {s.var: high})  # one iteration, so that guards in it are of constants
            return s.replace(body=st.If(fits, self.stmt(free, depth), self.stmt(rest, depth + 1)))
        high = self.analyzer.simplify(maximum(high, low))
        return st.seq(
            self._part(s, s.body, zero, low, depth), self._part(s, free, low, high, depth, fast=True),
            self._part(s, s.body, high, s.extent, depth),
        )

    def _apart(self, s: st.For, guards: list[Expr], within: _Inner, depth: int) -> Stmt | None:
        """The loop with one condition for what is quotients of its variable, as of fused loops, in front of a body without it.

        ``for f in range(28): for i in range(16): if f % 7 * 16 + i < 100: S``  ->
        ``for f in range(28): if f % 7 * 16 + 15 < 100: for i in range(16): S;  else: for i in range(16): if …: S``
        """
        if doubled(s) is not None:  # its buffers are to stand directly in the loop
            return None
        found = {id(guard): always for guard in guards if (always := self._always(s, guard, within)) is not None}
        if not found:
            return None
        fits = self.analyzer.simplify(all_of(*found.values()))
        if int_value(fits) is not None:
            return None
        free = _without_guards(s.body, [guard for guard in guards if id(guard) in found])
        return s.replace(body=st.If(fits, self.stmt(free, depth), self.stmt(renewed(s.body), depth + 1)))

    def _always(self, s: st.For, guard: Expr, within: _Inner) -> Expr | None:
        """When a guard holds whatever the inner loops do, if quotients of the loop's variable decide; None if they do not."""
        assert isinstance(guard, ir.LT | ir.LE)
        if guard.a.dtype.code != "int":
            return None
        form = linear(self.analyzer.simplify(guard.a - guard.b))
        inner, bound = within
        if not any(type(atom) is not Var and s.var in free_vars(atom) for atom in form.terms):
            return None
        worst = 0
        for atom, c in form.terms.items():
            if isinstance(atom, Var) and atom in inner:
                extent = int_value(inner[atom])
                if extent is None:
                    return None
                worst += max(0, c * (extent - 1))
            elif any(x in inner or x in bound or x in self.threads or isinstance(x, ir.Load) for x in subexpressions(atom)):
                return None
        rest = form.without(inner).expr() + worst
        return self.analyzer.simplify(rest < 0 if isinstance(guard, ir.LT) else rest <= 0)

    def _part(self, s: st.For, body: Stmt, first: Expr, end: Expr, depth: int, *, fast: bool = False) -> Stmt:
        """The loop from `first` to `end`."""
        extent = self.analyzer.simplify(end - first)
        count = int_value(extent)
        if count is not None and count <= 0:
            return st.NOTHING
        body, deeper = (body, depth) if fast else (renewed(body), depth + 1)
        if count == 1:
            return self.stmt(substitute_stmt(body, {s.var: first}), deeper)
        var = Var(s.var.name, s.var.dtype)
        self.analyzer.bind(var, Range(IntImm(0, var.dtype), extent))
        moved = substitute_stmt(body, {s.var: self.analyzer.simplify(var + first)})
        return s.replace(var=var, extent=extent, body=self.stmt(moved, deeper))

    def _solve(self, s: st.For, guard: Expr, within: _Inner) -> _Solved | None:
        """In which iterations a guard holds for certain; None if that is not to be found, or in all or none."""
        assert isinstance(guard, ir.LT | ir.LE)
        if guard.a.dtype.code != "int":
            return None
        form = linear(guard.a) - linear(guard.b)  # the guard: form <= limit
        if any(type(atom) is not Var for atom in form.terms):
            form = linear(self.analyzer.simplify(guard.a - guard.b))
        limit = -1 if isinstance(guard, ir.LT) else 0
        step = form.terms.get(s.var, 0)
        if not step:
            return None
        worst = form.constant
        inner, bound = within
        for atom, c in form.terms.items():
            if atom is s.var:
                continue
            if isinstance(atom, Var) and atom in inner:
                extent = int_value(inner[atom])
                if extent is None:
                    return None
                worst += max(0, c * (extent - 1))
            elif any(x is s.var or x in inner or x in bound or isinstance(x, ir.Load) for x in subexpressions(atom)):
                return None
            elif any(x in self.threads for x in subexpressions(atom)):
                return None  # threads would run different numbers of iterations
        outer = form.without([s.var, *inner])
        rest: Expr = outer.without(()).expr() if outer.terms else IntImm(outer.constant, s.var.dtype)
        rest = rest + (worst - outer.constant)  # its greatest value over the inner loops
        if isinstance(rest, IntImm):
            end = IntImm((limit - rest.value) // step + 1 if step > 0 else -((limit - rest.value) // -step), s.var.dtype)
            return _Solved(guard, None, end) if step > 0 else _Solved(guard, end, None)
        if step > 0:
            return _Solved(guard, None, self.analyzer.simplify((limit - rest) // step + 1))
        return _Solved(guard, self.analyzer.simplify((rest - limit + (-step - 1)) // -step), None)


def _may_split(s: st.For) -> bool:
    return s.kind is not LoopKind.THREAD or s.thread.startswith("blockIdx")


def _conjuncts(e: Expr) -> Iterator[Expr]:
    """The comparisons that all must hold for a condition."""
    if isinstance(e, ir.And):
        yield from _conjuncts(e.a)
        yield from _conjuncts(e.b)
    elif isinstance(e, ir.LT | ir.LE):
        yield e


def _without_guards(body: Stmt, guards: list[Expr]) -> Stmt:
    gone = {id(guard) for guard in guards}

    def condition(e: Expr) -> Expr:
        if id(e) in gone:
            return TRUE
        return all_of(condition(e.a), condition(e.b)) if isinstance(e, ir.And) else e

    def on_expr(e: Expr) -> Expr:
        if not isinstance(e, ir.IfThenElse):
            return e
        new = condition(e.condition)
        return e.true if int_value(new) == 1 else e.replace(condition=new)

    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, st.Store) and any(isinstance(e, ir.IfThenElse) for e in subexpressions(s.value)):
            return s.replace(value=map_expr(s.value, on_expr))
        if not isinstance(s, st.If):
            return s
        new = condition(s.condition)
        return s.then if int_value(new) == 1 else s.replace(condition=new)
    return map_stmt(body, on_stmt)
