"""Barriers between what threads write and what others read."""

from typing import NamedTuple

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.expr import Expr, Load, Ramp, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import negate
from vtakit.compiler.ir.stmt import NOTHING, Function, LoopKind, Stmt
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import statements, subexpressions
from vtakit.compiler.passes.accesses import Access, reach, row
from vtakit.compiler.passes.affine import Linear, by_digits, linear, same_thread_only, span
from vtakit.compiler.passes.base import PassError
from vtakit.compiler.passes.places import places_of

SYNCHRONISED = "synchronised"  # note on a function: its barriers are explicit


def thread_sync(function: Function) -> Function:
    """A barrier wherever a thread may touch an element of common memory that another wrote, or write one that another touched.

    ``for t in bind[threadIdx.x](16): S[t] = A[t]; B[t] = S[15 - t]``  ->  ``…: S[t] = A[t]; sync("shared"); B[t] = S[15 - t]``

    Common is memory of scope "shared", and "global" memory within a block's threads. No barrier stands where indices show
    that only the same thread is concerned, and none under a condition or in a loop that threads go through differently: such
    a condition is moved inwards around the barrier. Raises PassError for a loop of which threads run different numbers of
    iterations with a barrier inside.
    """
    body = _Launch(function).outside(function.body)
    return function._replace(body=body, notes={**function.notes, SYNCHRONISED: 1})


class _Pending(NamedTuple):
    """Accesses since the last barrier: `head` those before the first barrier, `tail` those after the last."""

    head: tuple[Access, ...]
    tail: tuple[Access, ...]
    synced: bool


