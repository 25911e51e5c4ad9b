"""Operators that reduce rows and relate each element to what that gives, as softmax and norms do: a block keeps its rows."""

from functools import partial
from math import prod

from vtakit.compiler.nn.cpu.flow import Flow, Reads, extent, extents, is_injective
from vtakit.compiler.nn.gpu.elements import THREADS, vectors_of
from vtakit.compiler.nn.gpu.grid import bind_block, bind_thread, fused, powers, thread_counts, up_to
from vtakit.compiler.nn.gpu.machine import WARP, GpuMachine
from vtakit.compiler.nn.reduction.rows_cpu import lead_of, needed_by
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation

SHORT = 1024  # elements of a row that a warp takes
EACH = 4  # elements of a row for each thread of a block


def schedule_rows(
    s: Schedule, flow: Flow, done: set[Operation], between: set[Operation], machine: GpuMachine, reads: Reads,
) -> set[Operation]:
    """Schedule the output row by row if it is made of reductions of rows; return what is done.

    All that an element depends on is made by the block of its row: results of reductions in registers of all its threads, what is
    dear to compute again in shared memory.

    between : those of the inlined operations that are not inlined yet

    Decisions: threads, of a row; rows, of a block; vector, elements of the output that a thread stores at once.
    """
    early = needed_by(flow, done)
    ops = [op for op in flow.computes() if op not in done and op not in reads.inlined and op not in early]
    if len(ops) < 2 or [op for op in ops if flow.is_output(op)] != ops[-1:] or not is_injective(ops[-1]):
        return set()
    *before, last = ops
    lead = lead_of(ops, reads)
    if lead < 1 or not any(op.reduce_axis for op in before) or any(
            extent(axis) == 0 for op in before for axis in op.reduce_axis):
        return set()
    if any(op.reduce_axis and prod(extents(op)[lead:]) > 1 for op in before):
        return set()
    sizes = extents(last)
    row = prod(sizes[lead:])
    if row == 1:
        return set()  # a reduction with what follows it
    kept = sum(prod(extents(op)[lead:]) * op.body[0].dtype.bytes for op in before if not _is_private(op, lead))
    if kept > machine.shared_bytes // 2:
        return set()
    for op in flow.computes():  # what follows a reduction element by element is computed where it is read, too
        if op in reads.inlined and op not in done and op not in early and op in between:
            s[op].compute_inline()
    out, choose = s[last], partial(s[last].choose, rule=schedule_rows.__name__)
    options = thread_counts(machine)
    default = WARP if row <= SHORT else max(min(up_to(row) // EACH, options[-1]), WARP)
    threads = choose("threads", options, default)
    most = min(machine.threads_per_block // threads, machine.shared_bytes // 2 // max(kept, 1), sizes[lead - 1])
    heights = powers(max(most, 1))
    rows = choose("rows", heights, max([count for count in heights if count <= max(THREADS // 2 // threads, 1)]))
    place, line = out.split(last.axis[lead - 1], rows)
    out.reorder(*last.axis[:lead - 1], place, line)
    block = fused(out, [*last.axis[:lead - 1], place])
    bind_block(out, block)
    bind_thread(out, line, rows, "y")
    widths = [width for width in vectors_of(last, machine, reads, lead)]
    width = choose("vector", widths, max([width for width in widths if width * threads <= max(row, 1)], default=1))
    run = fused(out, last.axis[lead:])
    run, vector = out.split(run, width)
    _, thread = out.split(run, threads)
    bind_thread(out, thread, threads)
    if width > 1:
        out.vectorize(vector)
    for op in reversed(before):
        stage = s[op]
        stage.compute_at(out, block)
        if op.reduce_axis:
            stage.set_scope("local")
            _, near = stage.split(fused(stage, op.reduce_axis), threads)
            bind_thread(stage, near, threads)
        elif _is_private(op, lead):
            stage.set_scope("local")
        else:
            stage.set_scope("shared")
            bind_thread(stage, op.axis[lead - 1], rows, "y")
            _, near = stage.split(fused(stage, op.axis[lead:]), threads)
            bind_thread(stage, near, threads)
    return {*ops}


def _is_private(op: ComputeOp, lead: int) -> bool:
    """Return whether each thread has the values of its row: results of reductions, and what is one number a row."""
    return bool(op.reduce_axis) or prod(extents(op)[lead:]) == 1
