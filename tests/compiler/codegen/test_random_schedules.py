"""A sample of random (operator, schedule) pairs: scheduled machine code against the interpreter of the operator."""

import pytest
import schedule_fuzz


@pytest.mark.parametrize("start", range(5000, 5120, 30))
def test_scheduled_machine_code_computes_what_the_operator_does(start):
    counts = schedule_fuzz.fuzz(start, 30, schedule_fuzz.run_machine_code)
    assert counts[""] >= 15, "most random schedules run"
