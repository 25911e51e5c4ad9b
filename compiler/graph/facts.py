"""Facts about how a node's definition reads its operands, which decide what fusion may join."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from vtakit.compiler.graph.apply import apply
from vtakit.compiler.graph.ir import Node, TensorType
from vtakit.compiler.ir.expr import Call, Expr, FloatImm, IntImm, ProducerLoad, Var
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import subexpressions
from vtakit.compiler.nn.operators import Kind, find
from vtakit.compiler.te.language import placeholder
from vtakit.compiler.te.operation import ComputeOp, ExternOp, producers_first
from vtakit.compiler.te.tensor import Tensor

_REMEMBERED = 4096  # facts of nodes of one kind
_CALL = 10  # operations that a function such as exp is counted for


@dataclass(frozen=True, slots=True)
class Operand:
    """Facts about the reads of one operand by a definition.

    reads    : how often it stands in the definition's expressions
    in_place : whether each output element is made of the operand's element at the same index, and of no other of it
    """

    reads: int
    in_place: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a node that fusion needs.

    operands : one for each of the node's inputs
    cost     : operations an output element, a function such as exp for ten, a reduction's counted once
    """

    kind: Kind
    operands: tuple[Operand, ...]
    cost: int


def facts_of(node: Node) -> Facts:
    """The facts of a node; those of equal ones are found once."""
    types = tuple([None if value is None else value.type for value in node.inputs])
    return _facts(node.op, types, tuple(sorted(node.attrs.items())))


@lru_cache(maxsize=_REMEMBERED)
def _facts(op: str, types: tuple[TensorType | None, ...], attrs: tuple[tuple[str, Any], ...]) -> Facts:
    tensors = [None if kind is None else placeholder(kind.shape, str(kind.dtype), f"p{i}") for i, kind in enumerate(types)]
    outputs = apply(op, tensors, dict(attrs))
    stages = producers_first([tensor.op for tensor in outputs], lambda op: [tensor.op for tensor in op.input_tensors])
    found = {tensor: Operand(0, True) for tensor in tensors if tensor is not None}
    cost = 0
    for stage in stages:
        if not isinstance(stage, ComputeOp):
            for tensor in stage.input_tensors:
                if tensor in found:
                    found[tensor] = Operand(found[tensor].reads + 1, False)
            continue
        for body in stage.body[:1] if stage.reduce_axis else stage.body:
            for e in subexpressions(body):
                cost += _CALL if isinstance(e, Call) else 0 if isinstance(e, Var | IntImm | FloatImm) else 1
                if isinstance(e, ProducerLoad) and e.tensor in found:
                    before = found[e.tensor]
                    found[e.tensor] = Operand(before.reads + 1, before.in_place and _in_place(stage, e))
    through = [stage for stage in stages if isinstance(stage, ComputeOp) and stage not in {t.op for t in outputs}]
    if through or len(outputs) > 1:  # an operand is read in place only by the last stage
        found = {tensor: Operand(operand.reads, False) for tensor, operand in found.items()}
    nothing = Operand(0, True)
    alone = find(op).kind is Kind.INJECTIVE and any(isinstance(stage, ExternOp) for stage in stages)
    return Facts(Kind.OPAQUE if alone else find(op).kind, tuple([nothing if t is None else found[t] for t in tensors]), cost)


def _in_place(stage: ComputeOp, load: ProducerLoad) -> bool:
    tensor = load.tensor
    assert isinstance(tensor, Tensor)
    shape = [int_value(extent) for extent in tensor.shape]
    made = [int_value(axis.dom.extent) for axis in stage.axis if axis.dom is not None]
    return shape == made and all(_is(index, axis.var, extent) for index, axis, extent in zip(
        load.indices, stage.axis, made, strict=True
    ))


def _is(index: Expr, axis: Var, extent: int | None) -> bool:
    """Return whether an index is the variable of an axis, or 0 where its extent is 1."""
    return index is axis or (extent == 1 and int_value(index) == 0)
