"""Stages that read an operand across its rows: squares of it go through shared memory, so that all accesses run along rows."""

from functools import partial
from math import prod
from typing import NamedTuple

from vtakit.compiler.ir.expr import ProducerLoad
from vtakit.compiler.nn.cpu.flow import Flow, Reads, extents, is_injective, loads
from vtakit.compiler.nn.gpu.grid import bind_block, bind_thread, fused, powers
from vtakit.compiler.nn.gpu.machine import WARP, GpuMachine
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor

SHORT = 16  # rows and columns, of fewer of which squares would be mostly empty
LINES = 8  # of a square, that the threads of a block take together


class Crossing(NamedTuple):
    """A read across rows.

    tensor : what is read, by the stage itself or by `reader`, which is computed where it is read
    across : the number of the result's axis along which the operand's rows lie
    along  : the number of the operand's dimension that runs along the result's rows
    """

    tensor: Tensor
    reader: ComputeOp
    across: int
    along: int


def crossing(flow: Flow, op: ComputeOp, reads: Reads) -> Crossing | None:
    """Return the first read across rows of a stage, of an operand with rows and columns enough; None if it has none."""
    for load in reads.of(op) if is_injective(op) and len(op.axis) > 1 else ():
        places = _places(op, load)
        readers = [each for each in flow.computes() if (each is op or each in reads.inlined) and any(
            one.tensor is load.tensor for one in loads(each))]
        if places is not None and len(readers) == 1 and sum(one.tensor is load.tensor for one in loads(readers[0])) == 1:
            return Crossing(load.tensor, readers[0], *places)
    return None


def _places(op: ComputeOp, load: ProducerLoad) -> tuple[int, int] | None:
    """Return the numbers of the result's axis and the operand's dimension that a read across rows is about; None for others."""
    sizes = extents(op)
    along = [at for at, index in enumerate(load.indices[:-1]) if index is op.axis[-1].var]
    across = [at for at, axis in enumerate(op.axis[:-1]) if load.indices and load.indices[-1] is axis.var]
    if not along or not across or min(sizes[-1], sizes[across[0]]) < SHORT:
        return None
    return across[0], along[0]


def run_transposed(s: Schedule, flow: Flow, op: ComputeOp, machine: GpuMachine, reads: Reads) -> bool:
    """Compute squares of a stage that reads across rows, after the threads have copied them row by row; say whether it is one.

    Decisions: form, "squares", or "direct" to read where the operand lies; lines, of a square that the threads take together.
    """
    found = crossing(flow, op, reads)
    if found is None or prod(extents(op)) < WARP * WARP:
        return False
    choose = partial(s[op].choose, rule=run_transposed.__name__)
    if choose("form", ["direct", "squares"], "squares") == "direct":
        return False
    choices = [count for count in powers(machine.threads_per_block // WARP) if count <= WARP]
    lines = choose("lines", choices, min(LINES, choices[-1]))
    copy = s.cache_read(found.tensor, "shared", [found.reader.output(0)])
    out, tile = s[op], s[copy]
    last, across = op.axis[-1], op.axis[found.across]
    far_line, line = out.split(across, WARP)
    far, near = out.split(last, WARP)
    again, line = out.split(line, lines)
    rest = [axis for axis in op.axis[:-1] if axis is not across]
    out.reorder(*rest, far_line, far, again, line, near)
    block = fused(out, [*rest, far_line, far])
    bind_block(out, block)
    bind_thread(out, line, lines, "y")
    bind_thread(out, near, WARP)
    tile.compute_at(out, block)
    axes = [*tile.op.root_iter_vars]
    row = axes[found.along]
    tile.storage_align(row, 2, 1)  # an odd distance of rows, so that a column's elements are in different banks
    _, line = tile.split(row, lines)
    bind_thread(tile, line, lines, "y")
    bind_thread(tile, axes[-1], WARP)
    return True
