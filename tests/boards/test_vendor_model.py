"""The checking chip beside a vendor's Verilog model of it: the same words, and the same judgement of wrong distances.

The model is none of this project's. VTAKIT_SDRAM_MODEL is the path of Micron's mt48lc16m16a2.v, speed grade -7E; without it, or
without Icarus Verilog, the tests that need it are left out.
"""

import os
import re
from dataclasses import replace
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from chip_trace import BURST, Trace, Vendor, check, edge_of, lanes_driven, random_trace
from controller_bench import usual

from vtakit.boards.memory.chips import find_chip

MODEL = os.environ.get("VTAKIT_SDRAM_MODEL", "")
VENDOR = pytest.mark.skipif(not MODEL or which("iverilog") is None, reason="needs VTAKIT_SDRAM_MODEL and iverilog")
NAME, MHZ, NS = "MT48LC16M16A2-7E", 125, 8
CHIP = replace(find_chip(NAME), power_up=0)  # the vendor's model does not check it, and a trace is short without it
TIMING = CHIP.timing(MHZ)
ALL = 1 << 10
MISTAKES = {  # of which each model says the second and the third
    "read too soon": ("tRCD", "tRCD"), "write too soon": ("tRCD", "tRCD"), "activate after precharge": ("tRP", "tRP"),
    "refresh after precharge": ("tRP", "tRP"), "precharge after activate": ("tRAS", "tRAS"), "activate again": ("tRC", "tRC"),
    "activate another bank": ("tRRD", "tRRD"), "precharge after write": ("tWR", "tWR"),
    "activate after refresh": ("tRFC", "tRFC"),
    "refresh after refresh": ("tRFC", "tRFC"), "activate after mode": ("tMRD", "tMRD"), "read of a closed bank": (
        "READ of bank 2, which has no open row", "not Activated for Read"), "write of a closed bank": (
        "WRITE of bank 2, which has no open row", "not Activated for Write"), "activate of an open bank": (
        "ACTIVATE of bank 1, whose row 5 is open", "already activated"), "refresh of an open bank": (
        "REFRESH while row 5 of bank 1 is open", "must be Precharge"),
}


def planted(name: str, less: int) -> tuple[list[int], int]:
    """A trace with a distance `less` clocks shorter than the datasheet's, and the edge of the command that may be wrong."""
    trace, t = Trace(TIMING.tcas), TIMING
    trace.initialise()
    trace.command("activate", 1, 5)
    match name:
        case "read too soon" | "write too soon":
            trace.at(t.trcd - less, name.split()[0], 1, 8)
        case "activate after precharge" | "refresh after precharge":
            trace.at(t.trc, "precharge", 1)
            trace.at(t.trp - less, name.split()[0], 1, 6)
        case "precharge after activate":
            trace.at(t.tras - less, "precharge", 1)
        case "activate again":
            trace.at(t.tras, "precharge", 1)
            trace.at(t.trc - t.tras - less, "activate", 1, 6)
        case "activate another bank":
            trace.at(t.trrd - less, "activate", 2, 6)
        case "precharge after write":
            trace.at(t.trcd, "write", 1, 8)
            trace.at(BURST - 1 + t.twr - less, "precharge", 1)
        case "activate after refresh" | "refresh after refresh":
            trace.at(t.trc, "precharge", 1)
            trace.at(t.trp, "refresh")
            trace.at(t.trfc - less, name.split()[0], 1, 6)
        case "activate after mode":
            trace.at(t.trc, "precharge", 1)
            trace.at(t.trp, "mode", 0, t.tcas << 4 | 3)
            trace.at(2 - less, "activate", 1, 6)
        case "read of a closed bank" | "write of a closed bank":
            trace.at(20, name.split()[0], 1 + less, 8)
        case "activate of an open bank":
            trace.at(20, "activate", 2 - less, 6)
        case "refresh of an open bank":
            if not less:
                trace.at(t.tras, "precharge", 1)
            trace.at(20, "refresh")
    edge = len(trace.edges) - 1
    trace.wait(40)
    return trace.edges, edge


