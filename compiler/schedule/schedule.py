"""A schedule: the stages of a program, with the primitives that concern several of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from vtakit.compiler.ir.depth import deep
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.schedule import cache, factor, group
from vtakit.compiler.schedule.data import StageTable
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.schedule.replay import Replay
from vtakit.compiler.schedule.stage import Stage
from vtakit.compiler.schedule.trace import Trace
from vtakit.compiler.te.operation import ScanOp, producers_first
from vtakit.compiler.te.tensor import Operation, Tensor


class Schedule(StageTable[Stage]):
    """The way in which a program is computed: ``schedule[tensor]`` is the stage that makes it."""

    __slots__ = ()

    def __init__(self, outputs: tuple[Operation, ...], decisions: Mapping[str, Any] | Decisions | None = None) -> None:
        super().__init__(outputs, decisions)
        for op in producers_first(outputs, lambda op: [tensor.op for tensor in op.input_tensors]):
            self.add_stage(op, len(self.stages), is_output=op in outputs)
            if isinstance(op, ScanOp):
                group.hold_update(self, op)

    def new_stage(self, label: str, op: Operation, *, is_output: bool) -> Stage:
        return Stage(self, label, op, is_output=is_output)

    # Primitives of several stages.

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
        """Return a group of the stages on the way from `inputs` to `outputs`, to be placed together by its compute_at.

        Raises ScheduleError if there are none, or another group is cut in two.
        """
        return group.create_group(self, outputs, inputs, include_inputs=include_inputs)

    def normalize(self) -> Self:
        """Return this schedule, for scripts that call it: lowering needs no preparation."""
        return self

    # Copies and the trace.

    def copy(self) -> "Schedule":
        """Return an independent schedule of the same program; operations and axes are shared, so axes at hand work in both."""
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

def create_schedule(ops: Any, decisions: Mapping[str, Any] | Decisions | None = None) -> Schedule:
    """Return a schedule of the operations or tensors given, and of all that they need, each computed in loops of its own.

    decisions : values that rules take in place of their defaults: name -> candidate (`Stage.choose`); or the `Decisions` that
                keep what rules ask for

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
