"""Reductions whose terms are spread over the threads of a block."""


from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterVar, Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.values import TRUE, const, int_value
from vtakit.compiler.lower.axes import coming_from, parents
from vtakit.compiler.lower.blocks import Point, combine, reduction, translate, update_body, with_regions
from vtakit.compiler.lower.errors import LowerError
from vtakit.compiler.lower.loops import Loops
from vtakit.compiler.lower.plan import Plan, is_launch, scope_rank
from vtakit.compiler.te.operation import ComputeOp


def across_threads(nests: Loops, plan: Plan, op: ComputeOp, reducing: set[IterVar]) -> st.Stmt:
    """Return the loops of a reduction by several threads: each reduces its part, all combine, one stores.

    ``part = identity; for k: part = part + term; allreduce(part -> all); if thread == 0: out = all``
    """
    stage, relations = plan.stage, plan.stage.relations
    data = coming_from(relations, op.axis)
    serial = _serial_loops(plan, reducing, coming_from(relations, [a for a in op.axis if int_value(plan.ranges[a].extent) != 1]))
    launched = [leaf for leaf in stage.leaf_iter_vars if leaf in reducing and is_launch(plan.tag(leaf))]
    for leaf in launched:
        if int_value(plan.extents[leaf]) == 0:
            raise LowerError(
                "thread reductions", f"{stage.axis_labels[leaf]} has no terms, so that no thread would run and store the result "
                f"of {stage.label}", "reduce it in one thread, or split it and bind the part of constant length", (stage, leaf),
            )
    threads = list(dict.fromkeys(plan.leaves[leaf] for leaf in launched))
    zero = (const(0, threads[0].dtype),)
    part, whole = (
        [Buffer(f"{buffer.name}_{word}", (1,), buffer.dtype, "local") for buffer in plan.buffers]
        for word in ("part", "all")
    )
    reduce = reduction(plan)
    none = Point(plan, {}, nests.analyzer)
    own = [(buffer, zero) for buffer in part]
    identity = st.seq(*[st.Store(b, at, e) for (b, at), e in zip(own, reduce.combiner.identity, strict=True)])
    start = with_regions(f"{stage.label}_init", none.iters, TRUE, identity)

    term = Point(plan, {axis: plan.values[axis] for axis in op.root_iter_vars}, nests.analyzer)
    where = nests.where(plan, term, plan.values, relations, own=True)
    update: st.Stmt = with_regions(
        f"{stage.label}_part", term.iters, where, update_body(plan, term, nests.read, own),
    )
    leaves = stage.leaf_iter_vars
    first = stage.position(serial[0]) if serial else len(leaves)
    update = nests.loops(plan, update, leaves=leaves[first:])

    end = Point(plan, {axis: plan.values[axis] for axis in op.axis}, nests.analyzer)
    mine = [relation for relation in relations if any(axis in data for axis in parents(relation))]
    conditions = [nests.where(plan, end, plan.values, mine)]
    if scope_rank(plan.scope) <= 1:  # all threads see the result: one of them stores it
        conditions += [ir.EQ(thread, const(0, thread.dtype)) for thread in threads]
    store = with_regions(stage.label, end.iters, all_of(*conditions), _results(nests, plan, end, whole))
    body = st.seq(start, update, _combine_all(stage.label, reduce, part, whole, threads), store)
    for buffer in (*whole, *part):
        body = st.Allocate(buffer, body)
    return nests.loops(plan, body, leaves=leaves[:first])


def _serial_loops(plan: Plan, reducing: set[IterVar], data: set[IterVar]) -> list[IterVar]:
    """Return the loops that each thread reduces over, which are its innermost."""
    leaves = [
        leaf for leaf in plan.stage.leaf_iter_vars if isinstance(plan.leaves[leaf], Var) and not is_launch(plan.tag(leaf))
    ]
    serial = [leaf for leaf in leaves if leaf in reducing]
    labels = plan.stage.axis_labels
    for leaf in plan.stage.leaf_iter_vars:
        if leaf in reducing and leaf in data:
            raise LowerError(
                "thread reductions",
                f"{labels[leaf]} takes both data and terms, and {plan.stage.label} is reduced across threads",
                "do not fuse axes of the reduction with others, or reduce in one thread",
                (plan.stage, leaf),
            )
    for leaf in leaves[leaves.index(serial[0]):] if serial else ():
        if leaf not in reducing:
            raise LowerError(
                "thread reductions", f"{labels[leaf]} runs over data, within the reduction's loop {labels[serial[0]]}, and "
                f"{plan.stage.label} is reduced across threads", f"put the loops of the reduction innermost: reorder("
                f"{', '.join(labels[axis] for axis in (leaf, *serial))})", (plan.stage, leaf),
            )
    return serial


def _combine_all(name: str, reduce: ir.Reduce, part: list[Buffer], whole: list[Buffer], threads: list[Expr]) -> st.Block:
    zero = (const(0, "int32"),)
    call = effect(
        "allreduce", len(part), *[ir.Load(buffer, zero) for buffer in part], TRUE, *[b.access_ptr("w") for b in whole], *threads,
    )
    regions = [tuple(st.Region(b, (Range(zero[0], const(1, "int32")),)) for b in buffers) for buffers in (part, whole)]
    body = st.Attr("reducer", reduce.combiner, 0, st.Evaluate(call))
    return st.Block(f"{name}_all", (), regions[0], regions[1], TRUE, None, body, {"allreduce": len(threads)})


def _results(nests: Loops, plan: Plan, end: Point, whole: list[Buffer]) -> st.Stmt:
    """Return the stores of the combined values. The initial value of a reduction comes in only here, once."""
    reduce = reduction(plan)
    at = nests.targets(plan, end)
    values: list[Expr] = [ir.Load(buffer, (const(0, "int32"),)) for buffer in whole]
    if reduce.init:
        first = [translate(e, end.vars, nests.read) for e in reduce.init]
        return combine(reduce.combiner, first, values, at)
    return st.seq(*[st.Store(buffer, indices, value) for (buffer, indices), value in zip(at, values, strict=True)])
