"""Products with matrices in panels: tiles of rows by panels, whose sums are in registers."""

from vtakit.compiler.nn.cpu.flow import Flow, extents, loads
from vtakit.compiler.nn.cpu.machine import Machine
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp, Operation

TASKS = 4  # fewer parts than this and the work is shared out by rows as well
AHEAD = 64  # steps of a sum that weights are asked for before: processors' own prefetching ends with each page


def schedule_panels(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "dense_panels" and what follows it; return the operations that are done with.

    All rows meet the panels of a tile before those of the next, since these stay in the second-level cache; each step of the sum
    loads a vector of each panel and multiplies it by a number of each row.
    """
    followers = flow.followers(anchor)
    assert followers, "the operator makes its rows of these sums itself"
    last = followers[-1]
    for op in followers[:-1]:
        s[op].compute_inline()
    rows, panels, lanes = extents(anchor)
    height, width = machine.tile(rows, panels * lanes, anchor.body[0].dtype)
    count = max(1, width // lanes)

    out = s[last]
    *lead, column = out.op.root_iter_vars
    row = lead[0]
    for axis in lead[1:]:
        row = out.fuse(row, axis)
    row_tile, row = out.split(row, height)
    column_tile, column = out.split(column, count * lanes)
    out.reorder(column_tile, row_tile, row, column)
    place = column_tile
    if -(-panels // count) < TASKS:
        place = out.fuse(column_tile, row_tile)
    out.parallel(place)
    out.unroll(row)
    out.vectorize(column)

    inner = s[anchor.output(0)]
    inner.compute_at(out, place if place is not column_tile else row_tile)
    inner.set_scope("local")
    made = inner.op
    assert isinstance(made, ComputeOp)
    p, n, lane = made.axis
    inner.reorder(*made.reduce_axis, p, n, lane)
    _, weight = loads(anchor)
    inner.prefetch(weight.tensor, made.reduce_axis[0], AHEAD)
    inner.unroll(p)
    inner.unroll(n)
    inner.vectorize(lane)
    return {anchor, *followers}


def run_panels_within(stage: Stage, machine: Machine) -> None:
    """What a scan's step adds to gates: each panel of weights is read once for some rows, whose sums are in registers."""
    op = stage.op
    assert isinstance(op, ComputeOp)
    step, row, panel, lane = op.axis
    vectors = extents(op)[-1] // machine.lanes(op.body[0].dtype)
    height = max(1, min(extents(op)[1], (machine.registers - 1 - vectors) // max(vectors, 1)))
    tile, row = stage.split(row, height)
    stage.reorder(step, panel, tile, *op.reduce_axis, row, lane)
    _, weight = loads(op)
    stage.prefetch(weight.tensor, op.reduce_axis[0], AHEAD)
    stage.unroll(row)
    stage.vectorize(lane)
