"""The whole way from a schedule to a function in block form."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.depth import MOST_CALLS, deep
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.ir.sharing import TooManyWaysError
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.lower.bounds import Bounds
from vtakit.compiler.lower.errors import LowerError
from vtakit.compiler.lower.memory import Memory
from vtakit.compiler.lower.nest import Nests
from vtakit.compiler.lower.plan import Plans
from vtakit.compiler.lower.sizes import with_requirements
from vtakit.compiler.lower.verify import Limits, verify
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import PlaceholderOp
from vtakit.compiler.te.tensor import Tensor

NO_BINDS: Mapping[Tensor, Buffer] = {}


def lower(
    schedule: Schedule, args: Sequence[Tensor | Var | Buffer], name: str = "main", *, binds: Mapping[Tensor, Buffer] = NO_BINDS,
    limits: Limits | None = None, check: bool = True,
) -> Function:
    """The loops of a schedule, with a block for what each stage computes at a point.

    args   : what the function takes: tensors that it reads and makes, scalar variables, buffers that stand in `binds`
    binds  : the buffer of an argument, where its layout is not the plain one
    limits : of the device, for the verifier
    check  : whether the verifier is run on the result; without it one can look at a program that breaks a rule

    Raises LowerError for a schedule that no program can be made of, VerifyError for a program that breaks a rule, DecisionError
    for a decision that the schedule was given and none of its rules made.
    """
    if not isinstance(schedule, Schedule):
        raise LowerError("arguments", f"{schedule!r} is no schedule", "make one of the results with te.create_schedule")
    if not isinstance(name, str):
        raise LowerError("arguments", f"the name of the function is {name!r}", "give a string")
    if not isinstance(args, Sequence):
        raise LowerError("arguments", f"the arguments of {name!r} are {args!r}", "give a list of tensors, variables and buffers")
    schedule.decisions.check()
    given: dict[Tensor, Buffer] = {tensor: _fitting(tensor, buffer, name) for tensor, buffer in binds.items()}
    params: list[Buffer | Var] = []
    for arg in args:
        if isinstance(arg, Tensor):
            params.append(given.setdefault(arg, Buffer(arg.name, arg.shape, arg.dtype)))
        elif isinstance(arg, Var | Buffer):
            params.append(arg)
        else:
            raise LowerError("arguments", f"the argument {arg!r} of {name!r} is no tensor, variable or buffer", "leave it out")
        if params[-1] in params[:-1]:
            raise LowerError("arguments", f"the argument {arg.name} of {name!r} is given twice", "give each once")
    with shallow(name):
        return _lower(schedule, given, params, name, limits, check=check)


def _fitting(tensor: Tensor, buffer: Buffer, name: str) -> Buffer:
    """The buffer that `binds` gives a tensor: it says how the elements lie in memory, not how many there are or of what type."""
    if not isinstance(tensor, Tensor) or not isinstance(buffer, Buffer):
        raise LowerError(
            "arguments", f"binds of {name!r} holds {tensor!r}: {buffer!r}", "give each tensor a buffer made by te.decl_buffer",
        )
    a = Analyzer()
    same_shape = len(buffer.shape) == len(tensor.shape) and all(map(a.prove_equal, buffer.shape, tensor.shape))
    if not same_shape or buffer.dtype is not tensor.dtype:
        raise LowerError(
            "arguments", f"binds of {name!r} gives {tensor.name}, {_type(tensor)}, the buffer {buffer.name}, {_type(buffer)}",
            f"declare the buffer with te.decl_buffer({tensor.name}.shape, {tensor.name}.dtype, …)",
        )
    return buffer


def _overlaps(buffer: Buffer) -> bool:
    """Return whether elements at different indices may share memory: a constant stride is too short for smaller dimensions."""
    within = 0  # elements from the first to the last of the dimensions of smaller strides
    dims = [(int_value(stride), int_value(size)) for stride, size in zip(buffer.strides, buffer.shape, strict=False)]
    for stride, size in sorted((stride, 2 if size is None else size) for stride, size in dims if stride is not None):
        if size > 1 and stride <= within:
            return True
        within += stride * (max(size, 1) - 1)
    return False


def _type(of: Tensor | Buffer) -> str:
    return f"{of.dtype}[{', '.join(map(str, of.shape))}]"


def _lower(
    schedule: Schedule, given: dict[Tensor, Buffer], params: Sequence[Buffer | Var], name: str, limits: Limits | None, *,
    check: bool,
) -> Function:
    analyzer = Analyzer()
    plans = Plans(schedule)
    for tensor in given:
        if plans.maker(tensor) is None and tensor.op in plans.inlined:
            raise LowerError(
                "arguments", f"the argument {tensor.name} of {name!r} is inlined, so the program does not compute it",
                f"leave it out, or compute {tensor.name} at the root",
            )
        if plans.maker(tensor) is None:
            raise LowerError(
                "arguments", f"the argument {tensor.name} of {name!r} is no tensor that the schedule reads or computes",
                "leave it out, or give the tensors from which the schedule was made",
            )
        if not isinstance(tensor.op, PlaceholderOp) and _overlaps(given[tensor]):
            steps = ", ".join(map(str, given[tensor].strides))
            raise LowerError(
                "arguments",
                f"elements of {tensor.name}, which {name!r} writes, may share memory: {_type(tensor)} has strides of {steps}",
                "declare its buffer with strides that keep them apart",
            )
    bounds = Bounds(plans, given, analyzer)
    memory = Memory(bounds, given)
    function = with_requirements(Function(name, tuple(params), Nests(bounds, memory, analyzer).program()), plans.all)
    if check:
        verify(function, limits)
    return function


@contextmanager
def shallow(name: str) -> Iterator[None]:
    """Walks over a program go as deep as its expressions and statements: what is deeper than Python goes is a LowerError."""
    try:
        with deep():
            yield
    except RecursionError:
        raise LowerError(
            "depth",
            f"an expression of {name!r}, or its stages one within another, are nested deeper than Python calls functions",
            "compute parts as tensors of their own, inline fewer stages, or call sys.setrecursionlimit with more than "
            f"{max(sys.getrecursionlimit(), MOST_CALLS)}",
        ) from None
    except TooManyWaysError:
        raise LowerError(
            "depth", f"an expression of {name!r} needs the same large values, with reads that may be outside of their tensors, "
            "in cases of if_then_else within others, in more ways than can be written",
            "compute parts as tensors of their own, or inline fewer stages",
        ) from None
