"""A function in block form as the verifier's rules see it: its leaves with what encloses them, and who touches each buffer."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.ops import negate
from vtakit.compiler.ir.values import const, int_value, value_of
from vtakit.compiler.ir.walk import free_vars, statements, subexpressions, substitute
from vtakit.compiler.lower.verify.limits import Limits

Step = tuple[st.Stmt, int]  # a statement, and which of its parts is taken


class Site(NamedTuple):
    """A block and what encloses it, outermost first."""

    block: st.Block
    path: tuple[Step, ...]

    @property
    def loops(self) -> list[st.For]:
        return [s for s, _ in self.path if isinstance(s, st.For)]

    def loops_inside(self, depth: int) -> list[st.For]:
        """The loops around the block that stand within the first `depth` statements around it."""
        return [s for s, _ in self.path[depth:] if isinstance(s, st.For)]

    def conditions(self) -> Iterator[ir.Expr]:
        """Yield the conditions that hold where the block runs: those around it and its predicate."""
        for s, part in self.path:
            if isinstance(s, st.If):
                yield s.condition if part == 0 else negate(s.condition)
        yield self.block.predicate


class Access(NamedTuple):
    """A box of elements that a block reads or writes.

    where : what holds there, besides the site's own conditions
    whole : whether the box is written or read as a whole by something opaque, not one element by one load or store
    """

    site: Site
    buffer: Buffer
    ranges: tuple[Range, ...]
    where: tuple[ir.Expr, ...]
    at: st.Stmt


def meet(a: Site, b: Site) -> int:
    """Return the number of statements that enclose both sites in the same part.

    A Seq with the sites in different parts does not count.
    """
    depth = 0
    for x, y in zip(a.path, b.path, strict=False):
        if x[0] is not y[0] or x[1] != y[1]:
            break
        depth += 1
    return depth


def conjuncts(e: ir.Expr) -> list[ir.Expr]:
    """The conditions that all hold where `e` does; true gives none."""
    if isinstance(e, ir.And):
        return conjuncts(e.a) + conjuncts(e.b)
    return [] if value_of(e) == 1 else [e]


def guarded_loads(e: ir.Expr, where: tuple[ir.Expr, ...] = ()) -> Iterator[tuple[ir.Load, tuple[ir.Expr, ...]]]:
    """Every read in an expression with the conditions under which it is evaluated."""
    match e:
        case ir.IfThenElse():
            yield from guarded_loads(e.condition, where)
            yield from guarded_loads(e.true, (*where, e.condition))
            yield from guarded_loads(e.false, (*where, negate(e.condition)))
        case ir.And() | ir.Or():
            yield from guarded_loads(e.a, where)
            yield from guarded_loads(e.b, (*where, e.a if isinstance(e, ir.And) else negate(e.a)))
        case ir.Call(name="address_of"):
            return
        case _:
            if isinstance(e, ir.Load):
                yield e, where
            for child in e.children():
                yield from guarded_loads(child, where)


def point(indices: tuple[ir.Expr, ...]) -> tuple[Range, ...]:
    """The box of one element."""
    return tuple(Range(index, const(1, index.dtype.scalar)) for index in indices)


class Program:
    """Facts about a function that the rules need."""

    def __init__(self, function: st.Function, limits: Limits) -> None:
        self.function, self.limits = function, limits
        self.sites: list[Site] = []
        self.allocations: dict[Buffer, tuple[Step, ...]] = {}
        self.loops: list[tuple[st.For, tuple[Step, ...]]] = []
        self.covers: dict[Any, Any] = {}  # what `cover` and `bodies` have worked out
        self.data: set[ir.Var] = set()  # variables that `touches` made for what bodies read from tensors
        self._visit(function.body, ())

    def _visit(self, s: st.Stmt, path: tuple[Step, ...]) -> None:
        if isinstance(s, st.Block):
            self.sites.append(Site(s, path))
            return
        if isinstance(s, st.For):
            self.loops.append((s, path))
        if isinstance(s, st.Allocate):
            self.allocations[s.buffer] = (*path, (s, 0))
        for part, inner in enumerate(parts(s)):
            self._visit(inner, (*path, (s, part)))

    @cached_property
    def params(self) -> set[Buffer]:
        return {p for p in self.function.params if isinstance(p, Buffer)}

    @cached_property
    def sizes(self) -> set[ir.Var]:
        """The scalar parameters, and the variables in the shapes and layouts of the others."""
        found = {p for p in self.function.params if isinstance(p, ir.Var)}
        for buffer in self.params:
            for e in (*buffer.shape, *buffer.strides, buffer.offset):
                found |= free_vars(e)
        return found

    @cached_property
    def analyzer(self) -> Analyzer:
        """It knows the range of every loop variable, and each block iterator as what its binding is."""
        found = Analyzer()
        for required in self.function.requires:
            if required.assumed:
                found.learn(required.condition)
        for loop, _ in self.loops:
            found.bind(loop.var, Range(const(0, loop.var.dtype), loop.extent))
        for site in self.sites:
            for it in site.block.iters:
                found.bind(it.var, it.binding)
            for s in statements(site.block.body) if is_opaque(site.block) else ():
                if isinstance(s, st.For):
                    found.bind(s.var, Range(const(0, s.var.dtype), s.extent))
                elif isinstance(s, st.LetStmt) and s.var.dtype.is_int:
                    found.bind(s.var, s.value)
        return found

    @cached_property
    def writes(self) -> dict[Buffer, list[Access]]:
        """Who writes each buffer, in program order."""
        found: dict[Buffer, list[Access]] = {}
        for site in self.sites:
            for access in _writes(site):
                found.setdefault(access.buffer, []).append(access)
        return found

    @cached_property
    def reads(self) -> dict[Buffer, list[Access]]:
        """Who reads each buffer, in program order."""
        found: dict[Buffer, list[Access]] = {}
        for site in self.sites:
            for access in _reads(site):
                found.setdefault(access.buffer, []).append(access)
        return found

    def home(self, buffer: Buffer) -> int:
        """Return the number of statements that enclose the buffer's allocation, itself included; 0 for a parameter."""
        return len(self.allocations.get(buffer, ()))


