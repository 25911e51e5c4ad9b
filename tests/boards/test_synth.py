"""vtakit.boards.synth: devices, what is read from the tools' files, tools that fail or hang, and small real runs."""

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.base.process import ToolError
from vtakit.base.writing import write_bytes
from vtakit.boards.synth import DEVICES, Hop, Report, Usage, find_device
from vtakit.boards.synth.devices import Device
from vtakit.boards.synth.flow import synthesise, too_large
from vtakit.boards.synth.pins import to_rtlil
from vtakit.boards.synth.products import pack_products
from vtakit.boards.synth.report import Names, read_placed, read_sta, source_of, usage_of
from vtakit.boards.synth.tools import YOSYS, find_tool, run_yosys
from vtakit.cache.place import cache_folder, trouble
from vtakit.hw.isa.config import NAMED
from vtakit.hw.params import CoreParams
from vtakit.hw.store.requantizer import Requantizer
from vtakit.hw.top import TOP_NAME, Top
from vtakit.runtime.cli import main

ROOT = Path(__file__).parents[2]
ECP5 = DEVICES["ecp5-85k"]
needs_yosys = pytest.mark.skipif(find_spec("pyosys") is None, reason="needs pyosys: pip install 'vtakit[fpga]'")

NETLIST = json.dumps({"modules": {"pins": {
    "netnames": {
        "vta.core.fetch.held": {"attributes": {"src": "/home/a/vtakit/hw/fetch/fetch.py:86|/share/lattice/cells.v:1.2-3.4"}},
        "vta.core.fetch.held_LUT4_D_Z": {"attributes": {"src": "/share/lattice/cells_map.v:108.23-108.24"}},
        "vta.core.fetch.fifo.level": {"attributes": {"src": "/usr/lib/python3/site-packages/amaranth/lib/fifo.py:279"}},
        "clk": {"attributes": {}},
    },
    "cells": {
        "vta.core.fetch.fifo": {"type": "$scopeinfo", "attributes": {"cell_src": "/home/a/vtakit/hw/memory/read_buffer.py:34"}},
        "vta.core.fetch.fifo.storage.0.0": {"type": "DP16KD", "attributes": {"src": "/share/lattice/brams_map.v:1.1-2.2"}},
    },
}}})


def placed(**changes: object) -> str:
    """A report of nextpnr with one clock and a path of one LUT, with changes at its top."""
    def at(cell: str) -> dict[str, str]:
        return {"cell": cell, "port": "D"}

    memory, register = at("vta.core.fetch.fifo.storage.0.0"), at("vta.core.fetch.fifo.level_TRELLIS_FF_Q")
    path = [
        {"type": "clk-to-q", "delay": 5.8, "from": memory, "to": memory},
        {"type": "routing", "delay": 1.25, "net": "vta.core.fetch.fifo.storage.0.0_DOA16[2]", "to": at("lut")},
        {"type": "logic", "delay": 0.2, "from": at("lut"), "to": at("lut")},
        {"type": "routing", "delay": 0.5, "net": "vta.core.fetch.held_LUT4_D_Z[1]", "to": register},
        {"type": "setup", "delay": 0.1, "to": register},
    ]
    clock = "posedge $glbnet$clk"
    report = {
        "fmax": {"$glbnet$clk": {"achieved": 127.388, "constraint": 80}},
        "critical_paths": [{"from": "<async>", "to": clock, "path": []}, {"from": clock, "to": clock, "path": path}],
    }
    return json.dumps(report | changes)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_the_tools_do_not_take_is_refused_before_they_run(seed):
    with raises(VtakitError, f"seed is {seed} and must be from 0 to {2**63 - 1}"):
        synthesise(CoreParams(cfg=NAMED["tiny"]), ECP5, seed=seed)


