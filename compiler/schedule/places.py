"""Primitives that say where a stage is computed and where its values are kept."""

from collections.abc import Callable, Sequence
from typing import Any

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterKind, IterVar
from vtakit.compiler.ir.layouts import SWIZZLES
from vtakit.compiler.ir.values import wrap
from vtakit.compiler.schedule.checks import Checks, refuse, refuse_scope
from vtakit.compiler.schedule.data import StageData
from vtakit.compiler.schedule.relations import AT_ROOT, INLINED, Align, Attach, AttachKind
from vtakit.compiler.te.compose import scope_name
from vtakit.compiler.te.operation import ComputeOp, PlaceholderOp, ScanOp

MOST_STAGES = 8  # copies of a stage's memory


class PlacePrimitives(Checks):
    """The primitives on the place and the memory of a stage."""

    __slots__ = ()

    def compute_at(self, parent: Any, axis: IterVar | str) -> None:
        """Compute what an iteration of a loop of another stage needs, just before it needs it.

        parent : the stage, or its tensor; it reads what this one makes, directly or through others
        axis   : a loop of `parent`; if that is split or fused later, the place is within the inner or fused loop
        Raises ScheduleError for an output, a stage that does not read this one, a circle of stages, or what makes the first
        state of a scan at a loop of that scan.
        """
        holder = parent if isinstance(parent, StageData) else self.schedule[parent]

        def asked() -> str:
            name = holder.axis_labels.get(axis, axis.name) if isinstance(axis, IterVar) else axis
            return self.call("compute_at", holder.label, name)

        self._refuse_fixed(asked, "compute_at")
        if holder.schedule is not self.schedule:
            truth = f"{holder.label} belongs to another schedule"
            refuse(self, asked(), truth, f"use the stage of {holder.label} in the same schedule")
        if holder.label == self.label:
            refuse(self, asked(), "a stage cannot stand within itself", f"choose a stage that reads {self.label}")
        if holder.attach.kind is AttachKind.INLINE:
            truth = f"{holder.label} is inlined, so it has no loops"
            refuse(holder, asked(), truth, "attach to a stage that it is inlined into")
        loop = Checks.leaf(_as_checks(holder), axis, asked)
        if holder in self.schedule.members(self):
            refuse(holder, asked(), f"{holder.label} is in {self.label}", f"choose a stage outside of {self.label} that reads it")
        if self._circle(holder):
            truth = f"{holder.label} already stands within {self.label}"
            refuse(holder, asked(), truth, f"compute {holder.label} elsewhere first")
        self._refuse_group(holder, asked)
        if not self._is_read_by(holder):
            readers = ", ".join(stage.label for stage in self.schedule.readers_of(self)) or "nothing"
            refuse(holder, asked(), f"{holder.label} does not need {self.label}", f"{self.label} is read by {readers}", "body")
        if isinstance(holder.op, ScanOp) and any(self.schedule.stage_of(state.op) is self for state in holder.op.init):
            truth = f"{self.label} makes the first state of {holder.label}, which all of its steps come after"
            refuse(holder, asked(), truth, f"leave {self.label} at the root, or compute it at a loop around {holder.label}", loop)
        self.attach = Attach(AttachKind.SCOPE, holder.label, loop)
        self.record("compute_at", {"parent": holder.label, "axis": holder.axis_labels[loop]})

    def _circle(self, holder: StageData) -> bool:
        """Return whether `holder` stands, directly or through others, within a loop of this stage or is in this group."""
        todo, seen = [holder], {holder.label}
        while todo:
            stage = todo.pop()
            if stage.label == self.label:
                return True
            around = {stage.attach.stage, stage.group} - {"", *seen}
            seen |= around
            todo += [self.schedule.labelled(label) for label in sorted(around)]
        return False

    def _refuse_group(self, holder: StageData, asked: Callable[[], str]) -> None:
        """Raise ScheduleError if `holder` is outside the group that this stage is in."""
        if not self.group:
            return
        outer = holder.group
        while outer and outer != self.group:
            outer = self.schedule.labelled(outer).group
        if outer != self.group:
            refuse(self, asked(), f"{self.label} is in the group {self.group}, and {holder.label} is not",
                   "attach the group, or choose a stage of the group")

    def _is_read_by(self, holder: StageData) -> bool:
        """Return whether `holder`, or for a group a member of it, needs what this stage or a member of this group makes."""
        made = {stage.label for stage in self.schedule.members(self)}
        todo = [stage.label for stage in self.schedule.members(holder)]
        seen: set[str] = set()
        while todo:
            label = todo.pop()
            if label in made:
                return True
            if label not in seen:
                seen.add(label)
                todo += self.schedule.reads(label)
        return False

    def compute_inline(self) -> None:
        """Compute each element where it is read, and keep none.

        Raises ScheduleError for an output, a reduction, an operation of several outputs, or where another stage is attached.
        """
        def asked() -> str:
            return self.call("compute_inline")

        self._refuse_fixed(asked, "compute_inline")
        op = self.op
        if not isinstance(op, ComputeOp):
            refuse(self, asked(), f"{self.label} is no compute", "only a te.compute can be inlined", "body")
        if op.reduce_axis:
            refuse(self, asked(), f"{self.label} is a reduction, whose value is not one expression", "use compute_at", "body")
        if op.num_outputs > 1:
            cure = "use compute_at, or compute each output on its own"
            refuse(self, asked(), f"{self.label} has {op.num_outputs} outputs", cure, "body")
        held = self.schedule.attached_to(self)
        if held:
            refuse(self, asked(), f"{held[0].label} is computed within its loop", f"compute {held[0].label} elsewhere first")
        self.attach = INLINED
        self.record("compute_inline", {})

    def compute_root(self) -> None:
        """Compute it whole, in loops of its own."""
        self.attach = AT_ROOT
        self.record("compute_root", {})

    def set_scope(self, scope: Any) -> None:
        """Keep its values in a memory: a scope's name, or an object with a name.

        Raises ScheduleError for an output, which the caller keeps in global memory.
        """
        name = scope_name(scope)

        def asked() -> str:
            return self.call("set_scope", repr(name or scope))

        if not name:
            refuse_scope(self, asked(), scope)
        if name != "global":
            self._refuse_fixed(asked, "set_scope")
        self.scope = name
        self.record("set_scope", {"scope": name})

    def storage_align(self, axis: IterVar | str, factor: int, offset: int = 0) -> None:
        """Keep the stride of a dimension at a multiple of `factor`, plus `offset`, elements: against bank conflicts.

        axis : an axis of the operation, whose stride it is. Raises ScheduleError for a loop or a number that does not fit.
        """
        def asked() -> str:
            return self.call("storage_align", axis, factor, offset)

        self._refuse_fixed(asked, "storage_align")
        found = self._dimension(asked, axis)
        if not _whole(factor) or not _whole(offset) or factor < 1 or not 0 <= offset < factor:
            refuse(self, asked(), f"factor {factor} and offset {offset} do not go together",
                   "give a factor of at least 1 and an offset from 0 to factor - 1", "body")
        self.aligns[found] = Align(int(factor), int(offset))
        self.record("storage_align", {"axis": self.axis_labels[found], "factor": int(factor), "offset": int(offset)})

    def whole(self, axis: IterVar | str) -> None:
        """Compute all of a dimension, whatever part its readers need: an intrinsic may take more than its expression reads.

        axis : an axis of the operation. Raises ScheduleError for a loop.
        """
        def asked() -> str:
            return self.call("whole", axis)

        self._refuse_fixed(asked, "whole")
        found = self._dimension(asked, axis)
        self.wholes = (*(axis for axis in self.wholes if axis is not found), found)
        self.record("whole", {"axis": self.axis_labels[found]})

    def _dimension(self, asked: Callable[[], str], axis: IterVar | str) -> IterVar:
        """The axis of the operation that an argument is. Raises ScheduleError for another."""
        roots = self.op.axis if isinstance(self.op, ComputeOp) else ()
        found = next((root for root in roots if root is axis or self.axis_labels[root] == axis), None)
        if found is None:
            names = ", ".join(self.axis_labels[root] for root in roots) or "none"
            refuse(self, asked(), "the axis is no dimension of the values", f"the dimensions are {names}", "body")
        return found

    def double_buffer(self, stages: int = 2) -> None:
        """Keep several copies of its values, others filled while one is read: `stages` of them, from 2 to 8.

        Raises ScheduleError for an output, or another number.
        """
        def asked() -> str:
            return self.call("double_buffer", *([] if stages == 2 else [stages]))

        self._refuse_fixed(asked, "double_buffer")
        if not _whole(stages) or not 2 <= stages <= MOST_STAGES:
            refuse(self, asked(), f"{stages!r} is no number of copies", f"give a number from 2 to {MOST_STAGES}", "body")
        self.double_buffered = int(stages)
        self.record("double_buffer", {} if stages == 2 else {"stages": int(stages)})

    def async_copy(self) -> None:
        """Copy its values while the threads go on: they wait before they read them (`vtakit.compiler.passes.async_copies`).

        Raises ScheduleError for an output.
        """
        self._refuse_fixed(lambda: self.call("async_copy"), "async_copy")
        self.asynchronous = True
        self.record("async_copy", {})

    def swizzle(self, bytes: int = 128) -> None:
        """Let chunks of 16 bytes change places in each row of memory, so that a column of chunks lies in different banks.

        bytes : of a row: 32, 64 or 128. Raises ScheduleError for an output, or another number.
        """
        def asked() -> str:
            return self.call("swizzle", bytes)

        self._refuse_fixed(asked, "swizzle")
        if bytes not in SWIZZLES:
            refuse(self, asked(), f"{bytes!r} is no row of a swizzle", f"give one of {', '.join(map(str, SWIZZLES))}", "body")
        self.swizzled = int(bytes)
        self.record("swizzle", {"bytes": int(bytes)})

    def env_threads(self, threads: Sequence[IterVar] | IterVar) -> None:
        """Launch the stage (a scan, or extern) under thread indices that its inner stages use.

        Raises ScheduleError for anything that is no thread axis.
        """
        given = tuple(threads) if isinstance(threads, list | tuple) else (threads,)

        def asked() -> str:
            return self.call("env_threads", *[getattr(thread, "name", repr(thread)) for thread in given])

        for thread in given:
            if not isinstance(thread, IterVar) or thread.kind is not IterKind.THREAD:
                name = getattr(thread, "name", thread)
                refuse(self, asked(), f"{name!r} is no thread axis", "make one with te.thread_axis('threadIdx.x')")
        self.threads_around = given
        self.record("env_threads", {"threads": [self.schedule.thread_as_data(thread) for thread in given]})

    def set_store_predicate(self, predicate: Any) -> None:
        """Store only where a condition over the stage's axes and thread axes holds, as after a reduction over threads.

        Raises ScheduleError for what is no condition.
        """
        try:
            condition = wrap(predicate)
        except (TypeError, ValueError):
            condition = None
        if condition is None or not condition.dtype.is_bool:
            refuse(self, self.call("set_store_predicate", predicate), f"{predicate!r} is no condition", "compare two expressions")
        self.store_predicate: Expr | None = condition
        self.record("set_store_predicate", {"predicate": self.plain(condition)})

    def _refuse_fixed(self, asked: Callable[[], str], word: str) -> None:
        """Raise ScheduleError for a stage whose place and memory are the caller's."""
        if isinstance(self.op, PlaceholderOp):
            cure = f"use cache_read({self.label}, scope) and {word} of that"
            refuse(self, asked(), f"{self.label} is an input: it is not computed", cure, "body")
        if self.is_output:
            truth = f"{self.label} is an output: the caller has its memory, and it is computed on its own"
            refuse(self, asked(), truth, f"use cache_write({self.label}, scope) and {word} of that")


def _as_checks(stage: StageData) -> Checks:
    assert isinstance(stage, Checks)
    return stage


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
