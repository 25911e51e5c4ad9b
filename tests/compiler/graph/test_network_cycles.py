"""Whole networks on the RTL: the CPU's bytes, and what is kept in tests/data/vta_networks.json."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.xdist_group("rtl-default")  # one process builds the model

ROOT = Path(__file__).parents[3]
COMMAND = "python benchmarks/vta_networks.py --write"
KEPT = json.loads((ROOT / "tests" / "data" / "vta_networks.json").read_text())
MOST_CYCLES = 8_000_000  # of ResNet-18; the original takes 7.73 million for its convolutions alone


def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vta_networks_benchmark", ROOT / "benchmarks" / "vta_networks.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


BENCHMARK = benchmark()


def test_a_small_residual_network_takes_the_cycles_that_are_kept():
    """The command measures all networks."""
    name = list(BENCHMARK.NETWORKS)[-1]
    exact, _ = BENCHMARK.measure(name)
    assert exact == KEPT[name], f"if that is meant: {COMMAND}"


def test_networks_are_one_launch_and_within_their_bounds():
    assert list(KEPT) == list(BENCHMARK.NETWORKS), f"rewrite tests/data/vta_networks.json: {COMMAND}"
    assert all(kept["launches"] == 1 for kept in KEPT.values())
    assert KEPT["ResNet-18, 224x224"]["cycles"] <= MOST_CYCLES


def test_the_page_has_what_is_kept():
    page = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    for name, kept in KEPT.items():
        assert f"| {name} | {kept['launches']} | {kept['layers']} | {kept['macs']:,} | {kept['cycles']:,} | " in page
