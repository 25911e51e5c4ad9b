"""cache_read and cache_write: copies of tensors in other memories."""

from collections.abc import Sequence
from typing import Any

from vtakit.compiler.ir.expr import Expr, ProducerLoad, Reduce, Var
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.ops import all_of, if_then_else
from vtakit.compiler.ir.values import TRUE, const
from vtakit.compiler.ir.walk import substitute
from vtakit.compiler.schedule import group
from vtakit.compiler.schedule.checks import refuse, refuse_scope
from vtakit.compiler.schedule.domains import extents, leaves_from_roots, roots_from_leaves
from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.schedule.rewrite import copy_of, data_axis, with_inputs
from vtakit.compiler.schedule.stage import Stage, Stages
from vtakit.compiler.te.compose import scope_name
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.te.tensor import Tensor


def cache_read(schedule: Stages, tensor: Tensor, scope: Any, readers: Sequence[Any] | None) -> Tensor:
    """Do what `Schedule.cache_read` says."""
    name = scope_name(scope)
    by = "" if not readers else f", [{', '.join(str(getattr(item, 'name', item)) for item in readers)}]"
    asked = f"cache_read({tensor.name if isinstance(tensor, Tensor) else repr(tensor)}, {name or scope!r}{by})"
    if not isinstance(tensor, Tensor):
        raise ScheduleError(f"{asked}: {tensor!r} is no tensor: give one that stages read")
    stage = schedule[tensor]
    if not name:
        refuse_scope(stage, asked, scope)
    all_readers = [other for other in schedule.stages if schedule.read_as(other, tensor)]
    if not all_readers:
        refuse(stage, asked, f"no stage reads {tensor.name}", "cache a tensor that is read, or use cache_write for an output")
    chosen = [_stage(schedule, item) for item in readers] if readers else all_readers
    for reader in chosen:
        if not any(reader is other for other in all_readers):
            labels = ", ".join(other.label for other in all_readers)
            refuse(reader, asked, f"{reader.label} does not read {tensor.name}", f"{tensor.name} is read by {labels}", "body")
    chosen = list(dict.fromkeys(chosen))
    op = copy_of(tensor, f"{tensor.name}_{name}".replace(".", "_"))
    at = next(place for place, other in enumerate(schedule.stages) if other.label == stage.label) + 1
    made = schedule.add_stage(op, at)
    made.scope = name
    made.group = group.of_state(schedule, stage) or stage.group
    for reader in chosen:
        schedule.redefine(reader, with_inputs(reader.op, dict.fromkeys(schedule.read_as(reader, tensor), op.output(0))))
    args: dict[str, Any] = {"tensor": schedule.tensor_label(tensor), "scope": name}
    schedule.record("", "cache_read", args | ({"readers": [reader.label for reader in chosen]} if readers else {}), (made.label,))
    return op.output(0)


def _stage(schedule: Stages, of: Any) -> Stage:
    return of if isinstance(of, Stage) else schedule[of]


