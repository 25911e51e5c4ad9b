"""Conditions out of the loops that do not change them."""

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.expr import Load, Var
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.walk import free_vars, map_stmt, subexpressions


def hoist_ifs(function: Function) -> Function:
    """A condition that a loop does not change is asked once, outside.

    ``for i in range(n): for k in range(8): if i < 5: S``  ->  ``for i in range(n): if i < 5: for k in range(8): S``

    A condition that reads memory stays, and so does one within a loop over threads, which remain outermost.
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
    if bound in free_vars(inner.condition) or any(isinstance(x, Load | ir.Call) for x in subexpressions(inner.condition)):
        return s
    return st.If(inner.condition, s.replace(body=inner.then))
