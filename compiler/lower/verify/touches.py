"""Elements that a body of one's own (`te.hybrid`, `te.extern`) touches, each index in terms of loops, sizes and data.

A number that a body keeps, in memory that it allocates or in an output, is followed from store to store
(`vtakit.compiler.lower.verify.numbers`), so that ``c[j]`` after ``j += 1`` is known as well as ``c[i]``. What comes from a tensor
that the body is given is data: it may be anything.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import is_address
from vtakit.compiler.ir.expr import Call, Expr, IfThenElse, Let, Load, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import negate
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import expressions, loads, map_expr, statements, subexpressions, substitute
from vtakit.compiler.lower.verify.counters import Loop, start
from vtakit.compiler.lower.verify.numbers import Numbers, State
from vtakit.compiler.lower.verify.program import Site, guarded_loads, parts


class Touch(NamedTuple):
    """One load or store in a body.

    indices : with what the body's own numbers are in their place
    shown   : as they stand in the body
    around  : the body's loops around it
    where   : the conditions around it
    outside : the loops around the body
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    shown: tuple[Expr, ...]
    stores: bool
    at: st.Stmt
    around: tuple[st.For | st.While, ...]
    where: tuple[Expr, ...]
    outside: tuple[st.For, ...] = ()

    @property
    def loops(self) -> list[st.For]:
        return [*self.outside, *[s for s in self.around if isinstance(s, st.For)]]

    @property
    def is_certain(self) -> bool:
        """Return whether the access happens in each iteration of the loops around."""
        return not self.where and not any(isinstance(s, st.While) for s in self.around)

    def with_values(self, meant: Mapping[Var, Expr], outside: tuple[st.For, ...]) -> "Touch":
        """Return the same access with the values of variables in their place."""
        if not meant:
            return self._replace(outside=outside)
        indices, where, shown = (tuple([substitute(e, meant) for e in of]) for of in (self.indices, self.where, self.shown))
        return self._replace(indices=indices, where=where, shown=shown, outside=outside)

    def __str__(self) -> str:
        return f"{self.buffer.name}[{', '.join(map(str, self.shown))}]"


def touches_of(site: Site, analyzer: Analyzer, data: set[Var]) -> list[Touch]:
    """Return the accesses of a block's body in program order; add to `data` the variables that stand for reads from tensors."""
    mine = {s.buffer for s in statements(site.block.body) if isinstance(s, st.Allocate)} | {r.buffer for r in site.block.writes}
    mine -= {r.buffer for r in site.block.reads} | escaping(site)
    walk = _Walk(Numbers(analyzer, data), _followed(site.block.body, mine))
    state: State = dict.fromkeys(walk.followed)
    found = [*walk.statement(site.block.body, state, (), _real(tuple(site.conditions())))]
    return [touch.with_values(walk.meant, tuple(site.loops)) for touch in found]


def escaping(site: Site) -> set[Buffer]:
    """Buffers whose addresses the body hands on: others write them too."""
    return {
        node.args[0].buffer for e in expressions(site.block.body) for node in subexpressions(e)
        if is_address(node) and isinstance(node, Call) and isinstance(node.args[0], Load)
    }


def _followed(body: st.Stmt, mine: set[Buffer]) -> set[Buffer]:
    """The buffers of a body's own whose values decide what is touched, in indices, lengths and conditions."""
    stores = [s for s in statements(body) if isinstance(s, st.Store)]
    deciding: list[Expr] = [index for s in stores for index in s.indices]
    for s in statements(body):
        match s:
            case st.For():
                deciding.append(s.extent)
            case st.If() | st.While():
                deciding.append(s.condition)
            case st.LetStmt():
                deciding.append(s.value)
    for e in expressions(body):
        for node in subexpressions(e):
            match node:
                case Load():
                    deciding += node.indices
                case IfThenElse():
                    deciding.append(node.condition)
                case Let():
                    deciding.append(node.value)
    found: set[Buffer] = set()
    while deciding:
        new = {load.buffer for e in deciding for load in loads(e) if load.buffer in mine} - found
        found |= new
        deciding = [s.value for s in stores if s.buffer in new]
    return found


