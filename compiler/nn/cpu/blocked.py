"""Convolutions with channels in blocks: tiles of pixels by blocks of channels, a register for each of their products."""

from math import prod

from vtakit.compiler.nn.cpu.flow import Flow, extent, extents
from vtakit.compiler.nn.cpu.machine import Machine
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp, Operation

FIRST_LEVEL = 1 << 15  # bytes of a first-level cache that every processor with vectors has
TASKS = 4  # fewer parts than this and the work is shared out by pixels as well


def schedule_blocked(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "conv_blocked" and what follows it; return the operations that are done with.

    The weights of a few blocks of filters meet all pixels before those of the next, since they stay in the second-level cache. A
    tile's sums are in registers: each step loads a vector of weights for each block and multiplies it by a number of each pixel.
    The whole reduction runs for one tile after another; but for a small image the weights of some channels meet all tiles, whose
    sums wait in the first-level cache, before those of the next channels.
    """
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    for op in followers[:-1]:
        s[op].compute_inline()
    sums = anchor.output(0) if followers else s.cache_write(anchor.output(0), "local")
    images, blocks, *places, _ = extents(anchor)
    pixels, width = machine.pixels(places[-1], blocks)
    together = _is_small(anchor, pixels, width)

    out = s[last]
    n, m, *rows, column, lane = out.op.root_iter_vars
    if len(rows) >= len(places):  # pixels are counted through all rows
        for axis in (*rows[1:], column):
            rows[0] = out.fuse(rows[0], axis)
        rows, column = [], rows[0]
    m, block = out.split(m, width)
    tile, pixel = out.split(column, pixels)
    out.reorder(n, m, *rows, tile, block, pixel, lane)
    outer = [n, m] if together else [n, m, *rows]
    if not rows and images * blocks // width < TASKS and not places[-1] % pixels:
        outer.append(tile)
    place = outer[0]
    for axis in outer[1:]:
        place = out.fuse(place, axis)
    out.parallel(place)
    out.unroll(block)
    out.unroll(pixel)
    out.vectorize(lane)

    inner = s[sums]
    inner.compute_at(out, place if together or outer[-1] is tile else tile)
    inner.set_scope("local")
    made = inner.op
    assert isinstance(made, ComputeOp)
    first, second, *lines, x, k = made.axis
    chunk, *window, step, part = made.reduce_axis
    step = inner.fuse(step, part)  # a row of the kernel and the channels of a block lie in one row of both operands
    if together:
        tile, x = inner.split(x, pixels)
        chunk, near = inner.split(chunk, _chunks(anchor, width))
        inner.reorder(first, chunk, *lines, tile, near, *window, step, x, second, k)
    else:
        inner.reorder(first, *lines, chunk, *window, step, x, second, k)
    inner.unroll(x)
    inner.unroll(second)
    inner.vectorize(k)
    return {anchor, *followers}


def _is_small(anchor: ComputeOp, pixels: int, width: int) -> bool:
    """Whether an image's sums of so many blocks fit into the first-level cache, and their weights do not."""
    _, _, *places, _ = extents(anchor)
    vectors = _vectors(anchor, width)
    steps = prod([extent(axis) for axis in anchor.reduce_axis])
    return not places[-1] % pixels and prod(places) * vectors <= FIRST_LEVEL < steps * vectors


def _chunks(anchor: ComputeOp, width: int) -> int:
    """How many parts of the channels, a divisor of all, have weights that half of the first-level cache holds; at least 1."""
    chunks, *others = [extent(axis) for axis in anchor.reduce_axis]
    most = max(1, FIRST_LEVEL // 2 // (prod(others) * _vectors(anchor, width)))
    return max([count for count in range(1, min(chunks, most) + 1) if not chunks % count])


def _vectors(anchor: ComputeOp, width: int) -> int:
    """Bytes of a vector for each of so many blocks."""
    return width * extents(anchor)[-1] * anchor.body[0].dtype.bytes