@needs_yosys
@pytest.mark.parametrize(("end", "status", "told"), [
    ("SystemExit(143)", 143, ""), ("KeyboardInterrupt", 2, "vtakit synth: interrupted; nothing was left half-written\n"),
])
def test_an_end_while_the_design_is_made_is_no_warning_about_its_parts(end, status, told):
    program = f"""if True:
        import sys
        from amaranth.hdl import Module
        from vtakit.boards.synth import flow
        from vtakit.runtime import cli

        def cut_off(design, name):
            m = Module()
            raise {end}

        flow.to_rtlil = cut_off
        sys.exit(cli.main(["synth", "--config", "tiny", "--device", "xc7"]))  # which needs no nextpnr
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.lstrip("\n")) == (status, told)


def test_a_placed_path_is_told_in_the_names_of_the_source():
    fmax, path = read_placed(placed(), Names(NETLIST, "pins"))
    assert fmax == 127.39
    assert path == (
        Hop("vta.core.fetch.fifo.storage", "hw/memory/read_buffer.py:34", 5.8, 1.25),
        Hop("vta.core.fetch.held", "hw/fetch/fetch.py:86", 0.2, 0.5),
        Hop("vta.core.fetch.fifo.level", "amaranth/lib/fifo.py:279", 0.1, 0.0),
    )


def test_a_report_without_a_clock_is_not_taken_for_a_result():
    with raises(ValueError, "nextpnr's report has 0 clocks"):
        read_placed(placed(fmax={}), Names(NETLIST, "pins"))


def test_a_path_of_cells_alone_is_read_from_sta():
    text = (
        "6. Executing STA pass.\nWarning: Cell type '$scopeinfo' not recognised! Ignoring.\n"
        "Latest arrival time in 'pins' is 4000:\n"
        "    4000 $flatten\\vta.$ff$1 (FDSE.D)\n           \\vta.core.fetch.held_LUT4_D_Z [3]\n"
        "    3900 $lut$7 (LUT2.I1->O)\n           \\vta.core.fetch.fifo.storage.0.0_DOA1\n"
        "    2454 vta.core.fetch.fifo.storage.0.0 (RAMB36E1.CLKBWRCLK->DOBDO)\n       0   \\clk (<primary input>)\n"
        "\nArrival histogram:\n    1000 something (LUT2.I1->O)\n"
    )
    bound, path = read_sta(text, Names(NETLIST, "pins"))
    assert bound == 250.0
    assert [(hop.signal, hop.cell_ns, hop.wire_ns) for hop in path] == [
        ("vta.core.fetch.fifo.storage", 2.454, 0.0), ("vta.core.fetch.held", 1.446, 0.0), ("$flatten\\vta.$ff$1", 0.1, 0.0),
    ]
    with raises(ValueError, "yosys's sta has no path"):
        read_sta("6. Executing STA pass.\n", Names(NETLIST, "pins"))


def test_places_without_python_are_no_source():
    assert source_of("/share/lattice/cells.v:1.2") == ""
    assert source_of("") == ""
    assert source_of("/tmp/other.py:12.3-4.5") == "/tmp/other.py:12"


def test_cells_are_counted_by_what_they_occupy():
    counts = {"LUT4": 10, "CCU2C": 3, "TRELLIS_DPR16X4": 2, "TRELLIS_FF": 7, "MULT18X18D": 1, "DP16KD": 4, "PFUMX": 9}
    stat = json.dumps({"modules": {"\\pins.vta": {"num_cells_by_type": counts}, "\\pins": {"num_cells_by_type": {"LUT4": 1}}}})
    assert usage_of(ECP5, stat, "pins.vta") == {
        "lut": Usage(10 + 2 * 3 + 6 * 2, 83640), "ff": Usage(7, 83640), "dsp": Usage(1, 156), "ram": Usage(4, 208),
    }
    xc7 = DEVICES["xc7"].usage({"LUT6": 2, "LUT1": 1, "RAMB18E1": 3, "RAMB36E1": 1, "FDRE": 5, "MUXF7": 8, "DSP48E1": 2})
    assert xc7 == {"lut": 3, "ff": 5, "dsp": 2, "ram": 2.5}
    xcup = DEVICES["xcup"].usage({"LUT6": 2, "RAM32M16": 3, "RAMB18E2": 1, "RAMB36E2": 1, "FDSE": 5, "CARRY8": 8, "DSP48E2": 2})
    assert xcup == {"lut": 26, "ff": 5, "dsp": 2, "ram": 1.5}


def test_what_does_not_fit_is_named():
    assert too_large({"lut": Usage(9000, 7680), "dsp": Usage(0, 0), "ram": Usage(32.5, 32)}) == (
        "9,000 LUT of 7,680, 32.5 block RAM of 32"
    )


def test_a_report_survives_json():
    report = Report(
        device="ecp5-85k", part="a part", speed="6", seed=1, config=NAMED["tiny"].to_dict(), bus_bits=64,
        usage={"lut": Usage(1.0, 2)}, fmax_mhz=80.5, fmax_note="", bound_mhz=None, path=(Hop("a", "b:1", 1.0, 0.5),),
        versions={"amaranth": "0.5.10"}, seconds={"yosys": 1.5},
    )
    assert Report.from_dict(json.loads(report.to_json())) == report


def test_unknown_devices_and_grades_are_refused():
    with raises(VtakitError, "unknown device 'max10'; known: ecp5-85k, ice40, ice40-up5k, xc7, xcup"):
        find_device("max10")
    with raises(VtakitError, "device 'ecp5-85k' has no speed grade '9': it has 6, 7, 8"):
        ECP5.speed("9")
    with raises(VtakitError, "device 'xc7' has no speed grade '1': it has only one"):
        DEVICES["xc7"].speed("1")


def test_a_missing_tool_is_named_with_its_cure():
    with raises(VtakitError, "synthesis needs yowasp-nothing: pip install yowasp-nothing"):
        find_tool("yowasp-nothing", "yowasp-nothing")


@needs_yosys
def test_what_yosys_says_of_a_failure_is_quoted(tmp_path):
    with pytest.raises(ToolError) as failed:
        run_yosys("read_rtlil design.il\n", tmp_path, limit_seconds=60)
    assert str(failed.value).startswith("yosys failed with status 1: ERROR: ")
    assert "design.il" in str(failed.value)
    assert (tmp_path / "script.ys").read_text() == "read_rtlil design.il\n"


def kept_synthesis(params: CoreParams, device: Device) -> tuple[list[int], Report]:
    """Synthesise a core without place and route; return how many registers moved into DSP blocks, and the report.

    The result is cached between local runs by core, flow and yosys version. In CI each run has a cache of its own.
    """
    moved = []

    def pack(netlist, top):
        found, saved = pack_products(netlist, top)
        moved.append(saved)
        return found, saved

    flow = [path.read_text() for path in sorted(Path(synthesise.__code__.co_filename).parent.glob("*.py"))]
    text = "\0".join((to_rtlil(Top(params), TOP_NAME), device.name, version(YOSYS), *flow))
    place = cache_folder("syntheses") / hashlib.sha256(text.encode()).hexdigest()
    if not trouble(place.parent) and place.exists():
        data = json.loads(place.read_text())
        return data["moved"], Report.from_dict(data["report"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vtakit.boards.synth.flow.pack_products", pack)
        report = synthesise(params, device, place=False)
    write_bytes(place, json.dumps({"moved": moved, "report": json.loads(report.to_json())}).encode(), "a synthesis")
    return moved, report


@needs_yosys
@pytest.mark.timeout(900)
@pytest.mark.slow
def test_a_small_core_is_counted():
    """Products are in DSPs up to the budget, and so are the registers behind them; memories are in block RAMs, and it fits.

    Half as wide as the tiny configuration, with few bursts in flight: yosys takes a minute for that one.
    """
    tiny, block = NAMED["tiny"], 2
    cfg = replace(
        tiny, log_block=1, log_inp_buff_size=tiny.log_inp_buff_size - 1, log_wgt_buff_size=tiny.log_wgt_buff_size - 2,
        log_acc_buff_size=tiny.log_acc_buff_size - 1,
    )
    params = CoreParams(cfg=cfg, address_bits=32, outstanding=2, burst_beats=4, buffer_beats=16, dsp_budget=14)
    assert (params.other_dsps, params.dsp_products) == (12, 2)
    moved, report = kept_synthesis(params, ECP5)
    assert moved == [2 * 16 + block * (32 + 16 + 16) + block * (32 + 33)]  # matrix core, ALU, requantizer
    assert report.fmax_mhz is None
    assert report.path == ()
    assert report.usage["dsp"].used == 14
    assert report.usage["ram"].used >= 4
    assert all(usage.used > 0 and usage.fits for usage in report.usage.values())
    assert report.fmax_note == "not placed: only yosys was asked for"


@pytest.mark.parametrize(("words", "message"), [
    (["--device", "ecp"], "unknown device 'ecp'"),
    (["--config", "huge"], "unknown configuration 'huge'"),
    (["--bus-bits", "96"], "bus_bits must be one of"),
    (["--limit", "0"], "--limit must be at least 1 second"),
    (["--speed", "5"], "device 'ecp5-85k' has no speed grade '5'"),
    (["--json", "/nowhere/report.json"], "cannot write report '/nowhere/report.json': No such file or directory"),
])
def test_bad_arguments_get_one_sentence(words, message, capsys):
    assert main(["synth", "--config", "tiny", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"vtakit synth: {message}"), error
    assert error.count("\n") == 1


@needs_yosys
@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_its_report(tmp_path, monkeypatch, capsys):
    """Of one block, whose multipliers, carries and slowest path are of the same kinds as the core's: that takes a minute."""
    monkeypatch.setattr("vtakit.boards.synth.flow.Top", lambda params: Requantizer(params.cfg, lanes=1, tag_bits=1))
    path = tmp_path / "report.json"
    assert main(["synth", "--config", "tiny", "--device", "xc7", "--json", str(path)]) == 0
    told = capsys.readouterr().out
    report = Report.from_dict(json.loads(path.read_text()))
    assert report.bound_mhz is not None
    assert 20 < report.bound_mhz < 1000
    assert f"bound: {report.bound_mhz:.1f} MHz" in told
    assert report.usage["dsp"].used == 2
    assert f"{report.usage['lut'].used:,.10g}" in told
    assert abs(sum(hop.cell_ns for hop in report.path) - 1000 / report.bound_mhz) < 0.01
    assert any(hop.source.startswith("hw/") for hop in report.path)


def test_the_page_shows_the_kept_results():
    """docs/synthesis.md is what benchmarks/synthesis.py writes from benchmarks/synthesis.json."""
    spec = spec_from_file_location("synthesis_benchmark", ROOT / "benchmarks" / "synthesis.py")
    assert spec is not None
    assert spec.loader is not None
    benchmark = module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    results = json.loads((ROOT / "benchmarks" / "synthesis.json").read_text())
    page = (ROOT / "docs" / "synthesis.md").read_text(encoding="utf-8")
    assert set(results) <= set(benchmark.RUNS)
    assert page == benchmark.filled(page, results)
    changed = json.loads(json.dumps(results))
    changed[next(iter(changed))]["report"]["usage"]["ff"]["used"] += 1
    assert page != benchmark.filled(page, changed)