def parts(s: st.Stmt) -> tuple[st.Stmt, ...]:
    """The statements directly in one, in program order."""
    match s:
        case st.Seq():
            return s.stmts
        case st.If():
            return (s.then,) if s.otherwise is None else (s.then, s.otherwise)
        case st.For() | st.While() | st.LetStmt() | st.Allocate() | st.Attr():
            return (s.body,)
        case _:
            return ()


TRANSPARENT = (st.Store, st.Seq, st.If, st.LetStmt)


def is_opaque(block: st.Block) -> bool:
    """Return whether a block's accesses must be taken from its declaration: its body is more than scalar stores and tests."""
    return not all(isinstance(s, TRANSPARENT) and not _stores_vector(s) for s in statements(block.body))


def is_whole(region: st.Region) -> bool:
    """Return whether a region is all of its buffer."""
    pairs = zip(region.ranges, region.buffer.shape, strict=True)
    return all(int_value(r.min) == 0 and (r.extent is extent or ir.same(r.extent, extent)) for r, extent in pairs)


def _stores_vector(s: st.Stmt) -> bool:
    """Return whether a statement is an intrinsic's store of several elements at once."""
    return isinstance(s, st.Store) and any(index.dtype.lanes > 1 for index in s.indices)


def _writes(site: Site) -> Iterator[Access]:
    block = site.block
    if is_opaque(block):
        for region in block.writes:
            yield Access(site, region.buffer, region.ranges, (), block)
        return
    meant = values_of_lets(block)
    for s, where in _guarded(block.body, ()):
        if isinstance(s, st.Store):
            yield Access(site, s.buffer, point(_with(s.indices, meant)), _with(where, meant), s)


def _reads(site: Site) -> Iterator[Access]:
    block = site.block
    if is_opaque(block):
        for region in block.reads:
            yield Access(site, region.buffer, region.ranges, (), block)
        return
    meant = values_of_lets(block)
    seen: set[tuple[object, ...]] = set()
    for s, holding in _guarded(block.body, ()):
        for e in _evaluated(s):
            for load, where in guarded_loads(e, holding):
                key = (load.buffer, load.indices, where)
                if key not in seen:
                    seen.add(key)
                    yield Access(site, load.buffer, point(_with(load.indices, meant)), _with(where, meant), s)


def values_of_lets(block: st.Block) -> dict[ir.Var, ir.Expr]:
    """Return the values of the variables that a block's body binds, in terms of the block's iterators."""
    found: dict[ir.Var, ir.Expr] = {}
    for s in statements(block.body):
        if isinstance(s, st.LetStmt):
            found[s.var] = substitute(s.value, found)
        for e in _evaluated(s):
            found.update((node.var, substitute(node.value, found)) for node in subexpressions(e) if isinstance(node, ir.Let))
    return found


def _with(parts: tuple[ir.Expr, ...], meant: dict[ir.Var, ir.Expr]) -> tuple[ir.Expr, ...]:
    return tuple([substitute(e, meant) for e in parts]) if meant else parts


def _guarded(s: st.Stmt, where: tuple[ir.Expr, ...]) -> Iterator[tuple[st.Stmt, tuple[ir.Expr, ...]]]:
    """The statements in one that is not opaque, with the conditions under which each runs."""
    yield s, where
    if isinstance(s, st.If):
        yield from _guarded(s.then, (*where, s.condition))
        if s.otherwise is not None:
            yield from _guarded(s.otherwise, (*where, negate(s.condition)))
    else:
        for part in parts(s):
            yield from _guarded(part, where)


def _evaluated(s: st.Stmt) -> tuple[ir.Expr, ...]:
    match s:
        case st.Store():
            return *s.indices, s.value
        case st.If():
            return (s.condition,)
        case st.LetStmt():
            return (s.value,)
        case _:
            return ()


def extent_of(loop: st.For) -> int | None:
    """The number of a loop's iterations if it is a constant."""
    return int_value(loop.extent)


def effects(s: st.Stmt) -> Iterator[ir.Call]:
    """The calls that a statement makes for their effect."""
    for node in statements(s):
        if isinstance(node, st.Evaluate) and isinstance(node.value, ir.Call):
            yield node.value


def accesses_of(program: Program, site: Site) -> Iterator[Access]:
    """Yield the reads and writes of one block."""
    for found in (program.writes, program.reads):
        for accesses in found.values():
            yield from (access for access in accesses if access.site is site)
