"""Plans of lowering: the body, the place and the readers of each stage, found before loops are written."""

from collections.abc import Iterator
from typing import NamedTuple

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.fragments import is_fragment, threads_of
from vtakit.compiler.ir.iters import IterVar, Range
from vtakit.compiler.ir.stmt import LAUNCHES
from vtakit.compiler.ir.walk import map_expr, subexpressions, substitute
from vtakit.compiler.lower.errors import LowerError
from vtakit.compiler.lower.selects import safe_selects
from vtakit.compiler.schedule.data import StageData
from vtakit.compiler.schedule.relations import AttachKind
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.te.operation import ComputeOp, PlaceholderOp, ScanOp
from vtakit.compiler.te.tensor import Operation, Tensor

# How far memory of a scope is seen, as the rank of the widest loop that shares it: blocks share rank 0, threads of one block
# rank 1. Memory of any scope not named here is a thread's (or, on an accelerator, a virtual thread's) own.
SCOPE_RANK = {"global": 0, "shared": 1, "warp": 2}
PRIVATE = 3


def scope_rank(scope: str) -> int:
    return SCOPE_RANK.get(scope, PRIVATE)


def sharing_threads(scope: str) -> tuple[str, ...]:
    """Return the thread axes along which threads see the same memory of a scope that is a warp's or a warpgroup's."""
    return threads_of(scope) if is_fragment(scope) else ("threadIdx.x",) if scope == "warp" else ()


def thread_rank(tag: str) -> int:
    """0 for a block index, 1 for a thread index or a virtual thread."""
    return 0 if tag.startswith("blockIdx") else 1


def is_launch(tag: str) -> bool:
    """Return whether a thread axis belongs to a launch, which all stages of a kernel share.

    A virtual thread is a loop of its own.
    """
    return tag.startswith(("blockIdx", "threadIdx"))


class Launch:
    """The thread axes that the stages standing within one stage at the root share: one variable a tag."""

    def __init__(self) -> None:
        self.vars: dict[str, Var] = {}
        self.extents: dict[str, Expr] = {}

    def var(self, tag: str) -> Var:
        if tag not in self.vars:
            self.vars[tag] = Var(tag)
        return self.vars[tag]


class Level(NamedTuple):
    """One loop around a stage: a leaf of its own or of a stage within which it stands."""

    plan: "Plan"
    axis: IterVar


