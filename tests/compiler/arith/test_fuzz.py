"""A sample of tests/compiler/arith_fuzz.py, and that it can fail."""

import arith_fuzz
import pytest

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir.values import wrap


@pytest.mark.parametrize("seed", range(5))
def test_random_expressions(seed: int) -> None:
    assert arith_fuzz.fuzz(seed=seed, count=100) == 0


def test_a_wrong_normal_form_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Analyzer, "simplify", lambda self, e: wrap(0))
    with pytest.raises(arith_fuzz.Wrong):
        arith_fuzz.fuzz(seed=0, count=20)
