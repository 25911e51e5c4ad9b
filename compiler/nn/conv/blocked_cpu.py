"""Convolutions with channels in blocks: tiles of pixels by blocks of channels, a register for each of their products."""

from functools import partial
from math import prod

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.stmt import PARTITION, PREFETCH_AHEAD
from vtakit.compiler.nn.cpu.flow import Flow, divisor, divisors, extent, extents, loads
from vtakit.compiler.nn.cpu.tiles import pixel_tile, pixel_tiles, repeated_steps
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation

AHEADS = tuple([1 << log for log in range(8, 14)])  # candidates
MOST_REPEATED = 8  # steps without a jump: more make code that the instruction cache does not hold


def schedule_blocked(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "conv_blocked" and what follows it; return the operations that are done with.

    A tile's sums are in registers: each step loads a vector of weights for each block and multiplies it by a number of each
    pixel. Decisions:

    tile     : pixels, and blocks of channels, of a tile
    order    : loops around the tiles, by what stays in the caches:
               "rows": a panel of rows of pixels (or of tiles, where all pixels are one row) meets all filters before the next one
               does. Its data is read from beyond L2 once, and copied with its border where it is needed. The default where
               the L2 cache holds all weights;
               "channels": the weights of a chunk of channels meet all tiles before those of the next, which are prefetched
               meanwhile if there is room. The default where the L1 cache holds the sums of an image, but not their weights;
               "filters": the weights of a few blocks of filters meet all pixels before those of the next
    panel    : rows or tiles, of "rows"          chunk : blocks of input channels, of "channels"
    parallel : whether threads share filters or tiles, of "filters" where all pixels are one row
    repeat   : steps of the sum that follow each other without a jump
    ahead    : prefetch distance of the weights, in bytes
    """
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    for op in followers[:-1]:
        s[op].compute_inline()
    images, blocks, *places, _ = extents(anchor)
    choose = partial(s[anchor].choose, rule="schedule_blocked")
    pixels, width = choose("tile", pixel_tiles(machine, places[-1], blocks), pixel_tile(machine, places[-1], blocks))
    panel = _panel(anchor, pixels, width, machine)
    whole = not places[-1] % pixels
    order = choose("order", ["rows", "channels", "filters"] if whole else ["rows", "filters"],
                   "rows" if panel else "channels" if _is_small(anchor, pixels, width, machine) else "filters")
    sums = anchor.output(0) if followers else s.cache_write(anchor.output(0), "local")

    out = s[last]
    n, m, *rows, column, lane = out.op.root_iter_vars
    if len(rows) >= len(places):  # pixels are counted through all rows
        for axis in (*rows[1:], column):
            rows[0] = out.fuse(rows[0], axis)
        rows, column = [], rows[0]
    m, block = out.split(m, width)
    tile, pixel = out.split(column, pixels)
    if order == "rows":
        near, far = out.split(rows[0] if rows else tile, choose("panel", divisors(_lines(anchor, pixels)), max(panel, 1)))
        inside = [far, *rows[1:], tile] if rows else [far]
        out.reorder(n, near, m, *inside, block, pixel, lane)
        outer, tile = [n, near], inside[-1]
    else:
        out.reorder(n, m, *rows, tile, block, pixel, lane)
        outer = [n, m] if order == "channels" else [n, m, *rows]
        if order == "filters" and not rows and whole:
            few = images * blocks // width < machine.tasks
            if choose("parallel", ["filters", "tiles"], "tiles" if few else "filters") == "tiles":
                outer.append(tile)
    place = _fused(out, outer)
    out.parallel(place)
    out.unroll(block)
    out.unroll(pixel)
    out.vectorize(lane)

    inner = s[sums]
    inner.compute_at(out, place if order == "channels" or outer[-1] is tile else tile)
    inner.set_scope("local")
    chunks = 0
    if order == "channels":
        chunks = choose("chunk", divisors(extent(anchor.reduce_axis[0])), _chunks(anchor, width, machine))
    steps = extent(anchor.reduce_axis[-1]) * extent(anchor.reduce_axis[-2])
    repeated = choose("repeat", [n for n in divisors(steps) if n <= MOST_REPEATED],
                      divisor(steps, repeated_steps(machine, pixels, width)))
    ahead = _ahead(anchor, width, chunks, machine)
    _sum(inner, pixels, chunks, repeated, choose("ahead", sorted({*AHEADS, ahead}), ahead))
    return {anchor, *followers, *_pad(s, anchor, out, place if order == "rows" else None)}


def _sum(stage: Stage, pixels: int, chunks: int, repeated: int, ahead: int) -> None:
    """Schedule the loops of a tile's sums; those of all tiles, for so many parts of the channels after so many, if not 0.

    repeated : steps that follow each other without a jump, which divide all
    ahead    : prefetch distance of the weights, in bytes
    """
    op = stage.op
    assert isinstance(op, ComputeOp)
    first, second, *lines, x, k = op.axis
    chunk, *window, step, part = op.reduce_axis
    row = stage.fuse(step, part)  # a row of the kernel and the channels of a block lie in one row of both operands
    row, repeat = stage.split(row, repeated)
    if chunks:
        tile, x = stage.split(x, pixels)
        chunk, near = stage.split(chunk, chunks)
        stage.reorder(first, chunk, *lines, tile, near, *window, row, repeat, x, second, k)
    else:
        stage.reorder(first, *lines, chunk, *window, row, repeat, x, second, k)
    stage.pragma(row, PREFETCH_AHEAD, ahead)
    for axis in (repeat, x, second):
        stage.unroll(axis)
    stage.vectorize(k)


def _fused(stage: Stage, axes: list[IterVar]) -> IterVar:
    """All axes as one."""
    found = axes[0]
    for axis in axes[1:]:
        found = stage.fuse(found, axis)
    return found


def _panel(anchor: ComputeOp, pixels: int, width: int, machine: Machine) -> int:
    """Rows, or tiles of pixels, a divisor of all, that meet all filters before the next ones do; 0 if weights are too large.

    Rows make as few parts as threads need. Tiles of pixels stay in the L1 cache with the weights that they meet.
    """
    images, blocks, *places, _ = extents(anchor)
    steps = _steps(anchor)
    if steps * _vectors(anchor, blocks) > machine.l2_bytes // 2:
        return 0
    count = _lines(anchor, pixels)
    most = images * count // machine.tasks
    if len(places) == 1:
        room = machine.l1_bytes // 2 // steps - _vectors(anchor, width)
        most = min(most, room // (pixels * anchor.body[0].dtype.bytes))
    return divisor(count, most)


def _lines(anchor: ComputeOp, pixels: int) -> int:
    """Return the number of rows of an image; of tiles, if its pixels are one row."""
    places = extents(anchor)[2:-1]
    return places[0] if len(places) > 1 else -(-places[0] // pixels)


def _pad(s: Schedule, anchor: ComputeOp, out: Stage, place: IterVar | None) -> set[Operation]:
    """Copy data and its border row by row, at a loop of `out` or before; return the operations that are done with."""
    found: set[Operation] = {load.tensor.op for load in loads(anchor) if load.tensor.op.name == "padded"}
    for op in found:
        stage = s[op]
        *outer, pixel, lane = op.root_iter_vars
        if place is not None:
            stage.compute_at(out, place)
        else:
            stage.parallel(_fused(stage, outer))
        stage.pragma(pixel, PARTITION)
        stage.vectorize(lane)
    return found


def _is_small(anchor: ComputeOp, pixels: int, width: int, machine: Machine) -> bool:
    """Return whether the L1 cache holds an image's sums of `width` blocks with room to spare, but not their weights."""
    _, _, *places, _ = extents(anchor)
    vectors = _vectors(anchor, width)
    return not places[-1] % pixels and 3 * prod(places) * vectors <= 2 * machine.l1_bytes < 2 * _steps(anchor) * vectors


def _chunks(anchor: ComputeOp, width: int, machine: Machine) -> int:
    """Return the channel blocks of a chunk: the most, dividing all, whose weights a third of the L1 cache holds; at least 1."""
    chunks, *others = [extent(axis) for axis in anchor.reduce_axis]
    return divisor(chunks, machine.l1_bytes // 3 // (prod(others) * _vectors(anchor, width)))


def _ahead(anchor: ComputeOp, width: int, chunks: int, machine: Machine) -> int:
    """Return the prefetch distance of weights in bytes: the next channels, if there is room for these and the sums."""
    _, *others = [extent(axis) for axis in anchor.reduce_axis]
    weights = chunks * prod(others) * _vectors(anchor, 1)
    sums = prod(extents(anchor)[2:-1]) * _vectors(anchor, width)
    fits = sums + 2 * width * weights <= machine.l1_bytes
    return max(machine.prefetch_bytes, weights) if fits else machine.prefetch_bytes


def _steps(anchor: ComputeOp) -> int:
    """Return the number of steps of the reduction."""
    return prod([extent(axis) for axis in anchor.reduce_axis])


def _vectors(anchor: ComputeOp, width: int) -> int:
    """Bytes of a vector for each of so many blocks."""
    return width * extents(anchor)[-1] * anchor.body[0].dtype.bytes
