"""Loops over the elements of a stage, in parallel and by vectors, and reductions."""

from collections.abc import Callable, Sequence
from math import prod

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.ir.expr import ProducerLoad, Reduce
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import free_vars
from vtakit.compiler.nn.cpu.flow import Reads, extent, extents
from vtakit.compiler.nn.moves.transposes_cpu import run_transposed
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp

WIDEST = 4  # registers of a vector of elements
SUMS = ("sum", "max", "min", "prod", "greatest")  # combinations that may begin in several places
FEW = 4  # partial sums that are put together one after another


def vector_of(stage: Stage, run: int, lanes: int, rule: Callable[..., object]) -> int:
    """Return the elements of a vector along a run of so many: the decision "vector", as wide as `WIDEST` registers by default."""
    widths = sorted({min(run, lanes << at) for at in range(WIDEST.bit_length())})
    chosen: int = stage.choose("vector", widths, widths[-1], rule=rule.__name__)
    return chosen


def share(stage: Stage, axis: IterVar, pays: bool, rule: Callable[..., object]) -> None:
    """Let threads share a loop: the decision "parallel", where it pays by default."""
    if stage.choose("parallel", [False, True], pays, rule=rule.__name__):
        stage.parallel(axis)


def run_along(stage: Stage, machine: Machine, reads: Reads) -> None:
    """Compute every element: the axes in which all operands run together as one, by vectors, the others outside of it.

    Decisions: vector, its elements; parallel, whether threads share the loops; task, the vectors of one's part of a single loop.
    """
    op = stage.op
    assert isinstance(op, ComputeOp)
    if not op.axis or run_transposed(stage, machine, reads):
        return
    sizes = extents(op)
    first = flat_from(op, reads)
    across = _other_row(op, reads)
    if first == len(sizes) - 1 and across is not None:
        _run_in_squares(stage, op, across, machine)
        return
    run = prod(sizes[first:])
    inner = stage.fuse(*op.axis[first:]) if first < len(sizes) - 1 else op.axis[first]
    width = vector_of(stage, run, machine.lanes(op.body[0].dtype), run_along)
    outer: IterVar | None = stage.fuse(*op.axis[:first]) if first > 1 else op.axis[0] if first else None
    chunk, vector = stage.split(inner, width)
    if stage.choose("parallel", [False, True], prod(sizes) >= machine.parallel_elements, rule=run_along.__name__):
        if outer is None:
            tasks = sorted({machine.task_vectors, *(1 << at for at in range(2, 8))})
            outer, chunk = stage.split(chunk, stage.choose("task", tasks, machine.task_vectors, rule=run_along.__name__))
        stage.parallel(outer)
    stage.vectorize(vector)


def _other_row(op: ComputeOp, reads: Reads) -> int | None:
    """The axis along which an operand lies in rows, if that is another than the result's last one, as in a transposition."""
    for load in reads.of(op):
        index = load.indices[-1] if load.indices else None
        for at, axis in enumerate(op.axis[:-1]):
            if index is axis.var and extent(axis) > 1 and any(other is op.axis[-1].var for other in load.indices):
                return at
    return None


def _run_in_squares(stage: Stage, op: ComputeOp, across: int, machine: Machine) -> None:
    """Compute squares of the last axis and that along which the operand lies, one after another.

    Decisions: side, of a square; parallel, whether threads share the squares.
    """
    last = op.axis[-1]
    own = machine.line_bytes // FLOAT32.bytes  # a line of a float32 operand is then used whole while it is in L1
    side = stage.choose("side", sorted({own, 4, 8, 16, 32}), own, rule=_run_in_squares.__name__)
    lines, line = stage.split(op.axis[across], side)
    chunk, vector = stage.split(last, min(machine.lanes(op.body[0].dtype), extents(op)[-1]))
    outer = [*[axis for at, axis in enumerate(op.axis[:-1]) if at != across], lines]
    stage.reorder(*outer, chunk, line, vector)
    place = stage.fuse(*outer) if len(outer) > 1 else outer[0]
    share(stage, place, prod(extents(op)) >= machine.parallel_elements, _run_in_squares)
    stage.vectorize(vector)


def run_within(stage: Stage, machine: Machine) -> None:
    """Schedule a stage that each step of a scan computes: vectors along the last axis, one thread.

    Decision: vector, its elements.
    """
    op = stage.op
    if not isinstance(op, ComputeOp) or not op.axis or extents(op)[-1] < 4 or op.num_outputs > 1:
        return
    width = vector_of(stage, extents(op)[-1], machine.lanes(op.body[0].dtype), run_within)
    chunk, vector = stage.split(op.axis[-1], width)
    stage.reorder(*op.axis[:-1], chunk, *op.reduce_axis, vector)
    stage.vectorize(vector)


def flat_from(op: ComputeOp, reads: Reads) -> int:
    """The first of the last axes along which every operand is read element after element, or one element all along."""
    first = len(op.axis) - 1
    while first and all(is_flat(op, load, first - 1) for load in reads.of(op)):
        first -= 1
    return first


