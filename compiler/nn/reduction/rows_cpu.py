"""Operators that reduce rows and relate each element to what that gives, as softmax and norms do: row after row in the caches."""

from math import prod

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.nn.cpu.flow import Flow, Reads, extent, extents, is_injective
from vtakit.compiler.nn.cpu.simple import reduce_along, share, vector_of
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation


def schedule_rows(s: Schedule, flow: Flow, done: set[Operation], machine: Machine, reads: Reads) -> set[Operation]:
    """Schedule the output row by row if it is made of reductions of rows; return what is done with.

    A row is what lies along the last dimensions. All that an element depends on is made right before its row, so that nothing but
    the operands is read from afar, and threads share the rows.

    Decisions: vector, elements of a stage's vectors; parallel, whether threads share the rows.
    """
    early = needed_by(flow, done)
    ops = [op for op in flow.computes() if op not in done and op not in reads.inlined and op not in early]
    if len(ops) < 2 or [op for op in ops if flow.is_output(op)] != ops[-1:] or not is_injective(ops[-1]):
        return set()
    *before, last = ops
    lead = lead_of(ops, reads)
    if not lead or not any(op.reduce_axis for op in before) or any(op.name == "block_channels" for op in before):
        return set()  # a change of layout has a schedule of its own
    rows, row = prod(extents(last)[:lead]), prod(extents(last)[lead:])
    if rows < machine.tasks or row * last.body[0].dtype.bytes > machine.l2_bytes // 2:
        return set()
    out = s[last]
    place = out.fuse(*out.op.root_iter_vars[:lead]) if lead > 1 else out.op.root_iter_vars[0]
    share(out, place, rows * row >= machine.parallel_elements, schedule_rows)
    for op in reversed(before):
        s[op].compute_at(out, place)
        s[op].set_scope("local")
    for op in ops:
        if op.reduce_axis:
            reduce_along(s, op, machine, reads, within=True)
        elif extent(op.axis[-1]) > 1:
            run = s[op].fuse(*op.axis[lead:]) if len(op.axis) - lead > 1 else op.axis[-1]
            width = vector_of(s[op], prod(extents(op)[lead:]), machine.lanes(op.body[0].dtype), schedule_rows)
            _, vector = s[op].split(run, width)
            s[op].vectorize(vector)
    return {*ops}


def needed_by(flow: Flow, done: set[Operation]) -> set[Operation]:
    """Return what operations of `done` depend on: it is made before them, which no loop over rows of the output is."""
    found: set[Operation] = set()
    for op in reversed(flow.ops):
        if any(reader in done or reader in found for reader in flow.readers[op]):
            found.add(op)
    return found


def lead_of(ops: list[ComputeOp], reads: Reads) -> int:
    """Return how many of the first dimensions count rows in all operations alike; 0 if none do."""
    sizes, made = extents(ops[-1]), {*ops}
    lead = len(sizes) - 1
    for op in ops:
        own = extents(op)
        if len(own) != len(sizes) or op.num_outputs > 1:
            return 0
        lead = min(lead, _alike(own, sizes))
        for load in reads.of(op):
            if load.tensor.op in made:
                same = [index is axis.var or int_value(index) == 0 == extent(axis) - 1
                        for index, axis in zip(load.indices, op.axis, strict=True)]
                lead = min(lead, _alike(same, [True] * len(same)))
    return lead


def _alike(one: tuple[int, ...] | list[bool], other: tuple[int, ...] | list[bool]) -> int:
    """Return the length of the common prefix."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))
