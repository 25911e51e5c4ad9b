"""Compiled operators on the RTL: the functional simulator's bytes, and the cycles kept in tests/data/vta_cycles.json."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("rtl-default")  # one process builds the model

ROOT = Path(__file__).parents[3]
COMMAND = "python benchmarks/vta_cycles.py --write"
KEPT = json.loads((ROOT / "tests" / "data" / "vta_cycles.json").read_text())


def benchmark():
    spec = importlib.util.spec_from_file_location("vta_cycles", ROOT / "benchmarks" / "vta_cycles.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["vta_cycles"] = made  # where its dataclasses look for their names
    spec.loader.exec_module(made)
    return made


BENCHMARK = benchmark()
CASES = {case.name: case for case in BENCHMARK.cases()}


def test_every_case_is_kept_and_no_other():
    assert list(KEPT) == list(CASES), f"rewrite tests/data/vta_cycles.json: {COMMAND}"


@pytest.mark.parametrize("name", [name for name in CASES if "1x1" in name or "14x14, 256->512" in name or "depthwise" in name])
def test_cycles_are_those_kept(name):
    """The smaller operators; the command measures all."""
    for system, cycles in BENCHMARK.measure(CASES[name]).items():
        assert cycles == KEPT[name][system], f"{name}, {system}: {KEPT[name][system]} cycles before. If that is meant: {COMMAND}"


def test_the_page_has_the_cycles_kept():
    page = (ROOT / "docs" / "vta.md").read_text(encoding="utf-8")
    assert BENCHMARK.table([(case, KEPT[name]) for name, case in CASES.items()]) in page, f"docs/vta.md has others: {COMMAND}"


def test_the_network_is_as_fast_as_promised():
    """PEERS: the original takes 8.83 M cycles for the ten layers on a real board."""
    total = sum(case.count * KEPT[name]["reference"] for name, case in CASES.items())
    assert total <= 7_200_000
