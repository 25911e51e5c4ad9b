"""A rule about buffers in two halves: one is filled for the next iteration of a loop while the other is read."""

from collections.abc import Iterator
from typing import NamedTuple

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Load, Var
from vtakit.compiler.ir.stmt import LoopKind, Stmt
from vtakit.compiler.ir.walk import expressions, free_vars, statements, subexpressions
from vtakit.compiler.lower.verify.program import Program
from vtakit.compiler.lower.verify.report import Broken

NOTE = "double_buffer"  # of an allocation: copies of it that the loop around fills ahead
ASYNC = "async_copy"  # of an allocation: what writes it are asynchronous copies


class Doubled(NamedTuple):
    """Statements of a loop, and those of its buffers that are double.

    wraps : the allocations around the statements in the loop; buffers : those of them that are double
    fills : the statements that write to such a buffer, and what only they need; uses : the others
    """

    wraps: list[st.Allocate]
    buffers: list[Buffer]
    fills: list[Stmt]
    uses: list[Stmt]

    def conflict(self) -> tuple[Stmt, list[str]] | None:
        """A statement that fills and reads what the loop writes, so that it cannot run an iteration ahead, and names of that."""
        own = {wrap.buffer.data for wrap in self.wraps}  # new in each iteration
        written = set().union(*map(_written, self.uses), *(_written(fill) - own for fill in self.fills))
        for fill in self.fills:
            found = _read(fill) & written
            if found:
                names = {s.buffer.name for part in (*self.uses, *self.fills) for s in statements(part)
                         if isinstance(s, st.Store) and s.buffer.data in found}
                return fill, sorted(names)
        return None

    def uneven(self, loop: Var) -> Buffer | None:
        """A buffer whose size changes with the loop, so that no two halves and no copy around the loop have its size."""
        for wrap in self.wraps:
            sizes = (*wrap.buffer.shape, *wrap.buffer.strides)
            if any(loop in free_vars(size) for size in sizes):
                return wrap.buffer
        return None


def doubled(s: Stmt) -> Doubled | None:
    """A loop's double buffers with what goes with them; None for any other statement."""
    if not isinstance(s, st.For) or s.kind not in (LoopKind.SERIAL, LoopKind.UNROLLED):
        return None
    wraps, parts = _opened(s.body)
    buffers = [wrap.buffer for wrap in wraps if wrap.notes.get(NOTE)]
    if not buffers:
        return None
    own = {buffer.data for buffer in buffers}
    fills = [part for part in parts if _written(part) & own]
    inside = {wrap.buffer.data for wrap in wraps} - own
    for part in reversed(parts):  # what only fills read is made with them
        others = [other for other in parts if other is not part and other not in fills]
        made = _written(part)
        if part not in fills and made & set().union(*map(_read, fills)) and made <= inside - set().union(*map(_read, others)):
            fills.append(part)
    fills.sort(key=parts.index)
    return Doubled(wraps, buffers, fills, [part for part in parts if part not in fills])


def check_double_buffers(program: Program) -> Iterator[Broken]:
    """The statements that fill a double buffer read nothing that the loop writes, and the loop's buffers keep their size."""
    for loop, _ in program.loops:
        found = doubled(loop)
        if found is None:
            continue
        buffers = ", ".join(buffer.name for buffer in found.buffers)
        uneven = found.uneven(loop.var)
        if uneven is not None:
            yield Broken(
                f"{buffers} is filled one iteration of the loop {loop.var} ahead, and the size of {uneven.name} changes with "
                f"{loop.var}", loop, f"compute {uneven.name} at another loop, or leave out double_buffer",
            )
        conflict = found.conflict()
        if conflict is not None:
            fill, names = conflict
            mine = [buffer.name for buffer in found.buffers if buffer.data in _written(fill)]
            yield Broken(
                f"{', '.join(mine) or buffers} is filled one iteration of the loop {loop.var} ahead, and that reads "
                f"{', '.join(names)}, which the loop writes", fill,
                f"compute {', '.join(names)} at another loop, or leave out double_buffer",
            )


def _opened(s: Stmt) -> tuple[list[st.Allocate], list[Stmt]]:
    """The allocations around a loop's statements, or around the last of them, and these statements."""
    wraps: list[st.Allocate] = []
    parts: list[Stmt] = []
    while True:
        while isinstance(s, st.Allocate):
            wraps.append(s)
            s = s.body
        stmts = s.stmts if isinstance(s, st.Seq) else (s,)
        if not stmts or not isinstance(stmts[-1], st.Allocate):
            return wraps, [*parts, *stmts]
        parts += stmts[:-1]
        s = stmts[-1]


def _written(s: Stmt) -> set[Var]:
    found = {inner.buffer.data for inner in statements(s) if isinstance(inner, st.Store)}
    return found | {data for data, mask in _addressed(s) if "w" in mask}


def _read(s: Stmt) -> set[Var]:
    addressed = {data for data, mask in _addressed(s) if "r" in mask}
    return addressed | {x.buffer.data for e in expressions(s) for x in subexpressions(e) if isinstance(x, Load)}


def _addressed(s: Stmt) -> list[tuple[Var, str]]:
    found = []
    for e in expressions(s):
        for x in subexpressions(e):
            if isinstance(x, ir.Call) and x.name == "address_of":
                load, _, mask = x.args
                assert isinstance(load, Load)
                assert isinstance(mask, ir.StringImm)
                found.append((load.buffer.data, mask.value))
    return found
