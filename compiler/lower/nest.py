"""Nests: the loops of each kind of operation with the blocks in them."""

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterVar, Range
from vtakit.compiler.ir.sharing import named_values
from vtakit.compiler.ir.values import TRUE, const, int_value
from vtakit.compiler.ir.walk import replace_buffers, substitute_stmt
from vtakit.compiler.lower.across import across_threads
from vtakit.compiler.lower.axes import children, coming_from, parents, pass_values
from vtakit.compiler.lower.blocks import Point, compute_body, init_body, update_body, with_regions
from vtakit.compiler.lower.loops import Loops
from vtakit.compiler.lower.plan import Plan, is_launch, loop_var
from vtakit.compiler.lower.tensorize import tensorized
from vtakit.compiler.te.operation import ComputeOp, ExternOp, ScanOp


class Nests(Loops):
    """Writes the loops of all plans, each with what its operation computes."""

    def nest(self, plan: Plan) -> st.Stmt:
        match plan.op:
            case ComputeOp():
                return self._compute(plan, plan.op)
            case ExternOp():
                return self._opaque(plan, plan.op)
            case ScanOp():
                return self._steps(plan, plan.op)
            case _:
                raise AssertionError(f"{plan.op} has no loops")

    def _compute(self, plan: Plan, op: ComputeOp) -> st.Stmt:
        for leaf, notes in plan.stage.notes.items():
            if notes.intrin is not None:
                return tensorized(self, plan, leaf, notes.intrin)
        if op.reduce_axis:
            return self._reduction(plan, op)
        point = Point(plan, {axis: plan.values[axis] for axis in op.axis}, self.analyzer)
        body = compute_body(plan, point, self.read)
        where = self.where(plan, point, plan.values, plan.stage.relations)
        return self.loops(plan, with_regions(plan.stage.label, point.iters, where, body))

    def _reduction(self, plan: Plan, op: ComputeOp) -> st.Stmt:
        """Return all loops with the combination; the initial values are set just outside the first loop that reduces."""
        stage, relations = plan.stage, plan.stage.relations
        reducing = coming_from(relations, op.reduce_axis)
        first = next(at for at, leaf in enumerate(stage.leaf_iter_vars) if leaf in reducing)
        if any(leaf in reducing and is_launch(plan.tag(leaf)) for leaf in stage.leaf_iter_vars):
            return across_threads(self, plan, op, reducing)
        point = Point(plan, {axis: plan.values[axis] for axis in op.root_iter_vars}, self.analyzer)
        body = update_body(plan, point, self.read, self.targets(plan, point))
        update = with_regions(stage.label, point.iters, self.where(plan, point, plan.values, relations), body)
        return self.loops(plan, update, {stage.leaf_iter_vars[first]: self._init(plan, op, first)})

    def _init(self, plan: Plan, op: ComputeOp, first: int) -> st.Stmt:
        """Return the loops that set the initial values of all elements that the loops from the leaf `first` on compute.

        A loop over data and terms has no iterations where there are no terms, so loops over its data take its place.
        """
        leaves, relations = plan.stage.leaf_iter_vars, plan.stage.relations
        data, reducing = coming_from(relations, op.axis), coming_from(relations, op.reduce_axis)
        mixed = data & reducing
        apart = [axis for relation in relations if not mixed.isdisjoint(children(relation))
                 for axis in parents(relation) if axis in data and axis not in mixed]
        values: dict[IterVar, Expr] = {}
        loops: list[tuple[IterVar, Var]] = []
        for at, leaf in enumerate(leaves):
            for axis in apart if leaf in mixed else (leaf,):
                extent = plan.extents[axis]
                value = plan.leaves[leaf]
                if axis is not leaf:
                    value = loop_var(axis) if int_value(extent) != 1 else const(0, extent.dtype)
                if axis not in data:
                    value = const(0, value.dtype)
                elif at >= first and isinstance(value, Var) and not is_launch(plan.tag(axis)):
                    value = loop_var(axis, "_init")
                    self.analyzer.bind(value, Range(const(0, value.dtype), extent))
                    loops.append((axis, value))
                values[axis] = value
            apart = [] if leaf in mixed else apart
        mine = [relation for relation in relations
                if not data.isdisjoint(parents(relation)) and mixed.isdisjoint(children(relation))]
        values = pass_values(mine, values, plan.extents)
        point = Point(plan, {axis: values[axis] for axis in op.axis}, self.analyzer)
        body = init_body(plan, point, self.read, self.targets(plan, point))
        body = with_regions(f"{plan.stage.label}_init", point.iters, self.where(plan, point, values, mine), body)
        for leaf, var in reversed(loops):
            body = self.loop(plan, leaf, var, body)
        return body

    def _opaque(self, plan: Plan, op: ExternOp) -> st.Stmt:
        """Return the statements of an extern operation as one block over the buffers of its tensors."""
        new: dict[Buffer, Buffer] = {}
        layout: dict[Var, Expr] = {}
        reads: list[Buffer] = []
        for tensor, declared in zip(op.inputs, op.input_buffers, strict=True):
            buffer, _ = self.memory.of(tensor)
            reads.append(buffer)
            new[declared] = buffer
        new.update(zip(op.output_buffers, plan.buffers, strict=True))
        for declared, buffer in new.items():
            layout.update((have, want) for have, want in zip(declared.strides, buffer.compact_strides(), strict=False)
                          if isinstance(have, Var))
            if isinstance(declared.offset, Var):
                layout[declared.offset] = buffer.offset
        body = named_values(substitute_stmt(replace_buffers(op.body, new), layout))
        return st.Block(
            plan.stage.label, (), tuple(map(_whole, dict.fromkeys(reads))), tuple(map(_whole, plan.buffers)), TRUE, None, body,
        )

    def _steps(self, plan: Plan, op: ScanOp) -> st.Stmt:
        """Return the loop of a scan; its update stands within it as a stage of its own."""
        return self.loops(plan, st.NOTHING)


def _whole(buffer: Buffer) -> st.Region:
    return st.Region(buffer, tuple([Range(const(0, extent.dtype), extent) for extent in buffer.shape]))
