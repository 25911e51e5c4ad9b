"""Winograd convolutions with channels in blocks: a group of tiles at a time, whose values stay in the L2 cache."""

from functools import partial
from math import prod

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.stmt import PREFETCH_AHEAD
from vtakit.compiler.nn.conv.winograd import STEP
from vtakit.compiler.nn.conv.winograd_forms import cut
from vtakit.compiler.nn.cpu.flow import Flow, divisors, extent, extents, loads
from vtakit.compiler.nn.cpu.tiles import pixel_tile, pixel_tiles
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation

AHEADS = (512, 1024, 2048, 4096, 8192)  # candidates


def schedule_winograd(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "winograd" and what follows it; return the operations that are done with.

    An image's rows of tiles come in groups. The data of a group is transformed for all channels. Then some blocks of filters at a
    time are summed for all points, the tile of registers being that of a direct convolution, and taken back; so weights are read
    once for each group, one after another. Many groups are shared out among threads; of a few, all threads work on one.

    Decisions: rows, those of a group; tile, the tiles and blocks whose sums are in registers; parallel, whether threads share
    groups or each group's filters; ahead, prefetch distance of the weights in bytes.
    """
    choose = partial(s[anchor].choose, rule="schedule_winograd")
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    for op in [anchor, *followers][:-1]:
        s[op].compute_inline()
    back = next(loads(anchor)).tensor
    steps = [back.op]
    while steps[-1].tag == STEP:
        steps.append(steps[-1].input_tensors[0].op)
    _, sums, data, half, source = steps
    assert isinstance(back.op, ComputeOp)
    assert isinstance(sums, ComputeOp)
    assert isinstance(data, ComputeOp)
    _, blocks, height, row, _ = extents(anchor)
    tile, points = extents(back.op)[3:5]
    down, across = -(-height // tile), -(-row // tile)
    channels = prod([extent(axis) for axis in sums.reduce_axis])
    _, rows, *best = cut(down, across, points**2, channels, blocks, machine)
    rows = choose("rows", divisors(down), rows)
    fits = pixel_tiles(machine, rows * across, blocks)
    pixels, width = choose("tile", fits, best if tuple(best) in fits else pixel_tile(machine, rows * across, blocks))

    out = s[last]
    n, m, y, x, lane = out.op.root_iter_vars
    m, block = out.split(m, width)
    y, dy = out.split(y, tile)
    group, y = out.split(y, rows)
    x, dx = out.split(x, tile)
    out.reorder(n, group, m, block, y, x, dy, dx, lane)
    place = out.fuse(n, group)
    many = choose("parallel", ["groups", "filters"],
                  "groups" if extents(anchor)[0] * (down // rows) >= machine.tasks else "filters") == "groups"
    out.parallel(place if many else m)
    out.unroll(dx)
    out.vectorize(lane)

    _tile_at(s, back.op, out, x)

    total = s[sums]
    total.compute_at(out, m)
    first, second, i, j, t, k = sums.axis
    c, part = sums.reduce_axis
    t, pixel = total.split(t, pixels)
    total.reorder(first, i, j, t, c, part, pixel, second, k)
    total.pragma(part, PREFETCH_AHEAD, choose("ahead", sorted({*AHEADS, machine.prefetch_bytes}), machine.prefetch_bytes))
    total.unroll(pixel)
    total.unroll(second)
    total.vectorize(k)

    found = s[data]
    found.compute_at(out, place)
    n, i, j, c, t, lane = data.axis
    t, x = found.split(t, across)
    found.reorder(n, c, t, x, i, j, lane)
    line = found.fuse(n, c, t)
    if not many:
        found.parallel(line)
    found.unroll(j)
    found.vectorize(lane)
    _tile_at(s, half, found, x)
    done: set[Operation] = {anchor, *followers, *steps[:4]}
    if source.name == "padded":
        s[source].compute_at(found, line)
        s[source].vectorize(s[source].op.root_iter_vars[-1])
        done.add(source)
    return done


def _tile_at(s: Schedule, op: Operation, reader: Stage, place: IterVar) -> None:
    """Compute a tile's vectors where it is read, column by column. A column's rows are copies of the code, which share sums."""
    stage = s[op]
    stage.compute_at(reader, place)
    stage.set_scope("local")
    *_, i, j, lane = stage.op.root_iter_vars
    stage.reorder(j, i, lane)
    stage.unroll(i)
    stage.vectorize(lane)
