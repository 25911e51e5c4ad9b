"""From groups of nodes to kernels: loop programs, one for all groups that compute the same."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from threading import Lock
from typing import Any

from vtakit.compiler.codegen.llvm.machine import Machine
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
from vtakit.compiler.nn.registry import OPERATORS
from vtakit.compiler.schedule.decisions import Decision, Decisions
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.language import placeholder
from vtakit.compiler.te.operation import ComputeOp, producers_first
from vtakit.compiler.te.tensor import Tensor

_NAME_LENGTH = 60
_NO_NAME = r"\W"
THREADS = "kernel.threads"  # the decision whether a kernel's parallel loops are run by all threads


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A program for one or several groups of a network.

    function  : in low form; its parameters are those of a group's inputs that it reads, then its outputs, in order
    reads     : which of a group's inputs it reads, by number; a definition need not read all
    macs      : multiplications that it sums
    scratch   : bytes of memory that it works in, each piece a parameter behind the outputs
    decisions : of its schedule, by name
    """

    function: Function
    reads: tuple[int, ...]
    macs: int
    scratch: tuple[int, ...] = ()
    decisions: Mapping[str, Decision] = field(default_factory=dict)


_MOST_LATELY = 128  # kernels that are kept in memory: those of a few networks
_LATELY: dict[Hashable, Kernel] = {}
_LOCK = Lock()  # for _LATELY


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


@dataclass(frozen=True, slots=True, eq=False)
class Scheduled:
    """A group of nodes with a schedule.

    args      : of its kernel: the inputs that it reads, and its outputs
    reads     : which of the group's inputs it reads, by number
    decisions : given and made, those of the whole kernel included
    threads   : whether its parallel loops are run by all threads
    """

    schedule: Schedule
    args: tuple[Tensor, ...]
    reads: tuple[int, ...]
    macs: int
    decisions: Decisions
    threads: bool


def scheduled(group: Group, target: KernelTarget, given: Mapping[str, Any] | Decisions | None = None) -> Scheduled:
    """Schedule a group.

    given : values of decisions that are not the default: name -> candidate; or the `Decisions` that keep what rules ask for

    Raises DecisionError for a decision that does not exist, or a value that is no candidate of it.
    """
    inputs, outputs = tensors_of(group)
    reads, macs = read_by(outputs, inputs), macs_of(outputs)
    size = sum(value.type.bytes for value in (*[group.inputs[at] for at in reads], *group.outputs))
    decisions = given if isinstance(given, Decisions) else Decisions(given)
    own = OPERATORS[group.nodes[0].op].schedule if len(group.nodes) == 1 and isinstance(target.machine, Machine) else None
    found = target.schedule(outputs, decisions) if own is None else own(outputs)
    threads = target.machine.threads_pay(macs, size)
    if any(step.do == "parallel" for step in found.steps):
        threads = bool(decisions.choose(THREADS, [False, True], threads, scheduled.__name__))
    decisions.check()
    return Scheduled(found, (*[inputs[at] for at in reads], *outputs), reads, macs, decisions, threads)


def kernel_of(group: Group, name: str, target: KernelTarget, given: Mapping[str, Any] | None = None) -> Kernel:
    """Return the kernel of a group; `given` as for `scheduled`. One that was made lately is taken, whatever network it was for.

    Raises DecisionError as `scheduled` does, LowerError, VerifyError or PassError for a schedule of which no correct program can
    be made.
    """
    name = f"{name}_{re.sub(_NO_NAME, '_', group.name)[:_NAME_LENGTH]}"
    key = key_of(group), tuple([OPERATORS[node.op] for node in group.nodes]), repr(sorted((given or {}).items())), target
    with _LOCK:
        kernel = _LATELY.pop(key, None)
    if kernel is None:
        kernel = _lowered(group, name, target, given)
    with _LOCK:
        _LATELY[key] = kernel  # behind all others
        while len(_LATELY) > _MOST_LATELY:
            del _LATELY[next(iter(_LATELY))]
    return replace(kernel, function=kernel.function._replace(name=name))


def _lowered(group: Group, name: str, target: KernelTarget, given: Mapping[str, Any] | None) -> Kernel:
    with shallow(name):
        found = scheduled(group, target, given)
        low = target.late(lower(found.schedule, found.args, name, limits=target.limits))
        if not found.threads:
            low = low._replace(body=serial(low.body))
        lent: list[Buffer] = []
        body = _borrowing(low.body, lent, target.own_bytes)
        pieces = tuple([_bytes(buffer) for buffer in lent])
        return Kernel(low._replace(body=body, params=(*low.params, *lent)), found.reads, found.macs, pieces, found.decisions.made)


def _borrowing(s: Stmt, lent: list[Buffer], own_bytes: int) -> Stmt:
    """Return a kernel's body without the buffers beyond `own_bytes` allocated around everything, which are put to `lent`."""
    match s:
        case Allocate():
            body = _borrowing(s.body, lent, own_bytes)
            if s.buffer.scope != "global" or _bytes(s.buffer) <= own_bytes:
                return s.replace(body=body)
            lent.append(s.buffer)
            return body
        case Attr():
            return s.replace(body=_borrowing(s.body, lent, own_bytes))
    return s


def _bytes(buffer: Buffer) -> int:
    """Return the size of a buffer in bytes; 0 if it is not constant."""
    return prod([int_value(extent) or 0 for extent in buffer.shape]) * buffer.dtype.bytes


def serial(body: Stmt) -> Stmt:
    """Return statements with serial loops in the place of parallel ones."""
    return map_stmt(body, lambda s: s.replace(kind=LoopKind.SERIAL) if isinstance(s, For) and s.kind is LoopKind.PARALLEL else s)


def read_by(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> tuple[int, ...]:
    """Return the numbers of the inputs that are read to compute the outputs."""
    stages = producers_first([tensor.op for tensor in outputs], lambda op: [tensor.op for tensor in op.input_tensors])
    read = {tensor for stage in stages for tensor in stage.input_tensors}
    return tuple([at for at, tensor in enumerate(inputs) if tensor in read])


def macs_of(outputs: Sequence[Tensor]) -> int:
    """Return the number of multiply-adds that compute the tensors; bit-serial products state theirs as the attribute `macs`."""
    total = 0
    for stage in producers_first([tensor.op for tensor in outputs], lambda op: [tensor.op for tensor in op.input_tensors]):
        body = stage.body[0] if isinstance(stage, ComputeOp) else None
        if isinstance(stage, ComputeOp) and "macs" in stage.attrs:
            total += stage.attrs["macs"]
        elif isinstance(stage, ComputeOp) and isinstance(body, Reduce) and _is_product(body.source[0]):
            extents = [int_value(axis.dom.extent) for axis in stage.root_iter_vars if axis.dom is not None]
            total += prod([extent or 0 for extent in extents])
    return total


def _is_product(e: Expr) -> bool:
    return _is_product(e.value) if isinstance(e, Cast) else isinstance(e, Mul)