class Plan:
    """Plan of one stage.

    body    : of a compute, with the stages that it inlines in place
    home    : within whose loop it stands, and which; None at the root
    ranges  : of each axis of its operation the part that is needed; may refer to the loops around it
    extents : of each of its axes, leaves included
    leaves  : the value of each leaf: a loop variable, a thread index, or 0
    values  : the value of each axis, counted from its range's start
    buffers : one an output; `origins` : the index of each one's first element, one a dimension
    readers : the plans of the stages that read it, last first
    """

    def __init__(self, stage: StageData) -> None:
        self.stage = stage
        self.op: Operation = stage.op
        self.body: tuple[Expr, ...] = self.op.body if isinstance(self.op, ComputeOp) else ()
        self.home: Level | None = None
        self.ranges: dict[IterVar, Range] = {}
        self.extents: dict[IterVar, Expr] = {}
        self.leaves: dict[IterVar, Expr] = {}
        self.values: dict[IterVar, Expr] = {}
        self.buffers: tuple[Buffer, ...] = ()
        self.origins: tuple[tuple[Expr, ...], ...] = ()
        self.readers: list[Plan] = []
        self.scope = stage.scope

    def tag(self, axis: IterVar) -> str:
        """The thread tag that a leaf is bound to; "" for a loop."""
        thread = self.stage.note(axis).thread
        return thread.thread if thread is not None else axis.thread

    def around(self) -> Iterator[Level]:
        """The loops around the stage's body, its own included, innermost first."""
        for axis in reversed(self.stage.leaf_iter_vars):
            yield Level(self, axis)
        yield from self.outside()

    def outside(self) -> Iterator[Level]:
        """The loops around the stage's own loops, innermost first."""
        home = self.home
        while home is not None:
            leaves = home.plan.stage.leaf_iter_vars
            for axis in reversed(leaves[: home.plan.stage.position(home.axis) + 1]):
                yield Level(home.plan, axis)
            home = home.plan.home

    def kernel(self) -> "Plan":
        """The stage whose thread axes it shares: that at the root, or the one that stands in a loop which launches each stage."""
        if self.home is None:
            return self
        around = self.home.plan
        if isinstance(around.op, ScanOp) and LAUNCHES in around.stage.note(self.home.axis).pragmas:
            return self
        return around.kernel()

    def reads(self) -> Iterator[ir.ProducerLoad]:
        """Every element that the body reads, in terms of the operation's axes."""
        assert isinstance(self.op, ComputeOp)
        domains = [bound for axis in self.op.reduce_axis if axis.dom for bound in axis.dom]
        for e in dict.fromkeys((*self.body, *domains)):
            for node in subexpressions(e):
                if isinstance(node, ir.ProducerLoad):
                    yield node

    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that it reads once others are inlined."""
        if isinstance(self.op, ComputeOp):
            return tuple(dict.fromkeys(load.tensor for load in self.reads()))
        return self.op.input_tensors


class Plans:
    """The plans of a schedule: those of its stages that are computed, producers first."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.inlined: dict[Operation, tuple[ComputeOp, tuple[Expr, ...]]] = {}
        self.of_label: dict[str, Plan] = {}
        for stage in schedule.stages:
            if not stage.is_group:
                self._add(stage)
        self.all = [*self.of_label.values()]
        for plan in self.all:
            self._place(plan)
        for plan in self.all:
            self._check_place(plan)
        for plan in reversed(self.all):
            for tensor in plan.tensors():
                maker = self.maker(tensor)
                if maker is not None and plan not in maker.readers:
                    maker.readers.append(plan)
        self._drop_unread()

    def maker(self, tensor: Tensor) -> Plan | None:
        """The plan of the stage that makes a tensor; None for a scan's state, which the scan makes."""
        stage = self.schedule.stage_of(tensor.op)
        return self.of_label.get(stage.label) if stage is not None else None

    def _add(self, stage: StageData) -> None:
        plan = Plan(stage)
        if self.inlined and isinstance(plan.op, ComputeOp):
            put: dict[Expr, Expr] = {}
            plan.body = tuple([map_expr(e, lambda node: self._inline(node, put)) for e in plan.body])
        elif self.inlined:
            for tensor in plan.op.input_tensors:
                if self._inlined_maker(tensor) is not None:
                    inlined = self.schedule.stage_of(tensor.op)
                    raise LowerError(
                        "inlining",
                        f"{tensor.op.name} is inlined, but {stage.label}, which reads it, has no expression to put it in",
                        f"compute {tensor.op.name} at the root", *([(inlined, "stage")] if inlined else []), (stage, "body"),
                    )
        plan.body = safe_selects(plan.body, plan.op.root_iter_vars)
        if stage.attach.kind is AttachKind.INLINE:
            if not isinstance(plan.op, ComputeOp) or plan.op.reduce_axis:
                what = "a reduction" if isinstance(plan.op, ComputeOp) else "no expression"
                raise LowerError(
                    "inlining", f"{stage.label} is inlined, but is {what}", "place it with compute_at", (stage, "body"),
                )
            self.inlined[stage.origin_op] = self.inlined[stage.op] = plan.op, plan.body
        else:
            self.of_label[stage.label] = plan

    def _inlined_maker(self, tensor: Tensor) -> tuple[ComputeOp, tuple[Expr, ...]] | None:
        return self.inlined.get(tensor.op)

    def _inline(self, e: Expr, put: dict[Expr, Expr]) -> Expr:
        """Return the expression that replaces a read of an inlined stage, one object for all reads of one element."""
        found = self._inlined_maker(e.tensor) if isinstance(e, ir.ProducerLoad) else None
        if found is None or not isinstance(e, ir.ProducerLoad):
            return e
        if e not in put:
            op, body = found
            put[e] = substitute(body[e.tensor.value_index], dict(zip([axis.var for axis in op.axis], e.indices, strict=True)))
        return put[e]

    def _place(self, plan: Plan) -> None:
        stage = plan.stage.attach_spec
        if stage.attach.kind in (AttachKind.SCOPE, AttachKind.SCAN):
            assert stage.attach.axis is not None, "a scope attachment names its axis"
            home = self.of_label.get(stage.attach.stage)
            if home is None:
                raise LowerError(
                    "places",
                    f"{plan.stage.label} is computed at {stage.attach.axis.name} of {stage.attach.stage}, which is inlined",
                    f"compute it at a loop of the stage that reads {stage.attach.stage}",
                    (plan.stage, "stage"), (self.schedule.labelled(stage.attach.stage), "stage"),
                )
            plan.home = Level(home, leaf_of(home.stage, stage.attach.axis))

    def _check_place(self, plan: Plan) -> None:
        if plan.home is not None and plan.stage.is_output:
            raise LowerError(
                "places", f"{plan.stage.label} is an output, and is computed at the loop {plan.home.axis.name} of "
                f"{plan.home.plan.stage.label}", f"use cache_write({plan.stage.label}, scope) and compute that there",
                (plan.stage, "stage"), (plan.home.plan.stage, plan.home.axis),
            )
        seen, at = [plan], plan.home
        while at is not None:
            if at.plan in seen:
                names = " within ".join(p.stage.label for p in (*seen, at.plan))
                raise LowerError(
                    "places", f"stages are placed in a circle, {names}", "place one of them with compute_root",
                    *[(p.stage, "stage") for p in seen],
                )
            seen.append(at.plan)
            at = at.plan.home

    def _drop_unread(self) -> None:
        """Leave out stages that nothing reads any more: what they made was inlined."""
        for plan in reversed([*self.all]):
            needed = plan.stage.is_output or plan.readers or isinstance(plan.op, PlaceholderOp)
            if not needed and self._is_update(plan):
                continue
            if not needed:
                self.all.remove(plan)
                for tensor in plan.tensors():
                    maker = self.maker(tensor)
                    if maker is not None and plan in maker.readers:
                        maker.readers.remove(plan)

    def _is_update(self, plan: Plan) -> bool:
        return any(isinstance(other.op, ScanOp) and any(t.op is plan.stage.origin_op for t in (*other.op.init, *other.op.update))
                   for other in self.all)


def leaf_of(stage: StageData, axis: IterVar) -> IterVar:
    """The loop that an axis is now: itself, the inner part of a split, or what it was fused into."""
    leaf = stage.loop_of(axis)
    if stage.position(leaf) < 0:
        raise LowerError("places", f"{axis.name} is no loop of {stage.label}", "choose one of its loops", (stage, "stage"))
    return leaf


def loop_var(axis: IterVar, suffix: str = "") -> Var:
    """A variable for a loop over an axis."""
    return Var(axis.var.name + suffix, axis.var.dtype)
