"""Prefetches: what a later iteration of a loop reads is asked for at the start of an earlier one."""

from collections.abc import Iterator

from vtakit.compiler.arith import Analyzer, Interval, region
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.iters import IterVar, Range
from vtakit.compiler.ir.ops import maximum, minimum
from vtakit.compiler.ir.values import TRUE, const
from vtakit.compiler.lower.axes import ceil_div, pass_intervals
from vtakit.compiler.lower.errors import LowerError
from vtakit.compiler.lower.memory import Memory
from vtakit.compiler.lower.plan import Plan, Plans
from vtakit.compiler.schedule.relations import Prefetch
from vtakit.compiler.te.operation import ComputeOp

LINE_BYTES = 64  # what one prefetch brings in, on all machines that we know


def prefetches(plans: Plans, memory: Memory, a: Analyzer, plan: Plan, leaf: IterVar) -> Iterator[st.Stmt]:
    """Yield the prefetches that stand at the start of a loop's body."""
    for item in plan.stage.note(leaf).prefetches:
        assert isinstance(plan.op, ComputeOp), "the schedule lets only computes prefetch"
        yield _prefetch(plans, memory, a, plan, leaf, item)


def _prefetch(plans: Plans, memory: Memory, a: Analyzer, plan: Plan, leaf: IterVar, item: Prefetch) -> st.Stmt:
    """Return ``for each line of the region: prefetch(address)``; indices beyond the tensor become its last."""
    maker = plans.maker(item.tensor)
    reads = [load for load in plan.reads() if load.tensor == item.tensor or (maker and plans.maker(load.tensor) is maker)]
    asked, mark = f"{plan.stage.label} prefetches {item.tensor.name}, which", (plan.stage, leaf)
    if not reads:
        raise LowerError("prefetch", f"{asked} it reads no more since that was cached or inlined",
                         "cache and inline first, then prefetch what is read", mark)
    if maker and any(level == (plan, leaf) for level in maker.outside()):
        raise LowerError("prefetch", f"{asked} is computed anew in each iteration of {leaf.name}",
                         f"prefetch what is there before the loop, or compute {item.tensor.name} outside of it", mark)
    leaves: dict[IterVar, Interval] = {}
    fixed = True
    for axis in plan.stage.leaf_iter_vars:
        value, extent = plan.leaves[axis], plan.extents[axis]
        if axis is leaf:
            value = value + item.offset
        leaves[axis] = Interval(value, value) if fixed else Interval(const(0, extent.dtype), a.simplify(extent - 1))
        fixed = fixed and axis is not leaf
    found = pass_intervals(plan.stage.relations, leaves, plan.extents, a)
    ranges = {
        axis.var: Interval(plan.ranges[axis].min + steps.min, plan.ranges[axis].min + steps.max).range(a)
        for axis in plan.op.root_iter_vars if (steps := found[axis])
    }
    inside = plan.stage.leaf_iter_vars[plan.stage.position(leaf) + 1:]
    ranges |= {  # which may set how far others go
        value: Range(const(0, value.dtype), plan.extents[axis]) for axis in inside if isinstance(value := plan.leaves[axis], Var)
    }
    buffer, origin = memory.of(item.tensor)
    index: list[Expr] = []
    loops: list[tuple[Var, Expr]] = []
    for d, extent in enumerate(buffer.shape):
        span = region(reads[0].indices[d], ranges, a)
        low, count = (const(0, extent.dtype), extent) if span is None else (span.min - origin[d], span.extent(a))
        step = max(LINE_BYTES // buffer.dtype.bytes, 1) if d == len(buffer.shape) - 1 else 1
        var = Var(f"line{d}", extent.dtype)
        length = ceil_div(a.simplify(count), const(step, extent.dtype), a)
        a.bind(var, Range(const(0, extent.dtype), length))
        loops.append((var, length))
        index.append(a.simplify(maximum(minimum(low + var * step, extent - 1), 0)))
    address = Load(buffer, tuple(index))
    call = effect("prefetch", _address(address))
    body: st.Stmt = st.Block(f"{plan.stage.label}_prefetch", (), (), (), TRUE, None, st.Evaluate(call))
    for var, length in reversed(loops):
        body = st.For(var, length, body)
    return body


def _address(load: Load) -> Expr:
    first = load.buffer.access_ptr("r")
    return first.replace(args=(load, *first.args[1:]))