def cache_write(schedule: Stages, tensors: Sequence[Any], scope: Any) -> list[Tensor]:
    """Do what `Schedule.cache_write` says, for all outputs of one operation."""
    name = scope_name(scope)
    asked = f"cache_write({', '.join(str(getattr(tensor, 'name', tensor)) for tensor in tensors)}, {name or scope!r})"
    if not tensors:
        raise ScheduleError(f"{asked}: no tensor is given: give the outputs of one stage")
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise ScheduleError(f"{asked}: {tensor!r} is no tensor: give what a stage makes, all of its outputs")
    stage = schedule[tensors[0]]
    if not name:
        refuse_scope(stage, asked, scope)
    op = stage.op
    if not isinstance(op, ComputeOp):
        refuse(stage, asked, f"{stage.label} is no compute", "cache what a te.compute makes", "body")
    given = [(schedule[tensor].label, tensor.value_index) for tensor in tensors]
    if given != [(stage.label, at) for at in range(op.num_outputs)]:
        names = ", ".join(tensor.name for tensor in op.outputs)
        cure = f"cache all of them together, in order: cache_write([{names}], scope)"
        refuse(stage, asked, f"{stage.label} makes {names}", cure, "body")
    for held in schedule.attached_to(stage):
        if not any(held.attach.axis is axis for axis in op.axis):
            refuse(stage, asked, f"{held.label} is computed within a loop that the cache takes over", "use cache_write first",
                   held.attach.axis or "stage")
    if stage.notes:
        axis = next(iter(stage.notes))
        truth = f"{stage.axis_labels[axis]} is marked, but the cache takes the loops over"
        refuse(stage, asked, truth, "use cache_write first, then mark", axis)
    whole, copy = _relayout(stage, op, f"{op.name}_{name}".replace(".", "_"), asked)
    at = next(place for place, other in enumerate(schedule.stages) if other is stage)
    made = schedule.add_stage(whole, at)
    made.scope = name
    made.group = stage.group
    schedule.redefine(stage, copy)
    stage.start_over(copy)
    labels = [schedule.tensor_label(tensor) for tensor in tensors]
    schedule.record("", "cache_write", {"tensors": labels, "scope": name}, (made.label,))
    return [*whole.outputs]


def _relayout(stage: Stage, op: ComputeOp, name: str, asked: str) -> tuple[ComputeOp, ComputeOp]:
    """Return the operation computed in the order of the stage's loops over data, and the copy of it into its own shape."""
    sizes = extents(stage)
    reduced = {id(axis) for axis in op.reduce_axis}
    new_axes: list[IterVar] = []
    values: dict[IterVar, Expr] = {}
    for leaf in stage.leaf_iter_vars:
        if id(leaf) in reduced:
            continue
        if leaf.kind is not IterKind.DATA:
            truth = f"{stage.axis_labels[leaf]} comes from a reduction, so it cannot be a dimension of the cache"
            refuse(stage, asked, truth, "use cache_write before splitting or fusing an axis of the reduction", leaf)
        axis = data_axis(f"{stage.axis_labels[leaf]}", sizes[leaf])
        new_axes.append(axis)
        values[leaf] = axis.var
    condition = roots_from_leaves(stage, values, sizes)
    replaced: dict[Var, Expr] = {axis.var: values[axis] for axis in op.axis}
    reduce_axes = tuple([_over(axis, replaced) for axis in op.reduce_axis])
    body = tuple([_guarded(e, replaced, condition, reduce_axes) for e in op.body])
    indices: dict[IterVar, Expr] = {axis: axis.var for axis in op.axis}
    leaves_from_roots(stage, indices, sizes)
    order = tuple([indices[leaf] for leaf in stage.leaf_iter_vars if id(leaf) not in reduced])
    whole = ComputeOp(name, tuple(new_axes), body)
    copy = ComputeOp(op.name, op.axis, tuple([ProducerLoad(tensor, order) for tensor in whole.outputs]), op.tag, op.attrs)
    return whole, copy


def _over(axis: IterVar, values: dict[Var, Expr]) -> IterVar:
    """Return the reduction's axis, its domain in terms of the new axes if it depends on the old ones."""
    assert axis.dom is not None, "a reduction's axis has a domain"
    dom = Range(substitute(axis.dom.min, values), substitute(axis.dom.extent, values))
    same = dom.min is axis.dom.min and dom.extent is axis.dom.extent
    return axis if same else IterVar(axis.var, dom, axis.kind)


def _guarded(e: Expr, values: dict[Var, Expr], condition: Expr, axes: tuple[IterVar, ...]) -> Expr:
    """Return the value of an element where `condition` holds; elsewhere one that no one reads."""
    if not isinstance(e, Reduce):
        found = substitute(e, values)
        return found if condition is TRUE else if_then_else(condition, found, const(0, e.dtype))
    fields = [tuple([substitute(part, values) for part in parts]) for parts in (e.source, e.init)]
    where = all_of(condition, substitute(e.condition, values))
    return Reduce(e.combiner, fields[0], axes, where, e.value_index, fields[1])


