"""Loops over the elements of a stage, in parallel and by vectors, and reductions."""

from math import prod

from vtakit.compiler.ir.expr import Expr, ProducerLoad, Reduce
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import free_vars
from vtakit.compiler.nn.cpu.flow import extents, loads
from vtakit.compiler.nn.cpu.machine import Machine
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp

SMALL = 1 << 14  # elements that are not worth waking threads for
WIDEST = 4  # registers of a vector of elements


def run_along(stage: Stage, machine: Machine, *, parallel: bool = True) -> None:
    """Compute every element: the axes in which all operands run together as one, by vectors, the others outside of it."""
    op = stage.op
    assert isinstance(op, ComputeOp)
    if not op.axis:
        return
    sizes = extents(op)
    first = flat_from(op)
    across = _other_row(op)
    if first == len(sizes) - 1 and across is not None:
        _run_in_squares(stage, op, across, machine, parallel=parallel)
        return
    lanes = machine.lanes(op.body[0].dtype)
    run = prod(sizes[first:])
    inner = stage.fuse(*op.axis[first:]) if first < len(sizes) - 1 else op.axis[first]
    width = min(run, WIDEST * lanes) if run % lanes or run < WIDEST * lanes else WIDEST * lanes
    outer: IterVar | None = stage.fuse(*op.axis[:first]) if first > 1 else op.axis[0] if first else None
    chunk, vector = stage.split(inner, max(width, 1))
    if parallel and prod(sizes) >= SMALL:
        if outer is None:
            outer, chunk = stage.split(chunk, 16)
        stage.parallel(outer)
    stage.vectorize(vector)


SQUARE = 16  # a side, in elements: each line of the operand is then used whole while it is in the cache


def _other_row(op: ComputeOp) -> int | None:
    """The axis along which an operand lies in rows, if that is another than the result's last one, as in a transposition."""
    for load in loads(op):
        index = load.indices[-1] if load.indices else None
        for at, axis in enumerate(op.axis[:-1]):
            if index is axis.var and (_size(axis) or 1) > 1 and any(other is op.axis[-1].var for other in load.indices):
                return at
    return None


def _run_in_squares(stage: Stage, op: ComputeOp, across: int, machine: Machine, *, parallel: bool) -> None:
    """Compute squares of the last axis and that along which the operand lies, one after another."""
    last = op.axis[-1]
    lines, line = stage.split(op.axis[across], SQUARE)
    chunk, vector = stage.split(last, min(machine.lanes(op.body[0].dtype), extents(op)[-1]))
    outer = [*[axis for at, axis in enumerate(op.axis[:-1]) if at != across], lines]
    stage.reorder(*outer, chunk, line, vector)
    place = stage.fuse(*outer) if len(outer) > 1 else outer[0]
    if parallel and prod(extents(op)) >= SMALL:
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


def flat_from(op: ComputeOp) -> int:
    """The first of the last axes along which every operand is read element after element, or one element all along."""
    first = len(op.axis) - 1
    while first and all(_is_flat(op, load, first - 1) for load in loads(op)):
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
    whole = all(_size(axis) == int_value(size) for axis, size in zip(axes[1:], sizes[1:], strict=True))
    lead = load.indices[:len(load.indices) - len(axes)]
    return same and whole and not any(axis.var in free_vars(index) for axis in axes for index in lead)


def _size(axis: IterVar) -> int | None:
    return None if axis.dom is None else int_value(axis.dom.extent)


def reduce_along(s: Schedule, op: ComputeOp, machine: Machine) -> None:
    """A reduction: vectors along the result's last axis, or along the reduction if that is what lies in a row."""
    body = op.body[0]
    assert isinstance(body, Reduce)
    lanes = machine.lanes(op.body[0].dtype)
    sizes = extents(op)
    along = _part_along(op, lanes)
    if along and op.num_outputs == 1 and not body.init and body.combiner.name in ("sum", "max", "min", "prod"):
        _split_sum(s, op, along)
        return
    stage = s[op]
    work = prod(sizes) * prod([_size(axis) or 1 for axis in op.reduce_axis])
    *outer, last = op.axis or (None,)
    if last is None:
        return
    if sizes[-1] < 4 or op.num_outputs > 1:
        if work >= SMALL:
            stage.parallel(stage.fuse(*op.axis) if len(op.axis) > 1 else op.axis[0])
        return
    width = min(sizes[-1], WIDEST * lanes)
    chunk, vector = stage.split(last, width)
    stage.reorder(*outer, chunk, *op.reduce_axis, vector)
    place = stage.fuse(*outer, chunk) if outer else chunk
    if work >= SMALL:
        stage.parallel(place)
    stage.vectorize(vector)


def _part_along(op: ComputeOp, lanes: int) -> int:
    """How many terms of the reduction's last axis to take at once, where that axis lies in a row and the result's does not."""
    inner = op.reduce_axis[-1]
    extent = _size(inner) or 1
    for load in loads(op):
        last: Expr | None = load.indices[-1] if load.indices else None
        if last is not inner.var:
            return 0
    part = 4 * lanes
    while part > 1 and extent % part:
        part //= 2
    return part if part >= 4 and extent >= 2 * part else 0


def _split_sum(s: Schedule, op: ComputeOp, part: int) -> None:
    """Sum by vectors: so many partial sums side by side, which then are put together."""
    total = op.output(0)
    _, inner = s[op].split(op.reduce_axis[-1], part)
    partial = s.rfactor(total, inner, len(op.axis))
    stage = s[op]
    sizes = extents(op)
    work = prod(sizes) * prod([_size(axis) or 1 for axis in op.reduce_axis])
    axes = [*op.axis]
    parts = s[partial]
    if axes:
        place = stage.fuse(*axes) if len(axes) > 1 else axes[0]
        if work >= SMALL:
            stage.parallel(place)
        parts.compute_at(stage, place)
        parts.set_scope("local")
    made = parts.op
    assert isinstance(made, ComputeOp)
    lane = made.axis[-1]
    parts.reorder(*made.axis[:-1], *[axis for axis in parts.leaf_iter_vars if axis not in made.axis], lane)
    parts.vectorize(lane)
