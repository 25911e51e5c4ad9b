"""Reductions whose domain other axes set, in loops that are not inside of theirs: over the greatest domain, with a condition."""

from vtakit.compiler.arith import Analyzer, Interval, region
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterVar, Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.walk import free_vars, subexpressions, substitute
from vtakit.compiler.lower.errors import LowerError
from vtakit.compiler.lower.plan import Plan, is_launch
from vtakit.compiler.te.operation import ComputeOp


def dependent_axes(plan: Plan) -> list[IterVar]:
    """The axes of the reduction whose domain refers to axes of the data."""
    if not isinstance(plan.op, ComputeOp):
        return []
    data = {axis.var for axis in plan.op.axis}
    return [axis for axis in plan.op.reduce_axis if data & _used(plan.ranges[axis])]


def has_dependent_thread(plan: Plan) -> bool:
    """Return whether the extent of a loop that is bound to a thread axis depends on other axes."""
    data = {axis.var for axis in plan.op.root_iter_vars}
    return any(is_launch(plan.tag(leaf)) and data & free_vars(plan.extents[leaf]) for leaf in plan.stage.leaf_iter_vars)


def resolve(plan: Plan, analyzer: Analyzer) -> bool:
    """Put the values of the data axes into the domains and lengths that refer to them.

    False, and nothing done, if a loop on which a length depends is not around the loop of that length. Raises LowerError for a
    length that is read from a tensor.
    """
    assert isinstance(plan.op, ComputeOp)
    for axis in plan.op.reduce_axis:
        loads = [node for end in plan.ranges[axis] for node in subexpressions(end) if isinstance(node, ir.ProducerLoad)]
        if loads:
            label = plan.stage.axis_labels[axis]
            raise LowerError(
                "lengths", f"how far {label} goes is read from {loads[0].tensor.name}",
                f"give {label} the greatest length and the reduction a condition where=, or write it with te.hybrid.script",
                (plan.stage, "body"),
            )
    at = {axis.var: analyzer.simplify(plan.ranges[axis].min + plan.values[axis]) for axis in plan.op.axis}
    extents = {axis: substitute(extent, at) for axis, extent in plan.extents.items()}
    inside: set[Var] = set()
    for leaf in reversed(plan.stage.leaf_iter_vars):
        value = plan.leaves[leaf]
        if isinstance(value, Var) and not is_launch(plan.tag(leaf)):
            inside.add(value)
        if inside & free_vars(extents[leaf]):
            return False
    plan.extents = extents
    for axis in plan.op.reduce_axis:
        low, extent = plan.ranges[axis]
        plan.ranges[axis] = Range(substitute(low, at), substitute(extent, at))
    return True


def widen(plan: Plan, axes: list[IterVar], analyzer: Analyzer) -> None:
    """Reduce over the least range around an axis's domains, and only where the axis is within its own.

    ``sum(A[k], k in [0, i + 1))``, i below n  ->  ``sum(A[k], k in [0, n), where k < i + 1)``

    Raises LowerError if that range has no end.
    """
    assert isinstance(plan.op, ComputeOp)
    data = {axis.var: plan.ranges[axis] for axis in plan.op.axis}
    conditions: list[Expr] = []
    for axis in axes:
        low, extent = plan.ranges[axis]
        first, last = (region(e, data, analyzer) for e in (low, low + (extent - 1)))
        if first is None or last is None:
            label, culprits = plan.stage.axis_labels[axis], data.keys() & _used(plan.ranges[axis])
            others = ", ".join(sorted(var.name for var in culprits))
            raise LowerError(
                "lengths", f"how far {label} goes depends on {others}, whose loops are not all around its own, and has no bound",
                f"put the loops of {others} outside of those of {label}, and do not fuse them", (plan.stage, "body"),
            )
        plan.ranges[axis] = Interval(first.min, last.max).range(analyzer)
        if not analyzer.prove(low <= first.min):
            conditions.append(low <= axis.var)
        if not analyzer.prove(last.max < low + extent):
            conditions.append(axis.var < low + extent)
    body = []
    for e in plan.body:
        assert isinstance(e, ir.Reduce), "only reductions have such axes"
        body.append(e.replace(condition=all_of(*conditions, e.condition)))
    plan.body = tuple(body)


def _used(domain: Range) -> set[Var]:
    return free_vars(domain.min) | free_vars(domain.extent)
