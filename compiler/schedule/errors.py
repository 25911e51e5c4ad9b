"""The error of a schedule primitive that cannot be applied: what was asked, what is true, the loops with a mark, a cure."""

from typing import NoReturn

from vtakit.base.errors import VtakitError
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.schedule.data import StageData
from vtakit.compiler.schedule.nest import nest_text


class ScheduleError(VtakitError, ValueError):
    """A schedule that cannot be; the message shows the loops with the culprit marked."""


def refuse(stage: StageData, asked: str, truth: str, cure: str, mark: IterVar | str = "stage") -> NoReturn:
    """Raise a ScheduleError about a stage.

    asked : the call, as the user wrote it; truth : what stands against it; cure : what would work
    mark  : what of the stage's loops an arrow points at (`nest_text`)
    """
    raise ScheduleError(f"{asked}: {truth}\n\n{nest_text(stage, mark)}\n\nhint: {cure}")
