"""The data of a schedule and of its stages, which refer to each other: operations, loops, places, memory, and the steps done.

`Stage` and `Schedule` derive from these classes and add the primitives.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from vtakit.base.errors import one_of
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.schedule.labels import distinct
from vtakit.compiler.schedule.relations import AT_ROOT, PLAIN, Align, Attach, AttachKind, Fuse, Notes, Relation, Split
from vtakit.compiler.schedule.trace import Step
from vtakit.compiler.te.tensor import Operation, Tensor

StageT = TypeVar("StageT", bound="StageData", covariant=True)  # a table of `Stage` is one of `StageData`, which stages refer to


class GroupOp(Operation):
    """The operation of a group of stages: it makes nothing and has no axes."""

    __slots__ = ()

    @property
    def num_outputs(self) -> int:
        return 0


class StageData:
    """The data of a stage; `Stage` adds the primitives.

    schedule : the schedule that it belongs to
    label : its name in the schedule, which no other stage has and copies share
    origin_op : the operation as the expression has it; `op` : what is computed now (cache and rfactor rewrite it).
        A body reads tensors of *origin* operations: `schedule[tensor]` is the stage that makes one
    is_output : whether it is a result of the program
    all_iter_vars, leaf_iter_vars : every axis, and the loops now, outermost first
    relations : how axes come from others, in the order made
    axis_labels : each axis's name, unique in the stage
    notes : of leaf axes that are marked
    attach : where it stands; group : the label of the group that it is in, ""
    scope : of its memory, "" where the compiler chooses (the global scope at the root)
    aligns : axis of the operation -> alignment of that dimension's stride
    threads_around : thread axes that it is launched under without using them
    wholes : axes of the operation whose dimension is computed whole, whatever part is read
    store_predicate : the condition under which it stores, over its axes and thread axes
    double_buffered : copies of its memory that are filled ahead of their use, 0 for none
    asynchronous : whether its copies go on while others compute
    swizzled : bytes of a row of its memory within which 16-byte chunks change places, 0 for none
    """

    __slots__ = (
        "aligns",
        "all_iter_vars",
        "asynchronous",
        "attach",
        "axis_labels",
        "double_buffered",
        "group",
        "is_output",
        "label",
        "leaf_iter_vars",
        "notes",
        "op",
        "origin_op",
        "relations",
        "schedule",
        "scope",
        "store_predicate",
        "swizzled",
        "threads_around",
        "wholes",
    )

    def __init__(self, schedule: "StageTable[StageData]", label: str, op: Operation, *, is_output: bool = False) -> None:
        self.schedule, self.label, self.op, self.origin_op = schedule, label, op, op
        self.is_output = is_output
        self.relations: list[Relation] = []
        self.notes: dict[IterVar, Notes] = {}
        self.attach: Attach = AT_ROOT
        self.group = ""
        self.scope = ""
        self.double_buffered = 0
        self.asynchronous = False
        self.swizzled = 0
        self.aligns: dict[IterVar, Align] = {}
        self.wholes: tuple[IterVar, ...] = ()
        self.threads_around: tuple[IterVar, ...] = ()
        self.store_predicate: Expr | None = None
        self.start_over(op)

    def start_over(self, op: Operation) -> None:
        """Take `op` as what is computed, with its own axes as the loops."""
        self.op = op
        self.all_iter_vars = [*op.root_iter_vars]
        self.leaf_iter_vars = [*op.root_iter_vars]
        self.relations = []
        self.notes = {}
        self.axis_labels: dict[IterVar, str] = {}
        for axis in self.all_iter_vars:
            self.name_axis(axis)

    def name_axis(self, axis: IterVar) -> str:
        """Give an axis a label that no other axis of the stage has."""
        label = distinct(axis.name, self.axis_labels.values())
        self.axis_labels[axis] = label
        return label

    def add_relation(self, relation: Relation, removed: tuple[IterVar, ...], made: tuple[IterVar, ...]) -> None:
        """Put the axes `made` in the place of the adjacent leaf axes `removed`."""
        leaf = self.leaf_iter_vars
        at = self.position(removed[0]) if removed else 0
        leaf[at:at + len(removed)] = made
        self.all_iter_vars += made
        self.relations.append(relation)

    def position(self, axis: IterVar) -> int:
        """Return the place of a loop among the stage's loops, outermost first; -1 if it is none."""
        for at, leaf in enumerate(self.leaf_iter_vars):
            if leaf is axis:
                return at
        return -1

    def loop_of(self, axis: IterVar) -> IterVar:
        """Return the loop in whose body a stage attached at `axis` stands: the axis, or the inner or fused loop made of it."""
        for relation in self.relations:
            match relation:
                case Split(parent=parent, inner=inner) if parent is axis:
                    axis = inner
                case Fuse(outer, inner, fused) if outer is axis or inner is axis:
                    axis = fused
        return axis

    def copy_into(self, schedule: "StageTable[StageData]") -> Self:
        """Return the same stage as part of another schedule; axes and operations are shared."""
        stage = object.__new__(type(self))
        stage.schedule = schedule
        stage.label, stage.op, stage.origin_op, stage.is_output = self.label, self.op, self.origin_op, self.is_output
        stage.all_iter_vars, stage.leaf_iter_vars = self.all_iter_vars.copy(), self.leaf_iter_vars.copy()
        stage.relations, stage.axis_labels, stage.notes = self.relations.copy(), self.axis_labels.copy(), self.notes.copy()
        stage.attach, stage.group, stage.scope, stage.double_buffered = self.attach, self.group, self.scope, self.double_buffered
        stage.aligns, stage.wholes = self.aligns.copy(), self.wholes
        stage.threads_around, stage.store_predicate = self.threads_around, self.store_predicate
        stage.asynchronous, stage.swizzled = self.asynchronous, self.swizzled
        return stage

    def restore(self, kept: Self) -> None:
        """Take over the state that `copy_into` kept."""
        for name in StageData.__slots__:
            if name != "schedule":
                setattr(self, name, getattr(kept, name))

    def note(self, axis: IterVar) -> Notes:
        """Return the marks of a leaf axis."""
        return self.notes.get(axis, PLAIN)

    @property
    def attach_stage(self) -> "StageData | None":
        """The stage within whose loop it stands."""
        return self.schedule.labelled(self.attach.stage) if self.attach.stage else None

    @property
    def attach_spec(self) -> "StageData":
        """The stage whose `attach` says where this one stands: itself, or the nearest group around it that has a place."""
        found: StageData = self
        while found.attach.kind is AttachKind.ROOT and found.group:
            found = self.schedule.labelled(found.group)
        return found

    @property
    def is_group(self) -> bool:
        return isinstance(self.op, GroupOp)

    def __repr__(self) -> str:
        return f"Stage({self.label})"


