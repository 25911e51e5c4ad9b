"""The checks of the primitives, made before they change a stage, and the error that shows its loops."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from vtakit.base.errors import one_of
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterKind, IterVar
from vtakit.compiler.ir.values import int_value, wrap
from vtakit.compiler.schedule.data import StageData
from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.schedule.nest import nest_text
from vtakit.compiler.schedule.relations import PLAIN, Fuse, Mark, Split

_WHY = {
    IterKind.REDUCE: "its iterations add to the same elements",
    IterKind.ORDERED: "its iterations are the steps of a scan, each after the one before",
    IterKind.OPAQUE: "it is inside a body that the schedule does not know",
    IterKind.THREAD: "it is a thread index",
}


def refuse(stage: StageData, asked: str, truth: str, cure: str, mark: IterVar | str = "stage") -> NoReturn:
    """Raise a ScheduleError about a stage.

    asked : the call, as the user wrote it; truth : what stands against it; cure : what would work
    mark  : what of the stage's loops an arrow points at (`nest_text`)
    """
    raise ScheduleError(f"{asked}: {truth}\n\n{nest_text(stage, mark)}\n\nhint: {cure}")


def refuse_scope(stage: StageData, asked: str, scope: Any) -> NoReturn:
    """Raise ScheduleError about a memory that has no name."""
    truth = "the scope has no name" if scope == "" else f"{scope!r} is no scope"
    refuse(stage, asked, truth, "give one such as 'global', 'shared' or 'local', or a target's scope")


class Checks(StageData):
    """The checks of the primitives; `asked` gives the call as text and is made only for a message."""

    __slots__ = ()

    def call(self, name: str, *args: Any) -> str:
        """Return a call on this stage as text."""
        texts = [self.axis_labels.get(arg, arg.name) if isinstance(arg, IterVar) else str(arg) for arg in args]
        return f"{self.label}.{name}({', '.join(texts)})"

    def record(self, name: str, args: dict[str, Any], made: Sequence[str] = ()) -> None:
        """Add what was done to the trace."""
        self.schedule.record(self.label, name, args, made)

    @staticmethod
    def plain(value: Any) -> Any:
        """Return a number, string or expression as the trace holds it: a number where it is one, else text."""
        if not isinstance(value, Expr):
            return value
        number = int_value(value)
        return number if number is not None else {"expr": str(value)}

    @staticmethod
    def number(given: Any) -> Expr | None:
        """Return a number or an expression of sizes; None for anything else, such as a tensor."""
        try:
            return wrap(given)
        except (TypeError, ValueError):
            return None

    def leaf(self, axis: IterVar | str, asked: Callable[[], str]) -> IterVar:
        """Return the loop of this stage that an axis or its name means. Raises ScheduleError if it is none."""
        if isinstance(axis, str):
            for found in self.leaf_iter_vars:
                if self.axis_labels[found] == axis:
                    return found
            named = [known for known, label in self.axis_labels.items() if label == axis]
            if not named:
                labels = [self.axis_labels[leaf] for leaf in self.leaf_iter_vars]
                refuse(self, asked(), f"{self.label} has no loop {axis!r}", one_of(labels, axis) if labels else "it has no loops")
            self._refuse_gone(named[0], asked)
        if not isinstance(axis, IterVar):
            refuse(self, asked(), f"{axis!r} is no axis", "give an axis such as C.op.axis[0], or the name of a loop")
        if self.position(axis) < 0:
            self._refuse_gone(axis, asked)
        return axis

    def _refuse_gone(self, axis: IterVar, asked: Callable[[], str]) -> NoReturn:
        """Say what became of an axis that is no loop now."""
        name = self.axis_labels.get(axis, axis.name)
        for relation in self.relations:
            if isinstance(relation, Split) and relation.parent is axis:
                parts = f"{self.axis_labels[relation.outer]} and {self.axis_labels[relation.inner]}"
                refuse(self, asked(), f"{name} is a loop no more: it was split into {parts}", f"use {parts}")
            if isinstance(relation, Fuse) and (relation.outer is axis or relation.inner is axis):
                fused = self.axis_labels[relation.fused]
                refuse(self, asked(), f"{name} is a loop no more: it was fused into {fused}", f"use {fused}")
        for stage in self.schedule.stages:
            if axis in stage.axis_labels:
                refuse(self, asked(), f"{name} is an axis of {stage.label}, not of {self.label}", self._loops())
        refuse(self, asked(), f"{name} is no axis of {self.label}", self._loops())

    def _loops(self) -> str:
        labels = ", ".join(self.axis_labels[leaf] for leaf in self.leaf_iter_vars)
        return f"the loops of {self.label} are {labels}" if labels else f"{self.label} has no loops"

    def refuse_repeats(self, axes: Sequence[IterVar], asked: Callable[[], str]) -> None:
        """Raise ScheduleError if an axis is given twice."""
        for at, axis in enumerate(axes):
            if any(axis is other for other in axes[:at]):
                refuse(self, asked(), f"{self.axis_labels[axis]} is given twice", "give each axis once", axis)

    def refuse_marked(self, axis: IterVar, asked: Callable[[], str], word: str) -> None:
        """Raise ScheduleError if a loop that is to be replaced carries a mark that would be lost."""
        if self.notes and self.note(axis) is not PLAIN:
            truth = f"{self.axis_labels[axis]} is already {self._marked_as(axis)}"
            refuse(self, asked(), truth, f"{word} it first, then mark its parts", axis)

    def refuse_run_as(self, axis: IterVar, asked: Callable[[], str]) -> None:
        """Raise ScheduleError if it is settled already how a loop runs."""
        notes = self.note(axis)
        if notes.mark is not Mark.SERIAL or notes.thread is not None:
            truth = f"{self.axis_labels[axis]} is already {self._marked_as(axis)}"
            refuse(self, asked(), truth, "mark a loop once; split it to mark its parts", axis)

    def _marked_as(self, axis: IterVar) -> str:
        notes = self.note(axis)
        if notes.thread is not None:
            return f"bound to {notes.thread.thread}"
        if notes.mark is not Mark.SERIAL:
            return str(notes.mark.value)
        return "marked with " + ", ".join([*notes.pragmas, *["prefetch" for _ in notes.prefetches]])

    def refuse_dependent(self, axis: IterVar, asked: Callable[[], str], word: str) -> None:
        """Raise ScheduleError if the iterations of a loop may not run at the same time."""
        if axis.kind is IterKind.DATA:
            return
        cure = "choose a data axis"
        if axis.kind is IterKind.REDUCE:
            cure += "; to reduce in parallel, split the axis and make a part of it a data axis with rfactor"
        refuse(self, asked(), f"{self.axis_labels[axis]} cannot run at once ({word}): {_WHY[axis.kind]}", cure, axis)

    def refuse_kind(self, axis: IterVar, kinds: Sequence[IterKind], asked: Callable[[], str]) -> None:
        """Raise ScheduleError if an axis is of one of the kinds."""
        if axis.kind in kinds:
            refuse(self, asked(), f"{self.axis_labels[axis]} stays as it is: {_WHY[axis.kind]}", "choose another axis", axis)
