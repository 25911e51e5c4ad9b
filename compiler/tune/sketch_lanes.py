"""Reductions by vectors along the reduction: partial sums side by side, for a tile of results at a time."""

from functools import partial
from math import prod

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.nn.cpu.flow import Reads, extents
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.tune.sketch_sizes import blocks, heights

MOST = 12  # results of a tile
MOST_WRITTEN = 32  # multiply-adds of vectors that are written out
FEW = 4  # partial sums that are put together one after another


def terms_of(op: ComputeOp, machine: Machine) -> list[int]:
    """Return the numbers of partial sums that the last axis of a reduction has steps for."""
    axis = op.reduce_axis[-1]
    length = int_value(axis.dom.extent) if axis.dom is not None else None
    lanes = machine.lanes(op.body[0].dtype)
    return [] if length is None else [size for size in (lanes // 2, lanes, 2 * lanes, 4 * lanes) if 1 < size <= length // 2]


def sum_by_lanes(s: Schedule, op: ComputeOp, machine: Machine, reads: Reads, threads: int) -> None:
    """Sum along the last axis of a reduction by vectors, for a tile of results.

    Decisions: terms, partial sums side by side; tile.AXIS, results of a tile; block.AXIS, tiles of a block; steps, of the
    reduction that are written out; parallel, whether threads share the outermost loop.
    """
    out = s[op]
    choose = partial(out.choose, rule=sum_by_lanes.__name__)
    lanes, possible = machine.lanes(op.body[0].dtype), terms_of(op, machine)
    terms: int = choose("terms", possible, max([size for size in possible if size <= lanes], default=possible[0]))
    sizes, names = extents(op), [out.axis_labels[axis] for axis in op.axis]
    rows = min(max((machine.vector_registers - 2) // max(terms // lanes, 1) - 2, 1), MOST)
    tile: dict[int, int] = {}
    for at in reversed(range(len(sizes))):
        some = heights(sizes[at], rows) if sizes[at] > 1 else [1]
        tile[at] = choose(f"tile.{names[at]}", some, max(size for size in some if size <= 4)) if len(some) > 1 else 1
        rows //= tile[at]
    vectors = max(terms // lanes, 1) * prod(tile.values())
    step: int = choose("steps", [size for size in (1, 2, 4) if size * vectors <= MOST_WRITTEN or size == 1], 1)
    total, run = op.output(0), op.reduce_axis[-1]
    partials = []
    for width in dict.fromkeys((terms, min(terms, lanes), min(terms, lanes, FEW))):
        _, inner = out.split(run, width)
        partials.append(s.rfactor(total, inner, len(op.axis)))
        (run,) = _compute(s, op).reduce_axis
    final = _compute(s, op)
    far, near, elements = [], [], []
    for at, axis in enumerate(final.axis):
        outer, each = out.split(axis, tile[at])
        tiles = -(-sizes[at] // tile[at])
        size: int = choose(f"block.{names[at]}", blocks(tiles), 1) if tiles > 1 else 1
        if size > 1:
            block, outer = out.split(outer, size)
            far.append(block)
        near.append(outer)
        elements.append(each)
    loops = [*far, *near]
    out.reorder(*loops, *elements, *final.reduce_axis)
    if threads > 1 and choose("parallel", [False, True], True):
        out.parallel(loops[0])
    for number, each in enumerate(partials):
        stage = s[each]
        stage.compute_at(out, loops[-1])
        stage.set_scope("local")
        made = stage.op
        assert isinstance(made, ComputeOp)
        sums = [axis for axis in stage.leaf_iter_vars if not any(axis is other for other in made.axis)]
        written = []
        if number == 0 and step > 1:
            sums[-1], one = stage.split(sums[-1], step)
            written = [one]
        stage.reorder(*sums, *written, *made.axis)
        for axis in (*written, *[axis for at, axis in enumerate(made.axis[:-1]) if tile[at] > 1]):
            stage.unroll(axis)
        stage.vectorize(made.axis[-1])


def _compute(s: Schedule, op: ComputeOp) -> ComputeOp:
    made = s[op].op
    assert isinstance(made, ComputeOp)
    return made
