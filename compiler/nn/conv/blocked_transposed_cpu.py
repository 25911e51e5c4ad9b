"""Transposed convolutions by phases: tiles of pixels by blocks of channels, a register for each of their sums."""

from functools import partial
from itertools import product
from math import prod

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.nn.conv.blocked_transposed import AHEAD
from vtakit.compiler.nn.cpu.flow import Flow, extent, extents, loads
from vtakit.compiler.nn.cpu.tiles import MOST_BLOCKS, repeated_steps, stream_step_cycles, with_rests
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation

REPEATED = 4  # steps that follow each other without a jump


def schedule_blocked_transposed(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "conv_transpose_blocked" and what follows it; return the operations that are done with.

    A tile has the pixels of all phases along those dimensions in which it is wider than one, since these are neighbours in the
    result; the weights of some blocks meet all tiles before those of the next.

    Decisions: tile, its pixels of the last one or two dimensions and blocks of channels; repeat, the steps of the sum that follow
    each other without a jump.
    """
    choose = partial(s[anchor].choose, rule="schedule_blocked_transposed")
    followers = flow.followers(anchor)
    assert followers, "the operator puts the phases together itself"
    last = followers[-1]
    for op in followers[:-1]:
        s[op].compute_inline()
    _, blocks, *apart, lanes = extents(anchor)
    cells, phases = apart[::2], apart[1::2]
    _, weight = loads(anchor)
    vector_bytes = lanes * anchor.body[0].dtype.bytes
    weight_bytes = prod([int_value(extent) or 0 for extent in weight.tensor.shape]) * anchor.body[0].dtype.bytes
    sides = tuple(cells[-2:])
    *tall, wide, width = choose("tile", tiles(sides, blocks, machine.vector_registers),
                                tile_of(sides, blocks, vector_bytes, weight_bytes, machine))

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
    out.vectorize(lane)

    inner = s[anchor.output(0)]
    inner.compute_at(out, outer[-1])
    inner.set_scope("local")
    made = inner.op
    assert isinstance(made, ComputeOp)
    first, second, *axes, k = made.axis
    chunk, *taps, step, part = made.reduce_axis
    room = repeated_steps(machine, prod(tall) * wide, width) > 1 and not extent(part) % REPEATED
    repeated = choose("repeat", [count for count in (1, 2, 4, 8) if not extent(part) % count], REPEATED if room else 1)
    part, repeat = inner.split(part, repeated)
    step = inner.fuse(step, part)  # a row of the kernel and the channels of a block lie in one row of both operands
    inner.reorder(first, *axes[1::2], chunk, *taps, step, repeat, *axes[::2], second, k)
    inner.prefetch(weight.tensor, step, min(AHEAD, machine.prefetch_steps) // repeated)  # hardware prefetching ends with a page
    for axis in (repeat, *axes[::2], second):
        inner.unroll(axis)
    inner.vectorize(k)
    return {anchor, *followers}


def tile_of(cells: tuple[int, ...], blocks: int, vector_bytes: int, weight_bytes: int, machine: Machine) -> tuple[int, ...]:
    """Return the register tile with the fewest cycles: pixels of each of the last two dimensions, and blocks.

    Its blocks divide all blocks. The first tile reads its weights from beyond L2, unless L2 holds all weights. The others read
    them from L2, unless the weights of a tile take more than half of it.
    """
    def cycles(tile: tuple[int, ...]) -> float:
        *sides, width = tile
        parts = [[(count // side, side), (1, count % side)] for count, side in zip(cells, sides, strict=True)]
        stay = weight_bytes * width / blocks <= machine.l2_bytes // 2
        total, first = 0.0, weight_bytes > machine.l2_bytes
        for part in product(*parts):
            count, height = prod([times for times, _ in part]), prod([side for _, side in part])
            if not count * height:
                continue
            near = stream_step_cycles(machine, height, width)
            far = max(near, width * vector_bytes / machine.far_bytes_per_cycle(weight_bytes))
            total += count * near if stay else count * far
            if first and stay:
                total, first = total + far - near, False
        return total / width * with_rests(*[count % side for count, side in zip(cells, sides, strict=True)])
    return min(tiles(cells, blocks, machine.vector_registers), key=cycles)


def tiles(cells: tuple[int, ...], blocks: int, registers: int) -> list[tuple[int, ...]]:
    """Return all tiles of pixels and blocks whose sums, weights and number fit the registers."""
    choices = [range(1, min(count, registers) + 1) for count in cells]
    widths = [count for count in range(1, min(blocks, MOST_BLOCKS) + 1) if not blocks % count]
    return [tile for tile in product(*choices, widths) if prod(tile) + tile[-1] + 1 <= registers]