class StageTable(ABC, Generic[StageT]):
    """The stages of a schedule by label and by operation, and the steps that led to them.

    outputs : the operations that it is for
    stages  : groups included, each after those that make what it reads
    steps   : what was done, as data; `Schedule.trace` is the same to print, keep and repeat
    intrinsics : those that stages are tensorized by, by their names
    decisions  : given, and made by rules (`Stage.choose`)
    """

    __slots__ = ("_labels", "_of_op", "_threads", "decisions", "intrinsics", "outputs", "stages", "steps")

    def __init__(self, outputs: tuple[Operation, ...], decisions: Mapping[str, Any] | Decisions | None = None) -> None:
        self.decisions = decisions if isinstance(decisions, Decisions) else Decisions(decisions)
        self.outputs = outputs
        self.stages: list[StageT] = []
        self.steps: list[Step] = []
        self.intrinsics: dict[str, Any] = {}
        self._threads: dict[IterVar, str] = {}
        self._labels: dict[str, StageT] = {}
        self._of_op: dict[Operation, str] = {}

    def __getitem__(self, of: Tensor | Operation | str) -> StageT:
        """Return the stage of a tensor, an operation or a label. Raises ScheduleError for what is not in the schedule."""
        found: StageT | None = None
        if isinstance(of, str):
            found = self._labels.get(of)
        elif isinstance(of, Tensor | Operation):
            found = self.stage_of(of.op if isinstance(of, Tensor) else of)
        if found is None:
            name = str(of if isinstance(of, str) else getattr(of, "name", of))
            if name in self._labels:
                raise ScheduleError(f"{name!r} of another program is given: use the tensor that this schedule was created for")
            raise ScheduleError(f"{name!r} is no stage of this schedule: {one_of(self._labels, name)}")
        return found

    def stage_of(self, op: Operation) -> StageT | None:
        """Return the stage of an operation, of the expression or as a primitive rewrote it."""
        label = self._of_op.get(op)
        return self._labels[label] if label is not None else None

    def labelled(self, label: str) -> StageT:
        """Return the stage of a label. Raises KeyError for another."""
        return self._labels[label]

    def members(self, stage: StageData) -> list[StageData]:
        """Return the stages that a group holds, directly or in groups within; any other stage by itself."""
        if not stage.is_group:
            return [stage]
        return [part for inner in self.stages if inner.group == stage.label for part in self.members(inner)]

    def reads(self, label: str) -> list[str]:
        """Return the labels of the stages that make what a stage reads."""
        return [self._of_op[tensor.op] for tensor in self._labels[label].op.input_tensors]

    def read_as(self, reader: StageData, tensor: Tensor) -> list[Tensor]:
        """Return what a stage reads of a tensor: under the operation of the expression, or one that took its place."""
        made = self._of_op.get(tensor.op)
        return [
            item for item in reader.op.input_tensors if item.value_index == tensor.value_index and self._of_op[item.op] == made
        ]

    def readers_of(self, stage: StageData) -> list[StageT]:
        """Return the stages that read what a stage, or a member of a group, makes."""
        made = {part.label for part in self.members(stage)}
        return [other for other in self.stages if not made.isdisjoint(self.reads(other.label)) and other.label not in made]

    def attached_to(self, stage: StageData) -> list[StageT]:
        """Return the stages that stand within a loop of a stage."""
        return [other for other in self.stages if other.attach.stage == stage.label]

    # Steps.

    def record(self, on: str, do: str, args: dict[str, Any], gives: Sequence[str] = ()) -> None:
        """Add a step to the trace."""
        self.steps.append(Step(on, do, args, tuple(gives)))

    def tensor_label(self, tensor: Tensor) -> str | list[Any]:
        """Return a tensor in the trace: the label of its stage, with the number of the output if there are several."""
        label = self._of_op[tensor.op]
        return label if tensor.op.num_outputs == 1 else [label, tensor.value_index]

    def thread_as_data(self, thread: IterVar) -> dict[str, Any]:
        """Return a thread axis in the trace: its tag, a name of its own, and its extent if it is given one."""
        name = self._threads.get(thread)
        if name is None:
            name = self._threads[thread] = distinct(thread.name, self._threads.values())
        extent = None if thread.dom is None else int_value(thread.dom.extent)
        return {"tag": thread.thread, "name": name} | ({} if extent is None else {"extent": extent})

    # Changes.

    @abstractmethod
    def new_stage(self, label: str, op: Operation, *, is_output: bool) -> StageT:
        """Return a stage of this schedule that is not yet among the others."""

    def add_stage(self, op: Operation, at: int, *, is_output: bool = False) -> StageT:
        """Put a stage for `op` at a place in the order."""
        stage = self.new_stage(distinct(op.name, self._labels), op, is_output=is_output)
        self.stages.insert(at, stage)
        self._labels[stage.label] = stage
        self._of_op[op] = stage.label
        return stage

    def redefine(self, stage: StageData, op: Operation) -> None:
        """Let a stage compute another operation that makes the same values."""
        stage.op = op
        self._of_op[op] = stage.label

    def __repr__(self) -> str:
        return f"Schedule({', '.join(stage.label for stage in self.stages)})"
