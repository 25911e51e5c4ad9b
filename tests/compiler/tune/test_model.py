"""The cost model: it reproduces the order of a synthetic cost, across tasks of different scale, and starts from a file."""

import numpy as np
import pytest
from support import raises
from tune_toys import Toy

from vtakit.compiler.tune import model
from vtakit.compiler.tune.model import CostModel, Samples
from vtakit.compiler.tune.space import drawn
from vtakit.compiler.tune.task import TuneError


def rows(task, count, seed):
    rng = np.random.default_rng(seed)
    found = [drawn(task, rng) for _ in range(count)]
    return np.stack([task.features(each) for each in found]), np.array([task.cost(each) for each in found])


def agreement(scores, costs):
    """The share of pairs that scores and costs order alike."""
    a, b = np.triu_indices(len(costs), 1)
    differ = costs[a] != costs[b]
    return float(((scores[a] > scores[b]) == (costs[a] < costs[b]))[differ].mean())


def test_pairs_are_ordered_as_costs_order_them():
    task, learner = Toy(), CostModel()
    learner.add("a", *rows(task, 200, 0))
    features, costs = rows(task, 200, 1)
    assert agreement(learner.scores(features), costs) > 0.9


def test_tasks_of_other_scale_are_ordered_too():
    """Labels are ratios within a task, so a task that takes a thousand times as long teaches just as much."""
    learner = CostModel()
    for scale in (1.0, 1000.0):
        learner.add(str(scale), *rows(Toy(scale=scale), 100, int(scale)))
    features, costs = rows(Toy(), 200, 1)
    assert agreement(learner.scores(features), costs) > 0.9


def test_nothing_is_known_before_two_costs_differ():
    learner = CostModel()
    features, costs = rows(Toy(), 10, 0)
    assert not learner.scores(features).any()
    learner.add("a", features[:1], costs[:1])
    learner.add("b", features[1:3], [None, None])
    learner.fit()
    assert not learner.ready
    learner.add("b", features[3:4], costs[3:4])
    learner.fit()
    assert learner.ready


def test_a_saved_model_starts_another(tmp_path):
    first = CostModel()
    first.add("a", *rows(Toy(), 100, 0))
    first.add("b", rows(Toy(), 1, 5)[0], [None])
    first.samples.save(tmp_path / "model.json")
    second = CostModel(start=Samples.load(tmp_path / "model.json"))
    features, _ = rows(Toy(), 50, 1)
    assert (first.scores(features) == second.scores(features)).all()


@pytest.mark.parametrize(("text", "told"), [
    ("{", "is none: `vtakit tune --save-model` writes one"), ('{"a": 1}', "is none: `vtakit tune --save-model` writes one"),
    ('{"vtakit_cost_model": 9, "tasks": {}}', "has schema 9, and this version reads 1: train anew"),
    ('{"vtakit_cost_model": 1, "tasks": {"a": 3}}', "is none: `vtakit tune --save-model` writes one"),
])
def test_a_file_that_is_no_model_is_refused(tmp_path, text, told):
    (tmp_path / "m.json").write_text(text)
    with raises(TuneError, f"the cost model {str(tmp_path / 'm.json')!r} {told}"):
        Samples.load(tmp_path / "m.json")


def test_without_the_library_one_sentence_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)
    monkeypatch.setattr(model, "import_module", missing)
    with raises(TuneError, "the cost model needs XGBoost, which is not installed: pip install 'vtakit[tune]', or take a search "
                           "without a model, such as --search random"):
        CostModel()
