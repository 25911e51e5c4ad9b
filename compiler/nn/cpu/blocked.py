"""Convolutions with channels in blocks: tiles of pixels by blocks of channels, a register for each of their products."""

from math import prod

from vtakit.compiler.nn.cpu.flow import Flow, extent, extents, loads
from vtakit.compiler.nn.cpu.machine import Machine
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp, Operation

FIRST_LEVEL = 48 << 10  # bytes of a first-level cache that every processor with vectors has
import os
UNROLLED = int(os.environ.get("U", "2"))
SECOND_LEVEL = int(os.environ.get("L2", 1 << 21))
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
    panel = 0 if together else _panel(anchor, pixels, width, machine)
    if panel:
        near, far = out.split(rows[0] if rows else tile, panel)
        order = [far, *rows[1:], tile] if rows else [far]
        out.reorder(n, near, m, *order, block, pixel, lane)
        outer = [n, near]
        tile = order[-1]
    else:
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
    repeated = _unrolled(extent(step) * extent(part))
    step = inner.fuse(step, part)  # a row of the kernel and the channels of a block lie in one row of both operands
    step, repeat = inner.split(step, repeated)
    if together:
        tile, x = inner.split(x, pixels)
        chunk, near = inner.split(chunk, _chunks(anchor, width))
        inner.reorder(first, chunk, *lines, tile, near, *window, step, repeat, x, second, k)
    else:
        inner.reorder(first, *lines, chunk, *window, step, repeat, x, second, k)
    for axis in (repeat, x, second):
        inner.unroll(axis)
    inner.vectorize(k)
    return {anchor, *followers, *_pad(s, anchor, out, place if panel else None)}


def _unrolled(count: int) -> int:
    """Steps that follow each other without a jump: a divisor of all."""
    return max([part for part in range(1, min(count, UNROLLED) + 1) if not count % part])


def _panel(anchor: ComputeOp, pixels: int, width: int, machine: Machine) -> int:
    """Rows, or tiles of pixels, a divisor of all, that meet all filters before the next ones do.

    0 if the weights do not stay in the second-level cache.
    """
    images, blocks, *places, _ = extents(anchor)
    steps = prod([extent(axis) for axis in anchor.reduce_axis])
    if steps * _vectors(anchor, blocks) > SECOND_LEVEL // 2:
        return 0
    count = places[0] if len(places) > 1 else -(-places[0] // pixels)
    most = count
    if len(places) == 1:
        size = anchor.body[0].dtype.bytes
        most = (FIRST_LEVEL // 2 // steps - _vectors(anchor, width)) // (size * pixels)
    most = min(most, images * count // TASKS)
    return max([part for part in range(1, max(most, 1) + 1) if not count % part])


def _pad(s: Schedule, anchor: ComputeOp, out: Stage, place: IterVar | None) -> set[Operation]:
    """Copy data and its border row by row, at a loop of `out` or before; return the operations that are done with."""
    found: set[Operation] = {load.tensor.op for load in loads(anchor) if load.tensor.op.name == "padded"}
    for op in found:
        stage = s[op]
        *outer, pixel, lane = op.root_iter_vars
        if place is not None:
            stage.compute_at(out, place)
        else:
            line = outer[0]
            for axis in outer[1:]:
                line = stage.fuse(line, axis)
            stage.parallel(line)
        stage.vectorize(lane)
    return found


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


def schedule_blocked_depthwise(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "depthwise_blocked" and what follows it; return the operations that are done with.

    A tile is some pixels of a row, whose neighbours' loads are shared; weights stay in registers.
    """
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    for op in followers[:-1]:
        s[op].compute_inline()
    sums = anchor.output(0) if followers else s.cache_write(anchor.output(0), "local")
    row = extents(anchor)[-2]
    room = machine.registers - 1 - prod([extent(axis) for axis in anchor.reduce_axis])
    pixels = max([count for count in range(1, max(1, min(row, room)) + 1) if not row % count])

    out = s[last]
    n, c, *rows, column, lane = out.op.root_iter_vars
    image = out.fuse(n, c)
    tile, pixel = out.split(column, pixels)
    out.reorder(image, *rows, tile, pixel, lane)
    out.parallel(image)
    out.unroll(pixel)
    out.vectorize(lane)
    inner = s[sums]
    inner.compute_at(out, tile)
    inner.set_scope("local")
    made = inner.op
    assert isinstance(made, ComputeOp)
    inner.reorder(*made.reduce_axis, *made.axis)
    for axis in (*made.reduce_axis, made.axis[-2]):
        inner.unroll(axis)
    inner.vectorize(made.axis[-1])
    done: set[Operation] = {anchor, *followers}
    for load in loads(anchor):
        if load.tensor.op.name == "padded":
            s[load.tensor].compute_at(out, image)
            s[load.tensor].vectorize(s[load.tensor].op.root_iter_vars[-1])
            done.add(load.tensor.op)
    return done
