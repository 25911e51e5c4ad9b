"""Work on a worker: what travels there and back, as plain data, and the processes that the worker keeps.

A candidate for a processor travels as its lowered loops, one for the accelerator as its layer and decisions, a whole model as the
bytes of a module file.
"""

import atexit
import pickle
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import vtakit
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.tune.task import Candidate, TuneError
from vtakit.compiler.tune.vta import VtaTask
from vtakit.runtime.module_file import parse
from vtakit.runtime.tune.bench import CpuMeasurer
from vtakit.runtime.tune.crew import Limits, Loops
from vtakit.runtime.tune.cycles import Cycles
from vtakit.runtime.tune.outcome import Measurer, Outcome
from vtakit.runtime.tune.records import versions
from vtakit.runtime.tune.subject import Effort


class Settings(NamedTuple):
    """How a worker measures."""

    limits: Limits
    effort: Effort
    seed: int
    threads: int


class Lowered:
    """A task of loops with one lowered candidate; fields as in `Loops`."""

    def __init__(self, task: Loops, function: Function) -> None:
        self.name, self.target, self.threads, self.digest = task.name, task.target, task.threads, task.digest
        self.reference, self.function, self.fresh = task.reference, function, task.fresh

    name: str
    target: Target
    threads: int
    digest: str
    reference: Function
    fresh: tuple[int, ...] | None

    def lower(self, given: Mapping[str, Any]) -> Function:
        """Return the candidate."""
        return self.function


class Sent(NamedTuple):
    """Bytes that a worker of the same sources unpacks: other sources may have other classes.

    versions : as records have them
    """

    versions: dict[str, str]
    content: bytes

    def unpacked(self) -> Any:
        """Return the content. Raises TuneError on a worker with other sources."""
        ours = versions()
        if self.versions != ours:
            theirs = self.versions["vtakit"]
            same = " with other sources" if theirs == vtakit.__version__ else ""
            raise TuneError(f"the worker has vtakit {vtakit.__version__}{same}, the session {theirs}: install the same on both")
        return pickle.loads(self.content)


def packed(content: object) -> Sent:
    """Return data for a worker."""
    return Sent(versions(), pickle.dumps(content))


def trial_of(task: Any, candidate: Candidate) -> tuple[Any, Candidate]:
    """Return a task and a candidate of it as they travel. Raises VtakitError for one that has no loops, or is not legal."""
    if isinstance(task, VtaTask):
        return replace(task), candidate  # without the table of its space
    return Lowered(task, task.lower(candidate)), {}


_measurers: dict[tuple[Settings, bool], Measurer] = {}
_lock = threading.Lock()  # a worker does one thing at a time, whatever its scheduler thinks


def run_trial(sent: Sent, settings: Settings) -> tuple[float | None, float, str, float]:
    """Measure a candidate on this machine; return the fields of its outcome."""
    with _lock:
        try:
            task, candidate = sent.unpacked()
            ((_, outcome),) = _measurer(settings, cycles=isinstance(task, VtaTask)).measure(task, [candidate])
        except TuneError as error:
            return Outcome(None, 0.0, f"refused: {error}")
    return outcome


def run_models(sent: Sent, settings: Settings) -> list[tuple[float, dict[tuple[str, ...], float]]]:
    """Return the fields of what whole models take on this machine; they came as `vtakit.runtime.module_file` writes them.

    Raises TuneError on a worker with other sources.
    """
    with _lock:
        images = [parse(data, "a model of the session") for data in sent.unpacked()]
        return [(cost.total, dict(cost.layers)) for cost in images[0].target.costs(images, settings.threads)]


def _measurer(settings: Settings, *, cycles: bool) -> Measurer:
    """Return what measures here, which is kept until the worker ends."""
    key = settings, cycles
    if key not in _measurers:
        _measurers[key] = Cycles(1) if cycles else CpuMeasurer(
            threads=settings.threads, limits=settings.limits, effort=settings.effort, seed=settings.seed)
        atexit.register(_measurers[key].close)
    return _measurers[key]
