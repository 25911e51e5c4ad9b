"""Who may touch which memory, before any code is made."""

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.expr import Load
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.walk import subexpressions
from vtakit.compiler.passes.base import PassError


def check_memory(function: Function) -> Function:
    """The function as it is, of which all work is done by threads of a device.

    Raises PassError for a read or write outside any block or thread loop: the host cannot touch device memory.
    """
    _walk(function, function.body)
    return function


def _walk(function: Function, s: Stmt) -> None:
    if isinstance(s, st.For) and s.kind is LoopKind.THREAD:
        return
    touched = [s.buffer.name] if isinstance(s, st.Store) else []
    for name in s.fields:
        value = getattr(s, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Stmt):
                _walk(function, part)
            elif hasattr(part, "children"):
                touched += [x.buffer.name for x in subexpressions(part) if isinstance(x, Load)]
    if touched:
        raise PassError(
            f"function {function.name!r} is for a device, but the host touches {touched[0]}, which is in the device's memory: "
            "bind the stage's axes to blockIdx and threadIdx", function, s,
        )
