"""Searches without a model: baselines."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from vtakit.compiler.tune.search.base import Search
from vtakit.compiler.tune.space import crossed, listed, mutated
from vtakit.compiler.tune.task import alike


class Random(Search):
    """Candidates in a random order: of a table each with the same chance, else as the rule draws them."""

    name = "random"
    summary = "candidates in a random order"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._order = None if self.table is None else iter(self.rng.permutation(len(self.table)).tolist())

    def _next(self, count: int) -> list[dict[str, Any]]:
        if self._order is None or self.table is None:
            return self._draw(count)
        rows = map(self.table.candidate, self._order)
        return [*islice((each for each in rows if self._is_new(each)), count)]


class Grid(Search):
    """All candidates in the order of the rule."""

    name = "grid"
    summary = "candidates in the order of the rule"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._rows: Iterator[dict[str, Any]] = listed(self.task) if self.table is None else map(
            self.table.candidate, range(len(self.table)))

    def _next(self, count: int) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for each in self._rows:
            if self._is_new(each):
                found.setdefault(alike(self.task, each), each)
            if len(found) == count:
                break
        return [*found.values()]


class Exhaustive(Grid):
    """The whole space, whatever the number of trials."""

    name = "exhaustive"
    summary = "every candidate, whatever --trials says"


class Genetic(Search):
    """Generations of candidates: children of the cheapest, some values drawn anew; no model.

    A generation has `POPULATION` candidates, of which the `ELITES` cheapest so far stay parents.
    """

    name = "genetic"
    summary = "children of the cheapest candidates"
    POPULATION, ELITES, RATE = 16, 6, 0.15
    PARENTS = ELITES

    def _next(self, count: int) -> list[dict[str, Any]]:
        if len(self._proposed) < self.POPULATION or len(self.parents) < 2:
            return self._draw(count)
        found: dict[str, dict[str, Any]] = {}
        parents = [each for _, each in self.parents]
        for _ in range(50 * count):
            first, second = (parents[int(at)] for at in self.rng.choice(len(parents), 2, replace=len(parents) < 2))
            child = mutated(self.task, crossed(self.task, first, second, self.rng), self.rng, self.RATE)
            if self._is_new(child):
                found.setdefault(alike(self.task, child), child)
            if len(found) == count:
                return [*found.values()]
        return [*found.values(), *self._draw(count - len(found))]
