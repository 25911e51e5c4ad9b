"""Tuning of one task from Python: a search, its measurement here or on workers, and the best function."""

from pathlib import Path
from typing import Any, NamedTuple

from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.tune.loops import LoopTask
from vtakit.compiler.tune.task import TuneError
from vtakit.runtime.build import build
from vtakit.runtime.tune.bench import CpuMeasurer
from vtakit.runtime.tune.outcome import Measurer
from vtakit.runtime.tune.records import Records, Writer
from vtakit.runtime.tune.session import Rules, Session
from vtakit.runtime.tune.workers import WorkersMeasurer


class Found(NamedTuple):
    """The result of a search.

    decisions : of the best candidate
    cost      : its seconds
    default   : seconds of the candidate without decisions; None if that failed
    trials    : that were made
    failures  : trials that failed, by kind
    """

    task: LoopTask
    decisions: dict[str, Any]
    cost: float
    default: float | None
    trials: int
    failures: dict[str, int]

    def build(self) -> Any:
        """Return the best candidate as a function of NumPy arrays."""
        made = self.task.program(Decisions(self.decisions))
        return build(made.schedule, made.args, self.task.target)

    def __str__(self) -> str:
        before = "" if self.default is None else f", untuned {self.default * 1e3:.4g} ms"
        return f"{self.task.name}: {self.cost * 1e3:.4g} ms{before}, {self.trials} trials"


def run(
    task: LoopTask, trials: int = 64, *, seconds: float | None = None, search: str = "auto", seed: int = 0,
    records: str | Path | None = None, workers: str | None = None, measurer: Measurer | None = None,
) -> Found:
    """Search the space of a task.

    trials, seconds : after which it ends
    search   : "auto", evolution ranked by XGBoost, or one of `vtakit tune --search`; "random" needs no other package
    records  : JSON-lines file that trials are added to, and that earlier ones are taken from
    workers  : address of a scheduler whose workers measure; this machine does if None
    measurer : that is kept by the caller, in place of one for this call

    Raises TuneError if no candidate could be measured.
    """
    rules = Rules(trials=trials, seconds=seconds, search=search, seed=seed)
    own = measurer or (CpuMeasurer(threads=task.threads) if workers is None else WorkersMeasurer(workers, threads=task.threads))
    writer = None if records is None else Writer(records)
    try:
        known = None if records is None else Records.read(records, missing_ok=True)
        session = Session([task], [1], own, rules, records=known, writer=writer, unit="s")
        state = session.run()
    finally:
        if measurer is None:
            own.close()
        if writer is not None:
            writer.close()
    best = session.searches[0].best
    if best is None:
        reasons = "; ".join(state.reasons.values()) or "none was made"
        raise TuneError(f"task {task.name!r:.80}: none of {state.trials} trials succeeded: {reasons}")
    return Found(task, best[0], best[1], state.tasks[0].first, state.trials, dict(state.failures))
