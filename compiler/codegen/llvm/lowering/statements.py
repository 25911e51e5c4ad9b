"""Statements become blocks of instructions."""

from collections.abc import Callable
from typing import Any, Self

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.lowering import memory, parallel, team
from vtakit.compiler.codegen.llvm.lowering.context import Body, Team
from vtakit.compiler.codegen.llvm.lowering.expressions import Expressions
from vtakit.compiler.codegen.llvm.lowering.moves import as_bits
from vtakit.compiler.codegen.llvm.lowering.pieces import pieces
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.module import OUT_OF_MEMORY, Module
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.values import value_of

ALIGN = 64  # of memory that a function allocates: a cache line, and the widest vector
STACK_BYTES = 64 << 10  # a buffer of at most that many is in the frame, and so are all together up to four times that
MOST_MOVED = 1 << 14  # values of a loop's body out of which LLVM may move code: the time that it takes grows with the third power


class Statements(Expressions, Body):
    """The body of one LLVM function.

    heap     : allocations to be freed when the function is left early
    threaded : whether several threads run this function, so that loops within are serial
    team     : of threads that run this function and part its parallel loops among them
    """

    def __init__(self, module: Module, b: Builder, *, threaded: bool = False, team: Team | None = None) -> None:
        super().__init__(module, b)
        self.heap: list[Value] = []
        self.frame_bytes = 0
        self.threaded, self.team = threaded, team

    def another(self, b: Builder, *, threaded: bool = False, team: Team | None = None) -> Self:
        return type(self)(self.module, b, threaded=threaded, team=team)

    def run(self, s: st.Stmt) -> None:
        """Add a statement's instructions."""
        make = _WAYS.get(type(s))
        if make is None:
            what = f"the block {s.name!r}" if isinstance(s, st.Block) else type(s).__name__
            raise CodegenError(f"{what} cannot become machine code: run vtakit.compiler.passes.lower_late first")
        make(self, s)

    def fail(self, code: Value) -> None:
        for raw in reversed(self.heap):
            self._free(raw)
        self.b.ret(code)

    def store(self, s: st.Store) -> None:
        for piece in pieces(s, self.target) if self.mask is None else (s,):
            buffer, value = as_bits(piece.buffer, piece.value)
            memory.store(self, buffer, piece.indices, value)

    def evaluate(self, s: st.Evaluate) -> None:
        self.value(s.value)

    def seq(self, s: st.Seq) -> None:
        for part in s.stmts:
            self.run(part)

    def loop(self, s: st.For) -> None:
        if self.team is not None and s.kind is st.LoopKind.PARALLEL:
            team.part(self, s, self.team)
        elif self.team is None and not self.threaded and self.target.parallel and team.is_launch(s):
            team.launch(self, s)
        elif s.kind is st.LoopKind.PARALLEL and not self.threaded and self.target.parallel:
            parallel.loop(self, s)
        elif s.kind in (st.LoopKind.SERIAL, st.LoopKind.PARALLEL):
            self.count(s.var, int_constant("i64", 0), self.index(s.extent), s.body, runs=(value_of(s.extent) or 0) > 0)
        else:
            word = f"bound to {s.thread}" if s.kind is st.LoopKind.THREAD else s.kind.value
            cure = ("a CPU has no such threads, so leave the axis unbound, or run the program by the interpreter"
                    if s.kind is st.LoopKind.THREAD else "run vtakit.compiler.passes.lower_late first")
            raise CodegenError(f"the loop over {s.var.name} is {word}, which is no loop of machine code: {cure}")

    def count(self, var: Any, first: Value, end: Value, body: st.Stmt, *, runs: bool) -> None:
        """Add the loop ``for var in range(first, end): body``; `runs`: it is certain that first < end."""
        b = self.b
        inside, after, before = b.block(f"for.{_label(var.name)}"), b.block("end"), b.at
        b.loop_begins()
        if runs:
            b.jump(inside)
        else:
            b.branch(b.icmp("slt", first, end), inside, after)
        b.place(inside)
        phi = b.phi("i64")
        phi.add(first, before)
        self.indices[var] = phi.value
        values = b.count
        self.run(body)
        del self.indices[var]
        loop = self.module.fixed_loop() if b.count - values > MOST_MOVED else ""
        following = b.op("add", phi.value, int_constant("i64", 1), "nuw nsw")
        phi.add(following, b.at)
        b.branch(b.icmp("slt", following, end), inside, after, loop=loop)
        b.place(after)
        b.loop_ends()

    def while_(self, s: st.While) -> None:
        b = self.b
        test, inside, after = b.block("while"), b.block("do"), b.block("done")
        b.loop_begins()
        b.jump(test)
        b.place(test)
        condition = self.value(s.condition)
        if condition.type != "i1":
            lanes = s.condition.dtype.lanes
            raise CodegenError(f"while {s.condition} has a condition of {lanes} lanes: such a loop must stay scalar")
        b.branch(condition, inside, after)
        b.place(inside)
        self.run(s.body)
        b.jump(test)
        b.place(after)
        b.loop_ends()

    def if_(self, s: st.If) -> None:
        b, condition = self.b, self.value(s.condition)
        if condition.type != "i1":
            self.masked(condition, lambda: self.run(s.then))
            if s.otherwise is not None:
                others, rest = b.op("xor", condition, int_constant(condition.type, 1)), s.otherwise
                self.masked(others, lambda: self.run(rest))
            return
        then, after = b.block("then"), b.block("fi")
        otherwise = b.block("else") if s.otherwise is not None else after
        b.branch(condition, then, otherwise)
        b.place(then)
        self.run(s.then)
        b.jump(after)
        if s.otherwise is not None:
            b.place(otherwise)
            self.run(s.otherwise)
            b.jump(after)
        b.place(after)

    def let_stmt(self, s: st.LetStmt) -> None:
        self.values[s.var] = self.value(s.value)
        self.run(s.body)
        del self.values[s.var]

    def allocate(self, s: st.Allocate) -> None:
        buffer, kind = s.buffer, ty.memory_type(s.buffer.dtype.scalar)
        if len(buffer.shape) != 1:
            raise CodegenError(
                f"buffer {buffer.name!r} is allocated with {len(buffer.shape)} dimensions: run the flatten pass first"
            )
        lanes, align = buffer.dtype.lanes, max(ALIGN, buffer.align)
        count = value_of(buffer.shape[0])
        size = count * buffer.dtype.bytes if isinstance(count, int) else None
        if size is not None and isinstance(count, int) and size <= STACK_BYTES and self.frame_bytes + size <= 4 * STACK_BYTES:
            self.frame_bytes += size
            self.memory[buffer.data] = self.b.alloca(kind, align, max(1, count * lanes))
            self.run(s.body)
        else:
            raw = self._malloc(self.index(buffer.shape[0]), buffer.dtype.bytes, align)
            self.memory[buffer.data] = self._aligned(raw, align)
            self.heap.append(raw)
            self.run(s.body)
            self._free(self.heap.pop())
        del self.memory[buffer.data]

    def _malloc(self, count: Value, each: int, align: int) -> Value:
        """Return the address of memory for `count` elements of `each` bytes, and `align` bytes more."""
        b, bits = self.b, self.target.pointer_bits
        asking, there, missing = b.block("asking"), b.block("allocated"), b.block("missing")
        # No object is larger than half of the memory that a pointer reaches; beyond, the size would wrap.
        most = int_constant("i64", ((1 << (bits - 1)) - 1 - align) // each)
        b.branch(b.icmp("ule", count, most), asking, missing, likely=True)
        b.place(asking)
        total = b.op("add", b.op("mul", count, int_constant("i64", each), "nsw"), int_constant("i64", align), "nsw")
        raw = b.call("malloc", "ptr", b.convert("trunc", total, "i32") if bits == 32 else total)
        b.branch(b.icmp("ne", raw, Value("null", "ptr")), there, missing, likely=True)
        b.place(missing)
        self.fail(int_constant("i32", OUT_OF_MEMORY))
        b.place(there)
        return raw

    def _aligned(self, raw: Value, align: int) -> Value:
        """Return the first multiple of `align` from `raw` on, still known to be an address within its memory."""
        b = self.b
        behind = b.op("and", b.address_as_int(raw), int_constant("i64", align - 1))
        found = b.address(raw, "i8", b.op("sub", int_constant("i64", align), behind))
        b.assume_aligned(found, align)
        return found

    def _free(self, raw: Value) -> None:
        self.b.call("free", "void", raw)

    def attr(self, s: st.Attr) -> None:
        self.run(s.body)


def _label(name: str) -> str:
    """Return a name as part of a label."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._") else "_" for c in name)


_WAYS: dict[type[st.Stmt], Callable[[Statements, Any], None]] = {
    st.Store: Statements.store, st.Evaluate: Statements.evaluate, st.Seq: Statements.seq, st.For: Statements.loop,
    st.While: Statements.while_, st.If: Statements.if_, st.LetStmt: Statements.let_stmt, st.Allocate: Statements.allocate,
    st.Attr: Statements.attr,
}
