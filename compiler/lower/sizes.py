"""Requirements of a function on the sizes of a call: checked when it is called, and assumed in its body.

No schedule can know that `n` is at least 2 where a tensor has `n - 2` rows, or at most `m` where `m` elements are read with an
index below `n`. Programs whose sizes are numbers have no requirements.
"""

from collections.abc import Iterator, Sequence

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.arith.comparisons import at_most
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.stmt import Function, Requirement
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import free_vars, statements
from vtakit.compiler.lower.plan import Plan
from vtakit.compiler.lower.verify.ends import is_of_sizes
from vtakit.compiler.lower.verify.inside import reaches
from vtakit.compiler.lower.verify.limits import NO_LIMITS
from vtakit.compiler.lower.verify.program import Program
from vtakit.compiler.te.operation import ScanOp


def with_requirements(function: Function, plans: Sequence[Plan]) -> Function:
    """The function with what its sizes must keep, so that no extent is negative and no index that they set is outside."""
    sizes = Program(function, NO_LIMITS).sizes
    if not sizes:
        return function
    a = Analyzer()
    for e in (e for p in function.params if isinstance(p, Buffer) for e in p.shape):
        if isinstance(e, Var) and not e.size:
            a.learn(e >= 0)  # an array has it
    found: list[Requirement] = []
    for condition, why in (*_extents(function, sizes), *_scans(plans, sizes)):
        if not a.prove(condition):
            needed = at_most(a.simplify(condition))
            a.learn(needed)
            found.append(Requirement(needed, f"{needed}, since {why}"))
    function = function._replace(requires=tuple(found))
    program = Program(function, NO_LIMITS)
    inside: dict[Expr, Requirement] = {}
    for reach in reaches(program):
        if reach.needs is not None and is_of_sizes(program, reach.needs):
            inside.setdefault(reach.needs, Requirement(reach.needs, f"{reach.needs}, since {reach}", assumed=False))
    return function._replace(requires=(*found, *inside.values()))


def _extents(function: Function, sizes: set[Var]) -> Iterator[tuple[Expr, str]]:
    """Yield the conditions that no buffer has a negative extent."""
    given = [p for p in function.params if isinstance(p, Buffer)]
    for buffer in (*given, *[s.buffer for s in statements(function.body) if isinstance(s, st.Allocate)]):
        for extent in buffer.shape:
            alone = isinstance(extent, Var) and buffer in given
            if int_value(extent) is None and not alone and free_vars(extent) <= sizes:
                yield extent >= 0, f"{buffer.name} is {buffer.dtype}[{', '.join(map(str, buffer.shape))}]"


def _scans(plans: Sequence[Plan], sizes: set[Var]) -> Iterator[tuple[Expr, str]]:
    """Yield the conditions that the rows from which a scan starts are some of its rows."""
    for plan in plans:
        if isinstance(plan.op, ScanOp):
            for init, state in zip(plan.op.init, plan.op.state_placeholder, strict=True):
                first, rows = init.shape[0], state.shape[0]
                why = f"{plan.op.name} starts from {first} of its {rows} rows"
                yield from ((e, why) for e in (first >= 1, first <= rows) if free_vars(e) <= sizes)
