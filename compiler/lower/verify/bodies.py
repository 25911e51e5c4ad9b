"""Bodies of one's own (`te.hybrid`, `te.extern`), access by access: which elements each may touch, and what was written before.

An index that is data, read from a tensor, may be anything: the body's author is believed, and the interpreter sees it.
"""

import math
from collections.abc import Iterator, Sequence

from vtakit.compiler.arith import Interval, region
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import free_vars, statements, substitute
from vtakit.compiler.lower.verify.ends import Taken, linear_ends
from vtakit.compiler.lower.verify.numbers import comes_from_tensors
from vtakit.compiler.lower.verify.program import Program, Site, is_whole
from vtakit.compiler.lower.verify.report import Broken
from vtakit.compiler.lower.verify.touches import Touch, escaping, touches_of

MOST_RESIDUES = 64  # that the steps of a buffer's writers are looked at for


def bodies(program: Program) -> Sequence[tuple[Site, list[Touch]]]:
    """The blocks whose bodies a person wrote, and the touches of each in program order."""
    found: list[tuple[Site, list[Touch]]] | None = program.covers.get(bodies)
    if found is None:
        found = program.covers[bodies] = []
        for site in program.sites:
            if is_own(site.block):
                found.append((site, touches_of(site, program.analyzer, program.data)))
    return found


def is_own(block: st.Block) -> bool:
    """Return whether a block holds a body of one's own: it declares whole buffers, and has no iterators."""
    return not block.iters and all(map(is_whole, (*block.reads, *block.writes)))


def scalar_ends(index: Expr) -> tuple[Expr, ...]:
    """The index, or the first and the last one of a vector's lanes."""
    match index:
        case ir.Ramp(base=base, stride=stride):
            return base, base + stride * (index.lanes - 1)
        case ir.Broadcast(value=value):
            return (value,)
    return (index,)


def is_data(program: Program, index: Expr) -> bool:
    """Return whether an index is read from a tensor, or computed by something unknown."""
    return not index.dtype.is_int or comes_from_tensors(index, program.data)


def span(program: Program, touch: Touch, index: Expr) -> Interval | None:
    """An interval that holds every value of an index; None if it has no ends."""
    if is_data(program, index):
        return None
    ranges = {s.var: Range(const(0, s.var.dtype), s.extent) for s in touch.loops}
    ends = [region(e, ranges, program.analyzer, all_of(*touch.where)) for e in scalar_ends(index)]
    if ends[0] is None or ends[-1] is None:
        return None
    return Interval(*[program.analyzer.simplify(e) for e in (
        ir.Min(ends[0].min, ends[-1].min), ir.Max(ends[0].max, ends[-1].max))])


def check_reads_of_bodies(program: Program) -> Iterator[Broken]:
    """No load in a body is certain to read what nothing in it wrote before: of its outputs, or of memory that it allocates."""
    for site, touches in bodies(program):
        allocated = {s.buffer: s for s in statements(site.block.body) if isinstance(s, st.Allocate)}
        mine = {*allocated, *[r.buffer for r in site.block.writes]} - {r.buffer for r in site.block.reads} - escaping(site)
        for at, touch in enumerate(touches):
            if touch.stores or touch.buffer not in mine:
                continue
            early = [write for write in touches[:at] if write.stores and write.buffer is touch.buffer]
            before = early + [w for w in touches[at:] if w.stores and w.buffer is touch.buffer and _meets(w, touch)]
            if not before or (not early and _runs(program, touch)):
                yield Broken(f"{touch} is read, and nothing wrote {touch.buffer.name} before", touch.at, "write it first")
            elif (found := _unwritten(program, touch, early, before)):
                yield Broken(f"{touch} is read, and {found}", touch.at, "write all that is read first")


