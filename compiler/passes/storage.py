"""Sharing of memory between allocations."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import HANDLE, INT32, INT64
from vtakit.compiler.ir.expr import Call, Expr, IntImm, Load, Ramp, Var
from vtakit.compiler.ir.stmt import Function, LoopKind, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import free_vars, statements, subexpressions
from vtakit.compiler.passes.affine import is_injective, linear
from vtakit.compiler.passes.base import PassError

_MATCH = 16  # memory is reused for what is at most so many times smaller or larger
_SCALAR_BYTES = 4  # smaller ones become registers, which sharing would only hinder


def rewrite_storage(function: Function, capacity: Mapping[str, int] | None = None) -> Function:
    """Buffers that are never needed at once share memory, which is allocated at the start of its region.

    ``B = allocate(…); for i: B[i] = A[i] + 1;  C = allocate(…); for i: C[i] = B[i] * 2``  ->  the same with C in B's memory

    A region is the function's body or that of a parallel or thread loop: nothing moves out of one. A buffer takes the memory
    of one that is dead; also of one that dies in the very loop that fills it, if each element is read for the same element
    only. Types may differ: the buffers are then views of the memory's first bytes. Flat buffers only.

    capacity : bytes that a scope has; PassError if a region's buffers of that scope need more
    """
    return function._replace(body=_Planner(function, capacity or {}).region(function.body))


@dataclass(slots=True)
class _Loop:
    """A loop, or anything else whose inside repeats, with the time at which it begins and ends."""

    stmt: Stmt
    begin: int
    end: int = -1


@dataclass(slots=True)
class _Use:
    """A buffer's allocation and what touches it."""

    buffer: Buffer
    depth: int  # loops around the allocation
    begin: int = -1
    end: int = -1
    first: Stmt | None = None  # the statement or loop in which it is first touched, and that in which it is last
    last: Stmt | None = None

    def touch(self, begin: int, end: int, within: Stmt) -> None:
        if self.begin < 0 or begin < self.begin:
            self.begin, self.first = begin, within
        if end > self.end:
            self.end, self.last = end, within


@dataclass(slots=True)
class _Slot:
    """Memory, with who uses it now."""

    buffer: Buffer  # of the first user; its size is that of the largest
    user: _Use
    size: int | None  # bytes; None: symbolic
    address: Var = field(default_factory=lambda: Var("memory", HANDLE))


