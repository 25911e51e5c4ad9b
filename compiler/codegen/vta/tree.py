"""A lowered function as what is run while the program is made, with nests that become instructions at its leaves."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from vtakit.compiler.codegen.vta.errors import UnfitError, VtaError
from vtakit.compiler.codegen.vta.forms import Guard, bent, guards, tangled
from vtakit.compiler.codegen.vta.leaves import leaves
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.stmt import Function, Stmt
from vtakit.compiler.ir.walk import subexpressions


@dataclass(frozen=True, eq=False)
class Nest:
    """Loops around one statement that an instruction can run.

    loops  : variable and extent, outermost first
    guards : what must hold for the statement to run
    leaf   : a Store or a call
    scattered : whether loops stand outside because an index is no sum of them, so that each turn is a small part of it
    """

    loops: tuple[tuple[Var, Expr], ...]
    guards: tuple[Guard, ...]
    leaf: st.Store | st.Evaluate
    scattered: bool = False

    @property
    def vars(self) -> tuple[Var, ...]:
        return tuple(var for var, _ in self.loops)

    def touched(self) -> Iterator[Buffer]:
        """The buffers that it reads and writes."""
        if isinstance(self.leaf, st.Store):
            yield self.leaf.buffer
        for e in subexpressions(self.leaf.value):
            if isinstance(e, Load):
                yield e.buffer


@dataclass(frozen=True, eq=False)
class Row:
    parts: "tuple[Node, ...]"


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop that runs while the program is made."""

    var: Var
    extent: Expr
    body: "Node"
    unrolled: bool = False  # as virtual threads are


@dataclass(frozen=True, eq=False)
class Branch:
    condition: Expr
    then: "Node"
    otherwise: "Node"


@dataclass(frozen=True, eq=False)
class Let:
    var: Var
    value: Expr
    body: "Node"


@dataclass(frozen=True, eq=False)
class Memory:
    """Memory for a buffer while `body` runs."""

    buffer: Buffer
    body: "Node"


Node = Nest | Row | Loop | Branch | Let | Memory
NOTHING = Row(())


def tree(function: Function) -> Node:
    """The tree of a function in flat form; loops that an instruction cannot run are outside of nests.

    Raises VtaError for a statement that has no meaning here.
    """
    return _Reader(function).node(function.body)


def nests(node: Node) -> Iterator[Nest]:
    """All nests of a tree, in their order."""
    match node:
        case Nest():
            yield node
        case Row():
            for part in node.parts:
                yield from nests(part)
        case Branch():
            yield from nests(node.then)
            yield from nests(node.otherwise)
        case Loop() | Let() | Memory():
            yield from nests(node.body)


