"""Tokens between the queues of a coprocessor, and barriers between it and the host.

A statement under ``Attr("coproc_scope", …, q)`` runs on queue q of the coprocessor, in the order of that queue only; other
statements run on the host. ``coproc_push(p, q)``, run by queue p, gives queue q a token; ``coproc_pop(p, q)``, run by queue q,
waits for one. Tokens carry no data: the n-th pop takes the n-th push.
"""

from collections.abc import Sequence
from typing import NamedTuple

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.expr import Expr, IntImm, Load, Ramp, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.stmt import Function, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import statements, subexpressions
from vtakit.compiler.passes.affine import linear, span

SCOPE = "coproc_scope"
Pair = tuple[int, int]  # (pushing queue, popping queue)
HOST = -1


class _Access(NamedTuple):
    queue: int
    data: Var
    writes: bool
    low: float  # elements touched, at most
    high: float
    buffer: Buffer


def coproc_sync(function: Function) -> Function:
    """Order between the queues and with the host wherever memory asks for it.

    ``for i in range(n): [queue 1] A = …; [queue 2] B = A``  ->
    ``push(2, 1); for i in range(n): pop(2, 1); [1] A = …; push(1, 2); pop(1, 2); [2] B = A; push(2, 1);  pop(2, 1)``

    - A push and a pop stand between a statement and the last earlier one of another queue that touches the same elements, one
      of them writing, unless a token between them orders both already.
    - The same from one iteration of a loop to the next: such a pair is primed before the loop and drained after it.
    - Before a coprocessor's statement that reads what the host may have written stands ``coproc_read_barrier(buffer, first,
      count)``; where the host touches what the coprocessor wrote, ``coproc_sync()`` and ``coproc_write_barrier(buffer, first,
      count)`` stand before it, or at the end of the loop around both.
    """
    planner = _Planner()
    body = planner.tokens(function.body)
    return function._replace(body=_host_barriers(body, planner))


class _Planner:
    def __init__(self) -> None:
        self.extents: dict[Var, int] = {}
        self.analyzer = Analyzer()

    # Tokens

    def tokens(self, s: Stmt) -> Stmt:
        """The statement with the tokens that order its own parts."""
        if isinstance(s, st.Attr) and s.key == SCOPE:
            return s
        if isinstance(s, st.For):
            extent = int_value(s.extent)
            if extent is not None:
                self.extents[s.var] = extent
            self.analyzer.bind(s.var, Range(IntImm(0, s.var.dtype), s.extent))
            return self._loop(s)
        if isinstance(s, st.Seq):
            return st.seq(*self._row([self.tokens(part) for part in s.stmts])[0])
        return s.rebuild(self.tokens, lambda e: e)

    def _loop(self, s: st.For) -> Stmt:
        wraps: list[st.Allocate | st.Attr] = []
        body: Stmt = s.body
        while isinstance(body, st.Allocate) or (isinstance(body, st.Attr) and body.key != SCOPE):
            wraps.append(body)
            body = body.body
        parts = [self.tokens(part) for part in (body.stmts if isinstance(body, st.Seq) else (body,))]
        row, carried = self._row(parts, carried=True)
        new: Stmt = st.seq(*row)
        for wrap in reversed(wraps):
            new = wrap.replace(body=new)
        loop = s.replace(body=new)
        return st.seq(*[_push(pair) for pair in carried], loop, *[_pop(pair) for pair in carried])

    def _row(self, parts: Sequence[Stmt], *, carried: bool = False) -> tuple[list[Stmt], list[Pair]]:
        """Statements one after another with their tokens; and the pairs that go from one iteration to the next."""
        touched = [self.accesses(part) for part in parts]
        inside = [_pairs_in(part) for part in parts]
        pops: list[list[Pair]] = [[] for _ in parts]
        pushes: list[list[Pair]] = [[] for _ in parts]
        last: dict[Pair, int] = {}  # the latest statement that a pair's tokens order so far, on its pushing side
        queues = sorted({access.queue for row in touched for access in row if access.queue != HOST})
        pairs = [(p, q) for p in queues for q in queues if p != q]
        for b in range(len(parts)):
            for pair in pairs:
                needed = [a for a in range(b) if _conflict(touched[a], pair[0], touched[b], pair[1])]
                if needed and needed[-1] > last.get(pair, -1):
                    a = needed[-1]
                    early = next((x for x in range(a + 1, b) if pair in inside[x]), b)  # before tokens of the same pair within
                    pushes[a].append(pair)
                    pops[early].append(pair)
                    last[pair] = a
                if pair in inside[b]:
                    last[pair] = max(last.get(pair, -1), b)
        around: list[Pair] = []
        for pair in pairs if carried else ():
            where = [
                (a, b) for a in range(len(parts)) for b in range(a + 1)
                if _conflict(touched[a], pair[0], touched[b], pair[1])
            ]
            if not where:
                continue
            first_pop = next((x for x in range(len(parts)) if pair in pops[x] or pair in inside[x]), len(parts))
            last_push = next((x for x in reversed(range(len(parts))) if pair in pushes[x] or pair in inside[x]), -1)
            pushes[max(*(a for a, _ in where), last_push)].append(pair)
            pops[min(*(b for _, b in where), first_pop)].insert(0, pair)
            around.append(pair)
        row = [
            stmt for before, part, after in zip(pops, parts, pushes, strict=True)
            for stmt in (*map(_pop, before), part, *map(_push, after))
        ]
        return row, around

    # What is touched

    def accesses(self, s: Stmt, queue: int = HOST) -> list[_Access]:
        if isinstance(s, st.Attr) and s.key == SCOPE:
            queue = int_value(s.value) or 0 if isinstance(s.value, Expr) else int(s.value)
        if isinstance(s, st.For) and int_value(s.extent) is not None:
            self.extents[s.var] = int_value(s.extent) or 0
        found: list[_Access] = []
        if isinstance(s, st.Store):
            found.append(self._access(queue, s.buffer, s.indices[0], writes=True))
        for name in s.fields:
            value = getattr(s, name)
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Stmt):
                    found += self.accesses(part, queue)
                elif isinstance(part, Expr):
                    found += self._reads(queue, part)
        return found

    def _reads(self, queue: int, e: Expr) -> list[_Access]:
        found: list[_Access] = []
        for x in subexpressions(e):
            if isinstance(x, ir.Call) and x.name == "address_of":
                load, _, mask = x.args
                assert isinstance(load, Load)
                assert isinstance(mask, ir.StringImm)
                found += [
                    _Access(queue, load.buffer.data, letter == "w", float("-inf"), float("inf"), load.buffer)
                    for letter in mask.value
                ]
            elif isinstance(x, Load):
                found.append(self._access(queue, x.buffer, x.indices[0], writes=False))
        return found

    def _access(self, queue: int, buffer: Buffer, index: Expr, *, writes: bool) -> _Access:
        base, more = (index.base, (index.lanes - 1) * (int_value(index.stride) or 0)) if isinstance(index, Ramp) else (index, 0)
        ends = span(linear(self.analyzer.simplify(base)), self.extents)
        low, high = (ends[0], ends[1] + more) if ends is not None else (float("-inf"), float("inf"))
        return _Access(queue, buffer.data, writes, low, high, buffer)


