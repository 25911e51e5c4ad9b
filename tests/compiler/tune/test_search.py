"""Searches: each proposes legal candidates once, repeats by seed, and those with a model need fewer trials than drawing."""

from statistics import median

import pytest
from support import raises
from tune_toys import Toy

from vtakit.compiler.tune.model import CostModel
from vtakit.compiler.tune.search.registry import SEARCHES, make_search, needs_model
from vtakit.compiler.tune.space import listed
from vtakit.compiler.tune.task import TuneError, alike, decided, identity

SPACE = 6**4 * 2
FREE = [name for name in SEARCHES if name != "ranking"]  # of a table
LEARNED = ["ranking", "evolution", "annealing"]


def made(name, task=None, seed=0):
    task = Toy(table=name == "ranking") if task is None else task
    return make_search(name, task, seed, CostModel(seed) if needs_model(name) else None)


def trials(search, most, batch=8):
    """The candidates of a search in order, with their costs, until it ends."""
    found = []
    while len(found) < most:
        batch_ = search.propose(min(batch, most - len(found)))
        if not batch_:
            break
        costs = [search.task.cost(each) for each in batch_]
        search.tell(batch_, costs)
        found += zip(batch_, costs, strict=True)
    return found


def needed(name, seed, within=1.01, most=700):
    """Trials until the cost is near the least."""
    task = Toy(table=name == "ranking")
    least = min(task.cost(each) for each in listed(task))
    for at, (_, cost) in enumerate(trials(made(name, task, seed), most), 1):
        if cost <= within * least:
            return at
    return most


@pytest.mark.parametrize("name", SEARCHES)
def test_candidates_are_legal_and_none_comes_twice(name):
    search = made(name)
    found = trials(search, 40, batch=20)
    assert len(found) == 40
    assert len({alike(search.task, each) for each, _ in found}) == 40
    assert found[0][0] == decided(search.task)  # the default is the first
    for each, _ in found:
        assert decided(search.task, each) == each
    assert search.best == min(found, key=lambda entry: entry[1])


@pytest.mark.parametrize("name", SEARCHES)
def test_the_same_seed_gives_the_same_sequence(name):
    first, again, other = (trials(made(name, seed=seed), 24) for seed in (5, 5, 6))
    assert first == again
    assert (first != other) == (name not in ("grid", "exhaustive"))


@pytest.mark.parametrize(("name", "table"), [
    *[(name, table) for name in ("grid", "exhaustive", "random") for table in (False, True)], ("ranking", True)])
def test_a_small_space_is_searched_whole(name, table):
    class Small(Toy):
        def decide(self, decisions):
            decisions.choose("a", [1, 2, 4], 2, "small")
            decisions.choose("form", ["plain", "keep"], "plain", "small")

        def cost(self, given):
            return given["a"]

        def features(self, given):
            import numpy as np

            return np.array([given["a"], given["form"] == "keep"], np.float32)
    task = Small(table=table)
    found = trials(made(name, task), 100, batch=4)
    assert sorted(identity(each) for each, _ in found) == sorted(map(identity, listed(task)))


@pytest.mark.parametrize("name", LEARNED)
def test_a_model_needs_fewer_trials_than_drawing(name):
    random = int(median(needed("random", seed) for seed in range(9)))
    assert random > 100  # the space is no gift
    assert median(needed(name, seed, most=random // 5 + 1) for seed in range(3)) * 5 <= random


def test_genetic_search_needs_fewer_trials_than_drawing():
    assert median(needed("genetic", seed) for seed in range(9)) * 2 <= median(needed("random", seed) for seed in range(9))


@pytest.mark.parametrize("name", SEARCHES)
def test_failures_are_learned_from_and_never_the_best(name):
    search = made(name)
    for _ in range(3):
        batch = search.propose(8)
        search.tell(batch, [None if each["a"] > 2 else search.task.cost(each) for each in batch])
    assert search.best[0]["a"] <= 2


def test_a_search_of_no_name_is_refused():
    known = "annealing, auto, evolution, exhaustive, genetic, grid, random, ranking"
    with raises(TuneError, f"--search 'genetik' is unknown; did you mean 'genetic'? Known: {known}"):
        make_search("genetik", Toy())
    with raises(TuneError, "search 'ranking' needs a space that is a table, and that of 'toy' is none: give --search evolution"):
        make_search("ranking", Toy(), 0, CostModel())


def test_auto_takes_the_table():
    assert made("auto", Toy(table=True)).name == "ranking"
    assert made("auto", Toy()).name == "evolution"


@pytest.mark.parametrize("name", ["evolution", "annealing"])
def test_a_candidate_of_which_no_program_can_be_made_ends_no_search(name):
    """It has no features: it is ranked last, and a model learns nothing of it."""
    class Holed(Toy):
        def features(self, given):
            if given["a"] > 4:
                raise TuneError("no loops")
            return super().features(given)

        def cost(self, given):
            return None if given["a"] > 4 else super().cost(given)
    search = made(name, Holed())
    found = trials(search, 120)
    failed = [cost is None for _, cost in found]
    assert search.best[0]["a"] <= 4
    assert sum(failed) < 0.25 * len(failed)  # half of the space has none
    assert search.model.samples.count == failed.count(False)
