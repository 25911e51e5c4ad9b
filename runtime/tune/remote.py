"""A trial on a worker: what travels there and back, as plain data, and the processes that the worker keeps."""

import atexit
import pickle
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import vtakit
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.tune.task import TuneError
from vtakit.runtime.tune.bench import CpuMeasurer
from vtakit.runtime.tune.crew import Limits, Loops
from vtakit.runtime.tune.outcome import Outcome
from vtakit.runtime.tune.subject import Effort


class Settings(NamedTuple):
    """How a worker measures."""

    limits: Limits
    effort: Effort
    seed: int
    threads: int


class Sent:
    """A task with one lowered candidate, as a worker gets it; fields as in `Loops`."""

    def __init__(self, task: Loops, function: Function) -> None:
        self.version = vtakit.__version__
        self.name, self.target, self.threads, self.digest = task.name, task.target, task.threads, task.digest
        self.reference, self.function = task.reference, function

    name: str
    target: Target
    threads: int
    digest: str
    reference: Function

    def lower(self, given: Mapping[str, Any]) -> Function:
        """Return the candidate."""
        return self.function


_measurers: dict[Settings, CpuMeasurer] = {}
_lock = threading.Lock()


def packed(task: Loops, function: Function) -> bytes:
    """Return a task with a lowered candidate as bytes."""
    return pickle.dumps(Sent(task, function))


def run_trial(sent: bytes, settings: Settings) -> tuple[float | None, float, str, float]:
    """Measure a candidate on this machine; return the fields of its outcome."""
    task = pickle.loads(sent)
    if task.version != vtakit.__version__:
        return Outcome(None, 0.0, f"refused: the worker has vtakit {vtakit.__version__}, the session {task.version}")
    with _lock:
        if settings not in _measurers:
            _measurers[settings] = made = CpuMeasurer(
                threads=settings.threads, limits=settings.limits, effort=settings.effort, seed=settings.seed)
            atexit.register(made.close)
        try:
            ((_, outcome),) = _measurers[settings].measure(task, [{}])
        except TuneError as error:
            return Outcome(None, 0.0, f"refused: {error}")
    return outcome
