"""Bound inference: which part of each stage its readers need, and from that the extent of each of its loops.

Readers come first. What a reader needs of a stage is what its body reads while every loop within the place of the stage runs
and the loops around that place stand still. A loop bound to threads runs as well, wherever it is, if the memory of the
stage is shared by those threads.
"""

from collections.abc import Iterable, Mapping

from vtakit.compiler.arith import Analyzer, Interval, region, union
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, FloorDiv, FloorMod, ProducerLoad, Var
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.ops import maximum
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import divides, free_vars, subexpressions, substitute
from vtakit.compiler.lower.axes import coming_from, pass_extents, pass_intervals, pass_values
from vtakit.compiler.lower.dependent import dependent_axes, has_dependent_thread, resolve, widen
from vtakit.compiler.lower.errors import LowerError
from vtakit.compiler.lower.plan import Launch, Level, Plan, Plans, is_launch, loop_var, scope_rank, sharing_threads, thread_rank
from vtakit.compiler.te.operation import ComputeOp, ExternOp, PlaceholderOp, ScanOp
from vtakit.compiler.te.tensor import Tensor

Box = list[Interval | None]  # one a dimension; None is the whole dimension


class Bounds:
    """Ranges and extents of all plans.

    launches : of each kernel that has thread axes within
    """

    def __init__(self, plans: Plans, given: Mapping[Tensor, Buffer], analyzer: Analyzer) -> None:
        self.plans, self.given, self.analyzer = plans, given, analyzer
        self.launches: dict[Plan, Launch] = {}
        self.kernels = {
            plan.kernel() for plan in plans.all
            if plan.stage.threads_around or any(is_launch(plan.tag(leaf)) for leaf in plan.stage.leaf_iter_vars)
        }
        for plan in reversed(plans.all):
            if not isinstance(plan.op, PlaceholderOp):
                self._choose_scope(plan)
                self._find_ranges(plan)
                self._find_extents(plan)

    def launch(self, plan: Plan) -> Launch:
        return self.launches.setdefault(plan.kernel(), Launch())

    def _choose_scope(self, plan: Plan) -> None:
        """Memory that the schedule leaves open is global for a kernel's result, shared in a block, a thread's own in a thread."""
        if not plan.scope:
            tags = {level.plan.tag(level.axis) for level in plan.outside()}
            if plan.kernel() is plan or plan.kernel() not in self.kernels:
                plan.scope = "global"
            else:
                plan.scope = "local" if any(tag.startswith("threadIdx") for tag in tags) else "shared"

    # -- what is needed of a stage ---------------------------------------------------------------------------------------

    def _find_ranges(self, plan: Plan) -> None:
        op = plan.op
        whole = {axis: axis.dom for axis in op.root_iter_vars if axis.dom is not None}
        plan.ranges.update(whole)
        given = any(tensor in self.given for tensor in plan.stage.origin_op.outputs)
        # At the root an intrinsic's tiles are whole, though readers may need only a part of the last ones.
        tiles = plan.home is None and any(plan.stage.note(leaf).intrin is not None for leaf in plan.stage.leaf_iter_vars)
        if not isinstance(op, ComputeOp) or plan.stage.is_output or given or tiles:
            return
        box = self._needed(plan)
        for axis, interval in zip(op.axis, box, strict=True):
            assert axis.dom is not None, "a data axis has a domain"
            if interval is not None and axis not in plan.stage.wholes:
                plan.ranges[axis] = self._within(interval, axis.dom, at_root=plan.home is None)

    def _needed(self, plan: Plan) -> Box:
        """The union of what all readers need of a compute."""
        assert isinstance(plan.op, ComputeOp)
        found: Box | None = None
        for reader in plan.readers:
            for box in self._read_by(reader, plan):
                found = box if found is None else [self._both(a, b) for a, b in zip(found, box, strict=True)]
        return found if found is not None else [None] * len(plan.op.axis)

    def _both(self, a: Interval | None, b: Interval | None) -> Interval | None:
        return None if a is None or b is None else union(a, b, self.analyzer)

    def _read_by(self, reader: Plan, plan: Plan) -> Iterable[Box]:
        makes = self.plans.maker
        if isinstance(reader.op, ScanOp):
            return self._states(reader, reader.op, plan)
        if isinstance(reader.op, ExternOp):
            self._running(reader, plan)  # for its check of the place
            return [[None] * len(tensor.shape) for tensor in reader.op.input_tensors if makes(tensor) is plan]
        sets, outside, loops = self._running(reader, plan)
        seen = dict.fromkeys(load.indices for load in reader.reads() if makes(load.tensor) is plan)
        return [[
            self._along_fused(index, reader, loops | outside) or self._interval(index, sets, loops | outside) for index in indices
        ] for indices in seen]

    def _states(self, scan: Plan, op: ScanOp, plan: Plan) -> Iterable[Box]:
        """Yield the parts that a scan needs of the stages of its states: all initial rows, and of the update one row a step."""
        for tensors in (op.init, op.update):
            for tensor in tensors:
                if self.plans.maker(tensor) is plan:
                    step = self.analyzer.simplify(scan.ranges[op.scan_axis].min + scan.values[op.scan_axis])
                    row = None if tensors is op.init else Interval(step, step)
                    yield [row, *[None] * (len(tensor.shape) - 1)]

    def _running(self, reader: Plan, plan: Plan) -> tuple[dict[Var, Interval], dict[Var, Range], dict[Var, Range]]:
        """Return the intervals of the reader's axes in one run of the plan's loops, and the loops that run: around, its own."""
        leaves: dict[IterVar, Interval] = {}
        outside: dict[Var, Range] = {}
        loops: dict[Var, Range] = {}
        fixed = False
        for level in reader.around():
            fixed = fixed or (plan.home is not None and level.plan is plan.home.plan and level.axis is plan.home.axis)
            value, extent = level.plan.leaves[level.axis], level.plan.extents[level.axis]
            runs = self._runs(level, plan, fixed)
            if level.plan is reader:
                everything = Interval(const(0, extent.dtype), self.analyzer.simplify(extent - 1))
                leaves[level.axis] = everything if runs else Interval(value, value)
            if runs and isinstance(value, Var):
                (loops if level.plan is reader else outside)[value] = Range(const(0, extent.dtype), extent)
        if plan.home is not None and not fixed:
            home = plan.home.plan.stage
            raise LowerError(
                "places", f"{plan.stage.label} is computed at the loop {home.axis_labels[plan.home.axis]} of {home.label}, but "
                f"{reader.stage.label}, which reads it, is not within that loop",
                f"compute {reader.stage.label} there too, or {plan.stage.label} at a loop around both or at the root",
                (home, plan.home.axis), (reader.stage, "stage"),
            )
        sets = pass_intervals(reader.stage.relations, leaves, reader.extents, self.analyzer)
        within = {axis.var: self._shifted(sets[axis], reader.ranges[axis], axis) for axis in reader.op.root_iter_vars}
        return within, outside, loops

    def _runs(self, level: Level, plan: Plan, fixed: bool) -> bool:
        """Return whether a loop of a reader runs, rather than stands still, during one run of the plan's loops."""
        tag = level.plan.tag(level.axis)
        if not tag:
            return not fixed
        if is_launch(tag) and level.plan.kernel() is not plan.kernel():
            return True  # of another kernel
        if tag in sharing_threads(plan.scope):
            return True
        return scope_rank(plan.scope) <= thread_rank(tag) or (not fixed and not is_launch(tag))

    def _shifted(self, steps: Interval, start: Range, axis: IterVar) -> Interval:
        """The values of an axis from the steps counted from its start, within its domain where that is certain."""
        simplify, prove = self.analyzer.simplify, self.analyzer.prove
        low = simplify(start.min + steps.min)
        if steps.min is steps.max:
            return Interval(low, low)
        high = simplify(start.min + steps.max)
        dom = axis.dom
        if axis.kind is IterKind.DATA and dom is not None and dom is not start:  # others may set the domain of one that adds up
            last = simplify(dom.min + (dom.extent - 1))
            low, high = dom.min if prove(low <= dom.min) else low, last if prove(last <= high) else high
        return Interval(low, high)

    def _along_fused(self, index: Expr, reader: Plan, running: Mapping[Var, Range]) -> Interval | None:
        """The values of an index that puts together what a fused loop takes apart, as of a flat copy: ``f // w * w + f % w``.

        Axis by axis, a part of the fused loop would need whole rows. None for any other index.
        """
        used = free_vars(index)
        parts = {
            axis.var: reader.ranges[axis].min + reader.values[axis] for axis in reader.op.root_iter_vars if axis.var in used
        }
        if sum(divides(value) for value in parts.values()) < 2 or any(isinstance(e, ProducerLoad) for e in subexpressions(index)):
            return None
        whole = self.analyzer.simplify(substitute(index, parts))
        if any(isinstance(e, FloorDiv | FloorMod) and not free_vars(e).isdisjoint(running) for e in subexpressions(whole)):
            return None
        return region(whole, running, self.analyzer)

    def _interval(self, index: Expr, sets: Mapping[Var, Interval], running: Mapping[Var, Range]) -> Interval | None:
        """The values that an index takes; None if that is not known.

        sets    : the values of the reader's axes, whose ends may move with loops that run too: `running`
        """
        if any(isinstance(e, ProducerLoad) for e in subexpressions(index)):
            return None
        used = free_vars(index)
        points = {var: sets[var].min for var in used if var in sets and sets[var].min is sets[var].max}
        ranges = {
            var: Range(sets[var].min, self.analyzer.simplify(sets[var].max - sets[var].min + 1))
            for var in used if var in sets and var not in points
        }
        found = region(substitute(index, points), ranges, self.analyzer)
        if found is None:
            return None
        if running.keys().isdisjoint(free_vars(found.min) | free_vars(found.max)):
            return found
        low, high = region(found.min, running, self.analyzer), region(found.max, running, self.analyzer)
        return None if low is None or high is None else Interval(low.min, high.max)

    def _within(self, needed: Interval, dom: Range, *, at_root: bool) -> Range:
        """The part of a dimension that is computed so that what is needed is; not more than the dimension has.

        At the root a part whose length is symbolic ends where the dimension does, unless it certainly ends before: one that
        hangs over would have a longer loop and a guard.
        """
        a = self.analyzer
        low, high = a.simplify(needed.min), a.simplify(needed.max)
        size = int_value(dom.extent)
        extent = a.simplify(high - low + 1)
        if int_value(extent) is None:
            most = a.bounds(extent).hi
            if most != float("inf"):
                extent = const(int(most), extent.dtype)
        number = int_value(extent)
        if number is not None and size is not None:
            if number >= size:
                return dom
            if number <= 0:
                return Range(dom.min, const(1, extent.dtype))
        last = dom.min + (dom.extent - 1)
        below, above = a.prove(low <= dom.min), a.prove(last <= high)
        if below and above:
            return dom
        if below and number is not None and a.prove(low < dom.min):  # for example the rows above an image that padding replaces
            return self._within(Interval(dom.min, high), dom, at_root=at_root)
        if above and number is not None and a.prove(last < high):
            return self._within(Interval(low, a.simplify(last)), dom, at_root=at_root)
        if number is not None:
            return Range(low, extent)
        if at_root:
            low, high = low if a.prove(dom.min <= low) else dom.min, high if a.prove(high <= last) else last
            found = Range(low, a.simplify(high - low + 1))
            return found if a.prove(found.extent >= 0) else dom
        return Range(low, extent if a.prove(extent >= 0) else a.simplify(maximum(extent, const(0, extent.dtype))))

    # -- the extents of a stage's loops ----------------------------------------------------------------------------------

    def _find_extents(self, plan: Plan) -> None:
        for thread in plan.stage.threads_around:
            if thread.dom is not None and is_launch(thread.thread):
                self._share(plan, thread.thread, thread.dom.extent)
        dependent = dependent_axes(plan)
        self._pass_extents(plan)
        if dependent and has_dependent_thread(plan):
            widen(plan, dependent, self.analyzer)
            dependent = []
            self._pass_extents(plan)
        self._name_loops(plan)
        if dependent:
            if not resolve(plan, self.analyzer):
                widen(plan, dependent, self.analyzer)
                self._pass_extents(plan)
                self._name_loops(plan)
            plan.values = pass_values(plan.stage.relations, plan.leaves, plan.extents)
        for leaf in plan.stage.leaf_iter_vars:
            value = plan.leaves[leaf]
            if isinstance(value, Var) and not is_launch(plan.tag(leaf)):
                self.analyzer.bind(value, Range(const(0, value.dtype), plan.extents[leaf]))

    def _pass_extents(self, plan: Plan) -> None:
        roots = {axis: range_.extent for axis, range_ in plan.ranges.items()}
        bound = [leaf for leaf in plan.stage.leaf_iter_vars if plan.tag(leaf)]
        plan.extents = pass_extents(plan.stage.relations, roots, bound, self.analyzer)

    def _name_loops(self, plan: Plan) -> None:
        for leaf in plan.stage.leaf_iter_vars:
            plan.leaves[leaf] = self._leaf_value(plan, leaf, plan.tag(leaf))
        plan.values = pass_values(plan.stage.relations, plan.leaves, plan.extents)

    def _leaf_value(self, plan: Plan, leaf: IterVar, tag: str) -> Expr:
        extent = plan.extents[leaf]
        if isinstance(plan.op, ScanOp) and leaf not in coming_from(plan.stage.relations, (plan.op.scan_axis,)):
            return const(0, leaf.var.dtype)  # the update has loops of its own over the other dimensions
        if is_launch(tag):
            return self._thread(plan, leaf, tag, extent)
        if int_value(extent) == 1 and not tag and not plan.stage.note(leaf).pragmas:
            return const(0, leaf.var.dtype)
        return loop_var(leaf)  # not the axis's own variable: that counts from the axis's first value, a loop from 0

    def _share(self, plan: Plan, tag: str, extent: Expr) -> tuple[Var, Expr]:
        """The variable and length of a thread axis in the plan's kernel; it has `extent` if nothing said otherwise before.

        At least one thread runs: stages of the kernel that have no such axis do their work in the first.
        """
        launch = self.launch(plan)
        var = launch.var(tag)
        if tag not in launch.extents:
            launch.extents[tag] = const(1, extent.dtype) if int_value(extent) == 0 else extent
            self.analyzer.bind(var, Range(const(0, var.dtype), launch.extents[tag]))
        return var, launch.extents[tag]

    def _thread(self, plan: Plan, leaf: IterVar, tag: str, extent: Expr) -> Var:
        thread = plan.stage.note(leaf).thread
        given = thread.dom.extent if thread is not None and thread.dom is not None and int_value(thread.dom.extent) != 0 else None
        var, have = self._share(plan, tag, given if given is not None else extent)
        if not self.analyzer.prove(extent <= have) or (given is not None and not self.analyzer.prove_equal(given, have)):
            label = plan.stage.axis_labels[leaf]
            raise LowerError(
                "thread lengths", f"{label} has {extent} iterations on {tag}, which has {have} in the same kernel",
                f"split {label} so that a loop of {have} is bound", (plan.stage, leaf),
            )
        return var
