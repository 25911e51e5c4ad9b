"""Virtual threads: their iterations side by side, statement by statement."""

from collections.abc import Iterable

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.walk import expressions, map_stmt, statements, subexpressions, substitute_stmt
from vtakit.compiler.passes.copying import renewed

VIRTUAL = ("vthread", "cthread")


def virtual_threads(function: Function) -> Function:
    """Each virtual thread loop moves inwards to the statements that differ between its iterations.

    ``for v in bind[vthread](2): B = allocate([4]); S1(B, v); S2(B, v)``  ->
    ``B = allocate([2, 4]); for v in unrolled(2): S1(B[v], v);  for v in unrolled(2): S2(B[v], v)``

    Memory allocated within, of which contents or use depend on the virtual thread, gets a leading dimension. With the tag
    ``vthread`` the rest is done once for all; with ``cthread`` each virtual thread has all memory and does everything itself.
    """
    def on_stmt(s: Stmt) -> Stmt:
        if not (isinstance(s, st.For) and s.kind is LoopKind.THREAD and s.thread.startswith(VIRTUAL)):
            return s
        return _VirtualThreads(s).run()
    return function._replace(body=map_stmt(function.body, on_stmt))


class _VirtualThreads:
    def __init__(self, loop: st.For) -> None:
        self.loop = loop
        self.alike = loop.thread.startswith("cthread")
        self.own: dict[Buffer, Buffer] = {}
        self.differing: set[Var] = {loop.var}  # variables and addresses whose value or contents depend on the virtual thread

    def run(self) -> Stmt:
        allocated = {s.buffer for s in statements(self.loop.body) if isinstance(s, st.Allocate)}
        if self.alike:
            self.differing |= {buffer.data for buffer in allocated}
        else:
            self._find_differing(self.loop.body, {buffer.data for buffer in allocated})
        for buffer in allocated:
            if buffer.data in self.differing:
                self.own[buffer] = self._with_dimension(buffer)
        return self.inject(map_stmt(self.loop.body, self._own_stmt, self._own_expr))

    def _with_dimension(self, buffer: Buffer) -> Buffer:
        strides: tuple[Expr, ...] = ()
        if buffer.strides:
            reach = buffer.offset + 1
            for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
                reach = reach + (extent - 1) * stride
            strides = (reach, *buffer.strides)
        return Buffer(
            buffer.name, (self.loop.extent, *buffer.shape), buffer.dtype, buffer.scope, strides=strides, align=buffer.align,
            offset=buffer.offset, swizzle=buffer.swizzle,
        )

    # What differs between virtual threads

    def _find_differing(self, body: Stmt, allocated: set[Var]) -> None:
        """Adds what depends on the virtual thread, until nothing new is found."""
        before = 0
        while len(self.differing) != before:
            before = len(self.differing)
            self._mark(body, allocated, within=False)

    def _mark(self, s: Stmt, allocated: set[Var], *, within: bool) -> None:
        """within : whether the statement runs under a condition or in a loop that differs"""
        if isinstance(s, st.Store):
            if (within or self._any_differs((*s.indices, s.value))) and s.buffer.data in allocated:
                self.differing.add(s.buffer.data)
        elif isinstance(s, st.Evaluate):
            addressed = {x.buffer.data for x in subexpressions(s.value) if isinstance(x, Load)}
            if within or self.differs(s.value):
                self.differing |= addressed & allocated
        elif isinstance(s, st.LetStmt):
            if self.differs(s.value):
                self.differing.add(s.var)
        elif isinstance(s, st.For | st.While | st.If):
            test = s.extent if isinstance(s, st.For) else s.condition
            if self.differs(test):
                within = True
                if isinstance(s, st.For):
                    self.differing.add(s.var)

        def on_stmt(inner: Stmt) -> Stmt:
            self._mark(inner, allocated, within=within)
            return inner
        s.rebuild(on_stmt, lambda e: e)

    def differs(self, e: Expr) -> bool:
        return any(
            (isinstance(x, Var) and x in self.differing) or (isinstance(x, Load) and x.buffer.data in self.differing)
            for x in subexpressions(e)
        )

    def _any_differs(self, items: Iterable[Expr]) -> bool:
        return any(map(self.differs, items))

    # Memory of one's own

    def _own_expr(self, e: Expr) -> Expr:
        e = e.rebuild(self._own_expr)
        if isinstance(e, Load) and e.buffer in self.own:
            return Load(self.own[e.buffer], (self.loop.var, *e.indices))
        return e

    def _own_stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, st.Store) and s.buffer in self.own:
            return s.replace(buffer=self.own[s.buffer], indices=(self.loop.var, *s.indices))
        if isinstance(s, st.Allocate) and s.buffer in self.own:
            return s.replace(buffer=self.own[s.buffer])
        if isinstance(s, st.Attr) and isinstance(s.node, Buffer) and s.node in self.own:
            return s.replace(node=self.own[s.node])
        return s

    # The loop around each statement that needs it

    def inject(self, s: Stmt) -> Stmt:
        if isinstance(s, st.Seq):
            return st.seq(*map(self.inject, s.stmts))
        if isinstance(s, st.Allocate):
            return s.replace(body=self.inject(s.body))
        if isinstance(s, st.For) and not self.differs(s.extent):
            return s.replace(body=self.inject(s.body))
        if isinstance(s, st.Attr) and not (isinstance(s.value, Expr) and self.differs(s.value)):
            return s.replace(body=self.inject(s.body))
        if isinstance(s, st.LetStmt) and not self.differs(s.value):
            return s.replace(body=self.inject(s.body))
        if isinstance(s, st.If) and not self.differs(s.condition):
            return s.replace(then=self.inject(s.then), otherwise=None if s.otherwise is None else self.inject(s.otherwise))
        if not self._needs(s):
            return s
        var = Var(self.loop.var.name, self.loop.var.dtype)
        return st.For(var, self.loop.extent, substitute_stmt(renewed(s), {self.loop.var: var}), LoopKind.UNROLLED)

    def _needs(self, s: Stmt) -> bool:
        """Return whether each virtual thread executes the statement."""
        if self.alike and not _is_sync(s):
            return True
        if any(map(self.differs, expressions(s))):
            return True
        return any(isinstance(inner, st.Store) and inner.buffer.data in self._own_addresses() for inner in statements(s))

    def _own_addresses(self) -> set[Var]:
        return {buffer.data for buffer in self.own.values()}


def _is_sync(s: Stmt) -> bool:
    return isinstance(s, st.Evaluate) and getattr(s.value, "name", "") == "sync"