class _Planner:
    def __init__(self, function: Function, capacity: Mapping[str, int]) -> None:
        self.function, self.capacity = function, capacity

    def region(self, body: Stmt) -> Stmt:
        """The body with its allocations planned; regions within have their own."""
        if isinstance(body, st.For) and _is_region(body):  # nothing is allocated between the two
            return body.replace(body=self.region(body.body))
        liveness = _Liveness(body)
        slots: list[_Slot] = []
        placed: dict[Var, _Slot] = {}
        for use in sorted(liveness.uses.values(), key=lambda use: use.begin):
            if use.begin >= 0:
                placed[use.buffer.data] = self._place(use, slots)
        self._check_capacity(slots, body)
        new = _Rewriter(self, placed).stmt(body)
        for slot in reversed(slots):
            first = slot.buffer
            size: Expr = first.shape[0]
            if slot.size is not None:
                count = -(-slot.size // first.dtype.bytes)
                size = IntImm(count, INT32 if count <= INT32.max else INT64)
            new = st.Allocate(_view(first, slot.address, size), new)
        return new

    def _place(self, use: _Use, slots: list[_Slot]) -> _Slot:
        size = int_value(use.buffer.shape[0])
        needed = None if size is None else size * use.buffer.dtype.bytes
        fitting = [slot for slot in slots if self._fits(slot, use, needed)]
        if fitting:
            best = min(fitting, key=lambda slot: abs((slot.size or 0) - (needed or 0)))
            best.user = use
            if needed is not None:
                best.size = max(best.size or 0, needed)
            return best
        slots.append(_Slot(use.buffer, use, needed))
        return slots[-1]

    def _fits(self, slot: _Slot, use: _Use, needed: int | None) -> bool:
        """Return whether a buffer may take a slot's memory from where it is first touched."""
        old, new = slot.user.buffer, use.buffer
        if old.scope != new.scope or old.swizzle != new.swizzle:
            return False
        if needed is None or slot.size is None:
            if needed is not slot.size or old.dtype is not new.dtype or not ir.same(old.shape[0], new.shape[0]):
                return False
        elif min(needed, slot.size) <= _SCALAR_BYTES or max(needed, slot.size) > _MATCH * min(needed, slot.size):
            return False
        if new.scope == "local" and (old.dtype is not new.dtype or needed != slot.size):
            return False
        if slot.user.end < use.begin:
            return True
        same_place = slot.user.last is not None and slot.user.last is use.first and slot.user.end >= use.begin
        return same_place and old.dtype.bits == new.dtype.bits and _in_place(slot.user.last, old.data, new.data)

    def _check_capacity(self, slots: list[_Slot], body: Stmt) -> None:
        for scope, most in self.capacity.items():
            needed = sum(slot.size or 0 for slot in slots if slot.buffer.scope == scope)
            if needed > most:
                names = ", ".join(f"{slot.buffer.name} ({slot.size} bytes)" for slot in slots if slot.buffer.scope == scope)
                raise PassError(
                    f"scope {scope!r} has {most} bytes, but {names} need {needed} at once: tile smaller, or attach them deeper",
                    self.function, body,
                )


class _Liveness:
    """When each buffer allocated in a region is touched, in the order in which the region's statements stand."""

    def __init__(self, body: Stmt) -> None:
        self.uses: dict[Var, _Use] = {}
        self.time = 0
        self.loops: list[_Loop] = []
        self.bound: set[Var] = set()
        self.touches: list[tuple[Var, int, tuple[_Loop, ...], Stmt]] = []
        self.walk(body, region=True)
        for data, time, loops, leaf in self.touches:
            use = self.uses.get(data)
            if use is None:
                continue
            if len(loops) > use.depth:
                loop = loops[use.depth]
                use.touch(loop.begin, loop.end, loop.stmt)
            else:
                use.touch(time, time, leaf)

    def walk(self, s: Stmt, *, region: bool) -> None:
        self.time += 1
        if isinstance(s, st.Allocate) and region and not any(free_vars(extent) & self.bound for extent in s.buffer.shape):
            self.uses[s.buffer.data] = _Use(s.buffer, len(self.loops))
        for e in s.operands():
            for x in subexpressions(e):
                if isinstance(x, Load):
                    self._touch(x.buffer.data, s)
        if isinstance(s, (st.For, st.LetStmt)):
            self.bound.add(s.var)
        if isinstance(s, (st.For, st.While)):
            region = region and not _is_region(s)
            self.loops.append(_Loop(s, self.time))
            self.walk(s.body, region=region)
            self.time += 1
            self.loops.pop().end = self.time
        else:
            for inner in s.inner():
                self.walk(inner, region=region)
        if isinstance(s, st.Store):
            self._touch(s.buffer.data, s)

    def _touch(self, data: Var, leaf: Stmt) -> None:
        self.touches.append((data, self.time, tuple(self.loops), leaf))


class _Rewriter:
    """Puts buffers where the plan has them and plans the regions within."""

    def __init__(self, planner: _Planner, placed: Mapping[Var, _Slot]) -> None:
        self.planner, self.placed = planner, placed
        self.views: dict[Buffer, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        slot = self.placed.get(buffer.data)
        if slot is None:
            return buffer
        if buffer not in self.views:
            self.views[buffer] = _view(buffer, slot.address)
        return self.views[buffer]

    def expr(self, e: Expr) -> Expr:
        if not any(isinstance(x, Load) and x.buffer.data in self.placed for x in subexpressions(e)):
            return e
        return self._moved(e)

    def _moved(self, e: Expr) -> Expr:
        e = e.rebuild(self._moved)
        return e.replace(buffer=self.buffer(e.buffer)) if isinstance(e, Load) and e.buffer.data in self.placed else e

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, st.Allocate) and s.buffer.data in self.placed:
            return self.stmt(s.body)
        if isinstance(s, st.Store):
            s = s.replace(buffer=self.buffer(s.buffer))
        if isinstance(s, st.Attr) and isinstance(s.node, Buffer):
            s = s.replace(node=self.buffer(s.node))
        new = s.rebuild(self.stmt, self.expr)
        if isinstance(new, st.For) and _is_region(new):
            return new.replace(body=self.planner.region(new.body))
        return new


def _view(buffer: Buffer, address: Var, size: Expr | None = None) -> Buffer:
    """The buffer at another address."""
    shape = buffer.shape if size is None else (size,)
    new = Buffer(
        buffer.name, shape, buffer.dtype, buffer.scope, strides=buffer.strides, align=buffer.align, offset=buffer.offset,
        swizzle=buffer.swizzle,
    )
    new.data = address
    return new


def _is_region(s: Stmt) -> bool:
    return isinstance(s, st.For) and s.kind in (LoopKind.PARALLEL, LoopKind.THREAD)


def _in_place(within: Stmt | None, old: Var, new: Var) -> bool:
    """Return whether, within a statement, each element of `new` is stored once, as the same element of `old` is last read."""
    if within is None or any(isinstance(s, st.While) or _is_region(s) for s in statements(within)):
        return False
    stores = [s for s in statements(within) if isinstance(s, st.Store) and s.buffer.data is new]
    if len(stores) != 1 or any(isinstance(s, st.Store) and s.buffer.data is old for s in statements(within)):
        return False
    store, index = stores[0], stores[0].indices[0]
    for s in statements(within):
        for e in _own_expressions(s):
            for x in subexpressions(e):
                if isinstance(x, Load) and x.buffer.data is new:
                    return False
                here = s is store and e is store.value
                if isinstance(x, Load) and x.buffer.data is old and not (here and ir.same(x.indices[0], index)):
                    return False
                if isinstance(x, Call) and x.kind != "pure":
                    return False
    loops = _loops_around(within, store) or []
    extents = {loop.var: int_value(loop.extent) for loop in loops}
    form = linear(index.base if isinstance(index, Ramp) else index)
    known = {var: extent for var, extent in extents.items() if extent is not None}
    if isinstance(index, Ramp):
        stride = int_value(index.stride)
        if stride is None or len(known) < len(extents):
            return False
        lane = Var("lane")
        form = type(form)({**form.terms, lane: stride}, form.constant)
        known[lane] = index.lanes
    if len(known) < len(extents):
        return len(extents) == 1 and all(var in form.terms for var in extents)
    return is_injective(form, known)


def _own_expressions(s: Stmt) -> list[Expr]:
    return [e for name in s.fields if isinstance(e := getattr(s, name), Expr)] + [*getattr(s, "indices", ())]


def _loops_around(s: Stmt, target: Stmt) -> list[st.For] | None:
    """The loops from `s` inwards around a statement in it; None if it is not in it."""
    if s is target:
        return []
    for inner in s.inner():
        found = _loops_around(inner, target)
        if found is not None:
            return [s, *found] if isinstance(s, st.For) else found
    return None
