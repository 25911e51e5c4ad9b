"""A rule about places in memory: what is certainly read of an input is there, and what is written of a buffer has room.

Whether an index read of an input is inside is often not known when a program is made (it may itself be read from memory), and a
program is not refused for that. It is refused if some iteration is certain to read outside.
"""

from collections.abc import Iterator

from vtakit.compiler.arith import Analyzer, linear_coefficients
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import free_vars, substitute
from vtakit.compiler.lower.verify.cover import Covered, certain, covered
from vtakit.compiler.lower.verify.program import Program, Site, is_opaque, parts, values_of_lets
from vtakit.compiler.lower.verify.report import Broken


def check_inside(program: Program) -> Iterator[Broken]:
    """No iteration of a block is certain to read outside of an input; what is written of a buffer is known to be inside."""
    yield from _writes(program)
    plain = Analyzer()  # it knows nothing of iterators, which `program.analyzer` takes for what they are bound to
    for site in program.sites:
        reads = [] if is_opaque(site.block) else [(load, s) for s, e in _computed(site.block.body) for load in _certain(e)]
        meant = values_of_lets(site.block) if reads else {}
        for load, s in dict(reads).items():
            if load.buffer not in program.params or load.buffer in program.writes:
                continue
            for at, (index, extent) in enumerate(zip(load.indices, load.buffer.shape, strict=True)):
                outside = _outside(program, plain, site, substitute(index, meant), extent)
                if outside is not None:
                    yield Broken(
                        f"index {at} of {load} takes the value {outside}, and {load.buffer.name} has {extent} elements there", s,
                        "read it only where te.if_then_else finds the index inside, or change the shape",
                    )


def _writes(program: Program) -> Iterator[Broken]:
    """Stores that may be outside of a buffer, where all lengths are constants, so that it can be known."""
    a = program.analyzer
    for buffer, writes in program.writes.items():
        if buffer in program.params:
            continue
        for write in writes:
            if write.at is write.site.block or any(int_value(loop.extent) is None for loop in write.site.loops):
                continue
            for at, (index, extent) in enumerate(zip([r.min for r in write.ranges], buffer.shape, strict=True)):
                if int_value(extent) is None:
                    continue
                if not certain(a, [index >= 0, index < extent], [*write.site.conditions(), *write.where]):
                    yield Broken(
                        f"block {write.site.block.name} writes {buffer.name}, and index {at}, {index}, is not certain to be "
                        f"within its {extent} elements", write.at, "let the condition of the block keep it there",
                    )


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


def _outside(program: Program, plain: Analyzer, site: Site, index: Expr, extent: Expr) -> Expr | None:
    """A value of an index that it is certain to take and that is outside of 0 to the extent; None if there is no such."""
    a = program.analyzer
    if a.prove(index >= 0) and a.prove(index < extent):
        return None
    runs = covered(program, site, 0)
    if runs.reason or runs.still or runs.of_iters or not _runs(program, site, runs):
        return None
    variables = list(runs.first)
    found = linear_coefficients(index, variables, plain)
    if found is None or any(int_value(c) is None for c in found.coefficients) or free_vars(found.base) & set(variables):
        return None
    highest, lowest = {}, {}
    for var, coefficient in zip(variables, found.coefficients, strict=True):
        ends = runs.first[var], _last(runs, var)
        up = (int_value(coefficient) or 0) > 0
        lowest[var], highest[var] = ends if up else ends[::-1]
    for values in (lowest, highest):
        value = a.simplify(substitute(index, values))
        if a.prove(value < 0) or a.prove(value >= extent):
            return value
    return None


def _last(runs: Covered, var: Var) -> Expr:
    """The last value that an iterator takes."""
    last = runs.last[var]
    for end in runs.ends[var]:
        last = ir.Min(last, end - const(1, end.dtype))
    return last


def _runs(program: Program, site: Site, runs: Covered) -> bool:
    """Whether the block certainly runs, and each iterator takes values that no other sets."""
    moving = {loop.var for loop in site.loops}
    parts = [e for var in runs.first for e in (runs.first[var], runs.last[var], *runs.ends[var])]
    return (
        not any(isinstance(s, st.While) for s, _ in site.path)
        and not any(free_vars(e) & moving for e in parts)
        and all(program.analyzer.prove(loop.extent >= 1) for loop in site.loops)
        and all(program.analyzer.prove(runs.first[var] < end) for var in runs.first for end in runs.ends[var])
    )
