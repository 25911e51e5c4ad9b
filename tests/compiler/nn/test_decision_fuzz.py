"""A sample of tests/compiler/decision_fuzz.py, and that it can fail."""

import decision_fuzz
import numpy as np
import pytest

from vtakit.runtime.cpu.target import Cpu


def check(seed: int, vectors: int) -> decision_fuzz.Tally:
    target, tally = Cpu.host(), decision_fuzz.Tally()
    for model in decision_fuzz.models(seed):
        for group in decision_fuzz.groups_of(model, target):
            decision_fuzz.check_group(group, target, np.random.default_rng(seed), tally, vectors)
    return tally


@pytest.mark.parametrize("seed", [1, 2])
def test_random_decisions_change_no_result(seed):
    tally = check(seed, 1)
    assert tally.right >= 10
    assert tally.decided


def test_a_wrong_result_is_found():
    right, given = np.arange(12, dtype=np.float32), {"sums.tile": [1, 2]}
    decision_fuzz.check_equal("conv", "y", right, right + 1e-6, given)
    with pytest.raises(decision_fuzz.WrongError, match=r"conv: y is 1 off with the decisions {'sums\.tile': \[1, 2\]}"):
        decision_fuzz.check_equal("conv", "y", right, right + np.float32(1), given)
    with pytest.raises(decision_fuzz.WrongError, match="conv: y is nan off"):
        decision_fuzz.check_equal("conv", "y", right, right * np.nan, given)
    with pytest.raises(decision_fuzz.WrongError, match="conv: y is 1 off"):
        decision_fuzz.check_equal("conv", "y", right.astype(np.int32), np.arange(12, dtype=np.int32) % 11, given)
