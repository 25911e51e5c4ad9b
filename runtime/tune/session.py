"""A tuning session: searches of tasks, their trials measured and recorded, until a stop rule."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from vtakit.compiler.tune.model import CostModel, Samples
from vtakit.compiler.tune.scheduler import Progress, Scheduler
from vtakit.compiler.tune.search.base import Search
from vtakit.compiler.tune.search.registry import AUTO, make_search, needs_model
from vtakit.compiler.tune.task import Task, alike
from vtakit.runtime.tune.outcome import Measurer, Outcome
from vtakit.runtime.tune.records import Record, Records, Writer, versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When a session ends, and how it searches.

    trials   : of all tasks together; None for no limit
    seconds  : of wall time
    patience : trials of a task without a gain, after which it is done
    batch    : trials of a task between two looks at what was learned; None for what the search prefers
    default  : whether the first trial of a task is its default
    """

    trials: int | None = None
    seconds: float | None = None
    patience: int | None = None
    search: str = AUTO
    seed: int = 0
    batch: int | None = None
    default: bool = True


@dataclass(slots=True)
class State:
    """Results of a session so far.

    tasks    : by number
    bests    : the cheapest candidate of each task, and its cost
    failures : of trials, by kind
    reused   : trials whose costs the records had
    """

    tasks: list[Progress]
    bests: list[tuple[dict[str, Any], float] | None]
    gain: float = 0.0
    trials: int = 0
    reused: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    stopped: str = ""


class Watch(Protocol):
    """Whoever looks at a session."""

    def __call__(self, state: State) -> None:
        """Look; it is called after each trial."""


class Session:
    """Tasks that are tuned together.

    The sequence of candidates depends on tasks, rules and costs only. A trial that the records have is not measured again, so a
    session that was ended goes on where it was.

    weights : how often the whole has each task
    """

    def __init__(
        self, tasks: Sequence[Task], weights: Sequence[int], measurer: Measurer, rules: Rules, *, records: Records | None = None,
        writer: Writer | None = None, start: Samples | None = None, unit: str = "cycles",
    ) -> None:
        self.tasks, self.rules, self.unit = tasks, rules, unit
        self._measurer, self._writer = measurer, writer
        self.model = CostModel(rules.seed, start=start) if needs_model(rules.search) else None
        self.searches: list[Search] = [
            make_search(rules.search, task, rules.seed, self.model, default=rules.default) for task in tasks]
        progress = [Progress(task.name, weight) for task, weight in zip(tasks, weights, strict=True)]
        self.state = State(progress, [None] * len(tasks))
        self.scheduler = Scheduler(self.state.tasks, rules.patience)
        self._known = [_known(task, records) for task in tasks]

    def run(self, watch: Watch | None = None, now: Callable[[], float] = time.monotonic) -> State:
        """Tune until a rule says stop; returns the state, as it also is after Ctrl-C."""
        begin, state = now(), self.state
        while True:
            state.seconds = now() - begin
            if self.rules.trials is not None and state.trials >= self.rules.trials:
                state.stopped = f"{state.trials} trials are made"
            elif self.rules.seconds is not None and state.seconds >= self.rules.seconds:
                state.stopped = "the time is over"
            else:
                at = self.scheduler.next()
                if at is not None:
                    self._round(at, watch, begin, now)
                    continue
                state.stopped = "no task has candidates left that promise a gain"
            return state

    def _round(self, at: int, watch: Watch | None, begin: float, now: Callable[[], float]) -> None:
        """Try some candidates of a task."""
        search, state, task = self.searches[at], self.state, self.tasks[at]
        batch = search.propose(self.rules.batch or (search.BATCH if state.tasks[at].trials else search.FIRST))
        if self.rules.trials is not None:  # a session of more trials begins with the same ones
            batch = batch[:self.rules.trials - state.trials]
        if not batch:
            state.tasks[at].done = True
            return
        outcomes: list[Outcome | None] = [self._known[at].get(alike(task, each)) for each in batch]
        state.reused += sum(each is not None for each in outcomes)
        fresh = [n for n, each in enumerate(outcomes) if each is None]
        for number, outcome in self._measurer.measure(task, [batch[n] for n in fresh]):
            outcomes[fresh[number]] = outcome
            self._record(task, batch[fresh[number]], outcome, state.tasks[at].trials + fresh[number])
        costs = [None if each is None else each.cost for each in outcomes]
        for each in outcomes:
            self._count(at, each)
            state.seconds = now() - begin
            if watch is not None:
                watch(state)
        search.tell(batch, costs)
        state.bests[at] = search.best

    def _count(self, at: int, outcome: Outcome | None) -> None:
        state = self.state
        state.trials += 1
        state.tasks[at].add(None if outcome is None else outcome.cost)
        if outcome is not None and outcome.error:
            state.failures[outcome.kind] = state.failures.get(outcome.kind, 0) + 1
            state.reasons.setdefault(outcome.kind, outcome.error)
        state.gain = self.scheduler.gain

    def _record(self, task: Task, candidate: Mapping[str, Any], outcome: Outcome, trial: int) -> None:
        if self._writer is not None:
            self._writer.add(Record(
                task=task.name, key=task.key, decisions=candidate, cost=outcome.cost, spread=outcome.spread, unit=self.unit,
                error=outcome.error, seconds=round(outcome.seconds, 4), search=self.rules.search, seed=self.rules.seed,
                trial=trial))

    @property
    def samples(self) -> Samples:
        """Return the examples that the model has learned from; none in a session without one."""
        return Samples() if self.model is None else self.model.samples


def _known(task: Task, records: Records | None) -> dict[str, Outcome]:
    """Return the outcomes of a task's candidates in records of this version, by `alike`."""
    return {alike(task, each.decisions): Outcome(each.cost, each.spread, each.error, each.seconds)
            for each in (records.of(task.key) if records is not None else ()) if each.versions == versions()}
