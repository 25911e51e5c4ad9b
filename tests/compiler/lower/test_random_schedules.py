"""A sample of the fuzzer of schedules, and that it finds what it looks for."""

import pytest
import schedule_fuzz

from vtakit.compiler.lower import LOWER_RULES, RULES


@pytest.mark.parametrize("start", range(0, 120, 30))
def test_random_schedules_compute_what_the_operator_does(start):
    counts = schedule_fuzz.fuzz(start, 30)
    assert counts[""] >= 15, "most random schedules run"
    assert {name for name in counts if "Schedule" not in name} <= {"", *LOWER_RULES, *(rule.name for rule in RULES)}


def forget_guards(monkeypatch):
    monkeypatch.setattr("vtakit.compiler.lower.loops.guards", lambda *args: [])


def test_the_verifier_refuses_what_a_lowering_without_guards_makes(monkeypatch):
    forget_guards(monkeypatch)
    assert schedule_fuzz.fuzz(0, 60)["bindings"] > 3


def test_a_failure_is_shown_with_the_least_trace_and_how_to_repeat_it(monkeypatch):
    forget_guards(monkeypatch)
    monkeypatch.setattr("vtakit.compiler.lower.function.verify", lambda *args: None)
    with pytest.raises(AssertionError) as error:
        schedule_fuzz.fuzz(0, 40)
    _, trace, replay = str(error.value).rsplit("\n\n", 2)
    assert replay.startswith("replay: python tests/compiler/schedule_fuzz.py --seed ")
    assert 1 <= len(trace.splitlines()) <= 3
    assert "split" in trace


def test_a_pair_without_end_is_a_failure_with_its_seed(monkeypatch):
    def without_end(*_):
        while True:
            pass

    monkeypatch.setattr(schedule_fuzz, "MOST_SECONDS", 0.05)
    with pytest.raises(AssertionError, match=r"^triangular, seed 7: EndlessError: no end within 0\.05 s\n") as error:
        schedule_fuzz.fuzz(7, 1, without_end)
    assert str(error.value).endswith("replay: python tests/compiler/schedule_fuzz.py --seed 7 --count 1")
