"""What a schedule keeps of a stage: its operation, its loops, its place and its memory."""

from typing import TYPE_CHECKING, Self

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.schedule.labels import distinct
from vtakit.compiler.schedule.relations import AT_ROOT, PLAIN, Align, Attach, AttachKind, Fuse, Notes, Relation, Split
from vtakit.compiler.te.tensor import Operation

if TYPE_CHECKING:
    from vtakit.compiler.schedule.schedule import Schedule


class GroupOp(Operation):
    """What stands for a group of stages: it makes nothing and has no axes."""

    __slots__ = ()

    @property
    def num_outputs(self) -> int:
        return 0


class StageData:
    """What a schedule keeps of a stage; `Stage` adds the primitives.

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
    store_predicate : the condition under which it stores, over its axes and thread axes
    """

    __slots__ = (
        "aligns",
        "all_iter_vars",
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
        "threads_around",
    )

    def __init__(self, schedule: "Schedule", label: str, op: Operation, *, is_output: bool = False) -> None:
        self.schedule, self.label, self.op, self.origin_op = schedule, label, op, op
        self.is_output = is_output
        self.relations: list[Relation] = []
        self.notes: dict[IterVar, Notes] = {}
        self.attach: Attach = AT_ROOT
        self.group = ""
        self.scope = ""
        self.double_buffered = False
        self.aligns: dict[IterVar, Align] = {}
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
        """Which loop an axis is, from the outermost; -1 if it is none."""
        for at, leaf in enumerate(self.leaf_iter_vars):
            if leaf is axis:
                return at
        return -1

    def loop_of(self, axis: IterVar) -> IterVar:
        """The loop in whose body a stage attached at `axis` stands: the axis, or what it was split into (inner) or fused into."""
        for relation in self.relations:
            match relation:
                case Split(parent=parent, inner=inner) if parent is axis:
                    axis = inner
                case Fuse(outer, inner, fused) if outer is axis or inner is axis:
                    axis = fused
        return axis

    def copy_into(self, schedule: "Schedule") -> Self:
        """The same stage as part of another schedule; axes and operations are shared."""
        stage = object.__new__(type(self))
        stage.schedule = schedule
        stage.label, stage.op, stage.origin_op, stage.is_output = self.label, self.op, self.origin_op, self.is_output
        stage.all_iter_vars, stage.leaf_iter_vars = self.all_iter_vars.copy(), self.leaf_iter_vars.copy()
        stage.relations, stage.axis_labels, stage.notes = self.relations.copy(), self.axis_labels.copy(), self.notes.copy()
        stage.attach, stage.group, stage.scope, stage.double_buffered = self.attach, self.group, self.scope, self.double_buffered
        stage.aligns, stage.threads_around, stage.store_predicate = self.aligns.copy(), self.threads_around, self.store_predicate
        return stage

    def restore(self, kept: Self) -> None:
        """Become again what `copy_into` kept."""
        for name in StageData.__slots__:
            if name != "schedule":
                setattr(self, name, getattr(kept, name))

    def note(self, axis: IterVar) -> Notes:
        """What a leaf axis is marked with."""
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

