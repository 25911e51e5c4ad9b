"""Reductions: a thread, a warp, or a block for each result, or several blocks whose results another kernel reduces."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

from vtakit.compiler.ir.expr import Reduce
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.nn.cpu.flow import Reads, divisors, extent
from vtakit.compiler.nn.cpu.simple import along_reduction
from vtakit.compiler.nn.gpu.elements import THREADS
from vtakit.compiler.nn.gpu.grid import bind_block, bind_thread, count_of, filling, fused, powers, thread_counts, up_to
from vtakit.compiler.nn.gpu.machine import WARP, GpuMachine
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Operation

FEW_TERMS = 32  # for which one thread takes no longer than threads that combine their results
FEW_TAPS = 128  # of a window: beyond, no window is one thread's alone if others would idle
WRITTEN = 64  # steps of a reduction that are written out
WINDOWS = "pool", "pool_blocked", "depthwise", "depthwise_planes", "conv_rows", "depthwise_blocked"
Choose = Callable[..., Any]
EACH = 4  # terms that follow each other, of one thread


class Shape(NamedTuple):
    """The extents of a reduction.

    results : number of them
    terms   : of each
    row     : terms that follow each other in memory in all operands that move with the reduction; 0 if none do
    """

    results: int
    terms: int
    row: int


def run_reduction(
    s: Schedule, op: ComputeOp, followers: Sequence[ComputeOp], machine: GpuMachine, reads: Reads, *, first: int = 0,
) -> set[Operation]:
    """Schedule a reduction and what follows it element by element; return what is done.

    first : the number of leading axes that are loops around the kernel

    Decisions: form, "thread", "warp", "block" or "columns" for what a result is reduced by, or "split" for several blocks; and
    those of the form.
    """
    shape = Shape(count_of(op.axis[first:]), count_of(op.reduce_axis), along_reduction(op, reads)[1])
    forms, default = _forms(op, shape, machine, first)
    form = s[op].choose("form", forms, default, rule=run_reduction.__name__)
    for each in followers[:-1]:
        s[each].compute_inline()
    if form == "split":
        _in_parts(s, op, followers, machine, shape)
    elif form == "thread" and is_window(op):
        _by_pixel(s, op, followers, machine)
    elif form == "thread":
        reduce_by_thread(s, op, followers, machine, first)
    elif form == "columns":
        _by_columns(s, op, followers, machine, shape, first)
    else:
        _by_row(s, op, followers, machine, shape, first, form=form)
    return {op, *followers}


def _forms(op: ComputeOp, shape: Shape, machine: GpuMachine, first: int) -> tuple[list[str], str]:
    """Return the forms that are legal, and the one that the estimate prefers."""
    if shape.terms < 2:
        return ["thread"], "thread"
    wide = len(op.axis) > first and extent(op.axis[-1]) > 1
    forms = ["thread", "warp", "block", *(["columns"] if wide else [])]
    body = op.body[0]
    if not first and op.num_outputs == 1 and isinstance(body, Reduce) and not body.init and shape.terms >= 4:
        forms.append("split")
    busy = filling(machine)
    if shape.terms <= FEW_TERMS:
        return forms, "thread"
    if shape.row >= FEW_TERMS or not wide:
        if shape.results * WARP >= busy or shape.terms <= WARP * WARP:
            return forms, "warp"
        few = shape.results < machine.sms // 2 and shape.terms >= machine.threads_per_block * 2 * WARP and "split" in forms
        return forms, "split" if few else "block"
    if shape.results >= busy or shape.terms <= FEW_TAPS <= shape.results:
        return forms, "thread"
    return forms, "columns"


def is_window(op: ComputeOp) -> bool:
    """Return whether an operation reduces windows of images, whose last two dimensions are rows and columns."""
    return op.tag in WINDOWS and len(op.axis) >= 4 - (op.tag == "depthwise_planes")


def _place(out: Stage, first: int) -> IterVar:
    """Return the loop over all results of a stage behind its leading axes."""
    axes = [*out.op.root_iter_vars][first:]
    data = [axis for axis in axes if axis in {*_compute(out).axis}]
    return fused(out, data)


def _compute(stage: Stage) -> ComputeOp:
    assert isinstance(stage.op, ComputeOp)
    return stage.op


def reduce_by_thread(s: Schedule, op: ComputeOp, followers: Sequence[ComputeOp], machine: GpuMachine, first: int = 0) -> None:
    """Let a thread reduce a result. Decisions: threads, of a block; unroll, steps that are written out."""
    choose, results = partial(s[op].choose, rule=reduce_by_thread.__name__), count_of(op.axis[first:])
    options = thread_counts(machine)
    threads = choose("threads", options, min(THREADS // 2, options[-1], max(up_to(results), WARP)))
    most = choose("unroll", [0, 16, WRITTEN], WRITTEN)
    stage, out = _apart(s, op, followers, first)
    block, thread = out.split(_place(out, first), threads)
    bind_block(out, block)
    bind_thread(out, thread, threads)
    _within(stage, out, thread, most)


def _apart(s: Schedule, op: ComputeOp, followers: Sequence[ComputeOp], first: int) -> tuple[Stage, Stage]:
    """Return the stage that adds up and the one that stores results; one and the same where no cache can stand between."""
    stage = s[s.cache_write(op.output(0), "local")] if not followers and op.num_outputs == 1 and not first else s[op]
    return stage, s[followers[-1] if followers else op]


def _within(stage: Stage, out: Stage, thread: IterVar, most: int) -> None:
    """Let a thread add up a result right before it is stored; at most so many steps are written out."""
    if stage is not out:
        stage.compute_at(out, thread)
        stage.set_scope("local")
    written = 1
    for axis in reversed(_compute(stage).reduce_axis):
        written *= max(extent(axis), 1)
        if written > most:
            break
        stage.unroll(axis)


def _by_pixel(s: Schedule, op: ComputeOp, followers: Sequence[ComputeOp], machine: GpuMachine) -> None:
    """Let a thread reduce a window, with threads along the last two dimensions, so that where a window lies takes no division.

    Decisions: x and y, threads along the columns and rows of an image; z, images and channels of a block; unroll, steps that are
    written out.
    """
    choose = partial(s[op].choose, rule=_by_pixel.__name__)
    most = choose("unroll", [0, 16, WRITTEN], WRITTEN)
    stage, out = _apart(s, op, followers, 0)
    *lead, row, column = _compute(out).axis
    sides = (extent(column), extent(row), count_of(lead))
    x, y, z = _counts(choose, sides, machine)
    far_x, near_x = out.split(column, x)
    far_y, near_y = out.split(row, y)
    far_z, near_z = out.split(fused(out, lead), z)
    out.reorder(far_z, far_y, far_x, near_z, near_y, near_x)
    bind_block(out, far_z)
    bind_block(out, out.fuse(far_y, far_x), "y")
    bind_thread(out, near_z, z, "z")
    bind_thread(out, near_y, y, "y")
    bind_thread(out, near_x, x)
    _within(stage, out, near_x, most)


def _counts(choose: Choose, sides: tuple[int, int, int], machine: GpuMachine) -> list[int]:
    """Return the threads along the columns, the rows and all else: an image's width or part of it, and a few hundred together."""
    found: list[int] = []
    for name, side in zip("xyz", sides, strict=True):
        room = min(machine.threads_per_block, 2 * THREADS) // prod(found)
        room = min(room, machine.block_depth) if name == "z" else room
        options = sorted({count for count in (*powers(min(room, up_to(side))), *divisors(side)) if count <= room})
        wanted = (WARP * 2, THREADS, THREADS)[len(found)] // (prod(found) if found else 1)
        fits = [count for count in options if count <= max(wanted, 1)]
        whole = [count for count in fits if not side % count]
        found.append(choose(name, options, max(whole) if max(whole) * 2 > max(fits) or name == "z" else max(fits)))
    return found


