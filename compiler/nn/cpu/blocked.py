"""Convolutions with channels in blocks: tiles of pixels by blocks of channels, a register for each of their products."""

from math import prod

from vtakit.compiler.nn.cpu.flow import Flow, extent, extents, loads
from vtakit.compiler.nn.cpu.machine import Machine
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp, Operation

TASKS = 4  # fewer parts than this and the work is shared out by pixels as well


def schedule_blocked(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "conv_blocked" and what follows it; return the operations that are done with.

    The weights of a few blocks of filters meet all pixels before those of the next, since they stay in the second-level cache.
    For each tile the whole reduction runs in registers: each step loads a vector of weights for each block and multiplies it by
    a number of each pixel.
    """
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    for op in followers[:-1]:
        s[op].compute_inline()
    sums = anchor.output(0) if followers else s.cache_write(anchor.output(0), "local")
    images, blocks, *places, _ = extents(anchor)
    pixels, width = machine.pixels(places[-1], blocks)

    out = s[last]
    n, m, *rows, column, lane = out.op.root_iter_vars
    if len(rows) >= len(places):  # pixels are counted through all rows
        for axis in (*rows[1:], column):
            rows[0] = out.fuse(rows[0], axis)
        rows, column = [], rows[0]
    m, block = out.split(m, width)
    tile, pixel = out.split(column, pixels)
    out.reorder(n, m, *rows, tile, block, pixel, lane)
    outer = [n, m]
    if images * blocks // width < TASKS or rows:
        outer += rows or ([] if places[-1] % pixels else [tile])
    place = outer[0]
    for axis in outer[1:]:
        place = out.fuse(place, axis)
    out.parallel(place)
    out.unroll(block)
    out.unroll(pixel)
    out.vectorize(lane)

    inner = s[sums]
    inner.compute_at(out, place if outer[-1] is tile else tile)
    inner.set_scope("local")
    made = inner.op
    assert isinstance(made, ComputeOp)
    first, second, *lines, x, k = made.axis
    *window, step, part = made.reduce_axis
    step = inner.fuse(step, part)  # a row of the kernel and the channels of a block lie in one row of both operands
    inner.reorder(first, *lines, *window, step, x, second, k)
    inner.unroll(x)
    inner.unroll(second)
    inner.vectorize(k)
    return {anchor, *followers}


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
