"""The interface of searches, and what they have in common."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.compiler.tune.model import CostModel, Features
from vtakit.compiler.tune.space import defaults, drawn
from vtakit.compiler.tune.table import Table
from vtakit.compiler.tune.task import Candidate, Task, TuneError, alike

MISSES = 200  # candidates in a row that are known, before a space counts as searched


class Search(ABC):
    """A way through the space of a task. It proposes candidates, none of them twice, and is told what they cost.

    task  : that is searched
    model : that ranks candidates, shared by all tasks of a session; None for searches without one
    seed  : the same seed and the same costs give the same candidates
    default : whether the default is the first candidate
    table : the whole space, if the task has it as a table
    costs : by `alike`, of what was measured; None for a failure
    best  : the cheapest candidate so far and its cost
    parents : the cheapest ones so far, at most `PARENTS`, with their costs, the cheapest first; for searches that breed
    FIRST   : trials before the scheduler of tasks looks at the task; BATCH : then, between two looks at what was learned
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    learns: ClassVar[bool] = False
    PARENTS: ClassVar[int] = 0
    FIRST: ClassVar[int] = 8
    BATCH: ClassVar[int] = 8

    def __init__(self, task: Task, seed: int = 0, model: CostModel | None = None, *, default: bool = True) -> None:
        self.task, self.model = task, model if self.learns else None
        if self.learns and model is None:
            raise TuneError(f"search {self.name!r} needs a cost model")
        self.rng = np.random.default_rng([seed, zlib.crc32(repr(sorted(task.key.items())).encode())])
        self.table: Table | None = getattr(task, "table", None)
        self.costs: dict[str, float | None] = {}
        self.best: tuple[dict[str, Any], float] | None = None
        self.parents: list[tuple[float, dict[str, Any]]] = []
        self.done = False
        self._proposed: set[str] = set()
        self._features: dict[str, Features | None] = {}
        self._first = default

    def propose(self, count: int) -> list[dict[str, Any]]:
        """Return at most so many candidates that were not proposed before; none after the last."""
        found: list[dict[str, Any]] = []
        if self._first:
            self._first = False
            self._take(defaults(self.task), found)
        if len(found) < count:
            for each in self._next(count - len(found)):
                self._take(each, found)
        self.done = not found
        return found

    def _take(self, candidate: Candidate, found: list[dict[str, Any]]) -> bool:
        """Add a candidate if it was not proposed before."""
        text = alike(self.task, candidate)
        if text in self._proposed:
            return False
        self._proposed.add(text)
        found.append(dict(candidate))
        return True

    def tell(self, candidates: Sequence[Candidate], costs: Sequence[float | None]) -> None:
        """Take note of costs; None is a failure."""
        for candidate, cost in zip(candidates, costs, strict=True):
            self.costs[alike(self.task, candidate)] = cost
            if cost is not None and (self.best is None or cost < self.best[1]):
                self.best = dict(candidate), cost
        if self.PARENTS:
            self.parents += [(cost, dict(each)) for each, cost in zip(candidates, costs, strict=True) if cost is not None]
            self.parents = sorted(self.parents, key=lambda entry: entry[0])[:self.PARENTS]

    @abstractmethod
    def _next(self, count: int) -> list[dict[str, Any]]:
        """Return at most so many candidates; those that were proposed before are left out by the caller."""

    def _is_new(self, candidate: Candidate) -> bool:
        return alike(self.task, candidate) not in self._proposed

    def _draw(self, count: int) -> list[dict[str, Any]]:
        """Return at most so many candidates that were not proposed, drawn from the rule."""
        found: dict[str, dict[str, Any]] = {}
        misses = 0
        while len(found) < count and misses < MISSES:
            each = drawn(self.task, self.rng)
            text = alike(self.task, each)
            if text in self._proposed or text in found:
                misses += 1
                continue
            misses = 0
            found[text] = each
        return [*found.values()]

    def features(self, candidates: Sequence[Candidate]) -> list[Features | None]:
        """Return the features of candidates; None for one of which no program can be made."""
        found = []
        for each in candidates:
            text = alike(self.task, each)
            if text not in self._features:
                try:
                    self._features[text] = self.task.features(each)
                except VtakitError:
                    self._features[text] = None
            found.append(self._features[text])
        return found

    def estimates(self, candidates: Sequence[Candidate]) -> list[float] | None:
        """Return the target's estimates; None if it has none."""
        found = [self.task.estimate(each) for each in candidates]
        return None if any(each is None for each in found) else [float(each) for each in found if each is not None]
