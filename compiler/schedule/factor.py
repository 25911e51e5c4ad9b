"""rfactor: part of a reduction as a dimension of a tensor of its own."""

from collections.abc import Callable

from vtakit.compiler.ir.expr import Expr, ProducerLoad, Reduce, Var
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.ops import all_of, if_then_else
from vtakit.compiler.ir.values import TRUE, const
from vtakit.compiler.ir.walk import free_vars, substitute
from vtakit.compiler.schedule.checks import refuse
from vtakit.compiler.schedule.domains import extents, roots_from_leaves
from vtakit.compiler.schedule.relations import Fuse, Relation, Singleton, Split
from vtakit.compiler.schedule.rewrite import data_axis
from vtakit.compiler.schedule.stage import Stage, Stages
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor


def rfactor(schedule: Stages, tensor: Tensor, axis: IterVar | str, factor_axis: int) -> list[Tensor]:
    """Do what `Schedule.rfactor` says."""
    stage = schedule[tensor]
    whole = isinstance(factor_axis, int) and not isinstance(factor_axis, bool)

    def asked() -> str:
        name = stage.axis_labels.get(axis, axis.name) if isinstance(axis, IterVar) else axis
        return f"rfactor({tensor.name}, {name}{'' if whole and not factor_axis else f', factor_axis={factor_axis!r}'})"

    op = stage.op
    if not isinstance(op, ComputeOp) or not op.reduce_axis:
        refuse(stage, asked(), f"{stage.label} is no reduction", "factor a te.compute that is a te.sum or the like", "body")
    leaf = stage.leaf(axis, asked)
    if leaf.kind is not IterKind.REDUCE:
        truth = f"{stage.axis_labels[leaf]} is no axis of the reduction"
        refuse(stage, asked(), truth, "choose a reduce axis, or a part of one", leaf)
    touched = _touched(stage, leaf)
    for relation in stage.relations:
        if isinstance(relation, Fuse) and relation.outer.kind is not relation.inner.kind:
            refuse(stage, asked(), f"{stage.axis_labels[relation.fused]} was fused from a data axis and one of the reduction",
                   "use rfactor before fusing the two", relation.fused if stage.position(relation.fused) >= 0 else leaf)
    for other in stage.leaf_iter_vars:
        if other.kind is IterKind.REDUCE and other in stage.notes:
            truth = f"{stage.axis_labels[other]} is marked, but its loop goes to the new stage"
            refuse(stage, asked(), truth, "use rfactor first, then mark", other)
    for held in schedule.attached_to(stage):
        at = held.attach.axis
        if at is not None and at.kind is IterKind.REDUCE:
            refuse(stage, asked(), f"{held.label} is computed within {stage.axis_labels[at]}, whose loop goes to the new stage",
                   "use rfactor first", at)
    place = -1 if not whole else factor_axis if factor_axis >= 0 else len(op.axis) + 1 + factor_axis
    if not 0 <= place <= len(op.axis):
        truth = f"the new tensor has {len(op.axis) + 1} dimensions"
        refuse(stage, asked(), truth, f"give factor_axis from 0 to {len(op.axis)}", "body")
    label = stage.axis_labels[leaf]
    partial, kept = _partial(stage, op, leaf, touched, place, asked)
    made = schedule.add_stage(partial, next(at for at, other in enumerate(schedule.stages) if other is stage))
    made.group = stage.group
    _take_over(made, stage, kept)
    _reduce_rest(stage, op, partial, leaf, place)
    args = {"tensor": schedule.tensor_label(tensor), "axis": label, "factor_axis": factor_axis}
    schedule.record("", "rfactor", args, (made.label,))
    return [*partial.outputs]


def _axes_of(relation: Relation) -> tuple[IterVar, ...]:
    match relation:
        case Split(parent=parent, outer=outer, inner=inner):
            return parent, outer, inner
        case Fuse(outer=outer, inner=inner, fused=fused):
            return outer, inner, fused
        case Singleton(iter=axis):
            return (axis,)


def _touched(stage: Stage, leaf: IterVar) -> set[IterVar]:
    """Return the axes that `leaf` shares a relation with, directly or through others, and itself."""
    found, size = {leaf}, 0
    while len(found) != size:
        size = len(found)
        for relation in stage.relations:
            axes = _axes_of(relation)
            if not found.isdisjoint(axes):
                found.update(axes)
    return found


