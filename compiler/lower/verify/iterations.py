"""A rule about loops in a body of one's own (`te.hybrid`, `te.extern`): those that run at once do not get in each other's way."""

from collections.abc import Iterator
from typing import NamedTuple

from vtakit.compiler.arith import linear_coefficients
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import expressions, free_vars, loads, statements
from vtakit.compiler.lower.verify.loops import TOGETHER
from vtakit.compiler.lower.verify.program import Program, extent_of, is_opaque
from vtakit.compiler.lower.verify.report import Broken


class _Touched(NamedTuple):
    """Touched indices of a dimension: `base`, `step` times the loop's variable, and something from `least` to `most`."""

    step: int
    least: int
    most: int
    base: Expr


def check_iterations(program: Program) -> Iterator[Broken]:
    """In a body of one's own, no iteration of a parallel or vectorised loop is known to touch what another one writes."""
    for site in program.sites:
        if not is_opaque(site.block):
            continue
        for loop in statements(site.block.body):
            if isinstance(loop, st.For) and loop.kind in TOGETHER and extent_of(loop) != 1:
                for buffer in _shared(loop):
                    if _meet(program, loop, buffer):
                        yield Broken(
                            f"iterations of the {TOGETHER[loop.kind]} loop {loop.var} write elements of {buffer.name} that "
                            "others of them read or write", loop,
                            f"run it serially, or allocate {buffer.name} within the loop",
                        )


def _shared(loop: st.For) -> list[Buffer]:
    """The buffers that the loop writes and that are not allocated within it."""
    inside = [*statements(loop.body)]
    own = {s.buffer for s in inside if isinstance(s, st.Allocate)}
    return [*dict.fromkeys(s.buffer for s in inside if isinstance(s, st.Store) and s.buffer not in own)]


def _meet(program: Program, loop: st.For, buffer: Buffer) -> bool:
    """Return whether two iterations are known to touch one element; False where data, sizes or a condition on the loop decide."""
    inside = [*statements(loop.body)]
    if any(isinstance(s, st.If) and loop.var in free_vars(s.condition) for s in inside):
        return False
    touched = [s.indices for s in inside if isinstance(s, st.Store) and s.buffer is buffer]
    touched += [load.indices for e in expressions(loop.body) for load in loads(e) if load.buffer is buffer]
    inner = [s for s in inside if isinstance(s, st.For)]
    for indices in zip(*touched, strict=True):
        found = [_touched(program, loop.var, inner, index) for index in indices]
        known = [item for item in found if item is not None]
        if len(known) < len(found) or _apart(program, known):
            return False
    return True


def _touched(program: Program, var: Var, inner: list[st.For], index: Expr) -> _Touched | None:
    """None for an index that is not linear with constant steps, or whose inner loops have no constant length."""
    found = linear_coefficients(index, [var, *[s.var for s in inner]], program.analyzer)
    if found is None or any(True for _ in loads(found.base)):
        return None
    least = most = 0
    for step, s in zip(found.coefficients[1:], inner, strict=True):
        times, count = int_value(step), extent_of(s)
        if times == 0:
            continue
        if times is None or count is None:
            return None
        reach = times * (count - 1)
        least, most = least + min(0, reach), most + max(0, reach)
    own = int_value(found.coefficients[0])
    return None if own is None else _Touched(own, least, most, found.base)


def _apart(program: Program, all_of_them: list[_Touched]) -> bool:
    """Return whether different iterations touch different indices."""
    first = all_of_them[0]
    ends: list[int] = []
    for item in all_of_them:
        shift = int_value(program.analyzer.simplify(item.base - first.base))
        if shift is None:
            return True  # sizes decide
        ends += [item.least + shift, item.most + shift]
    return all(item.step == first.step for item in all_of_them) and max(ends) - min(ends) < abs(first.step)