def known_words(trace, words, bus) -> int:
    """Compare what both drive, byte by byte, and return how many bytes: those that the vendor's model knows."""
    compared = 0
    lanes = lanes_driven(trace, words)
    for edge, (lane_bits, text) in enumerate(zip(lanes, bus, strict=True)):
        if trace[edge] >> 22 & 1:
            continue  # the controller drives
        for lane, byte in enumerate((text[8:], text[:8])):
            assert (byte != "zzzzzzzz") == bool(lane_bits >> lane & 1), f"edge {edge}, byte {lane}: {byte}"
            if lane_bits >> lane & 1 and "x" not in byte:
                assert int(byte, 2) == words[edge] >> 8 * lane & 0xFF, f"edge {edge}, byte {lane}"
                compared += 1
    return compared


@pytest.fixture
def memory():
    return np.zeros(TIMING.capacity_bytes, np.uint8)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_noticed_by_the_checking_chip(name, memory):
    """At its edge, by its name; the same trace without it is legal."""
    legal, _ = planted(name, 0)
    assert not check(CHIP, MHZ, legal, memory)[0]
    wrong, edge = planted(name, 1)
    error, _ = check(CHIP, MHZ, wrong, memory)
    assert MISTAKES[name][0] in error
    assert edge_of(error) == edge


def test_random_traces_have_right_and_wrong_ones(memory):
    """Else the comparison with a vendor's model would say little."""
    errors = [check(CHIP, MHZ, random_trace(CHIP, MHZ, seed), memory)[0] for seed in range(120)]
    told = {re.search(r", and (t\w+) is", error)[1] for error in errors if error}
    assert told >= {"tRCD", "tRP", "tRAS", "tRC", "tRRD", "tWR", "tRFC"}
    assert 30 < sum(not error for error in errors) < 90


@VENDOR
def test_the_vendors_model_notices_the_same_mistakes(tmp_path, memory):
    vendor = Vendor(Path(MODEL), NS, tmp_path)
    for name, (_, says) in MISTAKES.items():
        legal, _ = planted(name, 0)
        assert not vendor.run(legal)[0], name
        wrong, edge = planted(name, 1)
        errors, _ = vendor.run(wrong)
        assert errors, name
        assert errors[0][0] == edge, name
        assert says in errors[0][1], name


@VENDOR
def test_random_commands_are_judged_alike(tmp_path, memory):
    """Each trace has its first error at the same edge in both, or none in both, and then reads the same words.

    The checking chip is stricter in one thing: REFRESH keeps tRC after ACTIVATE, too.
    """
    traces = [random_trace(CHIP, MHZ, seed) for seed in range(400)]
    errors, bus = Vendor(Path(MODEL), NS, tmp_path).run([edge for trace in traces for edge in trace])
    begin, right, compared = 0, 0, 0
    for seed, trace in enumerate(traces):
        error, words = check(CHIP, MHZ, trace, memory)
        theirs = [(edge - begin, text) for edge, text in errors if begin <= edge < begin + len(trace)]
        if theirs or not re.search(r"REFRESH .*tRC is", error):
            assert edge_of(error) == (theirs[0][0] if theirs else None), (seed, error, theirs)
        if not theirs and not error:
            right += 1
            compared += known_words(trace, words, bus[begin : begin + len(trace)])
        begin += len(trace)
    assert 100 < right < 300
    assert compared > 2_000


@VENDOR
def test_the_controllers_traffic_is_legal_in_the_vendors_model(tmp_path):
    """Random reads and writes of the controller, from power-up on: no error, and the words that our chip drives."""
    mhz, period = 100, 10
    chip = find_chip(NAME)
    record = np.zeros(120_000, np.uint64)
    found = usual(chip=NAME, mhz=mhz).run("rows", 4_000, seed=3, stall=5, write_percent=60, record=record)
    assert not found.error
    trace = [int(edge) for edge in record[: found.cycles]]
    memory = np.zeros(chip.timing(mhz).capacity_bytes, np.uint8)
    error, words = check(chip, mhz, trace, memory)
    assert not error
    errors, bus = Vendor(Path(MODEL), period, tmp_path).run(trace)
    assert not errors
    assert known_words(trace, words, bus) > 30_000
