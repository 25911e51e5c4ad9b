"""Exact cycles of hand-made programs: those of tests/data/cycles.json, in the page's table, and as fast as promised.

The RTL confirms short programs, and of the longer ones those of `LONG`, with every byte.
"""

import importlib.util
import json
from functools import cache
from pathlib import Path

import pytest

from vtakit.sim.cycle_cases import SYSTEMS, Case, cases, measure

pytestmark = pytest.mark.xdist_group("rtl-default")  # one process builds each model

ROOT = Path(__file__).parents[2]
COMMAND = "python benchmarks/rtl_cycles.py --write"
LONG = ("matrix product 512x512x512, shifted and clipped", "convolution 28x28, 128->256, 3x3, stride 2, by REQUANT")
KEPT = json.loads((ROOT / "tests" / "data" / "cycles.json").read_text())


@cache
def known() -> dict[str, Case]:
    """Return the cases by name: their programs take seconds to write, which only the process that measures them should spend."""
    return {case.name: case for case in cases()}


def row(case, figures) -> str:
    spec = importlib.util.spec_from_file_location("rtl_cycles", ROOT / "benchmarks" / "rtl_cycles.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made.row(case, figures)


def test_every_case_is_kept_and_no_other():
    assert list(KEPT) == list(known()), f"rewrite tests/data/cycles.json: {COMMAND}"


@pytest.mark.parametrize("name", KEPT)
def test_cycles_are_those_kept_and_as_few_as_promised(name):
    case = known()[name]
    figures = measure(case, "rtl" if case.name in LONG else "cycle")
    for system in SYSTEMS:
        old, new = KEPT[case.name][system], figures.cycles[system]
        assert new == old, f"{case.name}, {system} system: {old} cycles before, {new} now. If that is meant: {COMMAND}"
        promised = case.least.get(system, 0)
        assert figures.work / new >= promised, f"{case.name}, {system} system: {figures.work} / {new} is less than {promised:.3f}"
    page = (ROOT / "docs" / "cycles.md").read_text(encoding="utf-8").splitlines()
    assert row(case, figures) in page, f"docs/cycles.md has another row: {COMMAND}"
