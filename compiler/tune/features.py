"""Features of lowered loops, for a cost model: one vector of a fixed length for any function.

Of each of the statements with most work: iterations, arithmetic, marks of loops, and of each operand its strides, the bytes that
it touches, and how often they are touched again while they are in a cache. All are logarithms, and most of them ratios to the
work, so that what is learned of one shape holds for others.
"""

from collections.abc import Sequence
from math import ceil, log2, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.stmt import Function, LoopKind
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.tune.touches import Loop, Statement, Touch, statements_of

STATEMENTS = 3  # that are described one by one: those with most work
TOUCHES = 4  # operands of each that are described one by one: the store, then those that move most bytes
OF_TOUCH = 12
OF_STATEMENT = 20 + TOUCHES * OF_TOUCH
OF_FUNCTION = 14
LENGTH = OF_FUNCTION + STATEMENTS * OF_STATEMENT
KINDS = (LoopKind.VECTORIZED, LoopKind.UNROLLED, LoopKind.PARALLEL)


class _Moves(NamedTuple):
    """An operand of a statement: elements of each dimension by level of loops, and bytes moved into each cache."""

    touch: Touch
    spans: list[list[int]]
    bytes: list[float]


def features_of(function: Function, machine: Machine) -> npt.NDArray[np.float32]:
    """Return the features of a function in block form, `LENGTH` numbers."""
    allocated: list[Buffer] = []
    found = statements_of(function, allocated)
    total = max(sum(each.work for each in found), 1)
    caches = (machine.l1_bytes, machine.l2_bytes)
    moved = [_moves(each, caches, machine.line_bytes) for each in found]
    leading = sorted(range(len(found)), key=lambda at: -found[at].work)[:STATEMENTS]
    values = _of_function(allocated, found, total, moved, machine)
    for at in leading:
        values += _of_statement(found[at], total, moved[at], machine)
    return np.asarray(values + [0.0] * (LENGTH - len(values)), np.float32)


def _log(x: float) -> float:
    return log2(1.0 + max(x, 0.0))


def _of_function(
    allocated: Sequence[Buffer], found: Sequence[Statement], total: int, moved: Sequence[list[_Moves]], machine: Machine,
) -> list[float]:
    sizes = [prod([int_value(extent) or 1 for extent in buffer.shape]) * buffer.dtype.bytes for buffer in allocated]
    written = [each.runs // max(_serial(each), 1) for each in found]  # copies of each statement, lanes counted
    lost = [each.runs for each in found if each.guarded]
    vectors = sum(each.work / max(_lanes(each), 1) for each in found)
    far = [sum(each.bytes[at] for moves in moved for each in moves) for at in (0, 1)]
    shared = max((_product(each, LoopKind.PARALLEL) for each in found), default=1)
    most = max((each.work for each in found), default=0)
    return [
        _log(total), _log(len(found)), _log(sum(sizes)), _log(max(sizes, default=0)), _log(len(sizes)), _log(sum(written)),
        _log(max(written, default=0)), sum(lost) / max(sum(each.runs for each in found), 1),
        log2(max(vectors, 1) / total), *[log2((size + 1) / total) for size in far], _log(shared), most / total,
        _log(machine.vector_bytes),
    ]


def _of_statement(each: Statement, total: int, moved: list[_Moves], machine: Machine) -> list[float]:
    marks = [_product(each, kind) for kind in KINDS]
    last = each.loops[-1] if each.loops else None
    serial = [loop for loop in each.loops if loop.kind is LoopKind.SERIAL and loop.length > 1]
    inner = serial[-1].length if serial else 1
    vectors = marks[0] * _element_bytes(each) / machine.vector_bytes
    values = [
        _log(each.work), each.work / total, _log(each.runs), float(each.adds), float(each.muls), _log(each.divides),
        _log(each.calls), _log(each.tests), float(each.guarded), *[_log(mark) for mark in marks], _log(inner), float(len(serial)),
        _log(vectors), vectors - ceil(vectors) if vectors > 0 else 0.0, _log(marks[1] * max(vectors, 1)),
        _log(last.length if last else 1), float(len(each.touches)), float(sum(not touch.written for touch in each.touches)),
    ]
    vector = next((loop for loop in each.loops if loop.kind is LoopKind.VECTORIZED), None)
    for operand in sorted(moved, key=lambda operand: (not operand.touch.written, -sum(operand.bytes)))[:TOUCHES]:
        values += _of_touch(each, operand, vector, serial[-1] if serial else None)
    return values + [0.0] * (OF_STATEMENT - len(values))


def _of_touch(each: Statement, operand: _Moves, vector: Loop | None, step: Loop | None) -> list[float]:
    touch, spans, moved = operand
    stride = touch.stride(vector) if vector else -1.0
    inside = spans[step.level if step else 0]  # of the iterations that are written out or run as vectors
    copies = each.runs / (step.topdown if step else 1)
    steps = touch.stride(step) * touch.buffer.dtype.bytes if step else 0.0
    count, whole, work = prod(inside), prod(spans[0]), each.work
    return [
        1.0, float(stride == 0), float(stride == 1), _log(stride), _log(copies / count), _log(steps),
        _log(whole * touch.buffer.dtype.bytes), _log(each.runs / whole), *[log2((size + 1) / work) for size in moved],
        float(touch.buffer.scope == "local"), _log(touch.buffer.dtype.bytes),
    ]


def _moves(each: Statement, caches: Sequence[int], line: int) -> list[_Moves]:
    """Return the operands of a statement, with the bytes of whole lines that each moves into each cache.

    They move anew in each iteration of the loops around those whose lines the cache holds, unless the operand is still there.
    """
    loops = each.loops
    spans = [touch.spans(loops) for touch in each.touches]
    lines = [[_lines(counts, touch.buffer.dtype.bytes, line) for counts in levels]
             for touch, levels in zip(each.touches, spans, strict=True)]
    levels = [sum(column) * line for column in zip(*lines, strict=True)] if lines else []
    found = []
    for touch, counts, mine in zip(each.touches, spans, lines, strict=True):
        moved = []
        for size in caches:
            at = next((at for at, needed in enumerate(levels) if needed <= size), len(loops))
            while at and not touch.stride(loops[at - 1]):
                at -= 1
            outside = loops[at - 1].topdown if at else 1
            moved.append(0.0 if touch.buffer.scope == "local" else float(mine[at] * line * outside))
        found.append(_Moves(touch, counts, moved))
    return found


def _lines(counts: Sequence[int], each: int, line: int) -> int:
    return prod(counts[:-1]) * -(-counts[-1] * each // line) if counts else 1


def _product(each: Statement, kind: LoopKind) -> int:
    return prod([loop.length for loop in each.loops if loop.kind is kind])


def _serial(each: Statement) -> int:
    return prod([loop.length for loop in each.loops if loop.kind in (LoopKind.SERIAL, LoopKind.PARALLEL)])


def _lanes(each: Statement) -> int:
    return _product(each, LoopKind.VECTORIZED)


def _element_bytes(each: Statement) -> int:
    return max((touch.buffer.dtype.bytes for touch in each.touches), default=1)
