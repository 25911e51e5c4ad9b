"""Sessions: stop rules, resumption after an end at any moment, the same sequence by seed, failures that are counted."""

import pytest
from tune_toys import Measured, tasks

from vtakit.runtime.tune.records import Records, Writer
from vtakit.runtime.tune.session import Rules, Session


def session(measurer, writer=None, records=None, **rules):
    chosen = Rules(**{"search": "genetic", "trials": 60} | rules)
    return Session(tasks(), [2, 1], measurer, chosen, records=records, writer=writer)


def kept(measurer, path, **rules):
    """A whole session with a file."""
    with Writer(path) as writer:
        return session(measurer, writer, Records.read(path), **rules).run()


def test_trials_end_a_session_and_gain_is_said():
    measurer = Measured()
    found = session(measurer)
    state = found.run()
    assert (state.trials, state.stopped) == (60, "60 trials are made")
    assert len(measurer.asked) == 60
    bests = [min(task.cost(given) for name, given in measurer.asked if name == task.name) for task in tasks()]
    assert [best[1] for best in state.bests] == bests
    firsts = [task.cost(dict.fromkeys("abcd", 1) | {"form": "plain"}) for task in tasks()]
    before, after = (2 * each[0] + each[1] for each in (firsts, bests))
    assert abs(state.gain - (1 - after / before)) < 1e-9


def test_time_and_patience_end_a_session():
    clock = iter(range(0, 10_000, 7))
    state = session(Measured(), trials=None, seconds=600).run(now=lambda: next(clock))
    assert state.stopped == "the time is over"
    state = session(Measured(), trials=None, patience=12).run()
    assert state.stopped == "no task has candidates left that promise a gain"
    assert all(each.idle >= 12 for each in state.tasks)


@pytest.mark.parametrize("search", ["genetic", "random", "evolution"])
def test_the_same_seed_gives_the_same_sequence(search):
    count = 40 if search != "evolution" else 24
    asked = []
    for seed in (1, 1, 2):
        measurer = Measured()
        session(measurer, search=search, seed=seed, trials=count).run()
        asked.append(measurer.asked)
    assert asked[0] == asked[1]
    assert asked[0] != asked[2]


@pytest.mark.parametrize("end", [0, 1, 7, 8, 9, 23, 41, 59])
def test_a_session_that_was_ended_goes_on_as_if_it_had_not_been(tmp_path, end):
    """Ctrl-C between any two trials; what a kill in the middle of a write leaves is a torn line, which counts as no record."""
    whole = Measured()
    session(whole).run()
    path = tmp_path / "r.jsonl"
    first = Measured(ends=end)
    with pytest.raises(KeyboardInterrupt):
        kept(first, path)
    if path.stat().st_size:
        with path.open("ab") as file:
            file.write(path.read_bytes()[:77])
    second = Measured()
    state = kept(second, path)
    assert state.reused == end
    assert first.asked + second.asked == whole.asked
    assert len([*Records.read(path)]) == 60


def test_failures_are_recorded_with_their_reason(tmp_path):
    path = tmp_path / "r.jsonl"
    state = kept(Measured(fails=lambda given: given["a"] == 4), path, search="random")
    failed = [each for each in Records.read(path) if each.cost is None]
    assert failed
    assert state.failures == {"refused": len(failed)}
    assert {each.error for each in failed} == {"refused: it is one of those"}
    assert all(each.decisions["a"] == 4 for each in failed)
    assert all(best[0]["a"] != 4 for best in state.bests)


def test_records_of_another_version_are_not_reused(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    kept(Measured(), path)
    monkeypatch.setattr("vtakit.runtime.tune.session.versions", lambda: {"vtakit": "9", "code": "x"})
    again = Measured()
    assert kept(again, path).reused == 0
    assert len(again.asked) == 60


def test_a_record_that_somebody_made_up_is_not_reused(tmp_path):
    path = tmp_path / "r.jsonl"
    kept(Measured(), path, trials=8)
    path.write_text(path.read_text().replace('"a":1', '"a":5'))
    again = Measured()
    assert kept(again, path, trials=8).reused < 8
    assert len(again.asked) > 0
