"""Stages without a reduction: a thread for each element, or for a vector of neighbours."""

from math import prod

from vtakit.compiler.ir.expr import IfThenElse, ProducerLoad
from vtakit.compiler.ir.walk import subexpressions
from vtakit.compiler.nn.cpu.flow import Reads, extents
from vtakit.compiler.nn.cpu.simple import flat_from, is_flat
from vtakit.compiler.nn.gpu.grid import bind_block, bind_thread, filling, fused, powers, thread_counts, up_to
from vtakit.compiler.nn.gpu.machine import WARP, GpuMachine
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp

THREADS = 256  # of a block that has no reason for another number
REPEATS = (1, 2, 4, 8)  # vectors of a thread


def run_elements(stage: Stage, machine: GpuMachine, reads: Reads, *, first: int = 0) -> None:
    """Compute every element: threads along the axes as one, each with a vector of neighbours in memory.

    first : the number of leading axes that are loops around the kernel

    Decisions: vector, elements of one access; threads, of a block; repeat, vectors of a thread, a block apart.
    """
    op = stage.op
    assert isinstance(op, ComputeOp)
    axes = [*op.axis[first:]]
    sizes = extents(op)[first:]
    count, widths = prod(sizes), vectors_of(op, machine, reads, first)
    default = max([width for width in widths if count // width >= filling(machine)], default=1)
    width = stage.choose("vector", widths, default, rule=run_elements.__name__)
    inner = None
    if width > 1:
        start = max(flat_from(op, reads), first)
        run = fused(stage, op.axis[start:])
        chunk, inner = stage.split(run, width)
        axes = [*op.axis[first:start], chunk]
    whole = fused(stage, axes)
    vectors = -(-count // width)
    options = thread_counts(machine)
    threads = stage.choose("threads", options, min(THREADS, options[-1], max(up_to(vectors), WARP)), rule=run_elements.__name__)
    repeat = stage.choose("repeat", REPEATS, 1, rule=run_elements.__name__)
    block, thread = stage.split(whole, threads)
    if repeat > 1:
        block, again = stage.split(block, repeat)
        stage.reorder(block, again, thread)
    bind_block(stage, block)
    bind_thread(stage, thread, threads)
    if inner is not None:
        stage.vectorize(inner)


def vectors_of(op: ComputeOp, machine: GpuMachine, reads: Reads, first: int = 0) -> list[int]:
    """Return the lengths of vectors along the last axes: of what runs in memory in every operand, where no vector is partial."""
    sizes = extents(op)
    if len(sizes) <= first:
        return [1]
    start = max(flat_from(op, reads), first)
    if op.num_outputs > 1 or start >= len(sizes) or not all(is_flat(op, load, start) for load in reads.of(op)) or _asks(op):
        return [1]
    run = prod(sizes[start:])
    widest = max([e.dtype.bytes for e in op.body] + [load.dtype.bytes for load in reads.of(op)])
    return [width for width in powers(machine.vector_bytes // widest) or [1] if not run % width]


def _asks(op: ComputeOp) -> bool:
    """Return whether an element reads what a condition allows, which vectors do lane by lane."""
    return any(isinstance(node, IfThenElse) and any(isinstance(part, ProducerLoad) for part in subexpressions(node))
               for e in op.body for node in subexpressions(e))
