"""Rules about values: every element read was written before, every result is complete.

A write is understood by the box of elements that it covers while the loops inside the place where it meets the reader run and
those around stand still (`vtakit.compiler.lower.verify.cover`). A read is taken point by point, with all that holds there.
"""

from collections.abc import Iterator, Sequence

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.stmt import LoopKind
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import free_vars, loads, substitute
from vtakit.compiler.lower.verify.bodies import check_outputs_of_bodies, check_reads_of_bodies
from vtakit.compiler.lower.verify.cover import covered
from vtakit.compiler.lower.verify.program import Access, Program, Site, effects, meet
from vtakit.compiler.lower.verify.report import Broken

Box = Sequence[tuple[Expr, Expr]]  # first and last index, one pair a dimension


def check_reads(program: Program) -> Iterator[Broken]:
    """Each element that is read of a buffer that the program writes was written before, by all that write it."""
    for buffer, reads in program.reads.items():
        writes = program.writes.get(buffer)
        if writes is None:
            if buffer not in program.params:
                yield Broken(f"nothing writes {buffer.name}, which is read", reads[0].at, "compute it before")
            continue
        for read in reads:
            found = _Read(program, read, writes).problem()
            if found is not None:
                yield found
    yield from check_reads_of_bodies(program)


def check_outputs(program: Program) -> Iterator[Broken]:
    """Each element of a parameter that the program writes is written, and completely."""
    for buffer, writes in program.writes.items():
        if buffer not in program.params or any(int_value(e) == 0 for e in buffer.shape) or any(map(_touches_all, writes)):
            continue
        index = []
        for at, extent in enumerate(buffer.shape):
            var = Var(f"{buffer.name}_{at}", extent.dtype)
            program.analyzer.bind(var, Range(const(0, extent.dtype), extent))
            index.append(var)
        box = [(var, var) for var in index]
        last = writes[-1]
        some = [extent >= 1 for extent in buffer.shape if int_value(extent) is None]
        if not any(_covers(program, write, 0, box, (), some) for write in writes) and not _covers_by_rows(
            program, [(write, 0) for write in writes], box, (), some
        ):
            yield Broken(
                f"not every element of the output {buffer.name} is certain to be written", last.site.block,
                "let the loops around the block cover its axes",
            )
            continue
        for write in writes:
            reason = covered(program, write.site, 0, write.buffer.scope).incomplete
            if reason:
                block = write.site.block
                yield Broken(f"the reduction in block {block.name} is not certain to be complete: {reason}", block,
                             "let the loops around the block cover the whole domain of its reduction")
    yield from check_outputs_of_bodies(program)


