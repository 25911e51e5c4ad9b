"""Double buffering: what one iteration needs is produced while those before it are at work."""

from collections.abc import Callable, Mapping

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, IntImm, Load, Var
from vtakit.compiler.ir.ops import maximum
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import map_stmt, substitute_stmt
from vtakit.compiler.lower.verify.double_buffers import ASYNC, NOTE, doubled
from vtakit.compiler.passes.async_copies import commit, copied_alone, marked, wait
from vtakit.compiler.passes.base import PassError
from vtakit.compiler.passes.copying import renewed
from vtakit.compiler.passes.products import grouped, grouped_alone, has_products, products_done

_Stage = Callable[[int, Expr], Stmt]
LEAST_STAGES = 3  # of a ring that a warpgroup's products read


def double_buffer(function: Function) -> Function:
    """Buffers allocated with the note ``double_buffer`` within a serial loop get two halves, filled one iteration ahead.

    ``for k in range(K): B = allocate([4]); fill(B, k); use(B, k)``  ->  for an odd K, with ``p`` from 0 to (K - 1) // 2::

        B = allocate([2, 4]); fill(B[0], 0)
        for p: fill(B[1], 2p + 1); use(B[0], 2p); fill(B[0], 2p + 2); use(B[1], 2p + 1)
        use(B[0], K - 1)

    With a note of N > 2, or with asynchronous copies, there are N parts, filled N - 1 iterations ahead; an iteration waits for
    the copies to the part that it uses. All parts have a constant index, so no later analysis confuses them. Raises PassError if
    filling reads what the rest of the loop writes, or if a buffer's size changes with the loop.
    """
    return function._replace(body=grouped_alone(map_stmt(function.body, lambda s: _rewrite(s, function))))


def _rewrite(s: Stmt, function: Function) -> Stmt:
    if isinstance(s, st.Allocate) and s.notes.get(ASYNC) and not s.notes.get(NOTE):
        return copied_alone(s)
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
    copies = {int(wrap.notes[NOTE]) for wrap in found.wraps if wrap.notes.get(NOTE)}
    copied = [wrap.buffer for wrap in found.wraps if wrap.notes.get(ASYNC) and wrap.buffer in found.buffers]
    if len(copies) > 1:
        raise PassError(f"double_buffer in loop {s.var.name!r}: its buffers have {' and '.join(map(str, sorted(copies)))} "
                        "copies: give them one number", function, s)
    stages = max(2, *copies)
    halves = {buffer: Buffer(
        buffer.name, (IntImm(stages), *buffer.shape), buffer.dtype, buffer.scope, align=buffer.align, swizzle=buffer.swizzle,
        strides=(buffer.strides[0] * buffer.shape[0], *buffer.strides) if buffer.strides else (),
    ) for buffer in found.buffers}

    def at(stmts: list[Stmt], half: int, iteration: Expr) -> Stmt:
        """The statements for one iteration, on one half."""
        return substitute_stmt(_on_half(renewed(st.seq(*stmts)), halves, half), {s.var: iteration})

    inner = [wrap for wrap in found.wraps if wrap.buffer not in halves]
    if stages == 2 and not copied:
        body = _pipelined(s, lambda half, k: at(found.fills, half, k), lambda half, k: at(found.uses, half, k))
    else:
        fills = [marked(fill, copied) for fill in found.fills]
        places = {half: [(halves[buffer], half) for buffer in copied] for half in range(stages)}
        body = _ring(s, stages, lambda half, k: at(fills, half, k), lambda half, k: at(found.uses, half, k), places, function)
    for wrap in reversed(inner):  # allocations of the uses' own, which the halves of the loop share
        body = wrap.replace(body=body)
    for buffer in reversed(found.buffers):
        body = st.Allocate(halves[buffer], body)
    return body


def _ring(s: st.For, stages: int, fill: _Stage, use: _Stage, places: Mapping[int, list[tuple[Buffer, int]]],
          function: Function) -> Stmt:
    """Each iteration fills the buffers for the one `stages` - 1 ahead, so many copies of the body to a loop.

    Where a warpgroup's products read the buffers, an iteration waits for those of the one before, and fills one less ahead.

    places : the buffers with their asynchronous copies, which an iteration waits for before it uses them
    """
    count, kind = s.extent, s.extent.dtype
    known = int_value(count)
    waits = any(places.values())
    products = waits and has_products(use(0, IntImm(0, kind)))
    if products and stages < LEAST_STAGES:
        raise PassError(f"double_buffer in loop {s.var.name!r}: {stages} copies are too few for products that go on while the "
                        f"next begin, which read one part longer: use {LEAST_STAGES} or more", function, s)
    ahead = stages - 2 if products else stages - 1

    def guarded(k: Expr, body: Stmt, *, most: int | None) -> Stmt:
        """The body if there is an iteration `k`, which is `most` at most."""
        certain = known is not None and most is not None and most < known
        never = known is not None and int_value(k) is not None and (int_value(k) or 0) >= known
        return body if certain else st.NOTHING if never else st.If(ir.LT(k, count), body)

    def step(half: int, k: Expr, most: int | None) -> Stmt:
        last = most + ahead if most is not None else None
        ahead_of = guarded(k + ahead, fill((half + ahead) % stages, k + ahead), most=last)
        if products:  # those of the iteration before are done after these have begun: their part is filled in the next one
            read = places[(half - 1) % stages]
            return st.seq(wait(ahead - 1, places[half]), grouped(use(half, k), 1, read), ahead_of, commit())
        before = [wait(ahead - 1, places[half]), ahead_of, commit()] if waits else [ahead_of]
        return st.seq(*before, use(half, k))

    def at(k: int) -> Expr:
        return IntImm(k, kind)
    begin = [part for k in range(ahead) for part in (guarded(at(k), fill(k, at(k)), most=k), commit() if waits else None)]
    turn = Var(s.var.name, s.var.dtype)
    if known is None:
        turns: Expr = (count + ahead) // stages
        steps = [guarded(turn * stages + half, step(half, turn * stages + half, None), most=None) for half in range(stages)]
        end = [products_done(0, [])] if products else []
        return st.seq(*begin, st.For(turn, turns, st.seq(*steps), LoopKind.SERIAL, "", s.notes), *end)
    whole, rest = divmod(known, stages)
    steps = [step(half, turn * stages + half, (whole - 1) * stages + half) for half in range(stages)]
    loop = st.For(turn, at(whole), st.seq(*steps), LoopKind.SERIAL, "", s.notes) if whole else None
    end = [step(half, at(whole * stages + half), whole * stages + half) for half in range(rest)]
    return st.seq(*begin, loop, *end, products_done(0, []) if products else None)


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
