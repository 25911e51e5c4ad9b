"""Convolutions of one channel each and pooling, channels in blocks: some pixels of a row at a time."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.stmt import WHOLE
from vtakit.compiler.nn.cpu.flow import Flow, divisor, divisors, extent, extents
from vtakit.compiler.nn.cpu.tiles import pixel_tile, pixel_tiles
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation


def schedule_blocked_depthwise(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "depthwise_blocked" or "pool_blocked" and what follows it; return the operations done with.

    A tile is some pixels of a row, whose neighbours' loads are shared. Padding is not stored: for each row of the window it is
    asked once whether the row is there, and again for the first and the last pixel of a row.

    Decision: pixels, those of a tile.
    """
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    for op in followers[:-1]:
        s[op].compute_inline()
    sums = s[anchor] if followers else s[s.cache_write(anchor.output(0), "local")]
    out = s[last]
    out.parallel(out.fuse(*_tiles(out, sums, machine, partial(s[anchor].choose, rule="schedule_blocked_depthwise"))))
    return {anchor, *followers}


def schedule_separable(s: Schedule, flow: Flow, first: ComputeOp, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "depthwise_blocked", one of single pixels that reads it, and what follows each of them.

    Some rows of the first, all channels, are made just before the second reads them, while they are in a cache.

    Decisions: pixels, those of a tile of the first; tile, pixels and blocks of the second; strip, the rows made at once.
    """
    choose = partial(s[anchor].choose, rule="schedule_separable")
    of_first = partial(s[first].choose, rule="schedule_separable")
    before, after = flow.followers(first), flow.followers(anchor)
    for op in (*before[:-1], *after[:-1]):
        s[op].compute_inline()
    sums = s[first] if before else s[s.cache_write(first.output(0), "local")]
    middle, out = s[before[-1] if before else first], s[after[-1]]
    n, m, row, column, lane = out.op.root_iter_vars
    images, blocks, rows, columns, _ = extents(after[-1])
    pixels, width = choose("tile", pixel_tiles(machine, columns, blocks), pixel_tile(machine, columns, blocks))
    m, block = out.split(m, width)
    strip, row = out.split(row, choose("strip", divisors(rows), _rows(first, images, rows, machine)))
    tile, pixel = out.split(column, pixels)
    out.reorder(n, strip, m, row, tile, block, pixel, lane)
    place = out.fuse(n, strip)
    out.parallel(place)
    for axis in (block, pixel):
        out.unroll(axis)
    out.vectorize(lane)
    product = s[anchor]
    product.compute_at(out, tile)
    product.set_scope("local")
    image, second, x, k = anchor.axis
    chunk, *window, step, part = anchor.reduce_axis
    product.reorder(image, chunk, *window, step, part, x, second, k)
    for axis in (x, second):
        product.unroll(axis)
    product.vectorize(k)
    middle.compute_at(out, place)
    _tiles(middle, sums, machine, of_first)
    return {first, *before, anchor, *after}


def separable(flow: Flow, anchors: Sequence[ComputeOp]) -> dict[ComputeOp, ComputeOp]:
    """Anchors "depthwise_blocked" of two dimensions by those of single pixels that alone read what is made of them."""
    found: dict[ComputeOp, ComputeOp] = {}
    for first in anchors:
        if first.tag != "depthwise_blocked" or len(first.axis) != 5 or flow.is_output(first):
            continue
        last = (flow.followers(first) or [first])[-1]
        readers = [op for op in flow.readers[last] if isinstance(op, ComputeOp)]
        if flow.is_output(last) or len(readers) != len(flow.readers[last]) or len(readers) != 1:
            continue
        (reader,) = readers
        if reader.tag == "conv_blocked" and len(reader.axis) == 4 and flow.followers(reader):
            found[reader] = first
    return found


def _tiles(out: Stage, sums: Stage, machine: Machine, choose: Callable[[str, list[int], int], Any]) -> tuple[IterVar, IterVar]:
    """Loops of pixels of a row by vectors, the sums of each in registers; returns the loops of images and of blocks."""
    anchor = sums.op
    assert isinstance(anchor, ComputeOp)
    row = extents(anchor)[-2]
    room = machine.vector_registers - 1 - prod([extent(axis) for axis in anchor.reduce_axis])  # beside weights
    fits = [count for count in divisors(row) if count <= max(room, 1)]
    pixels = choose("pixels", fits, max(fits))
    n, c, *rows, column, lane = out.op.root_iter_vars
    tile, pixel = out.split(column, pixels)
    out.reorder(n, c, *rows, tile, pixel, lane)
    for axis in (*rows, tile):
        out.pragma(axis, WHOLE)
    out.unroll(pixel)
    out.vectorize(lane)
    sums.compute_at(out, tile)
    sums.set_scope("local")
    sums.reorder(*anchor.reduce_axis, *anchor.axis)
    for axis in anchor.reduce_axis:
        sums.pragma(axis, WHOLE)
    for axis in (*(anchor.reduce_axis[1:] or anchor.reduce_axis), anchor.axis[-2]):
        sums.unroll(axis)
    sums.vectorize(anchor.axis[-1])
    return n, c


def _rows(first: ComputeOp, images: int, rows: int, machine: Machine) -> int:
    """Return how many rows are made at once: a divisor of all, that leaves threads enough tasks and takes half of L2."""
    _, blocks, _, columns, lanes = extents(first)
    most = min(machine.l2_bytes // 2 // (blocks * columns * lanes * first.body[0].dtype.bytes), images * rows // machine.tasks)
    return divisor(rows, most)
