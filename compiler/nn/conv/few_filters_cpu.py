"""Convolutions whose groups have few filters: rows of an image by vectors, read where they are."""

from functools import partial
from math import prod

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.stmt import PARTITION
from vtakit.compiler.nn.cpu.flow import Flow, divisor, divisors, extent, extents, loads
from vtakit.compiler.nn.cpu.tiles import product_tile, product_tiles
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation


def schedule_few_filters(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "conv_rows" and what follows it; return the operations that are done with.

    A tile is the filters of a group, or some, by vectors of a row, whose sums stay in registers through the whole reduction: each
    step loads the vectors once for all filters. Data is padded strip by strip, and a strip waits in the L2 cache.

    Decisions: tile, its filters and pixels; strip, rows.
    """
    choose = partial(s[anchor].choose, rule="schedule_few_filters")
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    for op in followers[:-1]:
        s[op].compute_inline()
    sums = anchor.output(0) if followers else s.cache_write(anchor.output(0), "local")
    images, filters, *places = extents(anchor)
    groups = anchor.attrs["groups"]
    size = filters // groups, places[-1], anchor.body[0].dtype
    height, width = choose("tile", product_tiles(machine, *size, whole=True), product_tile(machine, *size, whole=True))

    out = s[last]
    n, m, *rows, column = out.op.root_iter_vars
    outer, inner = [n], []
    if groups > 1:
        group, m = out.split(m, filters // groups)
        outer.append(group)
    if rows:
        strip, row = out.split(rows[0], choose("strip", divisors(places[0]), _strip(anchor, images * groups, machine)))
        outer.append(strip)
        inner = [row, *rows[1:]]
    part, m = out.split(m, height)
    tile, column = out.split(column, width)
    out.reorder(*outer, *inner, tile, part, m, column)
    place = out.fuse(*outer) if len(outer) > 1 else n
    out.parallel(place)
    out.unroll(m)
    out.vectorize(column)

    stage = s[sums]
    stage.compute_at(out, part)
    stage.set_scope("local")
    made = stage.op
    assert isinstance(made, ComputeOp)
    stage.reorder(*made.reduce_axis, *made.axis)
    stage.unroll(made.axis[1])
    stage.vectorize(made.axis[-1])
    done: set[Operation] = {anchor, *followers}
    for op in {load.tensor.op for load in loads(anchor) if load.tensor.op.name == "padded"}:
        copy = s[op]
        copy.compute_at(out, place)
        *lines, pixel = op.root_iter_vars[2:]
        chunk, pixel = copy.split(pixel, min(extent(pixel), 4 * machine.lanes(anchor.body[0].dtype)))
        for axis in (*lines, chunk):
            copy.pragma(axis, PARTITION)
        copy.vectorize(pixel)
        done.add(op)
    return done


def _strip(anchor: ComputeOp, parts: int, machine: Machine) -> int:
    """Return the rows of a strip: a divisor of all, whose data a quarter of the L2 cache holds, and few enough for threads."""
    _, _, rows, *others = extents(anchor)
    channels = extent(anchor.reduce_axis[0])
    row = channels * prod(others) * anchor.body[0].dtype.bytes
    return divisor(rows, min(machine.l2_bytes // 4 // row, parts * rows // machine.tasks))
