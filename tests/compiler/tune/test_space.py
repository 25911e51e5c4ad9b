"""Spaces of tasks: candidates that are drawn, changed, crossed and listed without knowledge of the rule."""

from itertools import product

import numpy as np
import pytest
from support import raises

from vtakit.compiler.schedule.decisions import DecisionError, Decisions
from vtakit.compiler.tune.space import crossed, drawn, listed, mutated
from vtakit.compiler.tune.task import TuneError, decided, identity


class Toy:
    """A tree of choices: a form; for form "split" a factor, and a second one that must not be larger."""

    name, key = "toy", {"what": "toy"}

    def decide(self, decisions):
        if decisions.choose("form", ["whole", "split"], "whole", "toy") == "whole":
            return
        outer = decisions.choose("outer", [1, 2, 4], 1, "toy")
        inner = decisions.choose("inner", [[n, 1] for n in (1, 2, 4)], [1, 1], "toy")
        if inner[0] > outer:
            raise DecisionError(f"inner {inner[0]} is more than outer {outer}")


class Never(Toy):
    def decide(self, decisions):
        decisions.choose("form", [1, 2], 1, "never")
        raise DecisionError("never legal")


LEGAL = [{"form": "whole"}] + [
    {"form": "split", "outer": outer, "inner": [inner, 1]} for outer, inner in product((1, 2, 4), repeat=2) if inner <= outer]


def test_pick_chooses_what_is_not_given():
    decisions = Decisions({"a": 3}, lambda name, candidates, default: candidates[-1])
    assert decisions.choose("a", [1, 2, 3, 4], 1, "r") == 3
    assert decisions.choose("b", [1, 2, 3, 4], 1, "r") == 4
    assert decisions.values == {"a": 3, "b": 4}
    assert decisions.copy().choose("c", [5, 6], 5, "r") == 6


def test_what_pick_returns_must_be_a_candidate():
    with raises(DecisionError, "decision 'a' is 9, which is no candidate here: give one of 1, 2"):
        Decisions(pick=lambda *_: 9).choose("a", [1, 2], 1, "r")


def test_every_candidate_is_listed_once():
    assert [*listed(Toy())] == LEGAL
    assert [*listed(Toy(), most=3)] == LEGAL[:3]
    assert [*listed(Never())] == []


def test_draws_reach_every_candidate_and_repeat_by_seed():
    rng = np.random.default_rng(1)
    found = [drawn(Toy(), rng) for _ in range(300)]
    assert {identity(each) for each in found} == set(map(identity, LEGAL))
    again = np.random.default_rng(1)
    assert [drawn(Toy(), again) for _ in range(300)] == found


def test_a_mutant_differs_in_one_value_and_what_follows():
    rng = np.random.default_rng(2)
    parent = {"form": "split", "outer": 4, "inner": [2, 1]}
    for _ in range(100):
        child = mutated(Toy(), parent, rng)
        assert child in LEGAL
        changed = {name for name in {*parent, *child} if parent.get(name) != child.get(name)}
        assert changed in ({"outer"}, {"inner"}, {"form", "outer", "inner"}) or child == {"form": "whole"}


def test_a_mutant_at_rate_zero_is_its_parent():
    rng = np.random.default_rng(3)
    for parent in LEGAL:
        assert mutated(Toy(), parent, rng, rate=0) == parent


def test_a_child_has_values_of_its_parents():
    rng = np.random.default_rng(4)
    one, two = LEGAL[-1], {"form": "split", "outer": 2, "inner": [1, 1]}
    seen = {identity(crossed(Toy(), one, two, rng)) for _ in range(100)}
    assert seen == {identity({"form": "split", "outer": outer, "inner": [inner, 1]}) for outer, inner in ((4, 4), (4, 1), (2, 1))}


def test_a_space_without_candidates_is_said():
    with pytest.raises(TuneError, match="task 'toy': 100 candidates in a row break a constraint; the last: never legal"):
        drawn(Never(), np.random.default_rng(0))


def test_a_value_of_no_decision_is_refused():
    with pytest.raises(DecisionError, match="decision 'outer' does not exist here"):
        decided(Toy(), {"form": "whole", "outer": 2})
