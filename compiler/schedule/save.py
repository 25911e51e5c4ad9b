"""Schedules as JSON: the program and the trace."""

import json
from typing import Any

from vtakit.compiler.schedule.errors import ScheduleError
from vtakit.compiler.schedule.schedule import Schedule
from vtakit.compiler.schedule.trace import Trace
from vtakit.compiler.te.save import load_json, save_json
from vtakit.compiler.te.tensor import Operation, Tensor


def save_schedule(schedule: Schedule, args: list[Tensor] | None = None) -> str:
    """A schedule with its program; `args` are tensors that the reader wants to have at hand, such as inputs and outputs."""
    return json.dumps({
        "program": json.loads(save_json({"outputs": schedule.outputs, "args": args or []})),
        "trace": json.loads(schedule.trace.to_json()),
    })


def load_schedule(text: str, intrinsics: dict[str, Any] | None = None) -> tuple[Schedule, list[Tensor]]:
    """The schedule that `save_schedule` wrote, and the tensors kept with it.

    intrinsics : the tensor intrinsics that it uses, by name. Raises ScheduleError for any other text.
    """
    try:
        data = json.loads(text)
        program, trace = json.dumps(data["program"]), json.dumps(data["trace"])
    except (json.JSONDecodeError, KeyError, TypeError, RecursionError) as error:
        raise ScheduleError(f"the text is no saved schedule: {type(error).__name__}: {error}") from None
    read = load_json(program)
    outputs: tuple[Operation, ...] = read["outputs"]
    schedule = Schedule(outputs)
    schedule.replay(Trace.from_json(trace), intrinsics)
    return schedule, read["args"]
