"""A check of low form: nothing is read, or written again, that an asynchronous copy is on its way to."""

from typing import NamedTuple

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Call, Expr, Load, Ramp, StringImm, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.stmt import Function, Stmt
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import statements
from vtakit.compiler.passes.base import PassError
from vtakit.compiler.passes.places import places_of

_MOST_GROUPS = 16  # that are told apart; older ones count as one
_ROUNDS = 12  # of a loop's body, by which its groups repeat


class _Span(NamedTuple):
    """Elements `low` to `high` of a buffer."""

    data: Var
    name: str
    low: float
    high: float

    def meets(self, other: "_Span") -> bool:
        return self.data is other.data and self.low <= other.high and other.low <= self.high


_Groups = tuple[frozenset[_Span], ...]  # oldest first; the last takes the copies until the next commit


def check_waits(function: Function) -> Function:
    """Return the function as it is. Raises PassError where a copy is used that nothing waited for.

    Every path is followed, loops until their groups repeat. Where in a buffer an access may be is taken from its index's bounds.
    """
    if any(isinstance(s, st.Evaluate) and getattr(s.value, "name", "") == "async_copy" for s in statements(function.body)):
        _Waits(function).stmt(function.body, (frozenset(),))
    return function


class _Waits:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.analyzer = Analyzer()

    def stmt(self, s: Stmt, groups: _Groups) -> _Groups:
        """Return the groups under way after a statement."""
        match s:
            case st.Seq():
                for part in s.stmts:
                    groups = self.stmt(part, groups)
                return groups
            case st.For():
                self.analyzer.bind(s.var, Range(const(0, s.var.dtype), s.extent))
                self.expr(s, s.extent, groups)
                if s.kind is st.LoopKind.THREAD:  # all at once
                    return self.stmt(s.body, groups)
                return self.loop(s.body, groups, once=(int_value(s.extent) or 0) > 0)
            case st.While():
                self.expr(s, s.condition, groups)
                return self.loop(s.body, groups, once=False)
            case st.If():
                self.expr(s, s.condition, groups)
                then = self.stmt(s.then, groups)
                return _either(then, groups if s.otherwise is None else self.stmt(s.otherwise, groups))
            case st.LetStmt():
                self.expr(s, s.value, groups)
                if s.var.dtype.is_int:
                    self.analyzer.bind(s.var, s.value)
                return self.stmt(s.body, groups)
            case st.Allocate() | st.Attr():
                return self.stmt(s.body, groups)
            case st.Store():
                for e in (*s.indices, s.value):
                    self.expr(s, e, groups)
                self.use(s, self.span(s.buffer, s.indices[0]), groups, "written")
            case st.Evaluate():
                return self.call(s, groups)
        return groups

    def loop(self, body: Stmt, groups: _Groups, *, once: bool) -> _Groups:
        seen: list[_Groups] = []
        after = groups
        while after not in seen and len(seen) < _ROUNDS:
            seen.append(after)
            after = self.stmt(body, after)
        found = after if once else _either(after, groups)
        for other in seen[1:]:
            found = _either(found, other)
        return found

    def call(self, s: st.Evaluate, groups: _Groups) -> _Groups:
        e = s.value
        name = e.name if isinstance(e, Call) else ""
        if not isinstance(e, Call) or name not in ("async_copy", "async_commit", "async_wait"):
            self.expr(s, e, groups)
            return groups
        if name == "async_commit":
            closed = (*groups, frozenset[_Span]())
            extra = len(closed) - _MOST_GROUPS
            return closed if extra <= 0 else (frozenset().union(*closed[: extra + 1]), *closed[extra + 1:])
        if name == "async_wait":
            return groups[-1 - (int_value(e.args[0]) or 0):]
        places = places_of(e)
        assert places is not None
        target, source = places
        self.use(s, self.span(source.buffer, source.index, source.count), groups, "read")
        copied = self.span(target.buffer, target.index, target.count)
        self.use(s, copied, groups, "written")
        return (*groups[:-1], groups[-1] | {copied})

    def expr(self, s: Stmt, e: Expr, groups: _Groups) -> None:
        found = places_of(e) if isinstance(e, Call) else None
        if isinstance(e, Call) and e.name == "wgmma_wait":
            return  # it is made for what products read before
        for place in found or ():
            self.use(s, self.span(place.buffer, place.index, place.count), groups, "read")
        if found is not None:
            return
        if isinstance(e, Call) and e.name == "address_of":
            load, _, mask = e.args
            assert isinstance(load, Load)
            assert isinstance(mask, StringImm)
            self.use(s, self.span(load.buffer, None), groups, "read" if "r" in mask.value else "written")
            return
        if isinstance(e, Load):
            self.use(s, self.span(e.buffer, e.indices[0]), groups, "read")
        for child in e.children():
            self.expr(s, child, groups)

    def span(self, buffer: Buffer, index: Expr | None, count: int | None = 1) -> _Span:
        """The elements that an access may touch; of an unknown index or number all that follow."""
        if index is None:
            return _Span(buffer.data, buffer.name, 0, float("inf"))
        if isinstance(index, Ramp):
            count = index.lanes * max(int_value(index.stride) or 1, 1)
            index = index.base
        elif index.dtype.lanes > 1:
            return self.span(buffer, None)
        bounds = self.analyzer.bounds(self.analyzer.simplify(index))
        return _Span(buffer.data, buffer.name, bounds.lo, bounds.hi + count - 1 if count is not None else float("inf"))

    def use(self, s: Stmt, span: _Span, groups: _Groups, how: str) -> None:
        for group in groups:
            for copied in group:
                if copied.meets(span):
                    raise PassError(
                        f"an element of {span.name} is {how} to which an asynchronous copy is on its way, and nothing waited for "
                        "it: wait for the copy's group before", self.function, s)


def _either(a: _Groups, b: _Groups) -> _Groups:
    """Return the groups of one state or the other, newest by newest."""
    length = max(len(a), len(b))
    a, b = ((frozenset[_Span](),) * (length - len(x)) + x for x in (a, b))
    return tuple([x | y for x, y in zip(a, b, strict=True)])
