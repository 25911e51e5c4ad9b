"""Prefetches of what a loop reads row after row, so many bytes ahead."""

from collections.abc import Iterator

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import HANDLE, INT32
from vtakit.compiler.ir.expr import Call, Expr, IntImm, Load, Ramp
from vtakit.compiler.ir.stmt import PREFETCH_AHEAD, Function, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import expressions, free_vars, map_stmt, statements, subexpressions
from vtakit.compiler.passes.base import PassError

LINE_BYTES = 64


def prefetch_ahead(function: Function) -> Function:
    """In loops with the pragma `PREFETCH_AHEAD` (bytes): ask for what lies so far behind each vector that an iteration reads.

    ``for k in range(n): C[…] = C[…] + A[…] * B[ramp(k * 16, 1, 16)]``  ->  ``… prefetch(&B[k * 16], bytes) …``

    Vectors whose place the loop does not change, and those that it writes, are in the cache anyway. An address behind a buffer's
    end is asked for too: a processor passes over it. Raises PassError for a pragma whose value is no whole number.
    """
    def asked(s: Stmt) -> Stmt:
        if not isinstance(s, st.For) or PREFETCH_AHEAD not in s.notes:
            return s
        given = s.notes[PREFETCH_AHEAD]
        ahead = int_value(given) if isinstance(given, Expr) else given
        if not isinstance(ahead, int):
            raise PassError(f"loop {s.var.name!r} has the pragma {PREFETCH_AHEAD} with the value {given!r}: give a whole number "
                            "of bytes", function, s)
        calls = [st.Evaluate(call) for call in _calls(s, ahead)]
        notes = {key: value for key, value in s.notes.items() if key != PREFETCH_AHEAD}
        return s.replace(body=st.seq(*calls, s.body), notes=notes)
    return function._replace(body=map_stmt(function.body, asked))


def _calls(s: st.For, ahead: int) -> Iterator[Call]:
    """One for each line of what is read."""
    written = {x.buffer.data for x in statements(s.body) if isinstance(x, st.Store)}
    inner = {x.var for x in statements(s.body) if isinstance(x, st.For | st.LetStmt)}
    found = dict.fromkeys(
        (load.buffer, load.indices[0]) for e in expressions(s.body) for load in subexpressions(e)
        if isinstance(load, Load) and isinstance(load.indices[0], Ramp) and load.buffer.data not in written)
    for buffer, index in found:
        assert isinstance(index, Ramp)
        variables = free_vars(index.base)
        if int_value(index.stride) != 1 or s.var not in variables or inner & set(variables):
            continue
        for start in range(0, index.lanes * buffer.dtype.bytes, LINE_BYTES):
            first = Load(buffer, (index.base,))
            yield effect("prefetch", Call(HANDLE, "address_of", (first, IntImm(0, INT32), ir.StringImm("r"))), ahead + start)
