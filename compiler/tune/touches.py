"""Statements of lowered loops as a cost model needs them: the loops around each, its arithmetic, and what it touches."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, IntImm, Load, Var
from vtakit.compiler.ir.stmt import Block, For, Function, LoopKind, Stmt
from vtakit.compiler.ir.values import TRUE, int_value

UNKNOWN = 8  # iterations of a loop whose length is no number
Form = dict[int, float]  # number of a loop, from the outermost -> factor of its variable in an index
_ADDS = (ir.Add, ir.Sub, ir.Min, ir.Max, ir.EQ, ir.NE, ir.LT, ir.LE, ir.And, ir.Or, ir.Not, ir.BitAnd, ir.BitOr, ir.BitXor)
_DIVIDES = (ir.Div, ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod)


class Loop(NamedTuple):
    """A loop around a statement.

    level    : its number, from 1 for the outermost
    topdown  : iterations of the loops from the outermost to this one; bottomup : from this one to the innermost
    """

    length: int
    kind: LoopKind
    level: int
    topdown: int = 0
    bottomup: int = 0


class Touch(NamedTuple):
    """The accesses of a statement to elements of a buffer by one list of indices.

    dims    : of each dimension, the factors of the loops' variables
    sizes   : of each dimension
    written : whether it stores
    """

    buffer: Buffer
    dims: tuple[Form, ...]
    sizes: tuple[int, ...]
    written: bool

    def count(self, loops: Sequence[Loop]) -> int:
        """Return the number of elements that iterations of the loops touch, for fixed loops around these."""
        return prod(self.spans(loops)[0])

    def spans(self, loops: Sequence[Loop]) -> list[list[int]]:
        """Return, for the loops from each one inward and for none, the elements of each dimension that their iterations touch."""
        sizes = self.sizes
        reach, most = [1.0] * len(sizes), [1] * len(sizes)
        now = [1] * len(sizes)
        found = [now]
        for loop in reversed(loops):
            if loop.length > 1:
                for at, form in enumerate(self.dims):
                    factor = form.get(loop.level)
                    if factor:
                        reach[at] += abs(factor) * (loop.length - 1)
                        most[at] *= loop.length
                        if now is found[-1]:
                            now = now.copy()
                        now[at] = max(1, min(round(reach[at]), most[at], sizes[at]))
            found.append(now)
        found.reverse()
        return found

    def stride(self, loop: Loop) -> float:
        """Return the elements from one iteration of a loop to the next."""
        total, step = 0.0, 1
        for form, size in zip(reversed(self.dims), reversed(self.sizes), strict=True):
            total += form.get(loop.level, 0.0) * step
            step *= size
        return abs(total)


class Statement(NamedTuple):
    """A block of a function.

    loops   : around it, outermost first
    adds, muls, divides, calls : of values, one iteration; tests : conditions
    touches : stores first
    guarded : whether a condition decides if it runs
    """

    name: str
    loops: tuple[Loop, ...]
    adds: int
    muls: int
    divides: int
    calls: int
    tests: int
    touches: tuple[Touch, ...]
    guarded: bool

    @property
    def runs(self) -> int:
        """Number of times it runs."""
        return self.loops[-1].topdown if self.loops else 1

    @property
    def work(self) -> int:
        """Number of operations on values, of all runs, moves counted as one."""
        return self.runs * max(self.adds + self.muls + 4 * self.divides + 16 * self.calls, 1)


def statements_of(function: Function, allocated: list[Buffer] | None = None) -> list[Statement]:
    """Return the statements of a function in block form, in program order; initial values of sums are part of their statement.

    allocated : gets the buffers that it allocates
    """
    found: list[Statement] = []
    _walk(function.body, [], {}, found, [] if allocated is None else allocated, guarded=False)
    return found


def _walk(
    s: Stmt, loops: list[Loop], forms: dict[Var, Form], found: list[Statement], allocated: list[Buffer], *, guarded: bool,
) -> None:
    match s:
        case For():
            length = int_value(s.extent)
            inner = Loop(UNKNOWN if length is None else length, s.kind, len(loops) + 1)
            moves = {inner.level: 1.0} if length != 1 else {}
            _walk(s.body, [*loops, inner], {**forms, s.var: moves}, found, allocated, guarded=guarded)
        case st.Seq():
            for each in s.stmts:
                _walk(each, loops, forms, found, allocated, guarded=guarded)
        case st.If():
            for branch in (s.then, s.otherwise):
                if branch is not None:
                    _walk(branch, loops, forms, found, allocated, guarded=True)
        case st.LetStmt():
            _walk(s.body, loops, {**forms, s.var: form_of(s.value, forms)}, found, allocated, guarded=guarded)
        case st.Allocate():
            allocated.append(s.buffer)
            _walk(s.body, loops, forms, found, allocated, guarded=guarded)
        case st.Attr() | st.While():
            _walk(s.body, loops, forms, found, allocated, guarded=guarded)
        case Block():
            found.append(_statement(s, loops, forms, guarded or s.predicate is not TRUE))


def _statement(block: Block, loops: list[Loop], forms: Mapping[Var, Form], guarded: bool) -> Statement:
    inner = {**forms, **{each.var: form_of(each.binding, forms) for each in block.iters}}
    count = _Counter(inner)
    count.stmt(block.body)
    touches = count.touches
    if not touches:
        for regions, written in ((block.writes, True), (block.reads, False)):
            for region in regions:
                dims = tuple([form_of(each.min, inner) for each in region.ranges])
                touches.append(Touch(region.buffer, dims, count.sizes(region.buffer), written))
    chain, top = [], 1
    bottom = prod([loop.length for loop in loops])
    for loop in loops:
        top *= loop.length
        chain.append(Loop(loop.length, loop.kind, loop.level, top, bottom))
        bottom //= max(loop.length, 1)
    unique = {(touch.buffer, tuple([tuple(form.items()) for form in touch.dims]), touch.written): touch for touch in touches}
    kept = sorted(unique.values(), key=lambda touch: not touch.written)
    return Statement(
        block.name, tuple(chain), count.adds, count.muls, count.divides, count.calls, count.tests, tuple(kept), guarded)


class _Counter:
    """Arithmetic and accesses of a block's body."""

    def __init__(self, forms: Mapping[Var, Form]) -> None:
        self._forms = forms
        self.adds = self.muls = self.divides = self.calls = self.tests = 0
        self.touches: list[Touch] = []

    def stmt(self, s: Stmt) -> None:
        match s:
            case st.Store():
                self._touch(s.buffer, s.indices, True)
                self.value(s.value)
            case st.Seq():
                for each in s.stmts:
                    self.stmt(each)
            case For() | st.Allocate() | st.Attr() | st.LetStmt() | st.While():
                self.stmt(s.body)
            case st.If():
                self.tests += 1
                self.stmt(s.then)
                if s.otherwise is not None:
                    self.stmt(s.otherwise)

    def value(self, e: Expr) -> None:
        stack, seen = [e], set()
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            kind = type(node)
            if isinstance(node, Load):
                self._touch(node.buffer, node.indices, False)
                continue
            if kind in _ADDS:
                self.adds += 1
            elif kind is ir.Mul:
                self.muls += 1
            elif kind in _DIVIDES:
                self.divides += 1
            elif kind is ir.Call:
                self.calls += 1
            elif kind in (ir.Select, ir.IfThenElse):
                self.tests += 1
            stack.extend(node.children())

    def _touch(self, buffer: Buffer, indices: Sequence[Expr], written: bool) -> None:
        self.touches.append(Touch(buffer, tuple([form_of(index, self._forms) for index in indices]), self.sizes(buffer), written))

    @staticmethod
    def sizes(buffer: Buffer) -> tuple[int, ...]:
        """Return the extents of a buffer's dimensions."""
        return tuple([int_value(extent) or UNKNOWN for extent in buffer.shape])


def form_of(e: Expr, forms: Mapping[Var, Form]) -> Form:
    """Return the factors of the loops' variables in an index; quotients and remainders count as if they were exact."""
    if isinstance(e, Var):
        return forms.get(e, {})
    if isinstance(e, IntImm):
        return {}
    if isinstance(e, ir.Add | ir.Sub):
        a, b = form_of(e.a, forms), form_of(e.b, forms)
        if not b:
            return a
        sign = 1.0 if isinstance(e, ir.Add) else -1.0
        found = dict(a)
        for var, factor in b.items():
            found[var] = found.get(var, 0.0) + sign * factor
        return found
    if isinstance(e, ir.Mul | ir.FloorDiv | ir.TruncDiv):
        product = isinstance(e, ir.Mul)
        for value, other in ((e.b, e.a), (e.a, e.b)) if product else ((e.b, e.a),):
            number = int_value(value)
            if number:
                factor = float(number) if product else 1.0 / number
                return {var: each * factor for var, each in form_of(other, forms).items()}
        return {}
    found = {}
    for child in e.children():
        for var, factor in form_of(child, forms).items():
            found[var] = max(found.get(var, 0.0), factor, key=abs)
    return found
