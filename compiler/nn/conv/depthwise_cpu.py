"""Convolutions of one channel each: rows of an image by vectors."""

from functools import partial
from math import prod

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.stmt import PARTITION
from vtakit.compiler.nn.cpu.flow import Flow, divisor, divisors, extent, extents, loads
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation

ROWS = 4  # computed together, since neighbours read the same pixels
CHANNELS = 8  # with planes of their own at once
LONGEST = 512  # elements that are copied by one vector
VECTORS = 4  # registers of a tile of sums through the rows of a plane


def schedule_depthwise(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "depthwise" and what follows it; return the operations that are done with.

    Decisions: width, pixels of a vector; rows, those of a tile.
    """
    choose = partial(s[anchor].choose, rule="schedule_depthwise")
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
    widths = [min(sizes[-1], count * machine.lanes(anchor.body[0].dtype)) for count in range(1, VECTORS + 1)]
    width = choose("width", sorted({*widths}), widths[1])
    column, lane = out.split(places[-1], width)
    if len(places) > 1:
        rows = [count for count in divisors(sizes[-2]) if count <= 2 * ROWS]
        row, inner = out.split(places[-2], choose("rows", rows, divisor(sizes[-2], ROWS)))
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
            *lines, pixel = copy.op.root_iter_vars[2:]
            if extent(pixel) > LONGEST:
                line, pixel = copy.split(pixel, LONGEST)
                lines.append(line)
            for axis in (*lines, pixel):
                copy.pragma(axis, PARTITION)
            copy.vectorize(pixel)
            done.add(load.tensor.op)
    return done


def schedule_depthwise_planes(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "depthwise_planes" and what follows it; return the operations that are done with.

    A few channels at a time: their planes, then their sums by long vectors, then what follows, row by row; all in the L1
    cache, but with enough between a store and the loads that span it and its neighbours.

    Decisions: channels, those at a time; vectors, registers of a tile of sums.
    """
    choose = partial(s[anchor].choose, rule="schedule_depthwise_planes")
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    (source,) = {load.tensor.op for load in loads(anchor) if load.tensor.op.name == "planes"}
    assert isinstance(source, ComputeOp)
    done: set[Operation] = {anchor, source, *followers}
    for op in followers[:-1]:
        s[op].compute_inline()
    lanes = machine.lanes(anchor.body[0].dtype)
    out = s[last]
    n, m = out.op.root_iter_vars[:2]
    most = [count for count in divisors(extents(anchor)[1]) if count <= 4 * CHANNELS]
    channels, _ = out.split(m, choose("channels", most, _together(anchor, source, machine)))
    image = out.fuse(n, channels)
    out.parallel(image)
    sums = s[anchor]
    if followers:
        out.vectorize(out.split(out.op.root_iter_vars[-1], min(extents(followers[-1])[-1], 2 * lanes))[1])
        sums.compute_at(out, image)
    tile = s[s.cache_write(anchor.output(0), "local")]
    chunk, lane = sums.split(sums.op.root_iter_vars[-1], choose("vectors", [1, 2, 4, 8], VECTORS) * lanes)
    sums.vectorize(lane)
    tile.compute_at(sums, chunk)
    tile.set_scope("local")
    made = tile.op
    assert isinstance(made, ComputeOp)
    tile.reorder(*made.reduce_axis, *made.axis)
    for axis in made.reduce_axis:
        tile.unroll(axis)
    tile.vectorize(made.axis[-1])
    planes = s[source]
    planes.compute_at(out, image)
    for axis in source.axis[2:]:
        planes.pragma(axis, PARTITION)
    planes.vectorize(source.axis[-1])
    for load in loads(source):
        if load.tensor.op.name == "padded":
            s[load.tensor].compute_inline()
            done.add(load.tensor.op)
    return done


def _together(anchor: ComputeOp, planes: ComputeOp, machine: Machine) -> int:
    """Return a divisor of the channels, whose planes are at most a quarter of L1; at least 1, at most `CHANNELS`."""
    channels = extents(anchor)[1]
    most = min(CHANNELS, machine.l1_bytes // 4 // (prod(extents(planes)[2:]) * planes.body[0].dtype.bytes))
    return divisor(channels, most)
