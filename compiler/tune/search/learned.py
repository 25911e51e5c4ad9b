"""Searches that rank candidates by the cost model and measure the best."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.tune.model import Features
from vtakit.compiler.tune.search.base import Search
from vtakit.compiler.tune.space import crossed, mutated
from vtakit.compiler.tune.task import Candidate, alike, identity

POPULATION = 4  # candidates of a generation, for each that is measured
RANDOM_SHARE = 0.1  # of a batch, against a model that is sure of the wrong thing
FIRST_RANDOM_SHARE = 0.25  # before there is a model
LEAST = -1e6  # score of a candidate of which no program can be made
TRUST = 8  # trials of a task after which the estimate's rank counts half as much as the model's
NEAR = 1  # decisions by which two candidates of a batch must differ at least, more than this


class _Learned(Search):
    """Common part of searches with a model: they teach it, and pick from ranked candidates with diversity."""

    learns = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.group = identity(self.task.key)

    def tell(self, candidates: Sequence[Candidate], costs: Sequence[float | None]) -> None:
        """Take note of costs, and teach the model."""
        super().tell(candidates, costs)
        assert self.model is not None
        rows = [(row, cost) for row, cost in zip(self.features(candidates), costs, strict=True) if row is not None]
        if rows:
            self.model.add(self.group, np.stack([row for row, _ in rows]), [cost for _, cost in rows])

    def _pick(self, ranked: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
        """Return the first candidates that differ from each other in more than one decision; then those that were left."""
        found: list[dict[str, Any]] = []
        left: list[dict[str, Any]] = []
        for each in ranked:
            if len(found) == count:
                return found
            near = any(_distance(each, other) <= NEAR for other in found)
            (left if near else found).append(each)
        return found + left[:count - len(found)]

    def _randoms(self, count: int) -> int:
        """Return how many of a batch are random: at least one now and then."""
        assert self.model is not None
        share = RANDOM_SHARE if self.model.ready else FIRST_RANDOM_SHARE
        return min(count, int(share * count + self.rng.random()))


def _distance(a: Candidate, b: Candidate) -> int:
    return sum(a.get(name) != b.get(name) for name in {*a, *b})


def _places(order: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the place of each number in an order."""
    found = np.empty(len(order))
    found[order] = np.arange(len(order))
    return found


class Ranking(_Learned):
    """The whole space is ranked: by the target's estimate first, then by the model too, and ever more. It needs a table."""

    name = "ranking"
    summary = "the whole space ranked by the cost model; for spaces that are tables"
    FIRST = BATCH = 4

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        assert self.table is not None
        self._left = np.ones(len(self.table), bool)
        self._rows: dict[str, int] = {}  # of candidates that were made, by `alike`

    def _next(self, count: int) -> list[dict[str, Any]]:
        assert self.table is not None
        assert self.model is not None
        left = np.flatnonzero(self._left)
        randoms = self._randoms(count)
        self.model.fit()
        estimates = self.table.estimates[left]
        ranks = _places(estimates.argsort(kind="stable"))
        if self.model.ready:  # the less the model has seen of this task, the more say the estimate has
            scores = self.model.scores(self.table.features[left])
            ranks = _places(np.lexsort((estimates, -scores))) + TRUST / (TRUST + len(self.costs)) * ranks
        order = left[ranks.argsort(kind="stable")]
        found = self._pick(self._candidates(order, 8 * count), count - randoms)
        taken = {alike(self.task, each) for each in found}
        found += [each for each in self._candidates(self.rng.permutation(left), randoms + count) if
                  alike(self.task, each) not in taken][:randoms]
        return found

    def _candidates(self, order: npt.NDArray[np.int64], most: int) -> list[dict[str, Any]]:
        """Return candidates of rows that were not proposed; rows that were are left out from now on."""
        assert self.table is not None
        found: list[dict[str, Any]] = []
        for row in dict.fromkeys(order.tolist()):
            if len(found) == most:
                break
            each = self.table.candidate(row)
            text = alike(self.task, each)
            self._rows[text] = row
            if text not in self._proposed:
                found.append(each)
            else:
                self._left[row] = False
        return found

    def features(self, candidates: Sequence[Candidate]) -> list[Features | None]:
        """Return the features of candidates, from the table where they came from there."""
        assert self.table is not None
        rows = [self._rows.get(alike(self.task, each)) for each in candidates]
        return [super(Ranking, self).features([each])[0] if row is None else self.table.features[row]
                for row, each in zip(rows, candidates, strict=True)]


