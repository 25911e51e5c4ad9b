"""The Verilog in Icarus, as Verilog-2005 and as SystemVerilog, whatever registers hold at first."""

import random
import re
import shutil
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cocotb_tools.runner import get_runner

from vtakit.hw.integration import WRAPPER_NAME, wrapper
from vtakit.hw.isa.config import NAMED
from vtakit.hw.params import CoreParams
from vtakit.hw.top import TOP_NAME
from vtakit.sim.rtl.build import kept_verilog

pytestmark = [
    pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog: apt install iverilog"),
    pytest.mark.timeout(600), pytest.mark.slow,
]
PARAMS = CoreParams(cfg=NAMED["tiny"], bus_bits=64)
BENCHES = Path(__file__).parent / "benches"
INITIAL = re.compile(r"^(  reg (?:\[\d+:\d+\] )?(?:\\\S+ |\w+))\s*= (\d+)'h([0-9a-f]+);$", re.MULTILINE)


def with_initial_values(verilog: str, kind: str) -> str:
    """The text with registers that begin as it says, with any value, or with none."""
    pick = random.Random(1)
    if kind == "none":
        return INITIAL.sub(r"\1;", verilog)
    if kind == "random":
        return INITIAL.sub(lambda m: f"{m[1]} = {m[2]}'h{pick.getrandbits(int(m[2])):x};", verilog)
    return verilog


@pytest.mark.parametrize("initial", ["stated", "random", "none"])
@pytest.mark.parametrize("generation", ["2005", "2012"])
def test_programs_run_in_icarus(generation, initial, tmp_path, monkeypatch):
    """With memory and host of cocotbext-axi, and back-pressure on all channels."""
    text = kept_verilog(PARAMS)
    assert len(INITIAL.findall(text)) > 300
    changed = with_initial_values(text, initial)
    assert (changed == text) == (initial == "stated")
    assert not failures(changed, generation, tmp_path, monkeypatch)


def test_a_variable_with_an_initial_value_wakes_no_block_of_systemverilog(tmp_path, monkeypatch):
    """So what `hw.verilog` does to yosys's text is needed."""
    text = kept_verilog(PARAMS)
    before = text.replace("  `VTA_TIME_ZERO", "  reg time_zero = 0;")
    assert before != text
    assert failures(before, "2012", tmp_path, monkeypatch)


@pytest.mark.parametrize("generation", ["2005", "2012"])
def test_the_wrapper_runs_programs_after_a_reset_of_one_cycle(generation, tmp_path, monkeypatch):
    text = with_initial_values(kept_verilog(PARAMS), "random") + wrapper(PARAMS)
    assert not failures(text, generation, tmp_path, monkeypatch, top=WRAPPER_NAME)


def failures(verilog: str, generation: str, folder: Path, monkeypatch: pytest.MonkeyPatch, top: str = TOP_NAME) -> list[str]:
    """Run a program on a text; what failed."""
    (folder / "vta.v").write_text(verilog)
    monkeypatch.syspath_prepend(BENCHES)
    runner = get_runner("icarus")
    runner.build(sources=[folder / "vta.v"], hdl_toplevel=top, build_dir=folder, build_args=[f"-g{generation}"],
                 timescale=("1ns", "1ps"), log_file=folder / "build.log")
    results = folder / "results.xml"
    with suppress(SystemExit):  # a test that fails is in the results
        runner.test(
            test_module="core_bench", hdl_toplevel=top, build_dir=folder, test_dir=folder, log_file=folder / "run.log",
            test_filter="runs_with_the_axi_models_of_cocotbext", plusargs=["+config=tiny", "+bus_bits=64"],
            results_xml=str(results))
    cases = list(ElementTree.parse(results).iter("testcase"))
    assert [case.get("name") for case in cases if case.find("skipped") is None]
    return [str(child.attrib) for case in cases for child in case if child.tag in ("failure", "error")]
