"""A rule about places in memory: what is certainly read of an input is there, and what is written of a buffer has room.

Whether an index read of an input is inside is often not known when a program is made. Where it is data (itself read from memory),
a program is not refused for that. Where sizes decide, the function requires of its caller what they must keep
(`vtakit.compiler.lower.sizes`). A program is refused if some iteration is certain to read outside.

A body of one's own (`te.hybrid`) is refused as well where an index, data excepted, may be outside: its conditions can say more.
"""

from collections.abc import Iterator
from typing import NamedTuple

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.arith.comparisons import certainly_below
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.ops import all_of, negate
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import free_vars, map_expr, subexpressions, substitute
from vtakit.compiler.lower.verify.bodies import bodies, is_data, is_own, scalar_ends, taken_by
from vtakit.compiler.lower.verify.cover import Covered, certain, covered
from vtakit.compiler.lower.verify.ends import Taken, is_of_sizes, linear_ends, outside
from vtakit.compiler.lower.verify.program import Access, Program, Site, is_opaque, parts, values_of_lets
from vtakit.compiler.lower.verify.report import Broken
from vtakit.compiler.lower.verify.touches import Touch

GUARD = "let the condition of the block keep it there"


class Reach(NamedTuple):
    """A value that an index certainly takes, and that is not known to be inside.

    what  : the index, in words
    needs : so that it is inside; None where it never is
    cure  : what a person can do
    """

    what: str
    buffer: Buffer
    value: Expr
    extent: Expr
    needs: Expr | None
    at: st.Stmt
    cure: str

    def __str__(self) -> str:
        return f"{self.what} takes the value {self.value}, and {self.buffer.name} has {self.extent} elements there"


def check_inside(program: Program) -> Iterator[Broken]:
    """Each read of an input is inside it, as far as sizes decide, and each write to a buffer is known to be inside."""
    required = [required.condition for required in program.function.requires]
    for reach in reaches(program):
        needs = reach.needs
        if needs is None:
            yield Broken(str(reach), reach.at, reach.cure)
        elif not is_of_sizes(program, needs):
            yield Broken(f"{reach}, where {needs} is not certain", reach.at, reach.cure)
        elif not any(ir.same(needs, condition) for condition in required):
            yield Broken(f"{reach}, and the function does not require {needs}", reach.at,
                         "require it, use one variable for sizes that are equal, or change the shape")
    plain = Analyzer()
    for write, at, index, extent in _doubtful(program):
        if write.where or _taken(program, plain, write.site, index) is None:
            yield Broken(
                f"block {write.site.block.name} writes {write.buffer.name}, and index {at}, {index}, is not certain to be "
                f"within its {extent} elements", write.at, GUARD,
            )
    for _, touches in bodies(program):
        for touch in touches:
            yield from _doubts(program, touch)


def reaches(program: Program) -> Iterator[Reach]:
    """Indices of inputs and outputs that sums of loop variables and sizes make, and all such in bodies of one's own.

    Nothing but what they touch is taken from this program: a guard that it lacks shows in the rules before.
    """
    plain = Analyzer()  # it knows nothing of iterators, which `program.analyzer` takes for what they are bound to
    prove = program.analyzer.prove
    for site in program.sites:
        other = is_opaque(site.block) or is_own(site.block)
        reads = [] if other else [(load, s) for s, e in _computed(site.block.body) for load in _certain(e)]
        meant = values_of_lets(site.block) if reads else {}
        for load, s in dict(reads).items():
            if load.buffer in program.writes and not program.sizes:
                continue  # the rule "reads" has proved that what is read was written
            for at, (index, extent) in enumerate(zip(load.indices, load.buffer.shape, strict=True)):
                index = substitute(index, meant)
                found = None if prove(index >= 0) and prove(index < extent) else _taken(program, plain, site, index)
                for value, needs in outside(program, found, extent) if found is not None else ():
                    if needs is None or is_of_sizes(program, needs):
                        yield Reach(f"index {at} of {load}", load.buffer, value, extent, needs, s,
                                    "read it only where te.if_then_else finds the index inside, or change the shape")
    for write, at, index, extent in _doubtful(program):
        found = None if write.where else _taken(program, plain, write.site, index)
        for value, needs in outside(program, found, extent) if found is not None else ():
            yield Reach(f"index {at} of {write.buffer.name}, which block {write.site.block.name} writes,", write.buffer, value,
                        extent, needs, write.at, GUARD)
    for _, touches in bodies(program):
        for touch in touches:
            for at, (index, extent) in enumerate(zip(touch.indices, touch.buffer.shape, strict=True)):
                for end in () if _is_known(program, touch, index, extent) else scalar_ends(index):
                    found = taken_by(program, touch, end)
                    for value, needs in outside(program, found, extent) if found is not None else ():
                        yield Reach(f"index {at} of {touch}", touch.buffer, value, extent, needs, touch.at, _cure(touch, extent))


