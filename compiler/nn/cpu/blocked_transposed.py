"""Transposed convolutions by phases: tiles of pixels by blocks of channels, a register for each of their sums."""

from itertools import product

from vtakit.compiler.nn.blocked_transposed import AHEAD
from vtakit.compiler.nn.cpu.flow import Flow, extents, loads
from vtakit.compiler.nn.cpu.machine import MOST_BLOCKS, Machine, step_cycles
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp, Operation

FAR_BYTES = 16  # a cycle, from the second-level cache, where weights wait for the next tile


def schedule_blocked_transposed(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "conv_transpose_blocked" and what follows it; return the operations that are done with.

    A tile has the pixels of all phases along those dimensions in which it is wider than one, since these are neighbours in the
    result; the weights of some blocks meet all tiles before those of the next.
    """
    followers = flow.followers(anchor)
    assert followers, "the operator puts the phases together itself"
    last = followers[-1]
    for op in followers[:-1]:
        s[op].compute_inline()
    _, blocks, *apart, lanes = extents(anchor)
    cells, phases = apart[::2], apart[1::2]
    *tall, wide, width = tile_of(tuple(cells[-2:]), blocks, lanes * anchor.body[0].dtype.bytes, machine.registers)

    out = s[last]
    n, m, *places, lane = out.op.root_iter_vars
    m, block = out.split(m, width)
    pairs = [out.split(place, step) for place, step in zip(places, phases, strict=True)]
    outer, parts = [cell for cell, _ in pairs], [phase for _, phase in pairs]
    outer[-1], column = out.split(outer[-1], wide)
    pixels = [column, parts.pop()]
    if tall and tall[0] > 1:
        outer[-2], row = out.split(outer[-2], tall[0])
        pixels = [row, parts.pop(), *pixels]
    out.reorder(n, m, *parts, *outer, block, *pixels, lane)
    place = n
    for axis in (m, *parts):
        place = out.fuse(place, axis)
    out.parallel(place)
    for axis in (block, *pixels):
        out.unroll(axis)
    out.vectorize(lane)

    inner = s[anchor.output(0)]
    inner.compute_at(out, outer[-1])
    inner.set_scope("local")
    made = inner.op
    assert isinstance(made, ComputeOp)
    first, second, *axes, k = made.axis
    chunk, *taps, step, part = made.reduce_axis
    step = inner.fuse(step, part)  # a row of the kernel and the channels of a block lie in one row of both operands
    inner.reorder(first, *axes[1::2], chunk, *taps, step, *axes[::2], second, k)
    _, weight = loads(anchor)
    inner.prefetch(weight.tensor, step, AHEAD)  # a processor's own prefetching ends with each page
    for axis in (*axes[::2], second):
        inner.unroll(axis)
    inner.vectorize(k)
    return {anchor, *followers}


def tile_of(cells: tuple[int, ...], blocks: int, vector_bytes: int, registers: int) -> tuple[int, ...]:
    """Pixels of the last two dimensions and blocks, divisors of theirs, whose sums in registers take the fewest cycles."""
    def cycles(tile: tuple[int, ...]) -> float:
        *sides, width = tile
        height = 1
        for side in sides:
            height *= side
        if height * width + width + 1 > registers:
            return float("inf")
        return max(step_cycles(height, width), width * vector_bytes / FAR_BYTES) / (height * width)
    choices = [[count for count in range(1, min(extent, registers) + 1) if not extent % count] for extent in cells]
    widths = [count for count in range(1, min(blocks, MOST_BLOCKS) + 1) if not blocks % count]
    return min(product(*choices, widths), key=cycles)
