"""Asynchronous copies: stores of what was loaded from global memory to shared memory, which go on while the threads do."""

from collections.abc import Sequence

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import HANDLE
from vtakit.compiler.ir.expr import Broadcast, Call, Expr, IntImm, Load, Ramp, StringImm
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.stmt import Function, Stmt
from vtakit.compiler.ir.values import TRUE, const, int_value, value_of
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.ir.warp_calls import COPY_BYTES
from vtakit.compiler.passes.base import PassError

SCOPE = "async_copies"  # an Attr: the stores within are asynchronous copies


def commit() -> Stmt:
    return st.Evaluate(effect("async_commit"))


def wait(newest: int, places: Sequence[tuple[Buffer, int]]) -> Stmt:
    """The wait for all but the newest groups.

    places : what has arrived then: buffers, with which part along their first dimension
    """
    return st.Evaluate(effect("async_wait", newest, *[arg for buffer, part in places for arg in part_of(buffer, part, "w")]))


def part_of(buffer: Buffer, part: int, mask: str) -> tuple[Expr, Expr]:
    """Return the address of a part along a buffer's first dimension, and its number of elements."""
    total: Expr = IntImm(1)
    for extent in buffer.shape[1:]:
        total = total * extent
    first = Load(buffer, (IntImm(part), *[IntImm(0)] * (len(buffer.shape) - 1)))
    return Call(HANDLE, "address_of", (first, IntImm(0), StringImm(mask))), total


def marked(fill: Stmt, copied: Sequence[Buffer]) -> Stmt:
    """Return a statement that fills buffers, marked if its stores are asynchronous copies to some of `copied`."""
    stores = [s.buffer for s in statements(fill) if isinstance(s, st.Store)]
    return st.Attr(SCOPE, None, 1, fill) if stores and all(buffer in copied for buffer in stores) else fill


def copied_alone(s: st.Allocate) -> Stmt:
    """Return an allocation that asynchronous copies fill and no loop fills ahead: a wait follows the copies."""
    parts = list(s.body.stmts) if isinstance(s.body, st.Seq) else [s.body]
    last = max((i for i, part in enumerate(parts) if marked(part, [s.buffer]) is not part), default=None)
    if last is None:
        return s
    view = Buffer(s.buffer.name, (IntImm(1), *s.buffer.shape), s.buffer.dtype, s.buffer.scope, swizzle=s.buffer.swizzle)
    view.data = s.buffer.data
    parts[: last + 1] = [marked(part, [s.buffer]) for part in parts[: last + 1]]
    notes = {key: value for key, value in s.notes.items() if key != "async_copy"}
    return s.replace(body=st.seq(*parts[: last + 1], commit(), wait(0, [(view, 0)]), *parts[last + 1:]), notes=notes)


def async_copies(function: Function) -> Function:
    """Make asynchronous copies of the stores that are marked to be.

    ``S[ramp(i, 1, 8)] = A[ramp(j, 1, 8)]`` of 16-bit elements  ->  ``async_copy(S[i], A[j], 8)``

    A value of 0 under a condition becomes the copy's condition. Raises PassError for a store of anything else, for one of other
    than 4, 8 or 16 bytes, and for a place that is not known to be a multiple of so many bytes.
    """
    if not any(isinstance(s, st.Attr) and s.key == SCOPE for s in statements(function.body)):
        return function
    return function._replace(body=_Copies(function).stmt(function.body))


class _Copies:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.analyzer = Analyzer()
        self.within = False

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, st.For):
            self.analyzer.bind(s.var, Range(const(0, s.var.dtype), s.extent))
        elif isinstance(s, st.LetStmt) and s.var.dtype.is_int:
            self.analyzer.bind(s.var, s.value)
        elif isinstance(s, st.Attr) and s.key == SCOPE:
            self.within = True
            body = self.stmt(s.body)
            self.within = False
            return body
        elif isinstance(s, st.Store) and self.within:
            return self.copy(s)
        return s.rebuild(self.stmt, lambda e: e)

    def copy(self, s: st.Store) -> Stmt:
        condition, value = _choice(s.value)
        if s.buffer.scope != "shared" or not isinstance(value, Load) or value.buffer.scope != "global":
            raise PassError(f"the copy to {s.buffer.name} is to be asynchronous, and {s.value} is no element of global memory, "
                            "or 0 under a condition: leave out async_copy, or compute in a stage that reads it", self.function, s)
        lanes, bytes_ = s.value.dtype.lanes, s.value.dtype.lanes * s.buffer.dtype.bytes
        places = [(s.buffer, s.indices[0]), (value.buffer, value.indices[0])]
        if bytes_ not in COPY_BYTES:
            raise PassError(f"the copy to {s.buffer.name} is to be asynchronous, and is of {bytes_} bytes: vectorise its loop so "
                            f"that it is of {' or '.join(map(str, COPY_BYTES))}", self.function, s)
        addresses = []
        for (buffer, index), mask in zip(places, "wr", strict=True):
            first = index.base if isinstance(index, Ramp) else index
            ramp = isinstance(index, Ramp) and int_value(index.stride) == 1
            if index.dtype.lanes != lanes or (lanes > 1 and not ramp):
                raise PassError(f"the copy to {s.buffer.name} is to be asynchronous, and {buffer.name}[{index}] are no row: "
                                "vectorise the loop over the last dimension of both", self.function, s)
            if not self.analyzer.prove_equal(first % lanes, 0):
                raise PassError(f"the copy to {s.buffer.name} is to be asynchronous, and {buffer.name}[{first}] is not known to "
                                f"begin at a multiple of {bytes_} bytes: let the rows of {buffer.name} be such", self.function, s)
            addresses.append(Call(HANDLE, "address_of", (Load(buffer, (first,)), IntImm(0), StringImm(mask))))
        return st.Evaluate(effect("async_copy", *addresses, lanes, *([] if value_of(condition) == 1 else [condition])))


def _choice(value: Expr) -> tuple[Expr, Expr]:
    """Return the condition under which a value is another one, else 0, and that one."""
    holding: list[Expr] = []
    while isinstance(value, ir.IfThenElse | ir.Select) and value.condition.dtype.lanes == 1 and _is_zero(value.false):
        holding.append(value.condition)
        value = value.true
    return all_of(*holding) if holding else TRUE, value


def _is_zero(e: Expr) -> bool:
    return value_of(e.value if isinstance(e, Broadcast) else e) == 0
