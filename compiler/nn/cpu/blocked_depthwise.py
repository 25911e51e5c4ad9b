"""Convolutions of one channel each, channels in blocks: some pixels of a row at a time, weights in registers."""

from math import prod

from vtakit.compiler.ir.stmt import WHOLE
from vtakit.compiler.nn.cpu.flow import Flow, extent, extents
from vtakit.compiler.nn.cpu.machine import Machine
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp, Operation


def schedule_blocked_depthwise(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "depthwise_blocked" and what follows it; return the operations that are done with.

    A tile is some pixels of a row, whose neighbours' loads are shared; weights stay in registers. Padding is not stored: the rows
    that it reaches are loops of their own, and in others only the first and last pixel of a row ask for it.
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
    for axis in (*rows, tile):
        out.pragma(axis, WHOLE)
    out.unroll(pixel)
    out.vectorize(lane)
    inner = s[sums]
    inner.compute_at(out, tile)
    inner.set_scope("local")
    made = inner.op
    assert isinstance(made, ComputeOp)
    inner.reorder(*made.reduce_axis, *made.axis)
    for axis in made.reduce_axis:
        inner.pragma(axis, WHOLE)
    for axis in (*made.reduce_axis[-1:], made.axis[-2]):
        inner.unroll(axis)
    inner.vectorize(made.axis[-1])
    return {anchor, *followers}
