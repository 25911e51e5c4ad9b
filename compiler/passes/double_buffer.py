"""Double buffering: what one iteration needs is produced while the one before is at work."""

from collections.abc import Callable

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, IntImm, Load, Var
from vtakit.compiler.ir.ops import maximum
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import map_stmt, substitute_stmt
from vtakit.compiler.lower.verify.double_buffers import doubled
from vtakit.compiler.passes.base import PassError
from vtakit.compiler.passes.copying import renewed

_Stage = Callable[[int, Expr], Stmt]


def double_buffer(function: Function) -> Function:
    """Buffers allocated with the note ``double_buffer`` within a serial loop get two halves, filled one iteration ahead.

    ``for k in range(K): B = allocate([4]); fill(B, k); use(B, k)``  ->  for an odd K, with ``p`` from 0 to (K - 1) // 2::

        B = allocate([2, 4]); fill(B[0], 0)
        for p: fill(B[1], 2p + 1); use(B[0], 2p); fill(B[0], 2p + 2); use(B[1], 2p + 1)
        use(B[0], K - 1)

    Both halves have a constant index, so no later analysis confuses them. Raises PassError if filling reads what the rest of
    the loop writes, or if a buffer's size changes with the loop.
    """
    return function._replace(body=map_stmt(function.body, lambda s: _rewrite(s, function)))


def _rewrite(s: Stmt, function: Function) -> Stmt:
    found = doubled(s)
    if found is None or not isinstance(s, st.For):
        return s
    conflict = found.conflict()
    if conflict is not None:
        fill, names = conflict
        raise PassError(
            f"double_buffer in loop {s.var.name!r}: filling reads {', '.join(names)}, which the loop writes, so it "
            "cannot run an iteration ahead: attach the two to different loops", function, fill,
        )
    uneven = found.uneven(s.var)
    if uneven is not None:
        raise PassError(f"double_buffer in loop {s.var.name!r}: the size of {uneven.name} changes with the loop", function, s)
    halves = {buffer: Buffer(
        buffer.name, (IntImm(2), *buffer.shape), buffer.dtype, buffer.scope, align=buffer.align,
        strides=(buffer.strides[0] * buffer.shape[0], *buffer.strides) if buffer.strides else (),
    ) for buffer in found.buffers}

    def at(stmts: list[Stmt], half: int, iteration: Expr) -> Stmt:
        """The statements for one iteration, on one half."""
        return substitute_stmt(_on_half(renewed(st.seq(*stmts)), halves, half), {s.var: iteration})

    inner = [wrap for wrap in found.wraps if wrap.buffer not in halves]
    body = _pipelined(s, lambda half, k: at(found.fills, half, k), lambda half, k: at(found.uses, half, k))
    for wrap in reversed(inner):  # allocations of the uses' own, which the halves of the loop share
        body = wrap.replace(body=body)
    for buffer in reversed(found.buffers):
        body = st.Allocate(halves[buffer], body)
    return body


def _pipelined(s: st.For, fill: _Stage, use: _Stage) -> Stmt:
    last = s.extent - 1
    pair = Var(s.var.name, s.var.dtype)
    body = st.seq(
        fill(1, pair * 2 + 1), use(0, pair * 2), fill(0, pair * 2 + 2), use(1, pair * 2 + 1),
    )
    pairs = maximum(last // 2, 0) if int_value(last) is None else last // 2
    odd = st.seq(fill(1, last), use(0, last - 1), use(1, last))  # one iteration is left to fill
    even = use(0, last)
    known = int_value(last)
    ending = st.If(last % 2 == 1, odd, even) if known is None else odd if known % 2 else even
    loop = st.For(pair, pairs, body, LoopKind.SERIAL, "", s.notes) if int_value(pairs) != 0 else None
    whole = st.seq(fill(0, IntImm(0, s.var.dtype)), loop, ending)
    return whole if known is not None else st.If(ir.LT(IntImm(0, s.extent.dtype), s.extent), whole)


def _on_half(s: Stmt, halves: dict[Buffer, Buffer], half: int) -> Stmt:
    at = IntImm(half)

    def on_expr(e: Expr) -> Expr:
        e = e.rebuild(on_expr)
        return Load(halves[e.buffer], (at, *e.indices)) if isinstance(e, Load) and e.buffer in halves else e

    def on_stmt(x: Stmt) -> Stmt:
        if isinstance(x, st.Store) and x.buffer in halves:
            return x.replace(buffer=halves[x.buffer], indices=(at, *x.indices))
        return x
    return map_stmt(s, on_stmt, on_expr)
