"""Operators beside convolutions: cycles against those kept in tests/data/vta_operators.json, the smaller ones on the RTL too."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("rtl-default")  # one process builds the model

ROOT = Path(__file__).parents[3]
COMMAND = "python benchmarks/vta_operators.py --write"
KEPT = json.loads((ROOT / "tests" / "data" / "vta_operators.json").read_text())


def benchmark():
    spec = importlib.util.spec_from_file_location("vta_operators_benchmark", ROOT / "benchmarks" / "vta_operators.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # where its dataclasses look for their names
    spec.loader.exec_module(made)
    return made


BENCHMARK = benchmark()
CASES = {case.name: case for case in BENCHMARK.cases()}


def test_every_case_is_kept_and_no_other():
    assert list(KEPT) == list(CASES), f"rewrite tests/data/vta_operators.json: {COMMAND}"


@pytest.mark.parametrize("name", CASES)
def test_measures_are_those_kept(name):
    assert BENCHMARK.measure(CASES[name]) == KEPT[name], f"if that is meant: {COMMAND}"


def test_the_page_has_the_measures_kept():
    page = (ROOT / "docs" / "vta.md").read_text(encoding="utf-8")
    assert BENCHMARK.table(list(KEPT.items())) in page, f"docs/vta.md has others: {COMMAND}"


def test_bounds_that_are_reached():
    """An LSTM reads its weights and no more; a folded first layer takes a fifth of the products."""
    lstm = KEPT["LSTM, 1x1024 by 1024x2048"]
    assert lstm["read"] / 8 > 0.98 * lstm["cycles"]
    plain, folded = (KEPT[name] for name in CASES if name.startswith("first"))
    assert folded["cycles"] * 4.8 < plain["cycles"]
