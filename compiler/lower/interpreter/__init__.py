"""The interpreter: the loop IR's living definition, with blocks or without.

A function becomes Python source, which runs on one cell an element. Beside the values it checks what a machine would not:
indices, elements never written, iterators outside their domain, races between threads and divergence at barriers.

What is particular:
- Integers wrap in their type; a float operation rounds once to its type (of math functions: the double's value rounded).
- Vectors are computed lane by lane, all lanes before the first is stored. Vectorised, unrolled and virtual thread loops run
  in order.
- The iterations of a parallel or blockIdx loop run in order, and two that touch one element, one writing, are a `RaceError`.
- The threads of a block run from barrier to barrier. A function without any ``sync`` whose notes do not say
  ``synchronised`` has implicit barriers: each leaf that touches memory other than local is done by all threads before the
  next begins, which is what `vtakit.compiler.passes.thread_sync` makes explicit.
- Shared memory allocated within thread loops is one for the block, undefined only when the block begins.
- ``Store(…, shuffle_down(value, distance, width))`` gives a thread the value of the one `distance` further in its group of
  `width` threads (its own if there is none), ``shuffle(value, lane, width)`` that of the group's thread `lane`.
- ``allreduce`` stands in ``Attr("reducer", combiner, …)``, whose node is the `CommReducer`.
"""

from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.depth import deep
from vtakit.compiler.ir.printer import function_text
from vtakit.compiler.ir.stmt import Function, LoopKind
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.lower.interpreter.arguments import Arguments
from vtakit.compiler.lower.interpreter.errors import (
    ArgumentError,
    DivergenceError,
    InterpretError,
    OutOfBoundsError,
    RaceError,
    TokenError,
    UndefinedValueError,
)
from vtakit.compiler.lower.interpreter.memory import Pointer, Position
from vtakit.compiler.lower.interpreter.translate import Statements

__all__ = [
    "ArgumentError", "DivergenceError", "InterpretError", "OutOfBoundsError", "Pointer", "RaceError", "TokenError",
    "UndefinedValueError", "interpret",
]


@deep()
def interpret(
    function: Function, args: "Mapping[str | Buffer | ir.Var, Any] | Sequence[Any]",
    packed: Mapping[str, Callable[..., Any]] | None = None,
) -> None:
    """Run a function on NumPy arrays; outputs are written in place.

    args   : arrays and numbers, one a parameter, in order or by the parameter's name, buffer or variable; arrays may be
             strided where the buffer's strides are symbolic or say so. bfloat16 arrays have ml_dtypes' type
    packed : what calls mean that the IR does not define: name -> Python function. ``call_packed`` passes arrays and takes
             back what was written; any other call passes `Pointer`s for addresses, lists for vectors and numbers

    Raises ArgumentError for arguments that do not fit and another InterpretError for what the program does wrong.
    """
    threads = any(isinstance(s, st.For) and s.kind in (LoopKind.THREAD, LoopKind.PARALLEL) for s in statements(function.body))
    implicit = not (function.notes.get("synchronised") or any(map(_is_sync, statements(function.body))))
    writer = Statements(function.body, packed or {}, implicit_barriers=implicit, tracked=threads)
    position = Position()
    bound = Arguments(function, args, position, tracked=threads)
    inputs = bound.declare(writer.exprs)
    writer.stmt(function.body)
    source = "\n".join([f"def main({', '.join(['position', *inputs])}):", *writer.lines])
    scope = writer.exprs.globals
    try:
        code = compile(source, "<interpreter>", "exec")
    except (SyntaxError, RecursionError, MemoryError) as error:  # as Python's parser calls what is too deep for it
        if isinstance(error, SyntaxError) and "nested" not in str(error):
            raise
        raise InterpretError(
            f"an expression of {function.name} is nested deeper than Python's parser goes: compute parts as tensors of their "
            "own, or run machine code"
        ) from None
    exec(code, scope)
    sources = [None, None, *writer.sources]
    try:
        with np.errstate(all="ignore"):
            scope["main"](position, *inputs.values())
    except (InterpretError, ZeroDivisionError, IndexError, TypeError) as error:
        raise _located(error, function, sources, writer) from error
    bound.write_back(packed or {})


def _is_sync(s: st.Stmt) -> bool:
    return isinstance(s, st.Evaluate) and isinstance(s.value, ir.Call) and s.value.name == "sync"


def _located(error: Exception, function: Function, sources: list[st.Stmt | None], writer: Statements) -> InterpretError:
    """The error with the variables' values and the program, marked where it happened."""
    frame: FrameType | None = None
    mark: st.Stmt | None = None
    seen: dict[str, Any] = {}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<interpreter>":
            frame = trace.tb_frame
            mark = sources[trace.tb_lineno]
            seen |= frame.f_locals
        trace = trace.tb_next
    kind: type[InterpretError] = type(error) if isinstance(error, InterpretError) else InterpretError
    if isinstance(error, ZeroDivisionError | IndexError):
        kind = UndefinedValueError if isinstance(error, ZeroDivisionError) else OutOfBoundsError
    if not isinstance(error, InterpretError) and mark is None:
        raise error
    values = {
        var.name: seen[name] for var, name in writer.exprs.names.items()
        if isinstance(seen.get(name), int) and not isinstance(seen.get(name), bool)
    }
    where = ", ".join(f"{name} = {value}" for name, value in values.items())
    return kind(f"{error}{f', at {where}' if where else ''}\n\n{function_text(function, mark)}")
