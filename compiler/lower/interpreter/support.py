"""Support of the translator of statements: analyses of a program, and functions that the translated code calls."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.fragments import SCOPES as FRAGMENT_SCOPES
from vtakit.compiler.ir.walk import expressions, loads, statements, subexpressions
from vtakit.compiler.lower.interpreter.errors import InterpretError, UndefinedValueError
from vtakit.compiler.lower.interpreter.memory import UNDEFINED, Pointer, Private, Tracked, View
from vtakit.compiler.lower.interpreter.threads import Arrival, lockstep, run
from vtakit.compiler.lower.interpreter.warps import ASYNCHRONOUS, Held, alone

NOT_SHARED = ("local", "warp", *FRAGMENT_SCOPES)


def views(body: st.Stmt) -> dict[ir.Var, set[DType]]:
    """The types as which each address is read or written."""
    found: dict[ir.Var, set[DType]] = {}
    for s in statements(body):
        if isinstance(s, st.Store | st.Allocate):
            found.setdefault(s.buffer.data, set()).add(s.buffer.dtype.scalar)
    for e in expressions(body):
        for x in subexpressions(e):
            if isinstance(x, ir.Load):
                found.setdefault(x.buffer.data, set()).add(x.buffer.dtype.scalar)
    return found


@contextmanager
def no_change() -> Iterator[None]:
    yield


def is_step(s: st.Stmt) -> bool:
    """Return whether threads wait for each other after a statement: it, or a statement in it, touches common memory."""
    leaf = isinstance(s, st.Store | st.Evaluate)
    return (leaf or isinstance(s, st.For | st.While | st.If | st.Block)) and any(map(touches_common_memory, statements(s)))


def touches_common_memory(s: st.Stmt) -> bool:
    if isinstance(s, st.Store) and s.buffer.scope not in NOT_SHARED:
        return True
    if isinstance(s, st.Evaluate):
        return True
    return any(load.buffer.scope not in NOT_SHARED for e in expressions(s) for load in loads(e))


def block_outside(name: str, var: str, at: int, low: int, extent: int) -> None:
    raise InterpretError(f"block {name} runs with {var} = {at}, outside its domain {low} to {low + extent - 1}")


def check_that(condition: Any, message: str) -> None:
    if not condition:
        raise UndefinedValueError(f"the program asserts: {message}")


def call_packed(function: Callable[..., Any], args: list[Any]) -> None:
    arrays = [arg.array() if isinstance(arg, Pointer) else arg for arg in args]
    for arg, array in zip(args, arrays, strict=True):
        if isinstance(arg, Pointer) and "w" not in arg.mask:
            array.flags.writeable = False  # as in machine code
    function(*arrays)
    for arg, array in zip(args, arrays, strict=True):
        if isinstance(arg, Pointer) and "w" in arg.mask:
            arg.take(array)


# What generated code calls by these names.
CALLED: dict[str, Any] = {
    "UNDEFINED": UNDEFINED, "Private": Private, "View": View, "Tracked": Tracked, "Arrival": Arrival, "lockstep": lockstep,
    "run": run, "block_outside": block_outside, "check_that": check_that, "call_packed": call_packed,
    "Held": Held, "alone": alone, **ASYNCHRONOUS,
}