def _by_row(
    s: Schedule, op: ComputeOp, followers: Sequence[ComputeOp], machine: GpuMachine, shape: Shape, first: int, *, form: str,
) -> None:
    """Let a warp or a block reduce a result.

    Decisions: threads, that share a result; rows, results of a block; each, terms that follow each other in one thread.
    """
    out, stage = s[followers[-1] if followers else op], s[op]
    choose = partial(stage.choose, rule=_by_row.__name__)
    threads = WARP
    if form == "block":
        options = thread_counts(machine, WARP)
        threads = choose("threads", options, max(min(up_to(shape.terms) // (2 * EACH), options[-1]), WARP))
    rows = powers(machine.threads_per_block // threads)
    rows = [count for count in rows if count <= max(shape.results, 1)]
    height = choose("rows", rows, min(rows[-1], max(THREADS // 2 // threads, 1)))
    steps = [each for each in (1, 2, EACH) if not shape.row % (each * threads)] if shape.row else [1]
    each = choose("each", steps or [1], (steps or [1])[-1])
    place, thread = out.split(_place(out, first), height)
    bind_block(out, place)
    bind_thread(out, thread, height, "y")
    if followers:
        stage.compute_at(out, thread if height > 1 else place)
        stage.set_scope("local")
    run = fused(stage, _compute(stage).reduce_axis)
    far, near = stage.split(run, threads * each)
    near, inner = stage.split(near, each)
    stage.reorder(near, far, inner)
    bind_thread(stage, near, threads)
    if each > 1:
        stage.unroll(inner)


def _by_columns(
    s: Schedule, op: ComputeOp, followers: Sequence[ComputeOp], machine: GpuMachine, shape: Shape, first: int,
) -> None:
    """Let threads along x take neighbouring results, and those along y share their terms.

    Decisions: columns, threads along x; threads, along y.
    """
    out, stage = s[followers[-1] if followers else op], s[op]
    choose = partial(stage.choose, rule=_by_columns.__name__)
    columns = choose("columns", [4, 8, 16, WARP], min(WARP, max(up_to(shape.results), 4)))
    options = powers(machine.threads_per_block // columns, 2)
    parts = choose("threads", options, min(options[-1], max(up_to(shape.terms) // 8, 2), THREADS // columns * 2))
    block, column = out.split(_place(out, first), columns)
    bind_block(out, block)
    bind_thread(out, column, columns)
    if followers:
        stage.compute_at(out, column)
        stage.set_scope("local")
    run = fused(stage, _compute(stage).reduce_axis)
    far, near = stage.split(run, parts)
    stage.reorder(near, far)
    bind_thread(stage, near, parts, "y")


def _in_parts(s: Schedule, op: ComputeOp, followers: Sequence[ComputeOp], machine: GpuMachine, shape: Shape) -> None:
    """Let blocks reduce parts of each result, and another kernel what they give. Decision: parts, of a result."""
    stage = s[op]
    options = [count for count in powers(4096, 2) if count <= shape.terms]
    wanted = up_to(max(2 * machine.sms // max(shape.results, 1), 2))
    parts = stage.choose("parts", options, max([count for count in options if count <= wanted]), rule=_in_parts.__name__)
    far, _ = stage.split(fused(stage, op.reduce_axis), nparts=parts)
    partial_op = s.rfactor(op.output(0), far, len(op.axis)).op
    assert isinstance(partial_op, ComputeOp)
    own = Shape(shape.results * parts, -(-shape.terms // parts), -(-shape.row // parts) if shape.row else 0)
    best = "block" if own.terms > FEW_TERMS else "thread"
    own_form = s[partial_op].choose("form", ["thread", "block"], best, rule=_in_parts.__name__)
    if own_form == "block":
        _by_row(s, partial_op, (), machine, own._replace(row=0), 0, form="block")
    else:
        reduce_by_thread(s, partial_op, (), machine)
    _by_row(s, _compute(stage), followers, machine, Shape(shape.results, parts, parts), 0, form="block")


