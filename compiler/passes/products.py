"""Products of warpgroups: they go on while the threads do, in groups that are waited for."""

from collections.abc import Sequence

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.expr import Call, Expr
from vtakit.compiler.ir.stmt import Stmt
from vtakit.compiler.ir.walk import map_stmt, statements
from vtakit.compiler.passes.async_copies import part_of

PRODUCT = "wgmma_tile"


def has_products(s: Stmt) -> bool:
    return any(map(_is_product, statements(s)))


def _is_product(s: Stmt) -> bool:
    return isinstance(s, st.Evaluate) and isinstance(s.value, Call) and s.value.name == PRODUCT


def products_done(newest: int, read: Sequence[tuple[Buffer, int]]) -> Stmt:
    """The wait for all products but the newest groups'; `read`: parts of buffers that they have read by then."""
    args: list[Expr] = [arg for buffer, part in read for arg in part_of(buffer, part, "r")]
    return st.Evaluate(effect("wgmma_wait", newest, *args))


def grouped(s: Stmt, newest: int, read: Sequence[tuple[Buffer, int]]) -> Stmt:
    """Return a statement with products as one group, and the wait for all but the newest groups."""
    return st.seq(st.Evaluate(effect("wgmma_fence")), s, st.Evaluate(effect("wgmma_commit")), products_done(newest, read))


def grouped_alone(s: Stmt) -> Stmt:
    """Return a statement in which products that belong to no group are waited for each."""
    if any(isinstance(x, st.Evaluate) and isinstance(x.value, Call) and x.value.name == "wgmma_commit" for x in statements(s)):
        return s
    return map_stmt(s, lambda x: grouped(x, 0, []) if _is_product(x) else x) if has_products(s) else s