def _doubts(program: Program, touch: Touch) -> Iterator[Broken]:
    """An index in a body of which no loop's end tells, and that is not known to be inside."""
    for at, (index, extent) in enumerate(zip(touch.indices, touch.buffer.shape, strict=True)):
        if not _is_known(program, touch, index, extent) and any(taken_by(program, touch, e) is None for e in scalar_ends(index)):
            yield Broken(f"index {at} of {touch} is not certain to be within the {extent} elements of {touch.buffer.name} there",
                         touch.at, _cure(touch, extent))


def _is_known(program: Program, touch: Touch, index: Expr, extent: Expr) -> bool:
    """Return whether an index in a body is known to be inside, or is data, of which nothing is known."""
    if is_data(program, index):
        return True
    a = program.analyzer
    with a.given(all_of(*touch.where)):
        return all(_is_inside(a, end, extent) for end in scalar_ends(index))


def _cure(touch: Touch, extent: Expr) -> str:
    return f"touch it only under an if that keeps the index from 0 to below {extent}, or change the shape of {touch.buffer.name}"


def _doubtful(program: Program) -> Iterator[tuple[Access, int, Expr, Expr]]:
    """Stores that may be outside of a buffer: of a parameter, or where loops of constant lengths decide, so that it can be known.

    Each with the number of the index, the index, and how many elements there are.
    """
    a = program.analyzer
    for buffer, writes in program.writes.items():
        given = buffer in program.params
        for write in writes:
            block = write.site.block
            if write.at is block or is_own(block):
                continue
            unknown = {loop.var for loop in write.site.loops if int_value(loop.extent) is None}
            values = {it.var: it.binding for it in block.iters}
            domains = {it.var: it.dom for it in write.site.block.iters}
            for at, (index, extent) in enumerate(zip([r.min for r in write.ranges], buffer.shape, strict=True)):
                dom = domains.get(index) if isinstance(index, Var) else None
                if dom is not None and int_value(dom.min) == 0 and ir.same(dom.extent, extent):
                    continue  # the rule "bindings" keeps it there
                if not given and unknown & free_vars(a.simplify(substitute(index, values))):
                    continue
                if not (given or int_value(extent) is not None) or _is_inside(a, index, extent):
                    continue
                holding = [*write.site.conditions(), *write.where]
                if certain(a, [index >= 0, index < extent], holding):
                    continue
                with a.given(all_of(*holding)):
                    known = _is_inside(a, index, extent)
                if not known:
                    yield write, at, index, extent


def _is_inside(a: Analyzer, index: Expr, extent: Expr) -> bool:
    if a.prove(index >= 0) and certainly_below(a, index, extent):
        return True
    choice = next((node for node in subexpressions(index) if isinstance(node, ir.IfThenElse | ir.Select)), None)
    if choice is None or choice.condition.dtype.lanes > 1:
        return False
    for side, holds in ((choice.true, choice.condition), (choice.false, negate(choice.condition))):
        with a.given(holds):
            if not _is_inside(a, _with_side(index, choice, side), extent):
                return False
    return True


def _with_side(index: Expr, choice: Expr, side: Expr) -> Expr:
    return map_expr(index, lambda node: side if ir.same(node, choice) else node)


def _computed(s: st.Stmt) -> Iterator[tuple[st.Stmt, Expr]]:
    """The values that a block computes whenever it runs, each with the statement that does."""
    match s:
        case st.Store() | st.LetStmt():
            yield s, s.value
    if not isinstance(s, st.If):
        for part in parts(s):
            yield from _computed(part)


def _certain(e: Expr) -> Iterator[ir.Load]:
    """The reads in an expression whose value counts in any case."""
    match e:
        case ir.IfThenElse() | ir.Select():
            yield from _certain(e.condition)
        case ir.And() | ir.Or():
            yield from _certain(e.a)
        case ir.Call(name="address_of"):
            return
        case _:
            if isinstance(e, ir.Load):
                yield e
            for child in e.children():
                yield from _certain(child)


def _taken(program: Program, plain: Analyzer, site: Site, index: Expr) -> Taken | None:
    """Return the values that an index of a read in a block certainly takes; None if they are not known."""
    runs = covered(program, site, 0)
    some = None if runs.reason or runs.still or runs.of_iters else _runs(program, site, runs)
    ends = linear_ends(index, runs.first, {var: _last(runs, var) for var in runs.first}, plain) if some is not None else None
    return Taken(*ends, some) if ends is not None and some is not None else None


def _last(runs: Covered, var: Var) -> Expr:
    """The last value that an iterator takes."""
    last = runs.last[var]
    for end in runs.ends[var]:
        last = ir.Min(last, end - const(1, end.dtype))
    return last


def _runs(program: Program, site: Site, runs: Covered) -> list[Expr] | None:
    """Return the unproven conditions for the block to run; None if sizes alone do not decide them, or the iterators' ends."""
    moving = {loop.var for loop in site.loops}
    parts = [e for var in runs.first for e in (runs.first[var], runs.last[var], *runs.ends[var])]
    if any(isinstance(s, st.While) for s, _ in site.path) or any(free_vars(e) & moving for e in parts):
        return None
    needed = [loop.extent >= 1 for loop in site.loops]
    needed += [runs.first[var] < end for var in runs.first for end in runs.ends[var]]
    return [condition for condition in needed if not program.analyzer.prove(condition)]