def check_outputs_of_bodies(program: Program) -> Iterator[Broken]:
    """No element of an output is certain to be left out by the body that makes it."""
    a = program.analyzer
    for site, touches in bodies(program):
        for buffer in dict.fromkeys(r.buffer for r in site.block.writes):
            writes = [touch for touch in touches if touch.stores and touch.buffer is buffer]
            if buffer in escaping(site) or any(int_value(extent) == 0 for extent in buffer.shape):
                continue
            if not writes:
                yield Broken(f"nothing writes the output {buffer.name}", site.block, "store to its elements")
                continue
            with a.given(all_of(*[extent >= 1 for extent in buffer.shape])):
                for dim, extent in enumerate(buffer.shape):
                    spans = [span(program, write, write.indices[dim]) for write in writes]
                    missing = _left_out(program, dim, extent, writes, spans)
                    if missing is not None:
                        index = ", ".join(str(missing) if i == dim else ":" for i in range(len(buffer.shape)))
                        yield Broken(f"nothing writes {buffer.name}[{index}] of the output {buffer.name}", writes[-1].at,
                                     "store to each of its elements")
                        break


def _left_out(
    program: Program, dim: int, extent: Expr, writes: Sequence[Touch], spans: Sequence[Interval | None],
) -> Expr | None:
    """An index of a dimension that no write takes."""
    a = program.analyzer
    known = [s for s in spans if s is not None]
    if len(known) < len(spans):
        return None
    if all(a.prove(s.min >= 1) for s in known):
        return const(0, extent.dtype)
    if all(a.prove(s.max < extent - 1) for s in known):
        return a.simplify(extent - 1)
    steps = [a.modular(e) for write in writes for e in scalar_ends(write.indices[dim])]
    size, whole = int_value(extent), math.lcm(*[step.coeff for step in steps]) if all(step.coeff for step in steps) else 0
    if size is None or not 1 < whole <= MOST_RESIDUES or any(e.dtype.lanes > 1 for write in writes for e in write.indices):
        return None
    for residue in range(min(size, whole)):
        if not any((residue - step.base) % step.coeff == 0 for step in steps):
            return const(residue, extent.dtype)
    return None


def _unwritten(program: Program, read: Touch, early: Sequence[Touch], before: Sequence[Touch]) -> str:
    """Return why a load certainly reads an element that none of the writes wrote; "" if that is not known.

    early  : the writes that may come before in the first iteration of all loops
    before : those that may in later ones
    """
    a, start = program.analyzer, {s.var: const(0, s.var.dtype) for s in read.loops}
    for dim, index in enumerate(read.indices):
        found = taken_by(program, read, index)
        if found is None or found.some:
            continue
        for writes, value in ((early, substitute(index, start)), (before, found.least), (before, found.greatest)):
            spans = [span(program, write, write.indices[dim]) for write in writes]
            if all(s is not None and (a.prove(value < s.min) or a.prove(s.max < value)) for s in spans):
                return f"nothing wrote it before where index {dim} is {a.simplify(value)}"
    return ""


def _runs(program: Program, touch: Touch) -> bool:
    """Return whether the access certainly happens in the first iteration of all loops around."""
    return touch.is_certain and all(program.analyzer.prove(s.extent >= 1) for s in touch.loops)


def taken_by(program: Program, touch: Touch, index: Expr) -> Taken | None:
    """Return the values that an index certainly takes; None unless it is a sum of loop variables and sizes.

    Also None in loops whose extents depend on other loops.
    """
    firsts = {s.var: const(0, s.var.dtype) for s in touch.loops}
    lasts = {s.var: s.extent - 1 for s in touch.loops}
    a, ends = program.analyzer, None
    known = not is_data(program, index) and free_vars(index) <= firsts.keys() | program.sizes
    if touch.is_certain and known and not any(free_vars(s.extent) & firsts.keys() for s in touch.loops):
        ends = linear_ends(index, firsts, lasts, a)
    if ends is None:
        return None
    return Taken(*ends, [condition for s in touch.loops if not a.prove(condition := s.extent >= 1)])


def _meets(a: Touch, b: Touch) -> bool:
    """Return whether a loop of the body is around both, so that one may precede the other in a later iteration."""
    return any(x is y for x in a.around for y in b.around)
