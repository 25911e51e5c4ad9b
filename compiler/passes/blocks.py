"""Blocks into plain statements."""

from vtakit.compiler.ir.iters import IterKind
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.stmt import Block, Function, If, Stmt, seq
from vtakit.compiler.ir.values import value_of
from vtakit.compiler.ir.walk import map_stmt, substitute, substitute_stmt


def inline_blocks(function: Function) -> Function:
    """Each block becomes its body over the loop variables, its predicate an If, its init an If on the first reduce steps.

    ``for k in range(8): block C(v = k) where k < 5: init: C[0] = 0; C[0] = C[0] + A[v]``  ->
    ``for k in range(8): if k < 5: { if k == 0: C[0] = 0; C[0] = C[0] + A[k] }``
    """
    return function._replace(body=map_stmt(function.body, _inline))


def _inline(s: Stmt) -> Stmt:
    if not isinstance(s, Block):
        return s
    values = {it.var: it.binding for it in s.iters}
    init = None
    if s.init is not None:
        first = all_of(*[
            it.binding == substitute(it.dom.min, values) for it in s.iters if it.kind is IterKind.REDUCE
        ])
        init = _guarded(first, substitute_stmt(s.init, values))
    return _guarded(substitute(s.predicate, values), seq(init, substitute_stmt(s.body, values)))


def _guarded(condition: object, body: Stmt) -> Stmt:
    from vtakit.compiler.ir.expr import Expr
    assert isinstance(condition, Expr)
    return body if value_of(condition) == 1 else If(condition, body)
