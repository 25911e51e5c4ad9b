"""Convolutions of one channel each: rows of an image by vectors."""

from vtakit.compiler.ir.stmt import PARTITION
from vtakit.compiler.nn.cpu.flow import Flow, extents, loads
from vtakit.compiler.nn.cpu.machine import Machine
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp, Operation

ROWS = 4  # computed together, since neighbours read the same pixels


def schedule_depthwise(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "depthwise" and what follows it; return the operations that are done with."""
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    done: set[Operation] = {anchor, *followers}
    for op in followers[:-1]:
        s[op].compute_inline()
    sums = anchor.output(0) if followers else s.cache_write(anchor.output(0), "local")
    out = s[last]
    n, m, *places = out.op.root_iter_vars[:len(anchor.axis)]
    image = out.fuse(n, m)
    out.parallel(image)
    sizes = extents(anchor)
    width = min(sizes[-1], 2 * machine.lanes(anchor.body[0].dtype))
    column, lane = out.split(places[-1], width)
    if len(places) > 1:
        rows = max(count for count in range(1, ROWS + 1) if not sizes[-2] % count)
        row, inner = out.split(places[-2], rows)
        out.reorder(image, *places[:-2], row, column, inner, lane)
        out.unroll(inner)
    out.vectorize(lane)
    tile = s[sums]
    tile.compute_at(out, column)
    tile.set_scope("local")
    made = tile.op
    assert isinstance(made, ComputeOp)
    tile.reorder(*made.reduce_axis, *made.axis)
    for axis in made.reduce_axis:
        tile.unroll(axis)
    if len(places) > 1:
        tile.unroll(made.axis[-2])
    tile.vectorize(made.axis[-1])
    for load in loads(anchor):
        if load.tensor.op.name == "padded":
            copy = s[load.tensor]
            copy.compute_at(out, image)
            for axis in copy.op.root_iter_vars[2:]:
                copy.pragma(axis, PARTITION)
            copy.vectorize(copy.op.root_iter_vars[-1])
            done.add(load.tensor.op)
    return done
