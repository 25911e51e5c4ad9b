"""Loops as copies of their bodies."""

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.expr import Expr, IntImm
from vtakit.compiler.ir.stmt import AUTO_STEPS, Function, LoopKind, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import statements, substitute_stmt
from vtakit.compiler.lower.verify.capacity import REGISTER_BYTES
from vtakit.compiler.passes.base import PassError
from vtakit.compiler.passes.copying import renewed

# Stores of a body, some 25 bytes of code each with what they need: more do not fit into an instruction cache of 32 KiB.
MOST_USEFUL = 1024


def unroll(function: Function, auto_steps: int = 0) -> Function:
    """Unrolled loops, and small serial ones where that is asked for, become one copy of their body an iteration.

    ``for i in unrolled(2): A[i] = 0``  ->  ``A[0] = 0; A[1] = 0``

    auto_steps : a serial loop whose copies have at most so many leaves is unrolled, if all loops in it were; the pragma
                 `AUTO_STEPS` on a loop says it for that loop and those in it. Above `MOST_USEFUL`, with a leaf of a long
                 vector counted as often as it fills a register, a loop stays one whatever is asked for
    Raises PassError for an unrolled loop whose extent is not constant, and a pragma whose value is no whole number.
    """
    return function._replace(body=_Unroller(function, auto_steps).stmt(function.body))


class _Unroller:
    def __init__(self, function: Function, auto_steps: int) -> None:
        self.function, self.auto_steps = function, auto_steps

    def stmt(self, s: Stmt) -> Stmt:
        if not isinstance(s, st.For):
            return s.rebuild(self.stmt, lambda e: e)
        around = self.auto_steps
        self.auto_steps = self._asked(s, around)
        body = self.stmt(s.body)
        extent, explicit = int_value(s.extent), s.kind is LoopKind.UNROLLED
        if explicit and extent is None:
            raise PassError(
                f"loop {s.var.name!r} is to be unrolled but its extent {s.extent} is no constant: split it by one first",
                self.function, s,
            )
        chosen = explicit or (s.kind is LoopKind.SERIAL and extent is not None and self._is_small(body, extent))
        self.auto_steps = around
        if not chosen or extent is None:
            notes = {key: value for key, value in s.notes.items() if key != AUTO_STEPS}
            return s.replace(body=body, notes=notes) if len(notes) < len(s.notes) else s.replace(body=body)
        copies = [body, *(renewed(body) for _ in range(extent - 1))]
        return st.seq(*[substitute_stmt(copy, {s.var: IntImm(i, s.var.dtype)}) for i, copy in enumerate(copies)])

    def _asked(self, s: st.For, around: int) -> int:
        """Return the number of steps that the loop's pragma allows, or else that of the loop around."""
        given = s.notes.get(AUTO_STEPS, around)
        number = int_value(given) if isinstance(given, Expr) else given
        if not isinstance(number, int):
            raise PassError(
                f"loop {s.var.name!r} has the pragma {AUTO_STEPS} with the value {given!r}: give a whole number",
                self.function, s,
            )
        return number

    def _is_small(self, body: Stmt, extent: int) -> bool:
        inside = [*statements(body)]
        leaves = [inner for inner in inside if isinstance(inner, st.Store | st.Evaluate)]
        work = sum(max(leaf.value.dtype.bytes // REGISTER_BYTES, 1) for leaf in leaves)
        if any(isinstance(inner, st.For | st.While) for inner in inside) or work * extent > MOST_USEFUL:
            return False
        return len(leaves) * extent <= self.auto_steps