def is_flat(op: ComputeOp, load: ProducerLoad, first: int) -> bool:
    """Return whether the last indices of a read are the axes from `first` on, whole, or no index has any of them."""
    axes = op.axis[first:]
    if not any(axis.var in free_vars(index) for axis in axes for index in load.indices):
        return True
    if len(load.indices) < len(axes):
        return False
    tail = load.indices[len(load.indices) - len(axes):]
    sizes = load.tensor.shape[len(load.indices) - len(axes):]
    same = all(index is axis.var for index, axis in zip(tail, axes, strict=True))
    whole = all(extent(axis) == int_value(size) for axis, size in zip(axes[1:], sizes[1:], strict=True))
    lead = load.indices[:len(load.indices) - len(axes)]
    return same and whole and not any(axis.var in free_vars(index) for axis in axes for index in lead)


def reduce_along(s: Schedule, op: ComputeOp, machine: Machine, reads: Reads, *, within: bool = False) -> None:
    """A reduction: vectors along the result's last axis, or along the reduction if that is what lies in a row.

    within : it is a part of what threads already share

    Decisions: terms, summed side by side along the reduction, or 0 for none; vector, elements along the result's last axis;
    parallel, whether threads share the result.
    """
    body = op.body[0]
    assert isinstance(body, Reduce)
    lanes = machine.lanes(op.body[0].dtype)
    sizes = extents(op)
    work = prod(sizes) * prod([extent(axis) for axis in op.reduce_axis])
    stage, pays = s[op], work >= machine.parallel_elements
    if op.num_outputs == 1 and not body.init and body.combiner.name in SUMS:
        flat, terms = along_reduction(op, reads)
        sides = [0, *[lanes << at for at in range(WIDEST.bit_length()) if terms >= 2 * lanes << at]]
        part: int = stage.choose("terms", sides, sides[-1], rule=reduce_along.__name__)
        if part:
            _split_sum(s, op, flat, part, lanes, pays=None if within else pays)
            return
    *outer, last = op.axis or (None,)
    if last is None:
        return
    if sizes[-1] < 4 or op.num_outputs > 1:
        if not within:
            share(stage, stage.fuse(*op.axis) if len(op.axis) > 1 else op.axis[0], pays, reduce_along)
        return
    width = vector_of(stage, sizes[-1], lanes, reduce_along)
    chunk, vector = stage.split(last, width)
    stage.reorder(*outer, chunk, *op.reduce_axis, vector)
    if not sizes[-1] % width or prod(sizes[:-1]) < machine.tasks:  # a narrower vector at the end needs a loop that is not fused
        outer.append(chunk)
    place = stage.fuse(*outer) if len(outer) > 1 else outer[0]
    if not within:
        share(stage, place, pays, reduce_along)
    stage.vectorize(vector)


def along_reduction(op: ComputeOp, reads: Reads) -> tuple[int, int]:
    """Return how many last axes of a reduction all moving reads are contiguous along, and the product of their extents or 0."""
    axes = op.reduce_axis
    moving = [load for load in reads.of(op) if any(axis.var in free_vars(index) for index in load.indices for axis in axes)]
    count = 0
    while moving and count < len(axes) and all(_lies_in_row(load, axes[len(axes) - count - 1:]) for load in moving):
        count += 1
    return count, prod([extent(axis) for axis in axes[len(axes) - count:]]) if count else 0


def _lies_in_row(load: ProducerLoad, axes: Sequence[IterVar]) -> bool:
    """Return whether the last indices of a read are the axes, whole but for the first, and no other index has any of them."""
    if len(load.indices) < len(axes):
        return False
    lead, tail = load.indices[:len(load.indices) - len(axes)], load.indices[len(load.indices) - len(axes):]
    sizes = load.tensor.shape[len(lead):]
    return (
        all(index is axis.var for index, axis in zip(tail, axes, strict=True))
        and all(extent(axis) == int_value(size) for axis, size in zip(axes[1:], sizes[1:], strict=True))
        and not any(axis.var in free_vars(index) for axis in axes for index in lead)
    )


def _split_sum(s: Schedule, op: ComputeOp, flat: int, part: int, lanes: int, *, pays: bool | None) -> None:
    """Sum by vectors along the last `flat` axes as one: so many partial sums side by side, which then are put together.

    pays : whether threads should share the result; None if they may not

    Those are added as vectors until four numbers are left, so that few additions wait for one another.
    """
    total = op.output(0)
    axes_of_run = op.reduce_axis[len(op.reduce_axis) - flat:]
    run = s[op].fuse(*axes_of_run) if flat > 1 else axes_of_run[0]
    partials = []
    for width in dict.fromkeys((part, min(part, lanes), min(part, lanes, FEW))):
        _, inner = s[op].split(run, width)
        partials.append(s.rfactor(total, inner, len(op.axis)))
        made = s[op].op
        assert isinstance(made, ComputeOp)
        (run,) = made.reduce_axis
    stage = s[op]
    axes = [*op.axis]
    place: IterVar | None = None
    if axes:
        place = stage.fuse(*axes) if len(axes) > 1 else axes[0]
        if pays is not None:
            share(stage, place, pays, reduce_along)
    for partial in partials:
        parts = s[partial]
        if place is not None:
            parts.compute_at(stage, place)
            parts.set_scope("local")
        made = parts.op
        assert isinstance(made, ComputeOp)
        lane = made.axis[-1]
        parts.reorder(*made.axis[:-1], *[axis for axis in parts.leaf_iter_vars if axis not in made.axis], lane)
        parts.vectorize(lane)