class _Reader:
    def __init__(self, function: Function) -> None:
        self.function = function

    def node(self, s: Stmt) -> Node:
        match s:
            case st.Seq():
                return Row(tuple(_turn_by_turn(list(map(self.node, s.stmts)))))
            case st.Allocate():
                return Memory(s.buffer, self.node(s.body))
            case st.Attr():
                return self.node(s.body)
            case st.LetStmt():
                return Let(s.var, s.value, self.node(s.body))
            case st.For() | st.If() | st.Store() | st.Evaluate():
                found = self.nest(s)
                if found is not None:
                    return found
        match s:
            case st.For() if s.kind is not st.LoopKind.THREAD:
                return Loop(s.var, s.extent, self.node(s.body))
            case st.If():
                return Branch(s.condition, self.node(s.then), NOTHING if s.otherwise is None else self.node(s.otherwise))
        if isinstance(s, st.For):
            raise VtaError(f"a loop is bound to {s.thread}, and the accelerator has no such threads: leave it a loop, or bind "
                           "it to a vthread", self.function, s)
        raise VtaError("the accelerator runs loops, conditions, copies, tensor intrinsics and arithmetic on accumulators, and "
                       "this is none of them", self.function, s)

    def nest(self, s: Stmt) -> Node | None:
        """The nest that a statement is, or one within the loops that no instruction can run; None if it is no nest.

        Unrolled loops, as virtual threads are, have instructions of their own for each turn. They come to stand outermost: the
        iterations of one statement may run in any order.
        """
        loops: list[tuple[Var, Expr]] = []
        unrolled: list[tuple[Var, Expr]] = []
        tests: list[Expr] = []
        leaf = s
        while True:
            if isinstance(leaf, st.For) and leaf.kind is not st.LoopKind.THREAD:
                (unrolled if leaf.kind is st.LoopKind.UNROLLED else loops).append((leaf.var, leaf.extent))
                leaf = leaf.body
            elif isinstance(leaf, st.If) and leaf.otherwise is None:
                tests.append(leaf.condition)
                leaf = leaf.then
            elif isinstance(leaf, st.Attr):
                leaf = leaf.body
            else:
                break
        found = leaves(leaf, loops + unrolled)
        parts = [self._one(s, unrolled, loops, [*tests, *more], single) for more, single in found]
        return Row(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None

    def _one(
        self, s: Stmt, unrolled: list[tuple[Var, Expr]], loops: list[tuple[Var, Expr]], tests: list[Expr],
        leaf: st.Store | st.Evaluate,
    ) -> Node:
        """The nest of one statement within the loops of `s`."""
        loops = unrolled + loops
        inner = [var for var, _ in loops]
        try:
            outside = _outside(leaf, tests, loops) | {var for var, _ in unrolled}
            count = max((inner.index(var) + 1 for var in outside), default=0)
            within = tuple(g for test in tests for g in guards(test, inner[count:]))
            nest: Node = Nest(tuple(loops[count:]), within, leaf, count > len(unrolled))
        except UnfitError as error:
            raise VtaError(str(error), self.function, s) from None
        for at, (var, extent) in reversed([*enumerate(loops[:count])]):
            nest = Loop(var, extent, nest, unrolled=at < len(unrolled))
        return nest


def _turn_by_turn(parts: list[Node]) -> list[Node]:
    """Return the same nodes, with the loads of consecutive unrolled loops merged into one loop.

    So a virtual thread has all of its data before the next one's are loaded, which may have to wait for that one's memory. Loads
    of buffers that are there at once may come in any order.
    """
    found: list[Node] = []
    for part in parts:
        last = found[-1] if found else None
        joined = _joined(last, part) if isinstance(last, Loop) and _loads(last) else None
        if joined is not None:
            found[-1] = joined
        else:
            found.append(part)
    return found


def _joined(first: Loop, then: Node) -> Node | None:
    """Both, the turns of `first` within those of the loop of loads that `then` begins with; None if it begins with none."""
    match then:
        case Loop() if _loads(then) and then.extent == first.extent:
            return replace(first, body=Row((first.body, Let(then.var, first.var, then.body))))
        case Memory():
            body = _joined(first, then.body)
            return None if body is None else replace(then, body=body)
        case Row((head, *rest)):
            begin = _joined(first, head)
            return None if begin is None else Row((begin, *rest))
    return None


def _loads(loop: Loop) -> bool:
    """Return whether a loop is unrolled and only loads from DRAM."""
    return loop.unrolled and all(map(_is_load, nests(loop)))


def _is_load(nest: Nest) -> bool:
    into, *read = nest.touched()
    return isinstance(nest.leaf, st.Store) and into.scope != "global" and all(buffer.scope == "global" for buffer in read)


def _outside(leaf: st.Store | st.Evaluate, tests: list[Expr], loops: list[tuple[Var, Expr]]) -> set[Var]:
    """The loops that must run while the program is made, for indices to be linear and conditions to bound single loops."""
    inner = [var for var, _ in loops]
    found: set[Var] = set()
    for _, extent in loops:
        found |= {e for e in subexpressions(extent) if isinstance(e, Var) and e in inner}
    for test in tests:
        found |= tangled(test, inner)
    indices = [*leaf.indices] if isinstance(leaf, st.Store) else []
    for e in subexpressions(leaf.value):
        if isinstance(e, Load):
            indices += e.indices
        elif isinstance(e, ir.Select | ir.IfThenElse):
            found |= tangled(e.condition, inner)
    for index in indices:
        found |= bent(index, inner)
    return found
