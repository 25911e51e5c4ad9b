"""A sample of tests/compiler/te_fuzz.py, and that it can fail."""

import pytest
import te_fuzz

from vtakit import te


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_expressions_compute_what_numpy_does(start):
    for seed in range(start, start + 20):
        te_fuzz.check(seed)


def test_a_wrong_operation_is_found(monkeypatch):
    monkeypatch.setitem(te_fuzz.DIVISIONS, "//", (te.truncdiv, te_fuzz.DIVISIONS["//"][1]))
    with pytest.raises(AssertionError, match=r"^seed 52: C\[\d+\] is \S+, NumPy has \S+, of A .*\n\nC = .*\n\nreplay: python "):
        te_fuzz.check(52)
