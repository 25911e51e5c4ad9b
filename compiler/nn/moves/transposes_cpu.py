"""Transpositions and changes of layout whose elements are 32 bits: squares in registers, by a tensor intrinsic."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from vtakit.compiler.codegen.llvm.kernels.transpose_kernels import KINDS, transpose_32
from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.expr import Expr, ProducerLoad
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.nn.cpu.flow import Reads, divisor, extent, extents
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import ComputeOp

LEAST = 4  # lines of a square, fewer of which take as long as element by element
Axes = dict[IterVar, int]  # and how long they are


@dataclass(frozen=True, slots=True)
class _Transposition:
    """Loops around, then columns of the operand, which are neighbours in it, then rows, which are neighbours in the result.

    lda : elements from a row of the operand to the next     ldb : from a column of the result to the next
    """

    outer: Axes
    columns: Axes
    rows: Axes
    lda: int
    ldb: int


def run_transposed(stage: Stage, machine: Machine, reads: Reads) -> bool:
    """Schedule a stage that puts elements of 32 bits into an order in which others are neighbours; say whether it is one.

    Decision: parallel, whether threads share what is around the squares.
    """
    op = stage.op
    assert isinstance(op, ComputeOp)
    load = op.body[0]
    if not isinstance(load, ProducerLoad) or load.tensor.op in reads.inlined or str(load.dtype) not in KINDS:
        return False
    if op.name == "block_channels":
        found = _into_blocks(op)
    elif op.name == "unblock_channels":
        found = _out_of_blocks(stage, op, load)
    else:
        found = _permuted(op, load)
    if found is None:
        return False
    outer, (column, *columns), sizes = [*found.outer], found.columns, [*found.columns.values()]
    parts, large = prod(found.outer.values()), prod(extents(op)) >= machine.parallel_elements
    if large and parts < machine.tasks:
        sizes[0] = divisor(sizes[0], sizes[0] * parts // machine.tasks)
        near, column = stage.split(column, sizes[0])
        outer.append(near)
    stage.reorder(*outer, column, *columns, *found.rows)
    if outer and stage.choose("parallel", [False, True], large, rule=run_transposed.__name__):
        stage.parallel(stage.fuse(*outer) if len(outer) > 1 else outer[0])
    stage.tensorize(column, transpose_32(str(load.dtype), [*found.rows.values()], sizes, lda=found.lda, ldb=found.ldb))
    return True


def _of(axes: Sequence[IterVar]) -> Axes:
    return {axis: extent(axis) for axis in axes}


def _into_blocks(op: ComputeOp) -> _Transposition | None:
    """Return the transposition of whole blocks, which only loads."""
    image, block, *places, lane = op.axis
    pixels = prod(map(extent, places))
    return _Transposition(_of([image, block]), _of(places), _of([lane]), pixels, extent(lane)) if pixels > 1 else None


def _out_of_blocks(stage: Stage, op: ComputeOp, load: ProducerLoad) -> _Transposition | None:
    """Return the transposition of whole blocks, or of as many neighbours in a block as divide the channels."""
    image, channel, *places = op.axis
    block, count, pixels = int_value(load.tensor.shape[-1]), extent(channel), prod(map(extent, places))
    together = gcd(block or 1, count)
    if pixels < 2 or not block or together < LEAST:
        return None
    channels, lane = stage.split(channel, together)
    return _Transposition(_of([image]) | {channels: count // together}, {lane: together}, _of(places), block, pixels)


def _permuted(op: ComputeOp, load: ProducerLoad) -> _Transposition | None:
    """Return the transposition of a permutation of all axes."""
    number: dict[Expr, int] = {axis.var: at for at, axis in enumerate(op.axis)}
    order = [number.get(index, -1) for index in load.indices]
    last = len(op.axis) - 1
    shape = [int_value(size) for size in load.tensor.shape]
    if sorted(order) != [*range(last + 1)] or order[-1] == last or shape != [extent(op.axis[at]) for at in order]:
        return None
    first = last  # of the operand's dimensions that are columns
    while order[first - 1] == order[first] - 1:
        first -= 1
    begin, end = order[first], order[last] + 1
    place = order.index(last)  # of the operand's dimensions that are rows, the last one
    count = 1
    while count <= place and order[place - count] == last - count:
        count += 1
    columns, rows = _of(op.axis[begin:end]), _of(op.axis[last + 1 - count:])
    if prod(columns.values()) < 2 or prod(rows.values()) < 2:
        return None
    outer = _of([axis for axis in op.axis if axis not in columns and axis not in rows])
    return _Transposition(outer, columns, rows, prod(extents(op)[at] for at in order[place + 1:]), prod(extents(op)[end:]))
