"""Products of matrices and convolutions: tiles of sums in registers, with what follows done to each tile."""

from functools import partial
from math import prod

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.expr import ProducerLoad
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.nn.cpu.flow import Flow, Reads, extents, loads
from vtakit.compiler.nn.cpu.simple import run_along, share, vector_of
from vtakit.compiler.nn.cpu.tiles import product_tile, product_tiles
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation, Tensor

FEW = 4  # rows that are not worth turning the other matrix for
WORTH = 16  # rows of the result that read the columns of a tile: fewer, and copying these side by side first does not pay


def is_product_of_rows(anchor: ComputeOp) -> bool:
    """Return whether the anchor multiplies few rows by rows of another matrix: each sum runs along two rows, without any copy."""
    if anchor.tag != "matmul" or extents(anchor)[-2] >= FEW:
        return False
    return all(load.indices[-1] is anchor.reduce_axis[-1].var for load in loads(anchor))


def schedule_product(s: Schedule, flow: Flow, anchor: ComputeOp, machine: Machine) -> set[Operation]:
    """Schedule an anchor tagged "conv" or "matmul" and what follows it; return the operations that are done with.

    The last two axes of the anchor are the rows and columns of a matrix, and the columns are contiguous in one operand.

    Decisions: tile, its rows and columns; parallel, whether threads share columns of tiles or rows of tiles (where all tiles are
    of one width, or there is one matrix).
    """
    choose = partial(s[anchor].choose, rule="schedule_product")
    followers = flow.followers(anchor)
    last = followers[-1] if followers else anchor
    done: set[Operation] = {anchor, *followers}
    for op in followers[:-1]:
        s[op].compute_inline()
    sums = anchor.output(0) if followers else s.cache_write(anchor.output(0), "local")
    lead, rows, columns = extents(anchor)[:-2], extents(anchor)[-2], extents(anchor)[-1]
    groups = _groups(anchor)
    parts = prod(lead) * groups
    size, kind = (rows // groups, columns), anchor.body[0].dtype
    height, width = choose("tile", product_tiles(machine, *size, kind, whole=groups > 1),
                           product_tile(machine, *size, kind, alike=parts > 1, whole=groups > 1))

    out = s[last]
    axes = [*out.op.root_iter_vars]
    column = axes[len(lead) + 1]
    for axis in axes[len(lead) + 2:]:
        column = out.fuse(column, axis)
    row, outer = axes[len(lead)], axes[:len(lead)]
    if groups > 1:
        group, row = out.split(row, rows // groups)
        outer = [*outer, group]
    row_tile, row = out.split(row, height)
    column_tile, column = out.split(column, width)
    tiles = -(-columns // width)
    if columns % width and parts > 1:  # a last, narrower tile needs loops of its own, which those of a fused loop cannot have
        place, inner, shared = column_tile, row_tile, True
        out.reorder(*outer, column_tile, row_tile, row, column)
        out.parallel(out.fuse(*outer))
    elif choose("parallel", ["columns", "rows"], "columns" if parts * tiles >= machine.tasks else "rows") == "columns":
        inner, shared = row_tile, True
        out.reorder(*outer, column_tile, row_tile, row, column)
        place = out.fuse(*outer, column_tile) if outer else column_tile
        out.parallel(place)
    else:
        inner, shared = column_tile, False
        out.reorder(*outer, row_tile, column_tile, row, column)
        place = out.fuse(*outer, row_tile) if outer else row_tile
        out.parallel(place)
    out.unroll(row)
    out.vectorize(column)

    tile = s[sums]
    tile.compute_at(out, inner)
    tile.set_scope("local")
    made = tile.op
    assert isinstance(made, ComputeOp)
    tile.reorder(*made.reduce_axis, *made.axis)
    tile.unroll(made.axis[-2])
    tile.vectorize(made.axis[-1])
    return done | _operands(s, anchor, sums, out, place if shared else None, machine)


def _groups(anchor: ComputeOp) -> int:
    """Return the number of groups of a convolution, whose rows read different columns; else 1."""
    found: int = anchor.attrs.get("groups", 1)
    return found


def _operands(
    s: Schedule, anchor: ComputeOp, sums: Tensor, out: Stage, place: IterVar | None, machine: Machine,
) -> set[Operation]:
    """Schedule the operands in columns, and return those done: copied for each column of tiles at a loop of `out`, or inlined."""
    done: set[Operation] = set()
    rows = extents(anchor)[-2]
    for load in loads(anchor):
        op = load.tensor.op
        if anchor.tag == "conv" and isinstance(op, ComputeOp) and op.name == "columns":
            done.add(op)
            if _is_copy(op) and (place is None or rows < WORTH):
                s[op].compute_inline()
            elif place is not None:
                s[op].compute_at(out, place)
                s[op].vectorize(op.axis[-1])
            elif op.attrs["row"]:
                _run_by_rows(s[op], op.attrs["row"], machine)
            else:
                run_along(s[op], machine, Reads(set()))
        elif anchor.tag == "matmul" and place is not None and rows >= WORTH:
            at = _reads_columns(anchor, load)
            if at is not None:
                _pack(s, load, sums, out, place, swapped=not at)
    return done


def _run_by_rows(stage: Stage, row: int, machine: Machine) -> None:
    """Copy columns where each row of the result reads a row of the image: by vectors that end where it does.

    Decisions: vector, its elements; parallel, whether threads share the rows.
    """
    op = stage.op
    assert isinstance(op, ComputeOp)
    line, x = stage.split(op.axis[-1], row)
    share(stage, stage.fuse(*op.axis[:-1], line), True, _run_by_rows)
    _, x = stage.split(x, vector_of(stage, row, machine.lanes(op.body[0].dtype), _run_by_rows))
    stage.vectorize(x)


def _is_copy(op: ComputeOp) -> bool:
    """Return whether columns are the image itself: a 1x1 kernel and stride 1."""
    return bool(op.attrs.get("plain"))


def _reads_columns(anchor: ComputeOp, load: ProducerLoad) -> int | None:
    """Return the place, among the last two indices of an operand, of the result's column; None if neither is."""
    last = anchor.axis[-1].var
    found = [at for at, index in enumerate(load.indices[-2:]) if index is last]
    return found[0] if found else None


def _pack(s: Schedule, load: ProducerLoad, sums: Tensor, out: Stage, place: IterVar, *, swapped: bool) -> None:
    """Copy the columns of an operand that a column of tiles reads, each row next to the one before."""
    copy = s.cache_read(load.tensor, "global", [sums])
    if swapped:
        stage = s[copy]
        *lead, column, step = stage.op.root_iter_vars
        stage.reorder(*lead, step, column)
        panel: Tensor = s.cache_write(copy, "global")
        stage.compute_inline()
        copy = panel
    s[copy].compute_at(out, place)
    s[copy].vectorize(s[copy].op.root_iter_vars[-1])
