"""Nests: the loops of each kind of operation with the blocks in them."""

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.sharing import named_values
from vtakit.compiler.ir.values import TRUE, const
from vtakit.compiler.ir.walk import replace_buffers, substitute_stmt
from vtakit.compiler.lower.across import across_threads
from vtakit.compiler.lower.axes import coming_from
from vtakit.compiler.lower.blocks import Point, compute_body, update_body, with_regions
from vtakit.compiler.lower.loops import Loops
from vtakit.compiler.lower.plan import Plan, is_launch
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
        return self.loops(plan, update, {stage.leaf_iter_vars[first]: self.init(plan, op, first)})

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
