"""The planted changes of timing: each finds its place, is in the hardware, and is there only when its number is chosen."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.hdl import Module, Mux, Signal
from amaranth.sim import Simulator
from mutation import planting, schemata, sites
from mutation.timing_changes import CHANGES, Change
from mutation.timing_verdicts import Verdict, summary, table, told

ROOT = Path(__file__).parents[2]
TOY = """
def build(m, a, b, out, other):
    m.d.comb += out.eq(a & b)
    with m.If(b):
        m.d.comb += other.eq(a)
"""
TOY_CHANGES = (
    Change("both", "toy.py", (), (("a & b", "a | b"),)),
    Change("a cycle later", "toy.py", (), (("a & b", "later(a) & b"),)),
    Change("a condition", "toy.py", (), (
        ("with m.If(b):", "with m.If(either(b, 1)):"), ("other.eq(a)", "other.eq(a ^ planted)"))),
)


@pytest.mark.parametrize("file", sorted({each.file for each in CHANGES}))
def test_every_change_finds_its_place(file):
    tree, found = planting.rewrite((ROOT / "hw" / file).read_text(), file, 1)
    assert [site.number for site in found] == [n for n, each in enumerate(CHANGES, start=1) if each.file == file]
    assert sites.HELPER in ast.unparse(tree)


def test_there_are_changes_of_every_kind_of_block():
    assert len(CHANGES) >= 60
    assert len({each.name for each in CHANGES}) == len(CHANGES)
    assert {each.file.partition("/")[0] for each in CHANGES if "/" in each.file} == {
        "fetch", "issue", "load", "compute", "store", "memory", "control"}


def test_every_change_is_in_the_hardware():
    """In a process of its own, in which the rewritten modules are the first."""
    command = [sys.executable, str(ROOT / "tests" / "mutation" / "run.py"), "timing", "--elaborate"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, f"{len(CHANGES)} changes, each in the hardware\n"), done.stderr


@pytest.mark.parametrize(("number", "want"), [
    (0, ([0, 0, 1, 1], [0, 0, 1, 1])), (1, ([1, 1, 1, 1], [0, 0, 1, 1])), (2, ([0, 1, 0, 1], [0, 0, 1, 1])),
    (3, ([0, 0, 1, 1], [0, 1, 0, 0])), (4, ([0, 0, 1, 1], [0, 0, 1, 1])),
])
def test_a_change_is_there_when_its_number_is_chosen(monkeypatch, number, want):
    monkeypatch.setattr(planting, "CHANGES", TOY_CHANGES)
    tree, _ = planting.rewrite(TOY, "toy.py", 1)
    space = {sites.HELPER: schemata, "Mux": Mux}
    exec(compile(tree, "toy.py", "exec"), space)
    m, a, b, out, other = Module(), Signal(), Signal(), Signal(), Signal()
    space["build"](m, a, b, out, other)
    found = []

    async def bench(context):
        context.set(schemata.MUTANT, number)
        for values in ((1, 0), (0, 1), (1, 1), (1, 1)):
            context.set(a, values[0])
            context.set(b, values[1])
            await context.delay(1e-9)
            found.append((context.get(out), context.get(other)))
            await context.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert tuple(map(list, zip(*found, strict=True))) == want


def test_verdicts_are_told_in_a_line():
    seen = Verdict(name="one", file="core.py", programs=3, difference="cycle 9", block="cycle 8: core.fetch.left is 1, want 2",
                   expected=True, moves=True)
    missed = Verdict(name="two", file="core.py", programs=0, difference="cycle 5", block="", expected=False, moves=True)
    still = Verdict(name="three", file="core.py", programs=0, difference="", block="", expected=False, moves=False)
    assert told(seen) == "after 3  core.py: one; cycle 8: core.fetch.left is 1, want 2"
    assert told(missed) == "MISSED  core.py: two; on a longer program cycle 5"
    assert told(still) == "moves nothing  core.py: three"
    assert table([seen, missed, still]).splitlines()[2:] == ["| core.py | 3 | 2 | 1 | 1 | 3 |"]
    assert summary([seen, missed, still], 10) == (
        "3 changes, of which 2 move a cycle; 1 are noticed within 10 programs, half of them within 3, all within 3; "
        "1 are told with their block")
