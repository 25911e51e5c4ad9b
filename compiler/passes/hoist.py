"""Conditions out of the loops that do not change them."""

from collections.abc import Iterator

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.walk import free_vars, map_stmt, subexpressions

_DIVISIONS = (ir.Div, ir.TruncDiv, ir.TruncMod, ir.FloorDiv, ir.FloorMod)  # what stands before them in a condition may guard them


def hoist_ifs(function: Function) -> Function:
    """A condition that a loop does not change is asked once, outside.

    ``for i in range(n): for k in range(8): if i < 5 and k > i: S``  ->
    ``for i in range(n): if i < 5: for k in range(8): if k > i: S``

    A condition that reads memory or divides stays, and so does one within a loop over threads, which remain outermost.
    """
    return function._replace(body=map_stmt(function.body, _hoist))


def _hoist(s: Stmt) -> Stmt:
    if not isinstance(s, st.For | st.LetStmt | st.Allocate | st.Attr):
        return s
    if not isinstance(s.body, st.If) or s.body.otherwise is not None:
        return s
    inner = s.body
    bound: Var | None = None
    if isinstance(s, st.For | st.LetStmt):
        bound = s.var
    if isinstance(s, st.For) and s.kind is LoopKind.THREAD:
        return s
    parts = [*_conjuncts(inner.condition)]
    fixed = [part for part in parts if bound not in free_vars(part) and not any(
        isinstance(x, Load | ir.Call) or (len(parts) > 1 and isinstance(x, _DIVISIONS)) for x in subexpressions(part))]
    if not fixed:
        return s
    rest = [part for part in parts if not any(part is found for found in fixed)]
    body = inner.replace(condition=all_of(*rest)) if rest else inner.then
    return st.If(all_of(*fixed), s.replace(body=body))


def _conjuncts(e: Expr) -> Iterator[Expr]:
    """Yield the conjuncts of a condition, in order."""
    if isinstance(e, ir.And):
        yield from _conjuncts(e.a)
        yield from _conjuncts(e.b)
    else:
        yield e
