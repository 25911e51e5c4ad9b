"""Operations of a tensor expression."""

from collections.abc import Sequence
from math import prod

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr, ProducerLoad
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.te.operation import ComputeOp, producers_first
from vtakit.compiler.te.tensor import Tensor
from vtakit.compiler.tune.task import TuneError

_COUNTED = (
    ir.Add, ir.Sub, ir.Mul, ir.Div, ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod, ir.Min, ir.Max, ir.EQ, ir.NE, ir.LT,
    ir.LE, ir.And, ir.Or, ir.Not, ir.BitAnd, ir.BitOr, ir.BitXor, ir.ShiftLeft, ir.ShiftRight, ir.Call,
)


def count_flops(outputs: Tensor | Sequence[Tensor]) -> int:
    """Return the operations on values that a tensor expression asks for: a multiplication and an addition for each term of a
    product, a comparison for each term of a maximum. Indices, casts and choices are free.

    Raises TuneError for an expression that only moves values, or whose sizes are no numbers.
    """
    given = [outputs] if isinstance(outputs, Tensor) else [*outputs]
    total = 0
    for op in producers_first([tensor.op for tensor in given], lambda op: [tensor.op for tensor in op.input_tensors]):
        if not isinstance(op, ComputeOp):
            continue
        sizes = [None if axis.dom is None else int_value(axis.dom.extent) for axis in op.root_iter_vars]
        if None in sizes:
            raise TuneError(f"the operations of {op.name!r:.80} cannot be counted: a size is known when the program runs only")
        total += prod([size or 0 for size in sizes]) * sum(map(_of, op.body[:1] if op.reduce_axis else op.body))
    if not total:
        names = ", ".join(tensor.op.name for tensor in given)
        raise TuneError(f"{names or 'nothing'} has no operations on values, it moves them only: compare times instead")
    return total


def _of(e: Expr) -> int:
    """Return the operations of one element, or of one term of a reduction."""
    if isinstance(e, ir.Reduce):
        return sum(map(_of, e.source)) + sum(max(_of(each), 1) for each in e.combiner.result)
    found, stack = 0, [e]
    while stack:
        node = stack.pop()
        if isinstance(node, ProducerLoad):
            continue
        if isinstance(node, ir.IfThenElse | ir.Select):
            stack += [node.true, node.false]
            continue
        found += isinstance(node, _COUNTED)
        stack += node.children()
    return found