class Evolution(_Learned):
    """Generations of candidates that the model ranks; the best of the last one are measured. For spaces without end.

    Features of a task on a CPU take a lowering each, 10 ms or more, so a population is a few times as large as a batch.
    """

    name = "evolution"
    summary = "generations of candidates that the cost model ranks"
    FIRST, BATCH = 4, 16
    PARENTS, ELITES, RATE = 64, 4, 0.2

    def _next(self, count: int) -> list[dict[str, Any]]:
        assert self.model is not None
        randoms = self._randoms(count)
        self.model.fit()
        ranked = self._evolved(POPULATION * count) if self.model.ready else self._drafted(POPULATION * count)
        found = self._pick(ranked, count - randoms)
        return found + self._draw(count - len(found))

    def _drafted(self, most: int) -> list[dict[str, Any]]:
        """Return drawn candidates, those of the least estimates first."""
        drafts = self._draw(most)
        costs = self.estimates(drafts) if drafts else None
        return drafts if costs is None else [drafts[at] for at in np.argsort(costs, kind="stable")]

    def _evolved(self, size: int) -> list[dict[str, Any]]:
        """Return candidates that were not proposed, the best first: of two generations of so many."""
        parents = [each for _, each in self.parents[:size // 4]]
        pool = {alike(self.task, each): each for each in (*parents, *self._draw(size - len(parents)))}
        best = self._scored(pool)
        order = sorted(pool, key=lambda text: -best[text][0])[:size // 4]
        if order:
            chances = np.linspace(1, 0.2, len(order))
            chances /= chances.sum()
            children = {text: pool[text] for text in order[:self.ELITES]}
            for _ in range(4 * size):
                first, second = (pool[order[int(at)]] for at in self.rng.choice(len(order), 2, p=chances))
                child = self._child(first, second)
                children.setdefault(alike(self.task, child), child)
                if len(children) >= size:
                    break
            best |= self._scored(children)
        ranked = sorted([entry for text, entry in best.items() if text not in self._proposed], key=lambda entry: -entry[0])
        return [each for _, each in ranked]

    def _scored(self, pool: Mapping[str, dict[str, Any]]) -> dict[str, tuple[float, dict[str, Any]]]:
        """Return candidates with what the model gives them, by `alike`."""
        members = [*pool.values()]
        return {text: (float(score), each) for text, score, each in zip(pool, self._scores(members), members, strict=True)}

    def _child(self, first: Candidate, second: Candidate) -> dict[str, Any]:
        if self.rng.random() < 0.5:
            return mutated(self.task, first, self.rng)
        return mutated(self.task, crossed(self.task, first, second, self.rng), self.rng, self.RATE)

    def _scores(self, members: Sequence[Candidate]) -> npt.NDArray[np.float32]:
        """Return what the model gives candidates; the least of all to those of which no program can be made."""
        assert self.model is not None
        rows = self.features(members)
        scores = np.full(len(rows), LEAST, np.float32)
        there = [row for row in rows if row is not None]
        if there:
            scores[[row is not None for row in rows]] = self.model.scores(np.stack(there))
        return scores


class Annealing(Evolution):
    """Chains of candidates that change one decision at a time, and keep a change that the model scores lower ever more rarely."""

    name = "annealing"
    summary = "chains of changed candidates, by the cost model and a falling temperature"
    STEPS = 8

    def _evolved(self, size: int) -> list[dict[str, Any]]:
        """Return candidates that were not proposed, the best first: of all that so many steps come by."""
        count = max(2, 2 * size // self.STEPS)
        chains = [each for _, each in self.parents[:count // 2]]
        chains += self._draw(count - len(chains))
        scores = self._scores(chains)
        best = {alike(self.task, each): (float(score), each) for each, score in zip(chains, scores, strict=True)}
        for step in range(self.STEPS):
            temperature = 1 - step / self.STEPS
            changed = [mutated(self.task, each, self.rng) for each in chains]
            new = self._scores(changed)
            best |= {alike(self.task, each): (float(score), each) for each, score in zip(changed, new, strict=True)}
            keep = (new >= scores) | (self.rng.random(len(chains)) < np.exp(np.minimum(0, new - scores) / max(temperature, 0.02)))
            chains = [b if kept else a for a, b, kept in zip(chains, changed, keep.tolist(), strict=True)]
            scores = np.where(keep, new, scores)
        ranked = sorted([entry for text, entry in best.items() if text not in self._proposed], key=lambda entry: -entry[0])
        return [each for _, each in ranked]
