"""A stage: one operation of a schedule, with the primitives that change how it is computed."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from vtakit.compiler.schedule.data import StageTable
from vtakit.compiler.schedule.decisions import plain
from vtakit.compiler.schedule.loops import LoopPrimitives
from vtakit.compiler.schedule.places import PlacePrimitives


class Stage(LoopPrimitives, PlacePrimitives):
    """One operation of a schedule: what `schedule[tensor]` gives; `StageData` says what it keeps."""

    __slots__ = ()

    def choose(
        self, name: str, candidates: Sequence[Any], default: Any, *, rule: str = "", chosen: Any = None,
    ) -> Any:
        """Return the value of a decision about this stage: a step of the trace, beside the primitives that follow from it.

        ::

            width = s[C].choose("width", [8, 16, 32], default=16)
            outer, inner = s[C].split(j, factor=width)

        name       : after the label of the stage, as "C.width"
        candidates : values that are legal here: numbers, strings, or lists of these
        default    : the one that is taken unless the schedule was created with another (`create_schedule(…, decisions=…)`)
        rule       : the function that asks, for people
        chosen     : what a trace took; it comes before the others

        Raises DecisionError for a value that is no candidate.
        """
        whole, decisions = f"{self.label}.{name}", self.schedule.decisions
        if chosen is not None:
            decisions.given[whole] = plain(chosen)
        found = decisions.choose(whole, candidates, default, rule)
        made = decisions.made[whole]
        args = {"name": name, "candidates": [*made.candidates], "default": made.default, "chosen": found}
        self.schedule.record(self.label, "choose", args | ({"rule": rule} if rule else {}))
        return found


Stages: TypeAlias = StageTable[Stage]  # what primitives of several stages take: a schedule without its primitives
