"""A rule about places in memory: what is certainly read of an input is there, and what is written of a buffer has room.

Whether an index read of an input is inside is often not known when a program is made. Where it is data (itself read from memory),
a program is not refused for that. Where sizes decide, the function requires of its caller what they must keep
(`vtakit.compiler.lower.sizes`). A program is refused if some iteration is certain to read outside.
"""

from collections.abc import Iterator
from typing import NamedTuple

from vtakit.compiler.arith import Analyzer, linear_coefficients
from vtakit.compiler.arith.comparisons import certainly_below
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.ops import all_of, any_of, negate
from vtakit.compiler.ir.values import const, int_value, value_of
from vtakit.compiler.ir.walk import free_vars, subexpressions, substitute
from vtakit.compiler.lower.verify.cover import Covered, covered
from vtakit.compiler.lower.verify.program import Program, Site, is_opaque, parts, values_of_lets
from vtakit.compiler.lower.verify.report import Broken


def check_inside(program: Program) -> Iterator[Broken]:
    """What is read of an input is in it, as far as sizes decide; what is written of a buffer is known to be inside."""
    yield from _writes(program)
    checked = {required.condition for required in program.function.requires}
    for found in reaches(program):
        if found.needs is None:
            yield Broken(
                f"{found.what} takes the value {found.value}, and {found.load.buffer.name} has {found.extent} elements there",
                found.at, "read it only where te.if_then_else finds the index inside, or change the shape",
            )
        elif not any(ir.same(found.needs, condition) for condition in checked):
            yield Broken(
                f"{found.what} takes the value {found.value}, and {found.load.buffer.name} has {found.extent} elements there: "
                f"nothing says that {found.needs}", found.at,
                "let the function require it, use one variable for sizes that are equal, or change the shape",
            )


class Reach(NamedTuple):
    """A value that an index of a read certainly takes, and that is not known to be inside.

    needs : of the sizes, so that it is inside; None where it never is
    """

    what: str
    load: ir.Load
    value: Expr
    extent: Expr
    needs: Expr | None
    at: st.Stmt


def reaches(program: Program) -> Iterator[Reach]:
    """Reads of inputs by indices that sums of loop variables and sizes make. Others are the word of who wrote them."""
    plain = Analyzer()  # it knows nothing of iterators, which `program.analyzer` takes for what they are bound to
    for site in program.sites:
        reads = [] if is_opaque(site.block) else [(load, s) for s, e in _computed(site.block.body) for load in _certain(e)]
        meant = values_of_lets(site.block) if reads else {}
        for load, s in dict(reads).items():
            if load.buffer not in program.params or load.buffer in program.writes:
                continue
            for at, (index, extent) in enumerate(zip(load.indices, load.buffer.shape, strict=True)):
                for value, needs in _outside(program, plain, site, substitute(index, meant), extent):
                    yield Reach(f"index {at} of {load}", load, value, extent, needs, s)


def _writes(program: Program) -> Iterator[Broken]:
    """Stores that may be outside of a buffer: of a parameter, or where all lengths are constants, so that it can be known."""
    a = program.analyzer
    for buffer, writes in program.writes.items():
        given = buffer in program.params
        for write in writes:
            if write.at is write.site.block or not (given or all(int_value(loop.extent) is not None for loop in write.site.loops)):
                continue
            domains = {it.var: it.dom for it in write.site.block.iters}
            for at, (index, extent) in enumerate(zip([r.min for r in write.ranges], buffer.shape, strict=True)):
                if not (given or int_value(extent) is not None):
                    continue
                dom = domains.get(index) if isinstance(index, Var) else None
                if dom is not None and int_value(dom.min) == 0 and ir.same(dom.extent, extent):
                    continue  # the rule "bindings" keeps it there
                if _is_inside(a, index, extent):
                    continue
                with a.given(all_of(*write.site.conditions(), *write.where)):
                    known = _is_inside(a, index, extent)
                if not known:
                    yield Broken(
                        f"block {write.site.block.name} writes {buffer.name}, and index {at}, {index}, is not certain to be "
                        f"within its {extent} elements", write.at, "let the condition of the block keep it there",
                    )


def _is_inside(a: Analyzer, index: Expr, extent: Expr) -> bool:
    return a.prove(index >= 0) and certainly_below(a, index, extent)


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


def _outside(
    program: Program, plain: Analyzer, site: Site, index: Expr, extent: Expr,
) -> Iterator[tuple[Expr, Expr | None]]:
    """The values that an index is certain to take and that are not known to be from 0 to below the extent.

    Each with what must hold of the sizes so that it is inside, or that the block does not run; None if it is outside whenever
    the block runs.
    """
    a = program.analyzer
    if a.prove(index >= 0) and a.prove(index < extent):
        return
    runs = covered(program, site, 0)
    some = None if runs.reason or runs.still or runs.of_iters else _runs(program, site, runs)
    if some is None:
        return
    variables = list(runs.first)
    found = linear_coefficients(index, variables, plain)
    if found is None or any(int_value(c) is None for c in found.coefficients) or free_vars(found.base) & set(variables):
        return
    highest, lowest = {}, {}
    for var, coefficient in zip(variables, found.coefficients, strict=True):
        ends = runs.first[var], _last(runs, var)
        up = (int_value(coefficient) or 0) > 0
        lowest[var], highest[var] = ends if up else ends[::-1]
    with a.given(all_of(*some)):
        for values, inside in ((lowest, lambda value: value >= 0), (highest, lambda value: value < extent)):
            value = a.simplify(substitute(index, values))
            condition = a.simplify(inside(value))
            if value_of(condition) == 0:
                yield value, None
                return
            if value_of(condition) != 1:
                needs = any_of(_plain(condition), *[other for other in map(negate, some) if not _follows(plain, condition, other)])
                if free_vars(needs) <= program.sizes and not _divides_by_sizes(needs):
                    yield value, needs


def _follows(a: Analyzer, condition: Expr, other: Expr) -> bool:
    with a.given(other):
        return a.prove(condition)


def _plain(e: Expr) -> Expr:
    """``n <= m`` for ``n < m + 1``."""
    match e:
        case ir.LT(b=ir.Add(a=end, b=ir.IntImm(value=1))):
            return e.a <= end
    return e


def _divides_by_sizes(e: Expr) -> bool:
    """Whether it cannot be worked out for all sizes, as one may be 0."""
    return any(isinstance(node, ir.FloorDiv | ir.FloorMod) and int_value(node.b) is None for node in subexpressions(e))


def _last(runs: Covered, var: Var) -> Expr:
    """The last value that an iterator takes."""
    last = runs.last[var]
    for end in runs.ends[var]:
        last = ir.Min(last, end - const(1, end.dtype))
    return last


def _runs(program: Program, site: Site, runs: Covered) -> list[Expr] | None:
    """What is not known to hold so that the block runs; None if that, or where its iterators end, does not depend on sizes alone."""
    moving = {loop.var for loop in site.loops}
    parts = [e for var in runs.first for e in (runs.first[var], runs.last[var], *runs.ends[var])]
    if any(isinstance(s, st.While) for s, _ in site.path) or any(free_vars(e) & moving for e in parts):
        return None
    needed = [loop.extent >= 1 for loop in site.loops]
    needed += [runs.first[var] < end for var in runs.first for end in runs.ends[var]]
    return [condition for condition in needed if not program.analyzer.prove(condition)]
