"""A schedule: the stages of a program, producers first, and the trace of what was done to them."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from vtakit.base.errors import one_of
from vtakit.compiler.ir.depth import deep
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.schedule import cache, factor, group
from vtakit.compiler.schedule.data import StageData
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.schedule.labels import distinct
from vtakit.compiler.schedule.replay import Replay
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.schedule.trace import Step, Trace
from vtakit.compiler.te.operation import ScanOp, producers_first
from vtakit.compiler.te.tensor import Operation, Tensor


class Schedule:
    """How a program is computed: ``schedule[tensor]`` is the stage that makes it.

    outputs : the operations that it is for
    stages  : groups included, each after those that make what it reads
    steps   : what was done, as data; `trace` is the same to print, keep and repeat
    intrinsics : those that stages are tensorized by, by their names
    decisions  : given, and made by rules (`Stage.choose`)
    """

    __slots__ = ("_labels", "_of_op", "_threads", "decisions", "intrinsics", "outputs", "stages", "steps")

    def __init__(self, outputs: tuple[Operation, ...], decisions: Mapping[str, Any] | None = None) -> None:
        self.decisions = Decisions(decisions)
        self.outputs = outputs
        self.stages: list[Stage] = []
        self.steps: list[Step] = []
        self.intrinsics: dict[str, Any] = {}
        self._threads: dict[IterVar, str] = {}
        self._labels: dict[str, Stage] = {}
        self._of_op: dict[Operation, str] = {}
        for op in producers_first(outputs, lambda op: [tensor.op for tensor in op.input_tensors]):
            self.add_stage(op, len(self.stages), is_output=op in outputs)
            if isinstance(op, ScanOp):
                group.hold_update(self, op)

    # What there is.

    def __getitem__(self, of: Tensor | Operation | str) -> Stage:
        """The stage of a tensor, an operation or a label; raises ScheduleError for what is not in the schedule."""
        found: Stage | None = None
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

    def stage_of(self, op: Operation) -> Stage | None:
        """The stage of an operation, of the expression or as a primitive rewrote it."""
        label = self._of_op.get(op)
        return self._labels[label] if label is not None else None

    def labelled(self, label: str) -> Stage:
        """The stage of a label; KeyError for another."""
        return self._labels[label]

    def members(self, stage: StageData) -> list[StageData]:
        """The stages that a group holds, directly or in groups within; any other stage by itself."""
        if not stage.is_group:
            return [stage]
        return [part for inner in self.stages if inner.group == stage.label for part in self.members(inner)]

    def reads(self, label: str) -> list[str]:
        """The labels of the stages that make what a stage reads."""
        return [self._of_op[tensor.op] for tensor in self._labels[label].op.input_tensors]

    def read_as(self, reader: StageData, tensor: Tensor) -> list[Tensor]:
        """What a stage reads of a tensor: under the operation of the expression, or one that took its place."""
        made = self._of_op.get(tensor.op)
        return [
            item for item in reader.op.input_tensors if item.value_index == tensor.value_index and self._of_op[item.op] == made
        ]

    def readers_of(self, stage: StageData) -> list[Stage]:
        """The stages that read what a stage, or a member of a group, makes."""
        made = {part.label for part in self.members(stage)}
        return [other for other in self.stages if not made.isdisjoint(self.reads(other.label)) and other.label not in made]

    def attached_to(self, stage: StageData) -> list[Stage]:
        """The stages that stand within a loop of a stage."""
        return [other for other in self.stages if other.attach.stage == stage.label]

    # What primitives of several stages do.

    @deep()
    def cache_read(self, tensor: Tensor, scope: Any, readers: Sequence[Any] | Any | None = None) -> Tensor:
        """Make a copy of a tensor in a memory, and let its readers (all of them, if none are named) read that.

        ``C = f(A)``  ->  ``A_shared = A; C = f(A_shared)``

        scope : its name, or an object with a name. Returns the copy; what was done to the readers' loops stays.
        Raises ScheduleError if a reader does not read the tensor, or nothing does.
        """
        given = readers if isinstance(readers, list | tuple) or readers is None else [readers]
        return cache.cache_read(self, tensor, scope, given)

    @deep()
    def cache_write(self, tensor: Tensor | Sequence[Tensor], scope: Any) -> Any:
        """Compute a tensor in a memory first, then copy it to its place; return the tensor that is computed there.

        ``C = f(A)``  ->  ``C_local = f(A); C = C_local``

        If the loops of C were split, fused or reordered before, the values are kept in the order of these loops.
        Of several outputs give all; a list is returned. Raises ScheduleError if the loops cannot become dimensions.
        """
        if isinstance(tensor, list | tuple):
            return cache.cache_write(self, tensor, scope)
        return cache.cache_write(self, [tensor], scope)[0]

    @deep()
    def rfactor(self, tensor: Tensor, axis: IterVar | str, factor_axis: int = 0) -> Any:
        """Make a loop over a reduction a dimension of a new tensor of partial results, and let the stage combine these.

        ``C[i] = sum(f(i, ko * 4 + ki), axis=[ko, ki])``, factored by ki  ->
        ``C_rf[ki, i] = sum(f(i, ko * 4 + ki), axis=[ko]); C[i] = sum(C_rf[ki_v, i], axis=[ki_v])``

        factor_axis : which dimension of the new tensor it becomes, negative from the end
        Returns the new tensor, or a list if the reduction has several values. Loops over data stay as they are.
        """
        made = factor.rfactor(self, tensor, axis, factor_axis)
        return made if len(made) > 1 else made[0]

    def create_group(self, outputs: Any, inputs: Any, include_inputs: bool = False) -> Stage:
        """A group of the stages on the way from `inputs` to `outputs`, to be placed together by its compute_at.

        Raises ScheduleError if there are none, or another group is cut in two.
        """
        return group.create_group(self, outputs, inputs, include_inputs=include_inputs)

    def normalize(self) -> Self:
        """This schedule: lowering needs no preparation. For scripts that call it."""
        return self

    # Copies and the trace.

    def copy(self) -> "Schedule":
        """An independent schedule of the same program; operations and axes are shared, so axes at hand work in both."""
        new = object.__new__(type(self))
        new.outputs = self.outputs
        new.steps, new.intrinsics, new._threads, new._of_op = (
            self.steps.copy(), self.intrinsics.copy(), self._threads.copy(), self._of_op.copy()
        )
        new.decisions = self.decisions.copy()
        new.stages = [stage.copy_into(new) for stage in self.stages]
        new._labels = {stage.label: stage for stage in new.stages}
        return new

    @property
    def trace(self) -> Trace:
        """All that was done to it, in order."""
        return Trace(tuple(self.steps))

    def replay(self, trace: Trace, intrinsics: dict[str, Any] | None = None) -> None:
        """Do the steps of a trace, of a schedule of the same program built anew.

        intrinsics : those that it tensorizes by, by name; those of this schedule are known
        Raises ScheduleError for a step that cannot be done, with its number and text; the schedule is then as it was.
        """
        stages, before = self.stages.copy(), self.copy()
        try:
            Replay(self, intrinsics or {}).run(trace.steps)
        except BaseException:
            self.stages, self._labels = stages, {stage.label: stage for stage in stages}
            self.steps, self.intrinsics, self._threads, self._of_op, self.decisions = (
                before.steps, before.intrinsics, before._threads, before._of_op, before.decisions
            )
            for stage, kept in zip(stages, before.stages, strict=True):
                stage.restore(kept)
            raise

    def record(self, on: str, do: str, args: dict[str, Any], gives: Sequence[str] = ()) -> None:
        """Add a step to the trace."""
        self.steps.append(Step(on, do, args, tuple(gives)))

    def tensor_label(self, tensor: Tensor) -> str | list[Any]:
        """A tensor in the trace: the label of its stage, with the number of the output if there are several."""
        label = self._of_op[tensor.op]
        return label if tensor.op.num_outputs == 1 else [label, tensor.value_index]

    def thread_as_data(self, thread: IterVar) -> dict[str, Any]:
        """A thread axis in the trace: its tag, a name of its own, and its extent if it is given one."""
        name = self._threads.get(thread)
        if name is None:
            name = self._threads[thread] = distinct(thread.name, self._threads.values())
        extent = None if thread.dom is None else int_value(thread.dom.extent)
        return {"tag": thread.thread, "name": name} | ({} if extent is None else {"extent": extent})

    # For the primitives.

    def add_stage(self, op: Operation, at: int, *, is_output: bool = False) -> Stage:
        """Put a stage for `op` at a place in the order."""
        stage = Stage(self, distinct(op.name, self._labels), op, is_output=is_output)
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


def create_schedule(ops: Any, decisions: Mapping[str, Any] | None = None) -> Schedule:
    """Return a schedule of the operations or tensors given, and of all that they need, each computed in loops of its own.

    decisions : values that rules take in place of their defaults: name -> candidate (`Stage.choose`)

    Raises ScheduleError for anything else, or none.
    """
    given = ops if isinstance(ops, list | tuple) else [ops]
    found: dict[Operation, None] = {}
    for item in given:
        op = item.op if isinstance(item, Tensor) else item
        if not isinstance(op, Operation):
            raise ScheduleError(f"create_schedule({item!r}): give the operations of the results, such as C.op, or the tensors")
        found[op] = None
    if not found:
        raise ScheduleError("create_schedule of nothing: give the operations of the results, such as C.op")
    return Schedule(tuple(found), decisions)
