"""The mutation tool on a block of five lines: what it finds, that the original stays the original, and that a mutant differs."""

import itertools
import os
import time

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.sim import Simulator
from mutation import report, schemata, sites, workers
from rich.console import Console

TOY = """
LIMIT = 3 + 1

def build(m, a, b, c, out, flag):
    size = LIMIT - 1  # of Python numbers: no mutant
    with m.If((a > b) & ~flag):
        m.d.comb += out.eq(Mux(flag.any(), 0, a - b))
    with m.Else():
        m.d.comb += out.eq(c + size)
    m.d.comb += c.eq(5)
"""


def toy():
    """The rewritten toy, elaborated; its sites and its signals."""
    schemata.APPLIED.clear()
    tree, found = sites.rewrite(TOY, "toy.py", 1)
    space = {sites.HELPER: schemata, "Mux": schemata.Mux}
    exec(compile(tree, "toy.py", "exec"), space)
    m, a, b, flag = Module(), Signal(signed(3)), Signal(signed(3)), Signal()
    c, out = Signal(4), Signal(signed(5))
    space["build"](m, a, b, c, out, flag)
    m.d.comb += Signal(schemata.PIN_BITS, name="pin").eq(schemata.MUTANT)
    return m, [site for site in found if site.number in schemata.APPLIED], (a, b, flag, out)


def table(m, ports, mutant):
    """The output for every input."""
    a, b, flag, out = ports
    rows = []

    async def bench(context):
        context.set(schemata.MUTANT, mutant)
        for values in itertools.product(range(-4, 4), range(-4, 4), (0, 1)):
            for signal, value in zip((a, b, flag), values, strict=True):
                context.set(signal, value)
            await context.delay(1e-9)
            rows.append(context.get(out))

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    return rows


def meaning():
    """What the toy computes."""
    inputs = itertools.product(range(-4, 4), range(-4, 4), (0, 1))
    return [a - b if a > b and not flag else 8 for a, b, flag in inputs]


def test_the_sites_are_those_that_an_elaboration_meets():
    m, found, ports = toy()
    assert len(table(m, ports, 0)) == 128
    assert {f"{site.kind} {site.before} -> {site.after}" for site in found} == {
        "condition Mux(flag.any(), 0, a - b) -> Mux(0, 0, a - b)",
        "condition Mux(flag.any(), 0, a - b) -> Mux(1, 0, a - b)",
        "condition m.If((a > b) & ~flag) -> m.If(0)",
        "condition m.If((a > b) & ~flag) -> m.If(1)",
        "constant Mux(flag.any(), 0, a - b) -> Mux(flag.any(), 1, a - b)",
        "constant c.eq(5) -> c.eq(4)",
        "operator (a > b) & ~flag -> (a > b) | ~flag",
        "operator a - b -> a + b",
        "operator a > b -> a >= b",
        "operator c + size -> c - size",
        "operator flag.any() -> flag.all()",
        "operator ~flag -> flag",
    }


def test_without_a_mutant_the_circuit_is_the_original():
    m, _, ports = toy()
    assert table(m, ports, 0) == meaning()


def test_all_mutants_but_those_without_effect_differ():
    """Where the inner Mux is reached, flag is 0; and any and all of one bit are the same."""
    m, found, ports = toy()
    alive = [f"{site.before} -> {site.after}" for site in found if table(m, ports, site.number) == meaning()]
    assert alive == [
        "Mux(flag.any(), 0, a - b) -> Mux(0, 0, a - b)", "flag.any() -> flag.all()",
        "Mux(flag.any(), 0, a - b) -> Mux(flag.any(), 1, a - b)",
    ]


def test_a_page_wants_a_reason_for_every_survivor():
    site = {"number": 7, "file": "toy.py", "line": 6, "nth": 1, "kind": "operator", "before": "a | b", "after": "a & b"}
    result = {
        "date": "2026-01-01", "commit": "abc", "command": "python run.py", "seconds": 3, "sites": 9, "applied": 2, "checks": 5,
        "verdicts": [{"site": site, "killer": "", "said": ""}, {"site": {**site, "number": 8}, "killer": "some", "said": "x"}],
    }
    with pytest.raises(SystemExit) as refused:
        report.page(result, {})
    assert str(refused.value) == "reasons.toml lacks a reason for:\ntoy.py: a | b  ->  a & b"
    text = report.page(result, {"toy.py: a | b  ->  a & b": {"kind": "equivalent", "why": "a is b"}})
    assert "| toy.py:6 | `a \\| b` → `a & b` | equivalent | a is b |" in text
    assert "1 of 2 mutants killed, 50.0%, in 3 s." in text


def test_mutants_that_are_killed_live_crash_or_hang_are_told_apart(monkeypatch):
    """A hang is one of processor time: that others keep the machine busy kills no mutant."""
    monkeypatch.setattr(workers, "SECONDS", 1)
    def endless():
        for _ in itertools.count():
            pass

    fates = {1: lambda: ("a check", "what it said"), 2: lambda: ("", ""), 3: lambda: os._exit(7), 4: endless}
    chosen = [sites.Site(number=n, file="toy.py", line=n, nth=1, kind="", before="", after="") for n in fates]
    verdicts = workers.verdicts_on(
        chosen, lambda number: fates[number](), jobs=2, end=time.monotonic() + 600, console=Console(quiet=True)
    )
    assert {verdict.site.number: (verdict.killer, verdict.said) for verdict in verdicts} == {
        1: ("a check", "what it said"), 2: ("", ""), 3: ("crash", "the simulation ended with status 7"),
        4: ("time", "not done within 1 s of processor time"),
    }
