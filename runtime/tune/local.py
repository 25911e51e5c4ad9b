"""Tuning of one task from Python: a search, its measurement here or on workers, and the best function, also from records."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.tune.loops import LoopTask
from vtakit.compiler.tune.space import defaults
from vtakit.compiler.tune.task import TuneError, decided
from vtakit.runtime.build import build
from vtakit.runtime.tune.bench import CpuMeasurer
from vtakit.runtime.tune.outcome import Measurer
from vtakit.runtime.tune.records import Records, Writer, versions
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
    task: LoopTask, trials: int | None = 64, *, seconds: float | None = None, search: str = "auto", seed: int = 0,
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
    if not isinstance(task, LoopTask):
        raise TuneError(f"{task!r:.80} is no task: give what `tune.expression` or `task` of a template returns")
    for name, value in (("trials", trials), ("seconds", seconds)):
        if value is not None and (not isinstance(value, int | float) or not value > 0):
            raise TuneError(f"{name}={value!r:.20}: give a number over 0, or None for no limit")
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


def recorded(task: LoopTask, records: str | Path) -> Found:
    """Return the best candidate that a file of records has, which `vtakit tune SCRIPT --records` or `run` wrote.

    Raises TuneError if there is none of this task and this version of vtakit.
    """
    known = Records.read(records)
    own = [each for each in known.of(task.key) if each.versions == versions()]
    best = known.best(task.key)
    if best is None or best not in own:
        why = "" if best is None else " of this version of vtakit, only of another one"
        raise TuneError(f"{str(records)!r} has no measured candidate of task {task.name!r:.80}{why}: tune it with "
                        "`vtakit tune SCRIPT`, or by vtakit.tune.run")
    given, usual = decided(task, best.decisions), defaults(task)
    failures = Counter(each.error.partition(":")[0] for each in own if each.cost is None)
    first = next((each.cost for each in own if each.decisions == usual), None)
    return Found(task, given, best.cost or 0.0, first, len(own), dict(failures))