class _Walk:
    """Statements in program order, with what the followed buffers hold before each.

    meant : what variables that a statement or an expression binds stand for
    """

    def __init__(self, numbers: Numbers, followed: set[Buffer]) -> None:
        self.numbers, self.followed = numbers, followed
        self.meant: dict[Var, Expr] = {}

    def known(self, e: Expr, state: State) -> Expr:
        """An expression with what the followed buffers hold in place of the reads of them."""
        e = substitute(e, self.meant)

        def change(node: Expr) -> Expr:
            if isinstance(node, Load) and node.buffer in state:
                return self.numbers.read(node, state[node.buffer])
            return node
        found = map_expr(e, change) if any(load.buffer in state for load in loads(e)) else e
        for node in subexpressions(found):
            if isinstance(node, Let):
                self.meant[node.var] = substitute(node.value, self.meant)
        return found

    def statement(
        self, s: st.Stmt, state: State, around: tuple[st.For | st.While, ...], where: tuple[Expr, ...],
    ) -> Iterator[Touch]:
        """Yield the accesses of a statement, and update `state` to what holds after it."""
        match s:
            case st.For():
                yield from self.loop(s, state, around, where)
            case st.While():
                yield from self.repeated(s, state, around, where)
            case st.If():
                yield from self.reads(s, s.condition, state, around, where)
                condition = self.known(s.condition, state)
                then, otherwise = dict(state), dict(state)
                yield from self.statement(s.then, then, around, (*where, condition))
                if s.otherwise is not None:
                    yield from self.statement(s.otherwise, otherwise, around, (*where, negate(condition)))
                state.update({buffer: self.numbers.either(buffer, then[buffer], otherwise[buffer]) for buffer in state})
            case st.Store():
                for e in (*s.indices, s.value):
                    yield from self.reads(s, e, state, around, where)
                indices = tuple([self.known(index, state) for index in s.indices])
                yield Touch(s.buffer, indices, s.indices, True, s, around, _real(where))
                if s.buffer in state:
                    state[s.buffer] = self.numbers.stored(s.buffer, state[s.buffer], self.known(s.value, state))
            case _:
                for field in s.fields:
                    if isinstance(e := getattr(s, field), Expr) and field != "var":
                        yield from self.reads(s, e, state, around, where)
                if isinstance(s, st.LetStmt):
                    self.meant[s.var] = self.known(s.value, state)
                elif isinstance(s, st.Allocate) and s.buffer in self.followed:
                    state[s.buffer] = None
                for part in parts(s):
                    yield from self.statement(part, state, around, where)

    def reads(
        self, s: st.Stmt, e: Expr, state: State, around: tuple[st.For | st.While, ...], where: tuple[Expr, ...],
    ) -> Iterator[Touch]:
        for load, holding in guarded_loads(e):
            indices = tuple([self.known(index, state) for index in load.indices])
            under = tuple([self.known(condition, state) for condition in holding])
            yield Touch(load.buffer, indices, load.indices, False, s, around, _real((*where, *under)))

    def loop(
        self, s: st.For, state: State, around: tuple[st.For | st.While, ...], where: tuple[Expr, ...],
    ) -> Iterator[Touch]:
        yield from self.reads(s, s.extent, state, around, where)
        extent = self.known(s.extent, state)
        if extent is not s.extent:
            s = s.replace(extent=extent)
            self.numbers.analyzer.bind(s.var, Range(const(0, s.var.dtype), extent))
        after = self.enter(s, state, (*around, s), where, (s.var, extent))
        yield from self.statement(s.body, state, (*around, s), where)
        state.update(after)

    def repeated(
        self, s: st.While, state: State, around: tuple[st.For | st.While, ...], where: tuple[Expr, ...],
    ) -> Iterator[Touch]:
        after = dict(state) | self.enter(s, state, (*around, s), where, None)
        yield from self.reads(s, s.condition, state, (*around, s), where)
        yield from self.statement(s.body, state, (*around, s), (*where, self.known(s.condition, state)))
        state.update(after)

    def enter(
        self, s: st.For | st.While, state: State, around: tuple[st.For | st.While, ...], where: tuple[Expr, ...],
        counter: tuple[Var, Expr] | None,
    ) -> State:
        """Make of the state what holds where any iteration of a loop begins; what will hold after the loop."""
        inside = [*statements(s.body)]
        own = {one.buffer for one in inside if isinstance(one, st.Allocate)}
        changed = dict.fromkeys(one.buffer for one in inside if isinstance(one, st.Store) and one.buffer in state)
        changed = {buffer: None for buffer in changed if buffer not in own}
        if not changed:
            return {}
        begun = start(self.numbers, changed, state)
        end = state | begun.state
        holding = (self.known(s.condition, end),) if isinstance(s, st.While) else ()
        for _ in self.statement(s.body, end, around, (*where, *holding)):
            pass  # what it touches is told when the numbers are known
        run = Loop(self.numbers, begun, counter, holding).run(state, end)
        state.update(run.within)
        return run.after


def _real(where: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple([condition for condition in where if int_value(condition) != 1])
