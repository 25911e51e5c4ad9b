"""Loops over the elements of a stage, in parallel and by vectors, and reductions."""

from collections.abc import Sequence
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


def run_along(stage: Stage, machine: Machine, reads: Reads) -> None:
    """Compute every element: the axes in which all operands run together as one, by vectors, the others outside of it."""
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
    lanes = machine.lanes(op.body[0].dtype)
    run = prod(sizes[first:])
    inner = stage.fuse(*op.axis[first:]) if first < len(sizes) - 1 else op.axis[first]
    width = min(run, WIDEST * lanes)
    outer: IterVar | None = stage.fuse(*op.axis[:first]) if first > 1 else op.axis[0] if first else None
    chunk, vector = stage.split(inner, width)
    if prod(sizes) >= machine.parallel_elements:
        if outer is None:
            outer, chunk = stage.split(chunk, machine.task_vectors)
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
    """Compute squares of the last axis and that along which the operand lies, one after another."""
    last = op.axis[-1]
    side = machine.line_bytes // FLOAT32.bytes  # a line of a float32 operand is then used whole while it is in L1
    lines, line = stage.split(op.axis[across], side)
    chunk, vector = stage.split(last, min(machine.lanes(op.body[0].dtype), extents(op)[-1]))
    outer = [*[axis for at, axis in enumerate(op.axis[:-1]) if at != across], lines]
    stage.reorder(*outer, chunk, line, vector)
    place = stage.fuse(*outer) if len(outer) > 1 else outer[0]
    if prod(extents(op)) >= machine.parallel_elements:
        stage.parallel(place)
    stage.vectorize(vector)


def run_within(stage: Stage, machine: Machine) -> None:
    """What a scan computes in each step: by vectors along the last axis, one thread."""
    op = stage.op
    if not isinstance(op, ComputeOp) or not op.axis or extents(op)[-1] < 4 or op.num_outputs > 1:
        return
    width = min(extents(op)[-1], WIDEST * machine.lanes(op.body[0].dtype))
    chunk, vector = stage.split(op.axis[-1], width)
    stage.reorder(*op.axis[:-1], chunk, *op.reduce_axis, vector)
    stage.vectorize(vector)


def flat_from(op: ComputeOp, reads: Reads) -> int:
    """The first of the last axes along which every operand is read element after element, or one element all along."""
    first = len(op.axis) - 1
    while first and all(_is_flat(op, load, first - 1) for load in reads.of(op)):
        first -= 1
    return first


def _is_flat(op: ComputeOp, load: ProducerLoad, first: int) -> bool:
    """Whether the last indices of a read are the axes from the first on, whole; or no index has any of them."""
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
    """
    body = op.body[0]
    assert isinstance(body, Reduce)
    lanes = machine.lanes(op.body[0].dtype)
    sizes = extents(op)
    flat, part = _part_along(op, lanes, reads)
    work = 0 if within else prod(sizes) * prod([extent(axis) for axis in op.reduce_axis])
    if part and op.num_outputs == 1 and not body.init and body.combiner.name in SUMS:
        _split_sum(s, op, flat, part, lanes, shared=work >= machine.parallel_elements)
        return
    stage = s[op]
    *outer, last = op.axis or (None,)
    if last is None:
        return
    if sizes[-1] < 4 or op.num_outputs > 1:
        if work >= machine.parallel_elements:
            stage.parallel(stage.fuse(*op.axis) if len(op.axis) > 1 else op.axis[0])
        return
    width = min(sizes[-1], WIDEST * lanes)
    chunk, vector = stage.split(last, width)
    stage.reorder(*outer, chunk, *op.reduce_axis, vector)
    if not sizes[-1] % width or prod(sizes[:-1]) < machine.tasks:  # a narrower vector at the end needs a loop that is not fused
        outer.append(chunk)
    place = stage.fuse(*outer) if len(outer) > 1 else outer[0]
    if work >= machine.parallel_elements:
        stage.parallel(place)
    stage.vectorize(vector)


def _part_along(op: ComputeOp, lanes: int, reads: Reads) -> tuple[int, int]:
    """Of the last axes of a reduction, those along which all that moves lies in a row: how many, and the terms to take at once.

    0 terms if there are too few of them.
    """
    axes = op.reduce_axis
    moving = [load for load in reads.of(op) if any(axis.var in free_vars(index) for index in load.indices for axis in axes)]
    count = 0
    while moving and count < len(axes) and all(_lies_in_row(load, axes[len(axes) - count - 1:]) for load in moving):
        count += 1
    terms, part = prod([extent(axis) for axis in axes[len(axes) - count:]]), WIDEST * lanes
    while part > lanes and terms < 2 * part:
        part //= 2
    return count, part if count and terms >= 2 * part else 0


def _lies_in_row(load: ProducerLoad, axes: Sequence[IterVar]) -> bool:
    """Whether the last indices of a read are the axes, whole but for the first, and no other index has any of them."""
    if len(load.indices) < len(axes):
        return False
    lead, tail = load.indices[:len(load.indices) - len(axes)], load.indices[len(load.indices) - len(axes):]
    sizes = load.tensor.shape[len(lead):]
    return (
        all(index is axis.var for index, axis in zip(tail, axes, strict=True))
        and all(extent(axis) == int_value(size) for axis, size in zip(axes[1:], sizes[1:], strict=True))
        and not any(axis.var in free_vars(index) for axis in axes for index in lead)
    )


def _split_sum(s: Schedule, op: ComputeOp, flat: int, part: int, lanes: int, *, shared: bool) -> None:
    """Sum by vectors along the last `flat` axes as one: so many partial sums side by side, which then are put together.

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
        if shared:
            stage.parallel(place)
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
