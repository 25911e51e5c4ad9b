"""Decisions of schedule rules: listed, given, refused, recorded in the trace and replayed."""

import numpy as np
import pytest
from support import raises

from vtakit import build, te
from vtakit.compiler.schedule.decisions import Decision, DecisionError, Decisions

CANDIDATES = [8, 16, 32]


def scaled(decisions=None, default=16):
    """A vector times two, in parts whose width is a decision."""
    x = te.placeholder((96,), name="x")
    y = te.compute((96,), lambda i: x[i] * 2, name="y")
    s = te.create_schedule(y.op, decisions=decisions)
    _, inner = s[y].split(y.op.axis[0], factor=s[y].choose("width", CANDIDATES, default, rule="scaled"))
    s[y].vectorize(inner)
    return s, x, y


def widths(s):
    return [step.args["factor"] for step in s.trace.steps if step.do == "split"]


def test_a_rule_takes_its_default():
    s, *_ = scaled()
    assert list(s.decisions) == [Decision("y.width", (8, 16, 32), 16, 16, "scaled")]
    assert s.decisions.made["y.width"].is_default
    assert widths(s) == [16]


def test_a_given_value_comes_first():
    s, x, y = scaled({"y.width": 32})
    assert list(s.decisions) == [Decision("y.width", (8, 16, 32), 16, 32, "scaled")]
    assert not s.decisions.made["y.width"].is_default
    assert widths(s) == [32]
    out = np.empty(96, np.float32)
    build(s, [x, y])(np.arange(96, dtype=np.float32), out)
    assert (out == 2 * np.arange(96)).all()


def test_a_decision_is_a_step_of_the_trace():
    s, *_ = scaled({"y.width": 8})
    first = s.trace.steps[0]
    assert str(first) == 'y.choose("width", [8, 16, 32], default=16, chosen=8, rule="scaled")'
    for trace in (te.Trace.from_text(str(s.trace)), te.Trace.from_json(s.trace.to_json())):
        assert trace == s.trace
        again = te.create_schedule(scaled()[2].op)
        again.replay(trace)
        assert again.trace == s.trace
        assert list(again.decisions) == list(s.decisions)


def test_a_trace_with_a_value_that_is_no_candidate_changes_nothing():
    text = str(scaled()[0].trace).replace("chosen=16", "chosen=12")
    fresh = te.create_schedule(scaled()[2].op)
    with pytest.raises(te.ScheduleError, match=r"decision 'y\.width' is 12, which is no candidate here: give one of 8, 16, 32"):
        fresh.replay(te.Trace.from_text(text))
    assert fresh.trace.steps == ()
    assert list(fresh.decisions) == []


def test_copies_decide_alone():
    s, *_ = scaled()
    other = s.copy()
    other["y"].choose("other", [1, 2], 1)
    assert [one.name for one in s.decisions] == ["y.width"]
    assert [one.name for one in other.decisions] == ["y.width", "y.other"]


@pytest.mark.parametrize("value", [12, "16", 16.0, True, None, [16]])
def test_values_that_are_no_candidate_are_refused(value):
    with raises(DecisionError, f"decision 'y.width' is {value!r}, which is no candidate here: give one of 8, 16, 32"):
        scaled({"y.width": value})


def test_a_decision_that_no_rule_made_is_refused():
    s, x, y = scaled({"y.widht": 8})
    with raises(DecisionError, "decision 'y.widht' does not exist here: did you mean 'y.width'? Known: y.width"):
        build(s, [x, y])
    plain = te.create_schedule(y.op, decisions={"y.width": 8})
    with raises(DecisionError, "decision 'y.width' does not exist here: there is none"):
        build(plain, [x, y])


def test_mistakes_of_rules():
    with pytest.raises(ValueError, match=r"decision 'y\.width' has the default 7, which is none of its candidates 8, 16, 32"):
        scaled(default=7)
    s, _, y = scaled()
    with pytest.raises(ValueError, match=r"decision 'y\.width' is made twice"):
        s[y].choose("width", CANDIDATES, 8)


def test_pairs_are_lists_as_in_json():
    made = Decisions({"tile": (2, 4)})
    assert made.choose("tile", [(1, 1), (2, 4)], (1, 1), "rule") == [2, 4]
    assert next(iter(made)).to_dict() == {
        "name": "tile", "candidates": [[1, 1], [2, 4]], "default": [1, 1], "chosen": [2, 4], "rule": "rule"}


def test_many_candidates_are_listed_short():
    with raises(DecisionError, "decision 'n' is 0, which is no candidate here: give one of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … "
                               "99 (99 in all)"):
        Decisions({"n": 0}).choose("n", range(1, 100), 1, "rule")
