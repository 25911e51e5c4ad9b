"""A stage: one operation of a schedule, with the primitives that change how it is computed."""

from vtakit.compiler.schedule.loops import LoopPrimitives
from vtakit.compiler.schedule.places import PlacePrimitives


class Stage(LoopPrimitives, PlacePrimitives):
    """One operation of a schedule: what `schedule[tensor]` gives; `StageData` says what it keeps."""

    __slots__ = ()
