"""All-reduces over threads as shuffles within a warp, or as a tree in shared memory."""

from collections.abc import Sequence
from typing import Any

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Call, CommReducer, Expr, IntImm, Load, Var
from vtakit.compiler.ir.ops import all_of, if_then_else
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import substitute
from vtakit.compiler.passes.base import PassError

WARP = 32
_ORDER = ("threadIdx.x", "threadIdx.y", "threadIdx.z")  # the first is innermost in a warp


def lower_all_reduce(function: Function, *, shuffles: bool = True) -> Function:
    """``allreduce`` calls become what threads do.

    - Over threadIdx.x alone, with 2, 4, … 32 threads, if the device has `shuffles`: each step takes the value of the thread
      half as far away by ``shuffle_down(value, distance, width)``, and the first thread's result goes to all by
      ``shuffle(value, 0, width)``.
    - Else: each thread puts its value into shared memory, and half of the threads combine two in each step.

    Barriers are `vtakit.compiler.passes.thread_sync`'s. Raises PassError for threads that no loop around has.
    """
    return function._replace(body=_Lowering(function, shuffles=shuffles).stmt(function.body))


class _Lowering:
    def __init__(self, function: Function, *, shuffles: bool) -> None:
        self.function, self.shuffles = function, shuffles
        self.threads: list[st.For] = []
        self.combiner: CommReducer | None = None

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, st.For) and s.kind is LoopKind.THREAD and s.thread in _ORDER:
            self.threads.append(s)
            body = self.stmt(s.body)
            self.threads.pop()
            return s.replace(body=body)
        if isinstance(s, st.Attr) and s.key == "reducer":
            around, self.combiner = self.combiner, s.node
            body = self.stmt(s.body)
            self.combiner = around
            return body
        if isinstance(s, st.Evaluate) and isinstance(s.value, Call) and s.value.name == "allreduce":
            return self._reduce(s, s.value)
        return s.rebuild(self.stmt, lambda e: e)

    def _reduce(self, s: Stmt, e: Call) -> Stmt:
        if self.combiner is None:
            raise PassError('allreduce stands in no Attr("reducer", …), which says how values are combined', self.function, s)
        number = int_value(e.args[0]) or 0
        values, condition = e.args[1 : 1 + number], e.args[1 + number]
        results, over = e.args[2 + number : 2 + 2 * number], e.args[2 + 2 * number :]
        loops = sorted(self.threads, key=lambda loop: _ORDER.index(loop.thread))
        reduced = [loop for loop in loops if loop.var in over]
        if len(reduced) != len(over):
            raise PassError("allreduce names a thread that no loop around it is for", self.function, s)
        given = [if_then_else(condition, value, start) for value, start in zip(values, self.combiner.identity, strict=True)]
        width = _product(reduced)
        stores = [_destination(result) for result in results]
        if self.shuffles and [loop.thread for loop in reduced] == ["threadIdx.x"] and width in (2, 4, 8, 16, WARP):
            return self._shuffled(given, stores, width)
        return self._tree(given, stores, reduced, [loop for loop in loops if loop not in reduced], width)

    def _combine(self, left: Sequence[Expr], right: Sequence[Expr], into: Sequence[Load]) -> Stmt:
        """``into = combine(left, right)``, all values before the first is stored."""
        assert self.combiner is not None
        operands = dict(zip((*self.combiner.lhs, *self.combiner.rhs), (*left, *right), strict=True))
        names = [Var("combined", load.dtype) for load in into]
        body = st.seq(*[st.Store(load.buffer, load.indices, name) for load, name in zip(into, names, strict=True)])
        for name, result in reversed([*zip(names, self.combiner.result, strict=True)]):
            body = st.LetStmt(name, substitute(result, operands), body)
        return body

    def _shuffled(self, given: list[Expr], stores: list[Load], width: int) -> Stmt:
        zero = (IntImm(0, INT32),)
        own = [Load(Buffer("reduced", (1,), value.dtype, "local"), zero) for value in given]
        taken = [Load(Buffer("taken", (1,), value.dtype, "local"), zero) for value in given]
        steps: list[Stmt] = [st.Store(load.buffer, zero, value) for load, value in zip(own, given, strict=True)]
        distance = width // 2
        while distance:
            steps += [
                st.Store(there.buffer, zero, effect("shuffle_down", here, distance, width, returns=here.dtype))
                for here, there in zip(own, taken, strict=True)
            ]
            steps.append(self._combine(own, taken, own))
            distance //= 2
        steps += [
            st.Store(to.buffer, to.indices, effect("shuffle", here, 0, width, returns=here.dtype))
            for here, to in zip(own, stores, strict=True)
        ]
        return _allocated([load.buffer for load in (*own, *taken)], st.seq(*steps))

    def _tree(self, given: list[Expr], stores: list[Load], reduced: list[Any], others: list[Any], width: int) -> Stmt:
        lane, group = _linear_index(reduced), _linear_index(others)
        base = group * width
        cells = [Buffer("reduced", (width * _product(others),), value.dtype, "shared") for value in given]

        def at(offset: Expr | int) -> list[Load]:
            return [Load(buffer, (base + lane + offset,)) for buffer in cells]
        steps: list[Stmt] = [st.Store(buffer, (base + lane,), value) for buffer, value in zip(cells, given, strict=True)]
        distance = 1 << (width - 1).bit_length()
        while distance > 1:
            distance //= 2
            within = all_of(lane < distance, lane + distance < width) if 2 * distance > width else lane < distance
            steps.append(st.If(within, self._combine(at(0), at(distance), at(0))))
        steps += [
            st.Store(to.buffer, to.indices, Load(buffer, (base,))) for buffer, to in zip(cells, stores, strict=True)
        ]
        return _allocated(cells, st.seq(*steps))


def _allocated(buffers: list[Buffer], body: Stmt) -> Stmt:
    for buffer in reversed(buffers):
        body = st.Allocate(buffer, body)
    return body


def _destination(address: Expr) -> Load:
    assert isinstance(address, Call)
    assert address.name == "address_of"
    load, offset, _ = address.args
    assert isinstance(load, Load)
    return load if int_value(offset) == 0 else Load(load.buffer, (load.indices[0] + offset,))


def _product(loops: Sequence[st.For]) -> int:
    total = 1
    for loop in loops:
        total *= int_value(loop.extent) or 1
    return total


def _linear_index(loops: Sequence[st.For]) -> Expr:
    index: Expr = IntImm(0, INT32)
    stride = 1
    for loop in loops:
        index = index + loop.var * stride
        stride *= int_value(loop.extent) or 1
    return index