def _conflict(earlier: list[_Access], p: int, later: list[_Access], q: int) -> bool:
    return any(
        a.data is b.data and (a.writes or b.writes) and a.low <= b.high and b.low <= a.high
        for a in earlier if a.queue == p for b in later if b.queue == q
    )


def _pairs_in(s: Stmt) -> set[Pair]:
    found: set[Pair] = set()
    for inner in statements(s):
        e = inner.value if isinstance(inner, st.Evaluate) else None
        if isinstance(e, ir.Call) and e.name in ("coproc_push", "coproc_pop"):
            p, q = map(int_value, e.args)
            found.add((p or 0, q or 0))
    return found


def _push(pair: Pair) -> Stmt:
    return st.Evaluate(effect("coproc_push", *pair))


def _pop(pair: Pair) -> Stmt:
    return st.Evaluate(effect("coproc_pop", *pair))


# The host


def _host_barriers(s: Stmt, planner: _Planner) -> Stmt:
    """Barriers in every row of statements in which the host and the coprocessor share memory."""
    if isinstance(s, st.Attr) and s.key == SCOPE:
        return s
    if isinstance(s, st.For | st.Seq):
        row = s if isinstance(s, st.Seq) else s.body
        parts = [_host_barriers(part, planner) for part in (row.stmts if isinstance(row, st.Seq) else (row,))]
        new = st.seq(*_with_barriers(parts, planner, carried=isinstance(s, st.For)))
        return s.replace(body=new) if isinstance(s, st.For) else new
    return s.rebuild(lambda inner: _host_barriers(inner, planner), lambda e: e)


def _with_barriers(parts: Sequence[Stmt], planner: _Planner, *, carried: bool) -> list[Stmt]:
    touched = [planner.accesses(part) for part in parts]
    host = [all(access.queue == HOST for access in row) for row in touched]
    row: list[Stmt] = []
    # By the host since the last barrier; in a loop also by the iteration before.
    written = [a for accesses in touched for a in accesses if a.queue == HOST and a.writes] if carried else []
    pending: list[_Access] = []  # by the coprocessor since the last barrier
    for part, own, is_host in zip(parts, touched, host, strict=True):
        if is_host:
            shared = [a for a in pending if any(b.data is a.data for b in own)]
            if shared:
                row += _writeback(shared)
                pending = []
            written += [a for a in own if a.writes]
        elif any(a.queue != HOST for a in own):
            reads = [a for a in own if a.queue != HOST and not a.writes and any(b.data is a.data for b in written)]
            row += _barriers("coproc_read_barrier", reads)
            written = [b for b in written if all(b.data is not a.data for a in reads)]
            pending += [a for a in own if a.queue != HOST and a.writes]
        row.append(part)
    if carried:
        hosts = {a.data for accesses, is_host in zip(touched, host, strict=True) if is_host for a in accesses}
        shared = [a for a in pending if a.data in hosts]
        if shared:
            row += _writeback(shared)
    return row


def _writeback(accesses: list[_Access]) -> list[Stmt]:
    return [st.Evaluate(effect("coproc_sync")), *_barriers("coproc_write_barrier", accesses)]


def _barriers(name: str, accesses: list[_Access]) -> list[Stmt]:
    """One barrier a buffer, over all elements touched; over the whole buffer where they are not known."""
    found: list[Stmt] = []
    for data in dict.fromkeys(access.data for access in accesses):
        own = [access for access in accesses if access.data is data]
        low, high = min(a.low for a in own), max(a.high for a in own)
        size = int_value(own[0].buffer.shape[0])
        if low == float("-inf") or high == float("inf"):
            low, high = 0, (size or 0) - 1
        found.append(st.Evaluate(effect(name, own[0].buffer.access_ptr("rw"), int(low), int(high - low + 1))))
    return found