def _partial(
    stage: Stage, op: ComputeOp, leaf: IterVar, touched: set[IterVar], place: int, asked: Callable[[], str]
) -> tuple[ComputeOp, dict[IterVar, IterVar]]:
    """Return the operation that keeps `leaf` as a dimension, and its axis for each loop over the reduction that it takes over."""
    sizes = extents(stage)
    new_data = [data_axis(axis.name, sizes[axis]) for axis in op.axis]
    own = data_axis(leaf.name, sizes[leaf])
    bound = {axis.var for axis in op.axis}
    if free_vars(sizes[leaf]) & bound:
        truth = f"the extent {sizes[leaf]} of {stage.axis_labels[leaf]} depends on a data axis, so it is no dimension"
        refuse(stage, asked(), truth, "reduce over the whole range with a where= condition", leaf)
    replaced: dict[Var, Expr] = {old.var: new.var for old, new in zip(op.axis, new_data, strict=True)}
    values: dict[IterVar, Expr] = {leaf: own.var if leaf.dom is None else own.var + leaf.dom.min}
    reduce_axes, kept = [], {}
    for root in op.reduce_axis:
        if root not in touched:
            dom = root.dom
            if dom is not None and (free_vars(dom.min) | free_vars(dom.extent)) & bound:
                moved = IterVar(Var(root.name, root.dtype), Range(*[substitute(end, replaced) for end in dom]), IterKind.REDUCE)
                replaced[root.var] = moved.var
                reduce_axes.append(moved)
            else:
                reduce_axes.append(root)
                kept[root] = root
    for axis in stage.leaf_iter_vars:
        if axis in touched and axis is not leaf:
            extent = substitute(sizes[axis], replaced)
            part = IterVar(Var(axis.name, axis.dtype), Range(const(0, axis.dtype), extent), IterKind.REDUCE)
            values[axis] = part.var
            reduce_axes.append(part)
            kept[axis] = part
    condition = substitute(roots_from_leaves(stage, values, sizes), replaced)
    replaced |= {root.var: substitute(values[root], replaced) for root in op.reduce_axis if root in touched}
    body = tuple([_part(e, replaced, condition, tuple(reduce_axes)) for e in op.body])
    axes = (*new_data[:place], own, *new_data[place:])
    return ComputeOp(f"{op.name}_rf", axes, body, op.tag, op.attrs), kept


def _part(e: Expr, values: dict[Var, Expr], condition: Expr, axes: tuple[IterVar, ...]) -> Expr:
    """Return a reduction over what is left of its axes, where the axes that were made stay within their domains."""
    assert isinstance(e, Reduce)
    source = tuple([substitute(part, values) for part in e.source])
    where = all_of(condition, substitute(e.condition, values))
    if axes:
        return Reduce(e.combiner, source, axes, where, e.value_index)
    return if_then_else(where, source[e.value_index], e.combiner.identity[e.value_index])


def _take_over(made: Stage, stage: Stage, kept: dict[IterVar, IterVar]) -> None:
    """Give the new stage the loops over the reduction in the order and with the splits that they had."""
    known = set(kept) | {axis for axis in stage.all_iter_vars if axis in kept}
    for relation in stage.relations:
        axes = _axes_of(relation)
        sources = axes[:2] if isinstance(relation, Fuse) else axes[:1]
        if all(axis in known and kept.get(axis) is axis for axis in sources):
            results = axes[2:] if isinstance(relation, Fuse) else axes[1:]
            made.relations.append(relation)
            made.all_iter_vars += results
            known.update(results)
            kept.update({axis: axis for axis in results})
            for axis in results:
                made.name_axis(axis)
    order = [kept[axis] for axis in stage.leaf_iter_vars if axis in kept]
    taken = set(kept.values())
    rest = [axis for axis in made.leaf_iter_vars if axis.kind is IterKind.REDUCE and axis not in taken]
    made.leaf_iter_vars = [axis for axis in made.leaf_iter_vars if axis.kind is IterKind.DATA] + rest + order


def _reduce_rest(stage: Stage, op: ComputeOp, partial: ComputeOp, leaf: IterVar, place: int) -> None:
    """Let the stage combine the partial results; its loops over data stay as they are."""
    extent = partial.axis[place].dom
    assert extent is not None
    last = IterVar(Var(f"{leaf.name}_v", leaf.dtype), extent, IterKind.REDUCE)
    indices = [axis.var for axis in op.axis]
    indices.insert(place, last.var)
    source = tuple([ProducerLoad(tensor, tuple(indices)) for tensor in partial.outputs])
    body = []
    for e in op.body:
        assert isinstance(e, Reduce)
        body.append(Reduce(e.combiner, source, (last,), TRUE, e.value_index, e.init))
    gone = {axis for axis in stage.all_iter_vars if axis.kind is IterKind.REDUCE}
    at = next(at for at, axis in enumerate(stage.leaf_iter_vars) if axis in gone)
    stage.relations = [relation for relation in stage.relations if gone.isdisjoint(_axes_of(relation))]
    stage.leaf_iter_vars.insert(at, last)
    stage.leaf_iter_vars = [axis for axis in stage.leaf_iter_vars if axis not in gone]
    stage.all_iter_vars = [axis for axis in stage.all_iter_vars if axis not in gone] + [last]
    stage.axis_labels = {axis: label for axis, label in stage.axis_labels.items() if axis not in gone}
    stage.name_axis(last)
    stage.schedule.redefine(stage, ComputeOp(op.name, op.axis, tuple(body), op.tag, op.attrs))
