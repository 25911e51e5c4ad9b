"""From groups of nodes to kernels: loop programs, one for all groups that compute the same."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod

from vtakit.compiler.codegen.llvm.statements import STACK_BYTES
from vtakit.compiler.graph.apply import apply
from vtakit.compiler.graph.fusion import Group
from vtakit.compiler.graph.ir import Value
from vtakit.compiler.graph.target import KernelTarget
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Cast, Expr, Mul, Reduce
from vtakit.compiler.ir.stmt import Allocate, Attr, For, Function, LoopKind, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import map_stmt
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.function import shallow
from vtakit.compiler.te.language import placeholder
from vtakit.compiler.te.operation import ComputeOp, producers_first
from vtakit.compiler.te.tensor import Tensor

_NAME_LENGTH = 60
# To begin and end a parallel loop takes 2 to 4 us while the other threads still look for it, so that two gain where one takes 8
# or more. In that time one with vectors of 512 bits sums 800,000 products of operands in its caches. A small layer on one thread
# between large ones on two is slower than alone: it fetches the half of its data that is in the other's cache.
_FEW_MACS, _FEW_BYTES = 800_000, 250_000
_FEW_BYTES_WITHOUT_MACS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A program for one or several groups of a network.

    function : in low form; its parameters are those of a group's inputs that it reads, then its outputs, in order
    reads    : which of a group's inputs it reads, by number; a definition need not read all
    macs     : multiplications that it sums
    scratch  : bytes of memory that it works in, each piece a parameter behind the outputs
    """

    function: Function
    reads: tuple[int, ...]
    macs: int
    scratch: tuple[int, ...] = ()


def key_of(group: Group) -> Hashable:
    """Equal for groups that compute the same of operands of the same types."""
    numbers: dict[Value, int] = {value: i for i, value in enumerate(group.inputs)}
    nodes = []
    for node in group.nodes:
        operands = tuple([None if value is None else numbers[value] for value in node.inputs])
        nodes.append((node.op, operands, repr(sorted(node.attrs.items()))))
        for value in node.outputs:
            numbers[value] = len(numbers)
    outputs = tuple([numbers[value] for value in group.outputs])
    return tuple([value.type for value in group.inputs]), tuple(nodes), outputs


def tensors_of(group: Group) -> tuple[list[Tensor], list[Tensor]]:
    """The group's inputs as placeholders, and its outputs as computed from them."""
    made: dict[Value, Tensor] = {
        value: placeholder(value.type.shape, str(value.type.dtype), f"p{i}") for i, value in enumerate(group.inputs)
    }
    for node in group.nodes:
        found = apply(node.op, [None if value is None else made[value] for value in node.inputs], node.attrs)
        made |= dict(zip(node.outputs, found, strict=True))
    return [made[value] for value in group.inputs], [made[value] for value in group.outputs]


def kernel_of(group: Group, name: str, target: KernelTarget) -> Kernel:
    """Return the kernel of a group.

    Raises LowerError, VerifyError or PassError for a schedule of which no correct program can be made.
    """
    inputs, outputs = tensors_of(group)
    label = re.sub(r"\W", "_", group.name)[:_NAME_LENGTH]
    with shallow(name):
        reads = read_by(outputs, inputs)
        args = [*[inputs[at] for at in reads], *outputs]
        function = lower(target.schedule(outputs), args, f"{name}_{label}", limits=target.limits)
        low, macs = target.late(function), macs_of(outputs)
        size = sum(value.type.bytes for value in (*[group.inputs[at] for at in reads], *group.outputs))
        if macs < _FEW_MACS and size < (_FEW_BYTES if macs else _FEW_BYTES_WITHOUT_MACS):
            low = low._replace(body=map_stmt(low.body, _serial))
        lent: list[Buffer] = []
        body = _borrowing(low.body, lent)
        pieces = tuple([_bytes(buffer) for buffer in lent])
        return Kernel(low._replace(body=body, params=(*low.params, *lent)), reads, macs, pieces)


def _borrowing(s: Stmt, lent: list[Buffer]) -> Stmt:
    """A kernel's body without the large memory that it allocates around everything, which is put to `lent`."""
    match s:
        case Allocate():
            body = _borrowing(s.body, lent)
            if s.buffer.scope != "global" or _bytes(s.buffer) <= STACK_BYTES:
                return s.replace(body=body)
            lent.append(s.buffer)
            return body
        case Attr():
            return s.replace(body=_borrowing(s.body, lent))
    return s


def _bytes(buffer: Buffer) -> int:
    """Of memory of a constant size; 0 for other."""
    return prod([int_value(extent) or 0 for extent in buffer.shape]) * buffer.dtype.bytes


def _serial(s: Stmt) -> Stmt:
    return s.replace(kind=LoopKind.SERIAL) if isinstance(s, For) and s.kind is LoopKind.PARALLEL else s


def read_by(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> tuple[int, ...]:
    """Which inputs, by number, are read to make the outputs."""
    stages = producers_first([tensor.op for tensor in outputs], lambda op: [tensor.op for tensor in op.input_tensors])
    read = {tensor for stage in stages for tensor in stage.input_tensors}
    return tuple([at for at, tensor in enumerate(inputs) if tensor in read])


def macs_of(outputs: Sequence[Tensor]) -> int:
    """How many products are summed to make the tensors."""
    total = 0
    for stage in producers_first([tensor.op for tensor in outputs], lambda op: [tensor.op for tensor in op.input_tensors]):
        body = stage.body[0] if isinstance(stage, ComputeOp) else None
        if isinstance(stage, ComputeOp) and isinstance(body, Reduce) and _is_product(body.source[0]):
            extents = [int_value(axis.dom.extent) for axis in stage.root_iter_vars if axis.dom is not None]
            total += prod([extent or 0 for extent in extents])
    return total


def _is_product(e: Expr) -> bool:
    return _is_product(e.value) if isinstance(e, Cast) else isinstance(e, Mul)
