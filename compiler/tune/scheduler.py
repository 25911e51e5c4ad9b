"""The scheduler of tasks: gives the next trials to the task from which the whole gains most."""

from dataclasses import dataclass, field

OPTIMISM = 0.1  # share of a task's cost that a first trial is expected to save; it falls with the trials made
MEMORY = 24  # trials over which a task's recent gain is looked at


@dataclass(slots=True)
class Progress:
    """The state of one task.

    weight : how often the whole has it
    costs  : the best cost after each trial; None before there is one
    done   : whether its space is searched, or nothing was gained for long
    """

    name: str
    weight: int = 1
    costs: list[float | None] = field(default_factory=list)
    done: bool = False

    @property
    def trials(self) -> int:
        return len(self.costs)

    @property
    def best(self) -> float | None:
        """The least cost."""
        return self.costs[-1] if self.costs else None

    @property
    def first(self) -> float | None:
        """The cost of the default, or of the first candidate that did not fail."""
        return next((cost for cost in self.costs if cost is not None), None)

    @property
    def idle(self) -> int:
        """Trials since the last gain."""
        return next((n for n, cost in enumerate(reversed(self.costs)) if cost != self.best), self.trials)

    def add(self, cost: float | None) -> None:
        """Add a trial; None is a failure."""
        known = self.best
        self.costs.append(known if cost is None else cost if known is None else min(known, cost))

    @property
    def promise(self) -> float:
        """Return the expected gain of a trial for the whole: the recent gain, and hope that falls with the trials made."""
        if self.best is None:
            return float("inf")
        before = next((cost for cost in self.costs[-MEMORY - 1:] if cost is not None), self.best)
        recent = (before - self.best) / min(MEMORY, self.trials)
        return float(self.weight * (recent + OPTIMISM * self.best / self.trials**1.5))


class Scheduler:
    """Tasks, and whose turn it is.

    patience : trials without a gain, after which a task is done; None for no such rule
    """

    def __init__(self, tasks: list[Progress], patience: int | None = None) -> None:
        self.tasks, self.patience = tasks, patience

    def next(self) -> int | None:
        """Return the number of the task that gets the next trials; None if all are done.

        Each task has its first trials in order; then the largest promise wins, and of equal ones the first.
        """
        open_ = [at for at, each in enumerate(self.tasks) if not self._is_done(each)]
        if not open_:
            return None
        fresh = [at for at in open_ if not self.tasks[at].trials]
        return fresh[0] if fresh else max(open_, key=lambda at: (self.tasks[at].promise, -at))

    def _is_done(self, each: Progress) -> bool:
        return each.done or (self.patience is not None and each.idle >= self.patience)

    @property
    def gain(self) -> float:
        """Share of the cost of all defaults that the best candidates save; 0 before there is any."""
        known = [(each.weight * each.first, each.weight * each.best) for each in self.tasks
                 if each.first is not None and each.best is not None]
        before = sum(first for first, _ in known)
        return 1 - sum(best for _, best in known) / before if before else 0.0
