"""Facts about the reads of a stage that sketches ask for: along which axes operands are contiguous, reused or strided."""

from typing import NamedTuple

from vtakit.compiler.ir.expr import Add, Expr, Mul, ProducerLoad, Sub
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import free_vars
from vtakit.compiler.nn.cpu.flow import Reads
from vtakit.compiler.te.operation import ComputeOp

CONTIGUOUS, STILL, STRIDED = range(3)  # ways in which a read moves with an axis


class Along(NamedTuple):
    """How reads move with an axis: the number of those that are contiguous along it, that do not move, and the others."""

    contiguous: int
    still: int
    strided: int


def along(op: ComputeOp, axis: IterVar, reads: Reads) -> Along:
    """Return how the reads of an operation move with one of its axes."""
    counts = [0, 0, 0]
    for load in reads.of(op):
        counts[moves(load, axis)] += 1
    return Along(*counts)


def moves(load: ProducerLoad, axis: IterVar) -> int:
    """Return how a read moves with an axis."""
    used = [axis.var in free_vars(index) for index in load.indices]
    if not any(used):
        return STILL
    return CONTIGUOUS if used[-1] and not any(used[:-1]) and coefficient(load.indices[-1], axis) == 1 else STRIDED


def coefficient(e: Expr, axis: IterVar) -> int | None:
    """Return the factor of an axis in an index; None where the index is not linear in it."""
    if e is axis.var:
        return 1
    if axis.var not in free_vars(e):
        return 0
    if isinstance(e, Add | Sub):
        a, b = coefficient(e.a, axis), coefficient(e.b, axis)
        return None if a is None or b is None else a + b if isinstance(e, Add) else a - b
    if isinstance(e, Mul):
        for factor, other in ((int_value(e.a), e.b), (int_value(e.b), e.a)):
            inner = coefficient(other, axis)
            if factor is not None and inner is not None:
                return factor * inner
    return None


def vector_axes(op: ComputeOp, reads: Reads, most: int) -> list[int]:
    """Return the numbers of the data axes that vectors may run along, the best two, the best one first.

    most : elements of a vector; a shorter axis fills it in part only

    Contiguous results and reads count for an axis, strided reads against it.
    """
    def worth(at: int) -> tuple[float, int]:
        axis = op.axis[at]
        extent = (int_value(axis.dom.extent) or 1) if axis.dom is not None else 1
        found = along(op, axis, reads)
        score = found.contiguous + 0.5 * found.still - 3 * found.strided + (2 if at == len(op.axis) - 1 else -4)
        return score - 4 * (1 - min(extent, most) / most), at
    there = [at for at, axis in enumerate(op.axis) if axis.dom is None or int_value(axis.dom.extent) != 1]
    return sorted(there or [len(op.axis) - 1], key=worth, reverse=True)[:2]
