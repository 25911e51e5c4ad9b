"""Convolutions with channels in blocks: tiles of pixels by blocks of channels, a register for each of their products."""

from math import prod

from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.stmt import PARTITION, PREFETCH_AHEAD
from vtakit.compiler.nn.cpu.flow import Flow, divisor, extent, extents, loads
from vtakit.compiler.nn.cpu.machine import TASKS, Machine
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp, Operation

AHEAD = 1024  # bytes of weights that are asked for before they are read: 16 steps of 14 cycles, longer than a second level takes


def schedule_blocked(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "conv_blocked" and what follows it; return the operations that are done with.

    A tile's sums are in registers: each step loads a vector of weights for each block and multiplies it by a number of each
    pixel. Which loops are around the tiles depends on what stays in the caches:

    - All weights stay in the second level: some rows of pixels (or tiles of a row of all pixels) meet all filters before the next
      rows do. Their data is read from far away once, and copied with its border where it is needed.
    - The sums of a whole image, for so many blocks, stay in the first level, but not their weights: the weights of some channels
      meet all tiles before those of the next, which are asked for meanwhile if there is room for them.
    - Otherwise the weights of a few blocks of filters meet all pixels before those of the next.
    """
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    for op in followers[:-1]:
        s[op].compute_inline()
    sums = anchor.output(0) if followers else s.cache_write(anchor.output(0), "local")
    images, blocks, *places, _ = extents(anchor)
    pixels, width = machine.pixels(places[-1], blocks)
    panel = _panel(anchor, pixels, width, machine)
    together = not panel and _is_small(anchor, pixels, width, machine)

    out = s[last]
    n, m, *rows, column, lane = out.op.root_iter_vars
    if len(rows) >= len(places):  # pixels are counted through all rows
        for axis in (*rows[1:], column):
            rows[0] = out.fuse(rows[0], axis)
        rows, column = [], rows[0]
    m, block = out.split(m, width)
    tile, pixel = out.split(column, pixels)
    if panel:
        near, far = out.split(rows[0] if rows else tile, panel)
        inside = [far, *rows[1:], tile] if rows else [far]
        out.reorder(n, near, m, *inside, block, pixel, lane)
        outer, tile = [n, near], inside[-1]
    else:
        out.reorder(n, m, *rows, tile, block, pixel, lane)
        outer = [n, m] if together else [n, m, *rows]
        if not rows and images * blocks // width < TASKS and not places[-1] % pixels:
            outer.append(tile)
    place = _fused(out, outer)
    out.parallel(place)
    out.unroll(block)
    out.unroll(pixel)
    out.vectorize(lane)

    inner = s[sums]
    inner.compute_at(out, place if together or outer[-1] is tile else tile)
    inner.set_scope("local")
    chunks = _chunks(anchor, width, machine) if together else 0
    _sum(inner, pixels, chunks, machine.repeated(pixels, width), _ahead(anchor, width, chunks, machine))
    return {anchor, *followers, *_pad(s, anchor, out, place if panel else None)}


def _sum(stage: Stage, pixels: int, chunks: int, repeated: int, ahead: int) -> None:
    """The loops of a tile's sums; of all tiles, for so many parts of the channels after so many, if that is not 0.

    repeated : steps that follow each other without a jump, if they divide all
    ahead    : bytes of weights that are asked for before they are read
    """
    op = stage.op
    assert isinstance(op, ComputeOp)
    first, second, *lines, x, k = op.axis
    chunk, *window, step, part = op.reduce_axis
    repeated = divisor(extent(step) * extent(part), repeated)
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

    Rows make as few parts as threads need. Tiles of pixels stay in the first-level cache with the weights that they meet.
    """
    images, blocks, *places, _ = extents(anchor)
    steps = _steps(anchor)
    if steps * _vectors(anchor, blocks) > machine.caches.second // 2:
        return 0
    count, most = places[0], images * places[0] // TASKS
    if len(places) == 1:
        count = -(-places[0] // pixels)
        room = machine.caches.first // 2 // steps - _vectors(anchor, width)
        most = min(images * count // TASKS, room // (pixels * anchor.body[0].dtype.bytes))
    return divisor(count, most)


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
    """Whether an image's sums of so many blocks leave room in the first-level cache, and their weights do not fit into it."""
    _, _, *places, _ = extents(anchor)
    vectors = _vectors(anchor, width)
    return not places[-1] % pixels and 3 * prod(places) * vectors <= 2 * machine.caches.first < 2 * _steps(anchor) * vectors


def _chunks(anchor: ComputeOp, width: int, machine: Machine) -> int:
    """How many parts of the channels, a divisor of all, have weights that a third of the first-level cache holds; at least 1."""
    chunks, *others = [extent(axis) for axis in anchor.reduce_axis]
    return divisor(chunks, machine.caches.first // 3 // (prod(others) * _vectors(anchor, width)))


def _ahead(anchor: ComputeOp, width: int, chunks: int, machine: Machine) -> int:
    """Bytes of weights that are asked for before they are read: of the next channels, if there is room for these and the sums."""
    _, *others = [extent(axis) for axis in anchor.reduce_axis]
    weights = chunks * prod(others) * _vectors(anchor, 1)
    sums = prod(extents(anchor)[2:-1]) * _vectors(anchor, width)
    return max(AHEAD, weights) if sums + 2 * width * weights <= machine.caches.first else AHEAD


def _steps(anchor: ComputeOp) -> int:
    """Of its reduction."""
    return prod([extent(axis) for axis in anchor.reduce_axis])


def _vectors(anchor: ComputeOp, width: int) -> int:
    """Bytes of a vector for each of so many blocks."""
    return width * extents(anchor)[-1] * anchor.body[0].dtype.bytes
