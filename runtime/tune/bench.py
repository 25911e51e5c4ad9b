"""Measurement of candidates on this machine.

The process that times candidates has cores of its own, where there are enough; those that compile, and the thread that searches
while it waits for outcomes, have the rest.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from vtakit.compiler.tune.task import Candidate, TuneError
from vtakit.runtime.cpu.function import misfit
from vtakit.runtime.tune.batch import Batch
from vtakit.runtime.tune.crew import Crew, Limits, Loops
from vtakit.runtime.tune.outcome import Cost, Outcome
from vtakit.runtime.tune.subject import Effort


class CpuMeasurer:
    """Measure candidates of tasks of loops on this machine's processor.

    threads : of parallel loops
    cores   : that may be used; all that this process may use if None
    seed    : of the inputs
    """

    def __init__(
        self, *, threads: int = 1, cores: Sequence[int] | None = None, limits: Limits | None = None, effort: Effort | None = None,
        seed: int = 0,
    ) -> None:
        self.limits, self.effort, self.seed, self._threads = limits or Limits(), effort or Effort(), seed, threads
        self.crew = Crew(_cores() if cores is None else cores, threads, self.limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes; a second call does nothing."""
        self.crew.close()

    def measure(self, task: Loops, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Outcome]]:
        """Yield the number and the outcome of each candidate, as they end.

        Raises TuneError for a task that this machine cannot run, or whose reference fails.
        """
        if why := misfit(task.target):
            raise TuneError(f"task {task.name!r:.80} cannot be measured here: {why}")
        with self._kept_off():
            self.crew.prepare(task)
            yield from Batch(self.crew, task, candidates, self.limits, self.effort, self.seed).outcomes()

    def costs(self, images: Sequence[Any]) -> list[Cost]:
        """Return the seconds that whole models take on this machine, in turn; candidates in them have been measured before."""
        found: list[Cost] = images[0].target.costs(images, self._threads)
        return found

    def best(self, task: Loops) -> float | None:
        """Return the cost of a task's incumbent; None if there is none."""
        known = self.crew.tasks.get(task.digest)
        return known.cost if known is not None and known.best is not None else None

    @contextmanager
    def _kept_off(self) -> Iterator[None]:
        """Keep this thread off the cores that candidates are timed on."""
        if not self.crew.apart or not hasattr(os, "sched_setaffinity"):
            yield
            return
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, self.crew.other_cores)
            yield
        finally:
            os.sched_setaffinity(0, before)


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]
