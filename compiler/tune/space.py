"""The space of a task: candidates that are drawn, changed, crossed and listed by running its rule, which stays a black box."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from vtakit.compiler.schedule.decisions import DecisionError, Decisions, Pick
from vtakit.compiler.tune.task import Candidate, Task, TuneError, decided

TRIES = 100  # draws in a row that break a constraint, before a space is given up


def drawn(task: Task, rng: np.random.Generator) -> dict[str, Any]:
    """Return a candidate whose every decision is drawn evenly from what is legal after those before it.

    Raises TuneError if the rule refuses a hundred draws in a row.
    """
    return _legal(task, lambda: _even(rng))


def mutated(task: Task, parent: Candidate, rng: np.random.Generator, rate: float | None = None) -> dict[str, Any]:
    """Return a candidate near another: it keeps the values that are still legal, and draws the rest.

    rate : probability that a value is drawn anew; None draws one value anew
    """
    def pick() -> Pick:
        names = [*parent]
        at = names[int(rng.integers(len(names)))] if rate is None and names else None
        anew = {name for name in names if name == at or (rate is not None and rng.random() < rate)}
        even = _even(rng)

        def one(name: str, candidates: tuple[Any, ...], default: Any) -> Any:
            if name in parent and parent[name] in candidates and (name not in anew or len(candidates) == 1):
                return parent[name]
            others = tuple(each for each in candidates if each != parent.get(name)) if name in anew else candidates
            return even(name, others, default)
        return one
    return _legal(task, pick)


def crossed(task: Task, first: Candidate, second: Candidate, rng: np.random.Generator) -> dict[str, Any]:
    """Return a candidate that has each value of one of two others, where that is legal."""
    def pick() -> Pick:
        even = _even(rng)

        def one(name: str, candidates: tuple[Any, ...], default: Any) -> Any:
            parents = (first, second) if rng.random() < 0.5 else (second, first)
            values = [parent[name] for parent in parents if name in parent and parent[name] in candidates]
            return values[0] if values else even(name, candidates, default)
        return one
    return _legal(task, pick)


def listed(task: Task, most: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield every candidate once, in the order of the rule's candidates: the leaves of the tree of choices.

    most : candidates to yield at most
    """
    path: list[int] = []  # number of the candidate that is taken at each choice
    count = 0
    while most is None or count < most:
        widths: list[int] = []
        decisions = Decisions(pick=_walk(path, widths))
        try:
            task.decide(decisions)
            yield decisions.values
            count += 1
        except DecisionError:
            pass
        del path[len(widths):]
        while path and path[-1] + 1 >= widths[len(path) - 1]:
            path.pop()
        if not path:
            return
        path[-1] += 1


def _walk(path: list[int], widths: list[int]) -> Pick:
    """Return a pick that follows a path, then takes first candidates, and notes how many candidates each choice has."""
    def pick(name: str, candidates: tuple[Any, ...], default: Any) -> Any:
        if len(widths) == len(path):
            path.append(0)
        widths.append(len(candidates))
        return candidates[path[len(widths) - 1]]
    return pick


def defaults(task: Task) -> dict[str, Any]:
    """Return the candidate of the target's estimate."""
    return decided(task)


def _even(rng: np.random.Generator) -> Pick:
    return lambda name, candidates, default: candidates[int(rng.integers(len(candidates)))]


def _legal(task: Task, picks: Any) -> dict[str, Any]:
    """Return the first candidate that breaks no constraint."""
    last: DecisionError | None = None
    for _ in range(TRIES):
        try:
            return decided(task, pick=picks())
        except DecisionError as error:
            last = error
    raise TuneError(f"task {task.name!r:.80}: {TRIES} candidates in a row break a constraint; the last: {last}")