class _Launch:
    """The threads of one function's launches."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.threads: dict[Var, int] = {}
        self.loops: dict[Var, int] = {}
        self.varying: set[Var] = set()  # may differ from thread to thread
        self.moving: set[Var] = set()  # loop variables and lets within the threads: may differ from one access to another
        self.analyzer = Analyzer()

    def outside(self, s: Stmt) -> Stmt:
        """Return a statement around the thread loops with barriers placed in them."""
        if isinstance(s, st.For):
            self.analyzer.bind(s.var, Range(ir.IntImm(0, s.var.dtype), s.extent))
        if not (isinstance(s, st.For) and s.kind is LoopKind.THREAD and s.thread.startswith("threadIdx")):
            return s.rebuild(self.outside, lambda e: e)
        extent = int_value(s.extent)
        if extent is None:
            raise PassError(f"{s.thread} has the extent {s.extent}, which is no constant", self.function, s)
        self.threads[s.var] = extent
        self.varying.add(s.var)
        inner = [x for x in statements(s.body) if isinstance(x, st.For) and x.thread.startswith("threadIdx")]
        body = self.outside(s.body) if inner else self.plan(s.body)[0]
        del self.threads[s.var]
        return s.replace(body=body)

    # Placing

    def plan(self, s: Stmt) -> tuple[Stmt, _Pending]:
        """The statement with its barriers, and what it leaves to order around it."""
        if isinstance(s, st.Seq):
            return self._sequence(s)
        if isinstance(s, st.For):
            return self._loop(s)
        if isinstance(s, st.If):
            return self._if(s)
        if isinstance(s, st.While):
            body, found = self.plan(s.body)
            if found.synced or self._conflict(found.tail, found.head):
                raise PassError("a while loop needs a barrier inside, which not all threads may reach", self.function, s)
            own = (*self._accesses(s.condition), *found.head)
            return s.replace(body=body), _Pending(own, own, synced=False)
        if isinstance(s, st.LetStmt):
            if self._varies(s.value):
                self.varying.add(s.var)
            self.moving.add(s.var)
            body, found = self.plan(s.body)
            own = self._accesses(s.value)
            return s.replace(body=body), found._replace(
                head=(*own, *found.head), tail=found.tail if found.synced else (*own, *found.tail))
        if isinstance(s, st.Allocate | st.Attr):
            body, found = self.plan(s.body)
            return s.replace(body=body), found
        if _is_sync(s):
            return s, _Pending((), (), synced=True)
        own = self._leaf_accesses(s)
        return s, _Pending(own, own, synced=False)

    def _sequence(self, s: st.Seq) -> tuple[Stmt, _Pending]:
        done: list[Stmt] = []
        head: tuple[Access, ...] = ()
        tail: tuple[Access, ...] = ()
        synced = False
        for part in s.stmts:
            new, found = self.plan(part)
            if self._conflict(tail, found.head):
                done.append(_sync())
                tail, synced = (), True
            done.append(new)
            if not synced:
                head = (*head, *found.head)
            tail = found.tail if found.synced else (*tail, *found.tail)
            synced = synced or found.synced
        return st.seq(*done), _Pending(head, tail, synced)

    def _loop(self, s: st.For) -> tuple[Stmt, _Pending]:
        extent = int_value(s.extent)
        if self._varies(s.extent):
            self.varying.add(s.var)
        self.moving.add(s.var)
        most = self.analyzer.bounds(s.extent).hi
        if isinstance(most, int) and most < s.var.dtype.max:
            self.loops[s.var] = max(most, 1)
        self.analyzer.bind(s.var, Range(ir.IntImm(0, s.var.dtype), s.extent))
        body, found = self.plan(s.body)
        if extent != 1 and self._conflict(found.tail, found.head):
            body, found = self._ordered(s.body, body, found)
        if found.synced and self._varies(s.extent):
            raise PassError(
                f"loop {s.var.name!r} needs a barrier inside, but its extent {s.extent} differs between threads, so that not all "
                "would reach it", self.function, s,
            )
        own = self._accesses(s.extent)
        certain = found.synced and extent is not None and extent > 0
        tail = found.tail if certain else (*found.head, *found.tail) if found.synced else found.tail
        return s.replace(body=body), _Pending((*own, *found.head), tail, certain)

    def _ordered(self, body: Stmt, planned: Stmt, found: _Pending) -> tuple[Stmt, _Pending]:
        """A loop's body of which an iteration conflicts with the one before, with a barrier between the two.

        It is placed first where that leaves fewer others to place.
        """
        parts = body.stmts if isinstance(body, st.Seq) else ()
        for i, part in enumerate(parts):
            if self._conflict(found.tail, self.plan_accesses(part)):
                again, after = self.plan(st.seq(*parts[:i], _sync(), *parts[i:]))
                if not self._conflict(after.tail, after.head):
                    return again, after
                break
        return self._carried(planned, found)

    def _carried(self, body: Stmt, found: _Pending) -> tuple[Stmt, _Pending]:
        """A barrier before the first statement that conflicts with the iteration before."""
        parts = body.stmts if isinstance(body, st.Seq) else (body,)
        if isinstance(body, st.Allocate | st.Attr):
            inner, rest = self._carried(body.body, found)
            return body.replace(body=inner), rest
        before: tuple[Access, ...] = ()
        for i, part in enumerate(parts):
            own = self.plan_accesses(part)
            if self._conflict(found.tail, own) or i == len(parts) - 1:
                placed = st.seq(*parts[:i], _sync(), *parts[i:])
                tail = found.tail if found.synced else tuple(a for p in parts[i:] for a in self.plan(p)[1].tail)
                return placed, _Pending(before, tail, synced=True)
            before = (*before, *own)
        raise AssertionError("a conflict without a statement")

    def plan_accesses(self, s: Stmt) -> tuple[Access, ...]:
        """The accesses of a planned statement before its first barrier."""
        return self.plan(s)[1].head

    def _if(self, s: st.If) -> tuple[Stmt, _Pending]:
        own = self._accesses(s.condition)
        then, first = self.plan(s.then)
        otherwise, second = (None, _Pending((), (), synced=False)) if s.otherwise is None else self.plan(s.otherwise)
        new: Stmt = s.replace(then=then, otherwise=otherwise)
        head = (*own, *first.head, *second.head)
        if (first.synced or second.synced) and self._varies(s.condition):
            new = self._split(s.condition, then, otherwise)
            return new, _Pending(head, (*first.tail, *second.tail), synced=first.synced and second.synced)
        synced = first.synced and second.synced
        tail = (*first.tail, *second.tail)
        if not synced:
            tail = (*tail, *own, *(() if first.synced else first.head), *(() if second.synced else second.head))
        return new, _Pending(head, tail, synced)

    def _split(self, condition: Expr, then: Stmt, otherwise: Stmt | None) -> Stmt:
        """A condition with barriers inside, as conditions between the barriers."""
        if any(isinstance(x, Load) for x in subexpressions(condition)):
            var = Var("condition", condition.dtype)
            self.varying.add(var)
            return st.LetStmt(var, condition, self._split(var, then, otherwise))
        rest = NOTHING if otherwise is None else self._inwards(negate(condition), otherwise)
        return st.seq(self._inwards(condition, then), rest)

    def _inwards(self, condition: Expr, s: Stmt) -> Stmt:
        """The statement where the condition holds, and its barriers for all threads."""
        if not any(map(_is_sync, statements(s))):
            return st.If(condition, s)
        if isinstance(s, st.Seq):
            return st.seq(*[self._inwards(condition, part) for part in s.stmts])
        if isinstance(s, st.Allocate | st.Attr):
            return s.replace(body=self._inwards(condition, s.body))
        if isinstance(s, st.For) and not self._varies(s.extent):
            return s.replace(body=self._inwards(condition, s.body))
        if isinstance(s, st.If) and not self._varies(s.condition):
            return s.replace(
                then=self._inwards(condition, s.then),
                otherwise=None if s.otherwise is None else self._inwards(condition, s.otherwise),
            )
        if _is_sync(s):
            return s
        raise PassError("a barrier is needed under a condition that differs between threads", self.function, s)

    def _varies(self, e: Expr) -> bool:
        """Return whether the value may differ from thread to thread."""
        return any(isinstance(x, Load) or (isinstance(x, Var) and x in self.varying) for x in subexpressions(e))

    # Conflicts

    def _leaf_accesses(self, s: Stmt) -> tuple[Access, ...]:
        if isinstance(s, st.Store):
            return (*self._accesses(s.value), *self._accesses(s.indices[0]), *self._access(s.buffer, s.indices[0], writes=True))
        assert isinstance(s, st.Evaluate)
        return self._accesses(s.value)

    def _accesses(self, e: Expr) -> tuple[Access, ...]:
        places = places_of(e) if isinstance(e, ir.Call) else None
        if places is not None:
            return tuple(access for place in places for access in self._access(place.buffer, row(place), writes=place.writes))
        if isinstance(e, ir.Call) and e.name == "address_of":
            load, _, mask = e.args
            assert isinstance(load, Load)
            assert isinstance(mask, ir.StringImm)
            return tuple(
                access for writes, letter in ((False, "r"), (True, "w")) if letter in mask.value
                for access in self._access(load.buffer, None, writes=writes)
            )
        found = tuple(access for child in e.children() for access in self._accesses(child))
        return (*found, *self._access(e.buffer, e.indices[0], writes=False)) if isinstance(e, Load) else found

    def _access(self, buffer: Buffer, index: Expr | None, *, writes: bool) -> tuple[Access, ...]:
        if buffer.scope not in ("shared", "global"):
            return ()
        if index is None or (index.dtype.lanes > 1 and not isinstance(index, Ramp)):
            return (Access(buffer.data, None, writes, buffer.dtype.bits),)
        first = self.analyzer.simplify(index.base if isinstance(index, Ramp) else index)
        bounds = self.analyzer.bounds(first)
        return (Access(buffer.data, index, writes, buffer.dtype.bits, linear(first), (bounds.lo, bounds.hi)),)

    def _conflict(self, earlier: tuple[Access, ...], later: tuple[Access, ...]) -> bool:
        """Return whether another thread may touch an element that a thread touched, one of them writing."""
        return any(
            a.data is b.data and (a.writes or b.writes) and self._may_meet(a, b) for a in earlier for b in later
        )

    def _may_meet(self, a: Access, b: Access) -> bool:
        if a.bits != b.bits or a.form is None or b.form is None or a.at is None or b.at is None:
            return True
        extents = self.threads | self.loops
        first, second = span(a.form, extents), span(b.form, extents)
        wide = [reach(a.at), reach(b.at)]
        if None in wide:
            return True
        for low, high in ((first, second), (a.ends, b.ends)):
            if low and high and (low[1] + (wide[0] or 0) < high[0] or high[1] + (wide[1] or 0) < low[0]):
                return False
        common = Linear({x: c for x, c in a.form.terms.items() if b.form.terms.get(x) == c and self._fixed(x)}, 0)
        one, two = a.form - common, b.form - common  # what is the same for both whatever happens between them
        lane = Var("lane")
        one, two = (Linear({**form.terms, lane: 1}, form.constant) for form in (one, two))
        lanes = max(wide[0] or 0, wide[1] or 0) + 1
        forms, threads = by_digits((one, two), self.threads)
        return not same_thread_only(forms[0], forms[1], threads, self.loops | {lane: lanes})

    def _fixed(self, atom: Expr) -> bool:
        """Return whether an expression has one value for all threads of a block during a launch."""
        return not any(
            isinstance(x, Load) or (isinstance(x, Var) and (x in self.moving or x in self.varying)) for x in subexpressions(atom)
        )


def _sync() -> Stmt:
    return st.Evaluate(effect("sync", "shared"))


def _is_sync(s: Stmt) -> bool:
    return isinstance(s, st.Evaluate) and isinstance(s.value, ir.Call) and s.value.name == "sync"
