"""Products with matrices in panels: tiles of rows by panels, whose sums are in registers."""

from functools import partial
from itertools import product
from math import prod
from typing import NamedTuple

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.nn.cpu.flow import Flow, extent, extents, loads
from vtakit.compiler.nn.cpu.simple import share
from vtakit.compiler.nn.cpu.tiles import MOST_BLOCKS, stream_step_cycles, with_rests
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation


def schedule_panels(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "dense_panels" and what follows it; return the operations that are done with.

    All rows meet the panels of a tile before those of the next, since these stay in the L2 cache; each step of the sum
    loads a vector of each panel and multiplies it by a number of each row. Rows that have matrices of their own go one matrix
    after another.

    Decisions: tile, how many of the last axes of the rows are counted as one, and its rows and panels; parallel, whether threads
    share panels, or rows as well; ahead, prefetch distance of the weights in steps.
    """
    choose = partial(s[anchor].choose, rule="schedule_panels")
    followers = flow.followers(anchor)
    assert followers, "the operator makes its rows of these sums itself"
    last = followers[-1]
    for op in followers[:-1]:
        s[op].compute_inline()
    *batch, _, panels, lanes = extents(anchor)

    out = s[last]
    matrices, (*lead, column) = out.op.root_iter_vars[:len(batch)], out.op.root_iter_vars[len(batch):]
    rows = [extent(axis) for axis in lead]
    best, (_, *tile) = row_tiles(rows, panels, machine)
    together, height, count = choose("tile", _candidates(rows, panels, machine), (best, *tile))
    *outer, row = lead
    for axis in reversed(outer[len(lead) - together:]):
        row = out.fuse(axis, row)
    outer = outer[:len(lead) - together]
    row_tile, row = out.split(row, height)
    column_tile, column = out.split(column, count * lanes)
    out.reorder(*matrices, column_tile, *outer, row_tile, row, column)
    for axis in reversed(matrices):
        column_tile = out.fuse(axis, column_tile)
    place = column_tile
    few = prod(batch) * -(-panels // count) < machine.tasks
    if choose("parallel", ["panels", "rows"], "rows" if few else "panels") == "rows":
        for axis in (*outer, row_tile):
            place = out.fuse(place, axis)
    out.parallel(place)
    out.unroll(row)
    out.vectorize(column)

    inner = s[anchor.output(0)]
    inner.compute_at(out, place if place is not column_tile else row_tile)
    inner.set_scope("local")
    made = inner.op
    assert isinstance(made, ComputeOp)
    p, n, lane = made.axis[len(batch):]
    inner.reorder(*made.reduce_axis, p, n, lane)
    _, weight = loads(anchor)
    ahead = _ahead(count * lanes * weight.tensor.dtype.bytes, machine)
    inner.prefetch(weight.tensor, made.reduce_axis[0], choose("ahead", sorted({4, 16, machine.prefetch_steps, ahead}), ahead))
    inner.unroll(p)
    inner.unroll(n)
    inner.vectorize(lane)
    return {anchor, *followers}


class Tile(NamedTuple):
    """Rows and panels of a tile of sums, held in registers, and the cycles that a step of a product of such tiles takes."""

    cycles: float
    height: int
    width: int


def row_tiles(lead: list[int], panels: int, machine: Machine) -> tuple[int, Tile]:
    """Return how many of the last axes of the rows are fused, and the tile for the fused axis.

    What is left over by tiles has loops of its own only along an axis of the result; along several as one, tiles leave nothing.
    """
    found = []
    for together in range(1, len(lead) + 1):
        whole = _leaves_nothing(lead[len(lead) - together:])
        tile = panel_tile(prod(lead[len(lead) - together:]), panels, machine, whole=whole)
        found.append((prod(lead[:len(lead) - together]) * tile.cycles, together, tile))
    _, together, tile = min(found)
    return together, tile


def panel_tile(rows: int, panels: int, machine: Machine, *, whole: bool = False) -> Tile:
    """Return the tile with which a product takes the fewest cycles, of `whole` ones whose height divides the rows."""
    def cycles(height: int, width: int) -> float:
        down, across = [(rows // height, height), (1, rows % height)], [(panels // width, width), (1, panels % width)]
        steps = sum(n * m * _step(h, v, machine) for (n, h), (m, v) in product(down, across))
        return steps * with_rests(rows % height, panels % width)
    fits = _fits(rows, panels, machine.vector_registers, whole=whole)
    return min([Tile(cycles(height, width), height, width) for height, width in fits])


def _fits(rows: int, panels: int, registers: int, *, whole: bool) -> list[tuple[int, int]]:
    """Return all tiles whose sums, a vector of each panel and a number fit the registers; `whole` heights divide the rows."""
    heights = [height for height in range(1, min(rows, registers) + 1) if not whole or not rows % height]
    found = [(height, width) for height in heights for width in range(1, min(panels, MOST_BLOCKS) + 1)
             if height * width + width + 1 <= registers]
    return found or [(1, 1)]


def _leaves_nothing(axes: list[int]) -> bool:
    """Return whether axes that are counted as one need tiles that divide them: several have more than one element."""
    return sum(size > 1 for size in axes) > 1 or (len(axes) > 1 and axes[-1] == 1)


def _candidates(lead: list[int], panels: int, machine: Machine) -> list[tuple[int, int, int]]:
    """Return all tiles: axes that are counted as one, rows, panels."""
    return [(together, *tile) for together in range(1, len(lead) + 1)
            for tile in _fits(prod(lead[len(lead) - together:]), panels, machine.vector_registers,
                              whole=_leaves_nothing(lead[len(lead) - together:]))]


def _step(height: int, width: int, machine: Machine) -> float:
    """Return the cycles of a step of a tile's sums, for which a vector of each panel comes from L2."""
    return stream_step_cycles(machine, height, width)


def _ahead(step_bytes: int, machine: Machine) -> int:
    """Return the prefetch distance in steps, of so many bytes of weights each: at most half of L1 waits for use."""
    return max(1, min(machine.prefetch_steps, machine.l1_bytes // 2 // step_bytes))


def run_panels_within(stage: Stage, machine: Machine) -> None:
    """Schedule a scan step's sums for gates.

    Each panel of weights is read once for a tile of rows, whose sums stay in registers.
    Threads take panels of each step, if that is long enough: all of them read the step's state when it is there.

    Decisions: rows, whose sums are in registers; parallel, whether threads share the panels.
    """
    op = stage.op
    assert isinstance(op, ComputeOp)
    step, row, panel, lane = op.axis
    vectors = extents(op)[-1] // machine.lanes(op.body[0].dtype)
    most = max(1, min(extents(op)[1], (machine.vector_registers - 1 - vectors) // max(vectors, 1)))
    height = stage.choose("rows", [*range(1, most + 1)], most, rule=run_panels_within.__name__)
    tile, row = stage.split(row, height)
    stage.reorder(step, panel, tile, *op.reduce_axis, row, lane)
    _, weight = loads(op)
    stage.prefetch(weight.tensor, op.reduce_axis[0], _ahead(extents(op)[-1] * weight.tensor.dtype.bytes, machine))
    macs = prod(extents(op)[1:]) * prod([extent(axis) for axis in op.reduce_axis])
    share(stage, panel, macs >= machine.parallel_scan_macs, run_panels_within)
    stage.unroll(row)
    stage.vectorize(lane)
