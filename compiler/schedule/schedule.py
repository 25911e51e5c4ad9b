"""A schedule: the stages of a program, producers first, and the trace of what was done to them."""


from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.schedule.labels import distinct
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.te.operation import Operation, ScanOp, producers_first
from vtakit.compiler.te.tensor import Tensor


class Schedule:
    """How a program is computed: ``schedule[tensor]`` is the stage that makes it.

    outputs : the operations that it is for
    stages  : groups included, each after those that make what it reads
    """

    __slots__ = ("_labels", "_of_op", "outputs", "stages")

    def __init__(self, outputs: tuple[Operation, ...]) -> None:
        self.outputs = outputs
        self.stages: list[Stage] = []
        self._labels: dict[str, Stage] = {}
        self._of_op: dict[Operation, str] = {}
        for op in producers_first(outputs, lambda op: [tensor.op for tensor in op.input_tensors]):
            self.add_stage(op, len(self.stages), is_output=op in outputs)
            if isinstance(op, ScanOp):
                self._hold_update(op)

    def add_stage(self, op: Operation, at: int, *, is_output: bool = False) -> Stage:
        """Put a stage for `op` at a place in the order."""
        stage = Stage(self, distinct(op.name, self._labels), op, is_output=is_output)
        self.stages.insert(at, stage)
        self._labels[stage.label] = stage
        self._of_op[op] = stage.label
        return stage

    def stage_of(self, op: Operation) -> Stage | None:
        """The stage of an operation, of the expression or as a primitive rewrote it."""
        label = self._of_op.get(op)
        return self._labels[label] if label is not None else None

    def labelled(self, label: str) -> Stage:
        """The stage of a label; KeyError for another."""
        return self._labels[label]

    def __getitem__(self, of: Tensor | Operation | str) -> Stage:
        """The stage of a tensor, an operation or a label; raises ScheduleError for what is not in the schedule."""
        found = self._labels.get(of) if isinstance(of, str) else self.stage_of(of.op if isinstance(of, Tensor) else of)
        if found is None:
            name = of if isinstance(of, str) else of.name
            raise ScheduleError(f"{name!r} is no stage of this schedule, which has {', '.join(self._labels)}")
        return found

    def _hold_update(self, op: ScanOp) -> None:
        """Put what the update of a scan needs, between the states and it, into a group within the scan's loop."""