class _Read:
    """One read and the writes of its buffer."""

    def __init__(self, program: Program, read: Access, writes: Sequence[Access]) -> None:
        self.program, self.read = program, read
        self.own = [write for write in writes if write.site.block is read.site.block]
        self.others = [write for write in writes if write.site.block is not read.site.block]
        self.box: Box = [(r.min, r.min + (r.extent - 1)) for r in read.ranges]
        self.holding = [*read.site.conditions(), *read.where, *_as_data_says(read)]
        self.some = [*_as_it_runs(read.site)]

    def problem(self) -> Broken | None:
        if self.own and self.read.site.block.init is not None:
            return None
        before = [write for write in self.others if self.precedes(write)]
        name, block = self.read.buffer.name, self.read.site.block.name
        for write in before:
            depth = meet(write.site, self.read.site)
            if _covers(self.program, write, depth, self.box, self.holding, self.some):
                return self.unfinished(before)
        if self.carried() or self.whole(before):
            return None
        if _covers_by_rows(self.program, [(w, meet(w.site, self.read.site)) for w in before], self.box, self.holding, self.some):
            return self.unfinished(before)
        makers = ", ".join(dict.fromkeys(write.site.block.name for write in before))
        wrote = f"{makers} is not certain to have written before" if makers else "no block wrote before"
        after = [write.site.block.name for write in self.others if write not in before]
        if not before and after:
            return Broken(f"block {block} reads {name} before block {after[0]} writes it", self.read.site.block,
                          f"move {after[0]} before {block}")
        return Broken(
            f"block {block} reads elements of {name} that {wrote}", self.read.site.block,
            "compute the stage at a loop around all that reads it, or over a larger part",
        )

    def precedes(self, write: Access) -> bool:
        """Return whether the write stands before the read, in one run of the loops around both."""
        depth = meet(write.site, self.read.site)
        if depth < self.program.home(self.read.buffer):
            return False
        a, b = write.site.path[depth:], self.read.site.path[depth:]
        return bool(a and b) and isinstance(a[0][0], st.Seq) and a[0][0] is b[0][0] and a[0][1] < b[0][1]

    def unfinished(self, before: Sequence[Access]) -> Broken | None:
        """Return the broken rule if a reduction into the buffer may still lack terms when it is read; else None."""
        together = any(call.name == "allreduce" for call in effects(self.read.site.block))
        for write in before:
            depth = meet(write.site, self.read.site)
            reason = covered(self.program, write.site, depth, write.buffer.scope, together=together).incomplete
            if reason:
                return Broken(
                    f"block {self.read.site.block.name} reads {self.read.buffer.name} before block {write.site.block.name} has "
                    f"certainly added up all of it: {reason}", self.read.site.block, "read it outside the loops of the reduction",
                )
        if not self.own:
            for write in self.others:
                if write in before or self.apart(write):
                    continue
                if meet(write.site, self.read.site) >= self.program.home(self.read.buffer):
                    return Broken(
                        f"block {self.read.site.block.name} reads {self.read.buffer.name} before block {write.site.block.name} "
                        "writes it", self.read.site.block, f"move {write.site.block.name} before it",
                    )
        return None

    def apart(self, write: Access) -> bool:
        """Return whether a write never touches the box that is read: in some dimension it is entirely before or behind it."""
        prove = self.program.analyzer.prove
        return any(
            prove(last < r.min) or prove(r.min + (r.extent - 1) < first)
            for (first, last), r in zip(self.box, write.ranges, strict=True)
        )

    def whole(self, before: Sequence[Access]) -> bool:
        """Return whether all of a buffer was written, where only unknown sizes leave open whether the read is inside.

        Then it lies in the buffer or nowhere; the tensor expression says so, and the verifier takes it at its word.
        """
        home = self.program.allocations.get(self.read.buffer, ())
        if any(isinstance(s, st.For) for s, _ in home) or not self.open_to_sizes():
            return False
        first: list[tuple[Expr, Expr]] = [(const(0, e.dtype), const(0, e.dtype)) for e in self.read.buffer.shape]
        last = [(e - 1, e - 1) for e in self.read.buffer.shape]
        some = [e >= 1 for e in self.read.buffer.shape]  # there is something to read
        for write in before:
            depth = meet(write.site, self.read.site)
            ends = [_covers(self.program, write, depth, box, some, self.some) for box in (first, last)]
            if all(ends) and self.unfinished(before) is None:
                return True
        return False

    def open_to_sizes(self) -> bool:
        """Return whether each index is certain to be within the buffer, or unbounded or beside a size that is not a constant."""
        a = self.program.analyzer
        with a.given(all_of(*self.holding)):
            for (first, last), extent in zip(self.box, self.read.buffer.shape, strict=True):
                finite = a.bounds(first).lo > float("-inf") and a.bounds(last).hi < float("inf")
                if finite and int_value(extent) is not None and not (a.prove(first >= 0) and a.prove(last < extent)):
                    return False
        return True

    def carried(self) -> bool:
        """Return whether earlier iterations of serial loops wrote the rows that are read, and an earlier statement the first."""
        writes = [*self.own, *self.others]
        return any(self.carried_by(write, writes) for write in writes)

    def same_place(self, write: Access) -> bool:
        """Return whether the block reads the elements that it writes itself, in all dimensions but the first."""
        places = zip(write.ranges[1:], self.read.ranges[1:], strict=True)
        return write in self.own and all(self.program.analyzer.prove_equal(r.min, mine.min) for r, mine in places)

    def carried_by(self, write: Access, writes: Sequence[Access]) -> bool:
        if not write.ranges:
            return False
        depth = len(write.site.path) if write.site.block is self.read.site.block else meet(write.site, self.read.site)
        a = self.program.analyzer
        row = a.simplify(write.ranges[0].min)
        used = free_vars(row)
        around = [(at, s) for at, (s, _) in enumerate(write.site.path[:depth]) if isinstance(s, st.For) and s.var in used]
        if not around or not self.ascending(row, [loop for _, loop in around]):
            return False
        start = a.simplify(substitute(row, {loop.var: const(0, loop.var.dtype) for _, loop in around}))
        first, last = self.box[0]
        with a.given(all_of(*self.holding)):
            if not (a.prove(const(0, first.dtype) <= first) and a.prove(last < row)):
                return False
        rest = [(row, row), *self.box[1:]]
        if not self.same_place(write) and not _covers(self.program, write, around[-1][0] + 1, rest, self.holding, self.some):
            return False
        initial = [(const(0, start.dtype), start - 1), *self.box[1:]]
        for other in writes:
            outside = meet(other.site, self.read.site)
            if outside <= around[0][0] and _covers(self.program, other, outside, initial, self.holding, self.some):
                return True
        return False

    def ascending(self, row: Expr, loops: Sequence[st.For]) -> bool:
        """Return whether each next iteration of serial loops, the outermost first, writes the next row."""
        a = self.program.analyzer
        step: Expr = const(1, row.dtype)
        for loop in reversed(loops):
            one_on = substitute(row, {loop.var: loop.var + 1})
            if loop.kind not in (LoopKind.SERIAL, LoopKind.UNROLLED) or not a.prove_equal(one_on - row, step):
                return False
            step = a.simplify(step * loop.extent)
        return True


