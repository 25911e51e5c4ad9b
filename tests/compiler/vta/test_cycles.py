"""Compiled operators: the cycles kept in tests/data/vta_cycles.json, the smaller ones on the RTL, with fsim's bytes."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from vtakit.compiler.codegen.vta.target import vta

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
    for figure, found in BENCHMARK.measure(CASES[name]).items():
        assert found == KEPT[name][figure], f"{name}, {figure}: {KEPT[name][figure]} before. If that is meant: {COMMAND}"


def test_the_page_has_the_cycles_kept():
    page = (ROOT / "docs" / "vta.md").read_text(encoding="utf-8")
    kept = [(case, KEPT[name]) for name, case in CASES.items()]
    assert f"{BENCHMARK.table(kept)}\n{BENCHMARK.hiding(kept)}" in page, f"docs/vta.md has others: {COMMAND}"


def share(name, figure="reference"):
    """Multiplications a cycle, of the peak."""
    return CASES[name].macs / BENCHMARK.PEAK / KEPT[name][figure]


@pytest.mark.parametrize(("system", "most"), [("reference", 7_200_000), ("ideal", 6_900_000)])
def test_the_network_is_as_fast_as_promised(system, most):
    """PEERS: the original takes 8.83 M cycles for the ten layers on a real board, 7.73 M with ideal memory."""
    assert sum(case.count * KEPT[name][system] for name, case in CASES.items()) <= most


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.count])
def test_layers_of_the_network_are_near_the_peak(name):
    assert share(name) >= (0.60 if "1x1" in name else 0.92)


def test_a_layer_with_a_residual_is_near_the_peak():
    """Of the 94.7 % that two ALU steps a vector leave."""
    assert share("convolution 56x56, 64->64, 3x3, stride 1, residual") >= 0.92


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("transposed")])
def test_transposed_convolutions_are_near_what_bounds_them(name):
    """The smallest for one image reads its weights in twice the time of its products."""
    if name == "transposed convolution 4x4, 1024->512, 4x4, stride 2":
        assert 16 * 1024 * 512 / 8 / KEPT[name]["reference"] >= 0.95
    else:
        assert share(name) >= 0.95


@pytest.mark.parametrize("way", ["reference", "two threads"])
def test_latency_hiding_gains_more_than_the_papers(way):
    """The paper: from 70 % to 88 %; by copies of each buffer, and by virtual threads alone."""
    network = [name for name, case in CASES.items() if case.count]
    cycles = {system: sum(CASES[name].count * KEPT[name][system] for name in network) for system in (way, "one copy")}
    steps = sum(CASES[name].count * CASES[name].macs for name in network) / BENCHMARK.PEAK
    assert steps / cycles[way] >= 0.88
    assert cycles["one copy"] / cycles[way] >= 88 / 70


def test_programs_are_small():
    assert max(kept["program bytes"] for kept in KEPT.values()) < 200_000


def is_on_the_page(name, size_bytes):
    """Whether the table of programs has this size; how long one was in the making is the machine's affair."""
    return f"\n| {name} | {size_bytes:,} | " in (ROOT / "docs" / "vta.md").read_text(encoding="utf-8")


def test_the_page_has_the_sizes_kept():
    assert [name for name in KEPT if not is_on_the_page(name, KEPT[name]["program bytes"])] == [], COMMAND


@pytest.mark.parametrize("case", [*BENCHMARK.large()][:3], ids=lambda case: case.name)
def test_programs_of_large_layers_are_small(case):
    """The fourth, of 299 million products of elements, cannot be."""
    size_bytes = BENCHMARK.size_bytes(case.program(vta()))
    assert size_bytes < 200_000
    assert is_on_the_page(case.name, size_bytes), COMMAND


def test_the_longest_program_has_few_instructions():
    """Its tiles hold 840 accumulators: a LOAD for each block of inputs, a REQUANT for each block of outputs, three GEMMs each."""
    case = [*BENCHMARK.large()][3]
    program = case.program(vta())
    assert case.macs / BENCHMARK.PEAK / len(program.insns) >= 3300
    assert is_on_the_page(case.name, BENCHMARK.size_bytes(program)), COMMAND
