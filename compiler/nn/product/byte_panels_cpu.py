"""Products of rows of bytes with matrices in panels: tiles of rows by panels, whose sums are in registers."""

from collections.abc import Callable
from functools import partial
from typing import Any

from vtakit.compiler.codegen.llvm.kernels.channel_dots import has_dots
from vtakit.compiler.codegen.llvm.kernels.dot_kernels import dot
from vtakit.compiler.codegen.llvm.kernels.held_tiles import SCOPE
from vtakit.compiler.codegen.llvm.kernels.tile_kernels import Group, has_tiles, product, store, takes
from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.expr import ProducerLoad
from vtakit.compiler.nn.conv.packed_bytes_cpu import MOST_REPEATED, MOST_STEPS, REPEATED
from vtakit.compiler.nn.cpu.flow import Flow, Reads, divisor, divisors, extent, extents, loads
from vtakit.compiler.nn.cpu.simple import run_along
from vtakit.compiler.nn.cpu.tiles import pixel_tile, pixel_tiles
from vtakit.compiler.nn.product.byte_panels import TOGETHER
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation

KIND = "uint8"
MOST_PANELS = 4  # of few rows: so many streams of weights
Choose = Callable[..., Any]


def schedule_byte_panels(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine, target: Target) -> set[Operation]:
    """Schedule an anchor tagged "dense_bytes" and what follows it; return the operations that are done with.

    A tile's sums go through L1 to what follows. Decisions:

    form      : what makes the sums, where the processor has tile registers: these or "vectors"
    registers : sums that are in registers over the whole reduction: of vectors, rows, panels and vectors of a panel; of tile
                registers, rows and columns
    order     : "columns": a tile's panels meet all rows before the next ones do; "rows": a tile of rows meets all panels
    parallel  : whether threads share the outer loop, or both
    rows      : where the rows as bytes of a tile's size lie: "copied", or "in place" where the data has just these
    steps     : steps of the reduction in one call
    repeat    : calls that follow each other without a jump, of vectors
    """
    choose = partial(s[anchor].choose, rule="schedule_byte_panels")
    followers = flow.followers(anchor)
    assert followers, "the operator makes its rows of these sums itself"
    last = followers[-1]
    for op in followers[:-1]:
        s[op].compute_inline()
    high, panels, n = extents(anchor)
    columns = extents(last)[-1]
    tile: int = anchor.attrs["tile"]
    steps = extent(anchor.reduce_axis[0]) // TOGETHER
    lanes = min(machine.lanes(anchor.body[0].dtype), n)
    groups = [group for group in (Group(1, rows, columns, max(each for each in divisors(steps) if each <= MOST_STEPS))
                                  for rows in divisors(tile) for columns in divisors(n)) if takes(group)]
    form = "vectors"
    if has_tiles(target, KIND):
        by_vectors = tile * n / lanes / machine.fmas_per_cycle * groups[-1].steps
        form = choose("form", ["tiles", "vectors"], "tiles" if _cycles(groups[-1], machine) <= by_vectors else "vectors")
    count, group = 1, groups[-1]
    if form == "tiles":
        height, width = choose("registers", [each[1:3] for each in groups], group[1:3])
        group, vectors = Group(1, height, width, group.steps), n // lanes
    else:
        registers = _registers(machine, tile, columns // n, n // lanes)
        best = pixel_tile(machine, tile, n // lanes)
        usual = max(registers) if tile == 1 else (best[0], 1, best[1])
        height, count, vectors = choose("registers", registers, usual)

    out = s[last]
    *lead, column = out.op.root_iter_vars
    row = next((axis for axis in lead if extent(axis) > 1), lead[-1])
    row_tile, row = out.split(row, tile)
    column_tile, column = out.split(column, count * n)
    size, matrix = high * steps * TOGETHER, panels * n * steps * TOGETHER
    by_rows = size > machine.l2_bytes // 2 >= matrix
    order = choose("order", ["columns", "rows"], "rows" if by_rows else "columns")
    loops = [column_tile, row_tile] if order == "columns" else [row_tile, column_tile]
    out.reorder(*loops, row, column)
    parts = [-(-panels // count), high // tile]
    both = choose("parallel", ["outer", "both"], "both" if parts[order == "rows"] < machine.tasks else "outer") == "both"
    if both:
        loops = [out.fuse(*loops)]
    out.parallel(loops[0])
    out.vectorize(column)

    result = anchor.output(0)
    sums = s.cache_write(result, SCOPE if form == "tiles" else "local")
    copy = s[result]
    copy.set_scope("local")
    copy.compute_at(out, loops[-1])
    if form == "tiles":
        _by_tiles(copy, s[sums], group, choose)
    else:
        _by_vectors(copy, s[sums], (height, count, vectors), lanes, steps, target, choose)
    return {anchor, *followers} | _rows(s, anchor, machine, choose)


def _registers(machine: Machine, rows: int, panels: int, vectors: int) -> list[tuple[int, int, int]]:
    """Return all tiles of vectors: rows, panels, vectors of each panel; of several panels all vectors."""
    found = [(height, 1, width) for height, width in pixel_tiles(machine, rows, vectors)]
    there = machine.vector_registers - 2
    return found + [(height, count, vectors) for count in range(2, min(panels, MOST_PANELS) + 1) for height in range(1, rows + 1)
                    if (height + 1) * count * vectors <= there]


def _cycles(group: Group, machine: Machine) -> float:
    """Estimate the cycles of one step of a group's sums: products, or loads of operands from L2."""
    down, across = (-(-size // MOST_STEPS) for size in (group.pixels, group.filters))
    return max(down * across * machine.tile_product_cycles, (down + across) * machine.tile_load_cycles)


def _by_tiles(copy: Stage, sums: Stage, group: Group, choose: Choose) -> None:
    """Schedule sums in tile registers, and their copy to memory."""
    row, panel, column = copy.op.root_iter_vars
    row_tile, row = copy.split(row, group.pixels)
    part, column = copy.split(column, group.filters)
    copy.reorder(panel, part, row_tile, row, column)
    copy.tensorize(row, store("int32", group))
    sums.compute_at(copy, row_tile)
    op = sums.op
    assert isinstance(op, ComputeOp)
    row, panel, column = op.axis
    whole = extent(op.reduce_axis[0]) // TOGETHER
    steps = choose("steps", [each for each in divisors(whole) if each <= MOST_STEPS], group.steps)
    step, k = sums.split(op.reduce_axis[0], steps * TOGETHER)
    sums.reorder(step, panel, row, column, k)
    sums.tensorize(row, product(KIND, group._replace(steps=steps)))


def _by_vectors(
    copy: Stage, sums: Stage, tile: tuple[int, int, int], lanes: int, steps: int, target: Target, choose: Choose,
) -> None:
    """Schedule sums in vector registers, and their copy to memory."""
    height, _, vectors = tile
    row, panel, column = copy.op.root_iter_vars
    row_tile, row = copy.split(row, height)
    part, column = copy.split(column, vectors * lanes)
    vector, column = copy.split(column, lanes)
    copy.reorder(part, row_tile, row, panel, vector, column)
    for axis in (row, panel, vector):
        copy.unroll(axis)
    copy.vectorize(column)
    sums.compute_at(copy, row_tile)
    op = sums.op
    assert isinstance(op, ComputeOp)
    row, panel, column = op.axis
    each = choose("steps", [count for count in divisors(steps) if count <= MOST_REPEATED], 1)
    calls = steps // each
    counts = [count for count in divisors(calls) if count * each <= MOST_REPEATED]
    most = divisor(calls, REPEATED) if has_dots(target, KIND) else 1
    repeated = choose("repeat", counts, max(count for count in counts if count <= most))
    step, k = sums.split(op.reduce_axis[0], each * TOGETHER)
    step, repeat = sums.split(step, repeated)
    vector, column = sums.split(column, lanes)
    sums.reorder(step, repeat, row, panel, vector, column, k)
    for axis in (repeat, row, panel, vector):
        sums.unroll(axis)
    sums.tensorize(column, dot(KIND, lanes, each))


def _rows(s: Schedule, anchor: ComputeOp, machine: Machine, choose: Choose) -> set[Operation]:
    """Schedule the rows that the sums read: copied, or where they are if they are there as they are read."""
    op = next(loads(anchor)).tensor.op
    assert isinstance(op, ComputeOp)
    assert op.tag == "dense_rows"
    if isinstance(op.body[0], ProducerLoad) and choose("rows", ["in place", "copied"], "in place") == "in place":
        s[op].compute_inline()
    else:
        run_along(s[op], machine, Reads(set()))
    return {op}
