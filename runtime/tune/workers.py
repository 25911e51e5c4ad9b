"""Measurement on many machines: trials are tasks of `dask.distributed`, run by workers that declare a resource.

A worker that dies or vanishes costs the trial that it had. Every wait has a bound.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Self

from vtakit.base.errors import VtakitError, needs
from vtakit.base.text import counted
from vtakit.compiler.tune.task import Candidate, TuneError
from vtakit.runtime.module_file import dump
from vtakit.runtime.tune.crew import PREPARE_S, Limits
from vtakit.runtime.tune.outcome import Cost, Outcome
from vtakit.runtime.tune.remote import Sent, Settings, packed, run_models, run_trial, trial_of
from vtakit.runtime.tune.subject import Effort

RESOURCE = "cpu"
CONNECT_S = 30.0  # to reach a scheduler
IDLE_S = 60.0  # for a worker with the resource to come, before a session ends
MODELS_S = 600.0  # to measure whole models
_LOOK_S = 0.5  # between two looks at a scheduler that says nothing
_QUIET = {"distributed.scheduler.allowed-failures": 0, "distributed.comm.retry.count": 0, "distributed.admin.log-length": 10}


class WorkersMeasurer:
    """Measure candidates, and whole models, on the workers of a scheduler.

    address  : of the scheduler, such as tcp://host:8786; None starts a scheduler and one worker on this machine
    resource : that a worker declares, one for each trial at a time
    threads  : of parallel loops
    idle_s   : seconds to wait for a worker

    Raises TuneError if the scheduler cannot be reached.
    """

    def __init__(
        self, address: str | None = None, *, resource: str = RESOURCE, threads: int = 1, limits: Limits | None = None,
        effort: Effort | None = None, seed: int = 0, idle_s: float = IDLE_S,
    ) -> None:
        with needs("tuning on workers", "tune"):
            import dask

            distributed: Any = import_module("distributed")  # which declares few of its types
        self._distributed = distributed
        self._settings = Settings(limits or Limits(), effort or Effort(), seed, threads)
        self._resource, self._idle_s = resource, idle_s
        self._cluster: Any = None
        self._client: Any = None
        self._counted, self._ended = 0, threading.Event()
        with dask.config.set(_QUIET):
            if address is None:
                self._cluster = distributed.LocalCluster(
                    n_workers=1, threads_per_worker=1, processes=True, resources={resource: 1}, dashboard_address=None,
                    silence_logs=50)
            self.address = address or str(self._cluster.scheduler_address)
            try:
                self._client = distributed.Client(self.address, timeout=CONNECT_S, set_as_default=False)
                self._client.run_on_scheduler(_never_again)
            except (OSError, ValueError, TimeoutError) as error:
                self.close()
                raise TuneError(f"the scheduler {self.address} cannot be reached: {_first_line(error)}; start one with "
                                "`dask scheduler`, and workers with `vtakit worker`") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the scheduler, and end what was started here; a second call does nothing."""
        client, cluster = self._client, self._cluster
        self._cluster = None
        if client is not None and client.status != "closed":
            client.close(timeout=5)
        if cluster is not None:
            cluster.close(timeout=10)

    @property
    def workers(self) -> int:
        """Number of workers that have the resource."""
        try:
            found = self._client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, TimeoutError, KeyError, TypeError):
            return 0
        return sum(each["resources"].get(self._resource, 0) >= 1 for each in found.values())

    def measure(self, task: Any, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Outcome]]:
        """Yield the number and the outcome of each candidate, as they end.

        Raises TuneError if the scheduler goes away, or has no worker with the resource for a minute.
        """
        waiting = list(range(len(candidates)))[::-1]
        ready: list[tuple[int, Sent]] = []  # lowered while workers are busy; each has one trial, so that its end costs no other
        running: dict[Any, tuple[int, float]] = {}  # future -> number of the candidate, and when it was handed over
        limits = self._settings.limits
        late_s = limits.compile_s + limits.run_s + 2 * PREPARE_S
        told = time.monotonic()
        try:
            while waiting or ready or running:
                workers = max(self.workers, 1)
                while waiting and len(ready) < workers:
                    number = waiting.pop()
                    try:
                        ready.append((number, packed(trial_of(task, candidates[number]))))
                    except VtakitError as error:
                        yield number, Outcome(None, 0.0, f"refused: {_first_line(error)}")
                while ready and len(running) < workers:
                    number, sent = ready.pop(0)
                    running[self._submit(run_trial, sent)] = number, time.monotonic()
                ended = [future for future in running if future.done()]
                for future in ended:
                    number, begun = running.pop(future)
                    told = time.monotonic()
                    yield number, self._outcome(future, told - begun)
                if not ended and running:
                    self._check(told, len(running))
                    if time.monotonic() - told > late_s:
                        for number, begun in running.values():
                            spent = time.monotonic() - begun
                            yield number, Outcome(None, 0.0, f"timeout: no worker answered within {late_s:.0f} s", spent)
                        self._client.cancel([*running], force=True)
                        running.clear()
                    self._ended.wait(_LOOK_S)
                    self._ended.clear()
        finally:
            if running and self._client.status == "running":
                self._client.cancel([*running], force=True)

    def costs(self, images: Sequence[Any]) -> list[Cost]:
        """Return what whole models take on one of the workers, in turn.

        Raises TuneError if no worker answers, or one has other sources.
        """
        future = self._submit(run_models, packed([dump(image, graph=False) for image in images]))
        told = time.monotonic()
        while not future.done():
            self._check(told, 1)
            if time.monotonic() - told > MODELS_S:
                self._client.cancel([future], force=True)
                raise TuneError(f"no worker of {self.address} has measured the network within {MODELS_S:.0f} s")
            self._ended.wait(_LOOK_S)
            self._ended.clear()
        if future.status != "finished":
            raise TuneError(f"the network cannot be measured on a worker: {self._outcome(future, 0.0).error}")
        return [Cost(*each) for each in future.result(timeout=CONNECT_S)]

    def _submit(self, work: Callable[..., Any], sent: Sent) -> Any:
        self._counted += 1
        future = self._client.submit(
            work, sent, self._settings, resources={self._resource: 1}, pure=False, retries=0,
            key=f"trial-{id(self)}-{self._counted}")
        future.add_done_callback(lambda _: self._ended.set())
        return future

    def _check(self, told: float, running: int) -> None:
        """Raise TuneError if the scheduler is gone, or nobody works for it."""
        if self._client.status != "running":
            self._gone()
        if time.monotonic() - told > self._idle_s and not self.workers:
            raise TuneError(f"the scheduler {self.address} has no worker with the resource {self._resource!r} for "
                            f"{counted(running, 'trial')}: start one with "
                            f"`vtakit worker --scheduler {self.address} --resource {self._resource}=1`")

    def _gone(self) -> None:
        raise TuneError(f"the scheduler {self.address} went away: trials that had ended are kept; start it again and go on")

    def _outcome(self, future: Any, seconds: float) -> Outcome:
        """Return the outcome of a trial that has ended in any way."""
        if future.status == "finished":
            return Outcome(*future.result(timeout=CONNECT_S))
        if future.status in ("lost", "cancelled"):
            self._gone()
        error = future.exception(timeout=CONNECT_S)
        if isinstance(error, self._distributed.KilledWorker):
            return Outcome(None, 0.0, "crash: the worker of the trial died or vanished", seconds)
        return Outcome(None, 0.0, f"crash: the worker failed: {type(error).__name__}: {_first_line(error)}", seconds)


def _never_again(dask_scheduler: Any) -> None:
    """Let a trial whose worker died fail, where a scheduler would give it to others."""
    dask_scheduler.allowed_failures = 0


def _first_line(error: object) -> str:
    return str(error).partition("\n")[0][:200]


def serve(address: str, resources: dict[str, float], wait_s: float = CONNECT_S) -> None:
    """Work for a scheduler until it goes away. Raises TuneError if it cannot be reached."""
    with needs("a worker", "tune"):
        import asyncio

        import dask

        distributed: Any = import_module("distributed")

    async def work() -> None:
        try:
            worker = await distributed.Worker(
                address, nthreads=1, resources=resources, death_timeout=wait_s, dashboard=False, memory_limit=0)
        except (OSError, TimeoutError, ValueError) as error:
            raise TuneError(f"the scheduler {address} cannot be reached: {_first_line(error) or 'it does not answer'}") from None
        await worker.finished()
    with dask.config.set(_QUIET):
        asyncio.run(work())
