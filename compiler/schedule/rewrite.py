"""Operations with some inputs exchanged, and the copies that caches are."""

from collections.abc import Mapping, Sequence

from vtakit.compiler.ir.expr import Expr, ProducerLoad, Var
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.values import const
from vtakit.compiler.ir.walk import map_expr
from vtakit.compiler.te.operation import ComputeOp, ExternOp, ScanOp
from vtakit.compiler.te.tensor import Operation, Tensor


def with_inputs(op: Operation, new: Mapping[Tensor, Tensor]) -> Operation:
    """An operation that reads other tensors of the same shapes; its axes are the same objects."""
    def change(e: Expr) -> Expr:
        return e.replace(tensor=new[e.tensor]) if isinstance(e, ProducerLoad) and e.tensor in new else e

    def each(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple([new.get(tensor, tensor) for tensor in tensors])

    if isinstance(op, ComputeOp):
        return ComputeOp(op.name, op.axis, tuple([map_expr(e, change) for e in op.body]), op.tag, op.attrs)
    if isinstance(op, ExternOp):
        return ExternOp(op.name, each(op.inputs), op.input_buffers, op.output_buffers, op.body, op.tag, op.attrs)
    assert isinstance(op, ScanOp), op
    init, update, inputs = map(each, (op.init, op.update, op.inputs))
    return ScanOp(op.name, op.scan_axis, init, update, op.state_placeholder, inputs, op.spatial_axis, op.tag, op.attrs)


def copy_of(tensor: Tensor, name: str) -> ComputeOp:
    """An operation that copies a tensor."""
    axes = tuple([data_axis(f"i{at}", extent) for at, extent in enumerate(tensor.shape)])
    return ComputeOp(name, axes, (ProducerLoad(tensor, tuple([axis.var for axis in axes])),))


def data_axis(name: str, extent: Expr) -> IterVar:
    """An axis of independent elements, from 0."""
    return IterVar(Var(name, extent.dtype), Range(const(0, extent.dtype), extent), IterKind.DATA)
