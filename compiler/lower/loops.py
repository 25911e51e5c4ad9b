"""The loops of a stage around its blocks, with the stages that stand within them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import IterVar, Range
from vtakit.compiler.ir.ops import all_of
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import substitute
from vtakit.compiler.lower.axes import children, coming_from, guards, parents, pass_values
from vtakit.compiler.lower.blocks import Point, init_body, point_of, target, with_regions
from vtakit.compiler.lower.bounds import Bounds
from vtakit.compiler.lower.memory import Memory
from vtakit.compiler.lower.plan import Plan, is_launch, loop_var, scope_rank, sharing_threads, thread_rank
from vtakit.compiler.lower.prefetch import prefetches
from vtakit.compiler.schedule.relations import Mark, Relation
from vtakit.compiler.te.operation import ComputeOp, PlaceholderOp

NONE: Mapping[IterVar, st.Stmt] = MappingProxyType({})
KINDS = {
    Mark.SERIAL: st.LoopKind.SERIAL, Mark.UNROLLED: st.LoopKind.UNROLLED, Mark.VECTORIZED: st.LoopKind.VECTORIZED,
    Mark.PARALLEL: st.LoopKind.PARALLEL, Mark.TENSORIZED: st.LoopKind.SERIAL,
}


class Loops(ABC):
    """Writes the loops of all plans; `nest`, which a subclass defines, writes what one of them computes.

    within  : the plans that stand in each loop of a plan, in the order of the program
    at_root : the plans that stand in no loop
    """

    def __init__(self, bounds: Bounds, memory: Memory, analyzer: Analyzer) -> None:
        self.bounds, self.memory, self.analyzer = bounds, memory, analyzer
        self.within: dict[tuple[Plan, IterVar], list[Plan]] = {}
        self.at_root: list[Plan] = []
        for plan in bounds.plans.all:
            if isinstance(plan.op, PlaceholderOp):
                continue
            if plan.home is None:
                self.at_root.append(plan)
            else:
                self.within.setdefault((plan.home.plan, plan.home.axis), []).append(plan)

    def program(self) -> st.Stmt:
        return self._pipeline(self.at_root, st.NOTHING)

    @abstractmethod
    def nest(self, plan: Plan) -> st.Stmt:
        """Return a stage's loops with its blocks."""

    def _pipeline(self, plans: Sequence[Plan], body: st.Stmt) -> st.Stmt:
        """Return the plans' loops one after another before `body`, each in the memory that it writes."""
        for plan in reversed(plans):
            made = self.nest(plan)
            body = st.seq(self._launched(plan, made) if plan.kernel() is plan else made, body)
            for buffer in reversed(self.memory.own.get(plan, ())):
                if not _is_nothing(body):
                    body = st.Allocate(buffer, body, self._buffer_notes(plan))
        return body

    def _buffer_notes(self, plan: Plan) -> Mapping[str, Any]:
        notes: dict[str, Any] = {}
        if plan.stage.double_buffered:
            notes["double_buffer"] = plan.stage.double_buffered
        if plan.stage.asynchronous:
            notes["async_copy"] = True
        if plan.stage.aligns:
            axes = plan.op.root_iter_vars
            notes["storage_align"] = tuple((axes.index(axis), a.factor, a.offset) for axis, a in plan.stage.aligns.items())
        return notes or st.NO_NOTES

    def _launched(self, plan: Plan, body: st.Stmt) -> st.Stmt:
        """Return the body of a stage that is a kernel within one loop for each thread axis of its launch."""
        launch = self.bounds.launches.get(plan)
        if launch is None:
            return body
        for tag in sorted(launch.vars, key=lambda tag: (thread_rank(tag), tag), reverse=True):
            body = _repeat(st.For(launch.vars[tag], launch.extents[tag], body, st.LoopKind.THREAD, tag, self._pragmas(plan, tag)))
        return body

    def _pragmas(self, kernel: Plan, tag: str) -> Mapping[str, Any]:
        """Return the pragmas of all loops of a kernel that are bound to a thread axis."""
        found: dict[str, Any] = {}
        for plan in self.bounds.plans.all:
            if plan.kernel() is kernel:
                for leaf in plan.stage.leaf_iter_vars:
                    if plan.tag(leaf) == tag:
                        found |= plan.stage.note(leaf).pragmas
        return found or st.NO_NOTES

    def loops(
        self, plan: Plan, body: st.Stmt, before: Mapping[IterVar, st.Stmt] = NONE, leave_out: Sequence[IterVar] = (),
        leaves: Sequence[IterVar] | None = None,
    ) -> st.Stmt:
        """Return the stage's loops, or some of them, around `body`, with the stages within each and what goes before it."""
        for leaf in reversed(plan.stage.leaf_iter_vars if leaves is None else leaves):
            body = self._pipeline(self.within.get((plan, leaf), ()), body)
            body = st.seq(*prefetches(self.bounds.plans, self.memory, self.analyzer, plan, leaf), body)
            value = plan.leaves[leaf]
            if isinstance(value, Var) and leaf not in leave_out:
                if not is_launch(plan.tag(leaf)):
                    body = self.loop(plan, leaf, value, body)
                elif int_value(plan.extents[leaf]) == 0:  # the launch has a thread, for other stages
                    body = st.NOTHING
            if leaf in before:
                body = st.seq(before[leaf], body)
        return body

    def loop(self, plan: Plan, leaf: IterVar, var: Var, body: st.Stmt) -> st.Stmt:
        note = plan.stage.note(leaf)
        extent, tag = plan.extents[leaf], plan.tag(leaf)
        if tag:
            return _repeat(st.For(var, extent, body, st.LoopKind.THREAD, tag, note.pragmas))
        return _repeat(st.For(var, extent, body, KINDS[note.mark], "", note.pragmas))

    def init(self, plan: Plan, op: ComputeOp, first: int) -> st.Stmt:
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

    # For blocks.

    def where(
        self, plan: Plan, point: Point, values: Mapping[IterVar, Expr], relations: Sequence[Relation], *,
        own: bool = False,
    ) -> Expr:
        """Return the condition under which a block of the stage runs.

        own : whether the block only touches memory of its thread, so that every thread may run it
        """
        found = guards(relations, values, plan.extents, self.analyzer)
        if plan.kernel() in self.bounds.launches:
            found += self._thread_conditions(plan, own)
        found += point.overhang(self.analyzer, found)
        if plan.stage.store_predicate is not None and not own:
            found.append(substitute(plan.stage.store_predicate, point.vars | self._threads_of(plan)))
        return all_of(*found)

    def _thread_conditions(self, plan: Plan, own: bool) -> list[Expr]:
        """Return the conditions under which threads run the stage: its loops have iterations for them; of others one does."""
        launch, found, used = self.bounds.launches[plan.kernel()], [], set()
        if plan.stage.store_predicate is not None:  # it says which of the threads around store
            used |= {thread.thread for thread in plan.stage.threads_around}
        for leaf in plan.stage.leaf_iter_vars:
            tag = plan.tag(leaf)
            if is_launch(tag):
                used.add(tag)
                extent, whole = plan.extents[leaf], launch.extents[tag]
                if extent is not whole and not self.analyzer.prove(whole <= extent):
                    found.append(launch.vars[tag] < extent)
        for tag, var in launch.vars.items():
            if not own and tag not in used and self._shared_by(plan, tag):
                found.append(ir.EQ(var, const(0, var.dtype)))
        return found

    def _shared_by(self, plan: Plan, tag: str) -> bool:
        """Return whether the threads of a tag see the same memory of the stage."""
        if sharing_threads(plan.scope):
            return False
        return scope_rank(plan.scope) <= thread_rank(tag)

    def _threads_of(self, plan: Plan) -> dict[Var, Expr]:
        """Return the variables of the thread axes that a kernel's author named, as those of its launch."""
        launch = self.bounds.launches.get(plan.kernel())
        found: dict[Var, Expr] = {}
        for other in self.bounds.plans.all if launch is not None else ():
            if launch is not None and other.kernel() is plan.kernel():
                threads = [other.stage.note(leaf).thread for leaf in other.stage.leaf_iter_vars]
                for thread in (*threads, *other.stage.threads_around):
                    if thread is not None and thread.thread in launch.vars:
                        found[thread.var] = launch.vars[thread.thread]
        return found

    def read(self, load: ir.ProducerLoad) -> Expr:
        """Return the element of a buffer that holds an element of a tensor."""
        buffer, origin = self.memory.of(load.tensor)
        return ir.Load(buffer, point_of(buffer, load.indices, origin))

    def targets(self, plan: Plan, point: Point) -> list[tuple[Buffer, tuple[Expr, ...]]]:
        return [(buffer, target(plan, point, i)) for i, buffer in enumerate(plan.buffers)]


def _is_nothing(s: st.Stmt) -> bool:
    return isinstance(s, st.Seq) and not s.stmts


def _repeat(loop: st.For) -> st.Stmt:
    """Return the loop, or nothing if it has no iterations, so that what never runs need not be right."""
    return st.NOTHING if int_value(loop.extent) == 0 or _is_nothing(loop.body) else loop