def _as_data_says(read: Access) -> Iterator[Expr]:
    """An index that is read from memory is taken to be within its dimension: nothing here knows the data."""
    for r, extent in zip(read.ranges, read.buffer.shape, strict=True):
        if next(loads(r.min), None) is not None:
            yield r.min >= 0
            yield r.min < extent


def _as_it_runs(site: Site) -> Iterator[Expr]:
    """Yield the conditions that hold where a block runs: the loops around have iterations, and its iterators have values."""
    for extent in (*[loop.extent for loop in site.loops], *[it.dom.extent for it in site.block.iters]):
        if int_value(extent) is None:
            yield extent >= 1


def _covers(
    program: Program, write: Access, depth: int, box: Box, holding: Sequence[Expr], some: Sequence[Expr],
) -> bool:
    """Return whether a write covers a box while the loops inside the first `depth` statements run (`Covered.holds`)."""
    if write.where:
        return False  # it may be left out
    return covered(program, write.site, depth, write.buffer.scope).holds(write, box, holding, some)


def _covers_by_rows(
    program: Program, writes: Sequence[tuple[Access, int]], box: Box, holding: Sequence[Expr], some: Sequence[Expr],
) -> bool:
    """Return whether two writes together cover a box: one the first rows, the other the rest (the states of a scan).

    writes : each with how many of the statements around it stand still
    """
    if len(writes) < 2 or not box:
        return False
    row = box[0][0]
    for first, depth in writes:
        rows = covered(program, first.site, depth, first.buffer.scope).along(first, 0)
        if rows is None:
            continue
        with program.analyzer.given(row <= rows[1]):
            if not _covers(program, first, depth, box, (*holding, row <= rows[1]), some):
                continue
        rest = (*holding, rows[1] < row)
        if any(_covers(program, other, at, box, rest, some) for other, at in writes if other is not first):
            return True
    return False


def _touches_all(write: Access) -> bool:
    """Return whether an opaque block declares to write the whole buffer."""
    buffer: Buffer = write.buffer
    return write.at is write.site.block and not write.site.block.iters and all(
        r.extent is extent or bool(r.extent == extent) for r, extent in zip(write.ranges, buffer.shape, strict=True)
    )
