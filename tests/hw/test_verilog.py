"""The Verilog: the same text every time, clean under `verilator -Wall` but for stated waivers, for any configuration."""

import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from elaboration import covering_sample, elaborate
from verilog_lint import lint

from vtakit.boards.synth.tools import run_yosys
from vtakit.hw.isa.config import NAMED
from vtakit.hw.lint import WAIVERS, waiver_file
from vtakit.hw.params import CoreParams
from vtakit.hw.top import TOP_NAME
from vtakit.sim.rtl.build import kept_verilog

SMALL = [("tiny", 64), ("tiny_acc16", 128), ("tiny_i16", 256), ("tiny_b2", 512), ("tiny_i4w2", 64)]
needs_yosys = pytest.mark.skipif(find_spec("pyosys") is None, reason="needs pyosys: pip install 'vtakit[fpga]'")
SYNTHESIS_PAGE = Path(__file__).parents[2] / "docs" / "synthesis.md"


@cache
def text_of(name: str, bus_bits: int, *, windows: bool = True) -> str:
    """Return the text of the source that is tested, which the models of other tests share."""
    return kept_verilog(CoreParams(cfg=NAMED[name], bus_bits=bus_bits, windows=windows))


@pytest.mark.parametrize(("name", "bus_bits"), SMALL)
def test_verilator_has_no_warning(name, bus_bits, tmp_path):
    assert lint(text_of(name, bus_bits), waiver_file(), tmp_path) == ""


def test_every_waiver_is_needed(tmp_path):
    found = lint(text_of("tiny", 64), "`verilator_config\n", tmp_path)
    assert {waiver.rule for waiver in WAIVERS} == {
        line.split("-")[1].split(":")[0] for line in found.splitlines() if line.startswith("%Warning-")
    }


DEFECTS = {
    "LATCH": "reg held; always @* if (clk) held = rst; assign again[0] = held;",
    "UNDRIVEN": "wire nothing; assign again[1] = nothing;",
    "BLKSEQ": "reg tardy; always @(posedge clk) tardy = rst; assign again[2] = tardy;",
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Verilator's warnings about the text with all defects; there are none about the text itself."""
    text = text_of("tiny", 64)
    body = text.index(";\n", text.index(f"module {TOP_NAME}(")) + 2
    defects = "\n".join(DEFECTS.values())
    return lint(f"{text[:body]}  wire [2:0] again;\n{defects}\n{text[body:]}", waiver_file(), tmp_path_factory.mktemp("planted"))


@pytest.mark.parametrize("rule", DEFECTS)
def test_a_planted_defect_is_found(rule, planted):
    assert f"%Warning-{rule}" in planted


@pytest.mark.parametrize(("name", "bus_bits"), SMALL)
def test_every_signal_has_the_name_it_has_in_the_source(name, bus_bits):
    """Amaranth calls a signal that it cannot name `$signal`, and waveforms and slowest paths then show that."""
    assert re.findall(r"^\s*(?:reg|wire).*\$signal.*", text_of(name, bus_bits), re.MULTILINE) == []


@needs_yosys
@pytest.mark.parametrize(("name", "bus_bits"), SMALL[:2])
def test_yosys_finds_neither_latch_nor_loop(name, bus_bits):
    assert yosys_finds(text_of(name, bus_bits)) == (0, 0)


@needs_yosys
def test_yosys_would_see_a_latch_two_drivers_or_a_loop():
    ports = f"module {TOP_NAME}(input a, input b, output reg c);\n"
    assert yosys_finds(f"{ports}  always @* if (a) c = b;\nendmodule\n")[0] == 1
    assert yosys_finds(f"{ports}  always @* c = a;\n  always @* c = b;\nendmodule\n") == (0, 1)
    assert yosys_finds(f"{ports}  wire d = a ^ c;\n  always @* c = d & b;\nendmodule\n") == (0, 1)


@needs_yosys
def test_no_output_follows_an_input_within_a_cycle():
    """AXI forbids it; and the harness of device "rtl" evaluates rising edges only, so it would see such an output too late."""
    assert findings(text_of(*SMALL[0])).before_outputs == set()
    for body in ("assign c = a & b;", "reg d; always @(posedge b) d <= a; assign c = d ^ a;"):
        assert "a" in findings(f"module {TOP_NAME}(input a, input b, output c);\n  {body}\nendmodule\n").before_outputs
    register = f"module {TOP_NAME}(input a, input b, output reg c);\n  always @(posedge b) c <= a;\nendmodule\n"
    assert findings(register).before_outputs == set()


@needs_yosys
def test_registers_before_the_multipliers_of_data_feed_nothing_else():
    """What they also feed would draw them away from the DSP blocks; yosys must not merge them with others of equal value."""
    products = 4 * 4 + 4 * 3 + 4 * 2  # MACs, ALU, requantizer
    assert products_and_other_readers(text_of("tiny", 64, windows=False)) == (products, set())
    # A window's taps shift: a multiplexer before the next one.
    assert products_and_other_readers(text_of("tiny", 64)) == (products, {"$mux"})
    shared = "reg [7:0] a, b; always @(posedge c) begin a <= d; b <= d; end assign e = a * b; assign f = ~a;"
    top = f"module {TOP_NAME}(input c, input [7:0] d, output [7:0] e, output [7:0] f);\n  {shared}\nendmodule\n"
    assert products_and_other_readers(top) == (1, {"$not"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Return the findings of yosys in a text.

    latches         number of latches that it infers
    problems        number of loops and of signals with no driver or several
    before_outputs  inputs that some output depends on with no register between
    products        number of multipliers other than those of addresses
    other_readers   kinds of other cells that read their operands
    """

    latches: int
    problems: int
    before_outputs: frozenset[str]
    products: int
    other_readers: frozenset[str]


@cache
def findings(verilog: str) -> Findings:
    """Ask yosys all questions at once: most of its time goes into reading and flattening the text."""
    with TemporaryDirectory(prefix="vtakit.") as name:
        folder = Path(name)
        (folder / "vta.v").write_text(verilog)
        script = f"read_verilog vta.v; hierarchy -check -top {TOP_NAME}; proc; select -write latches.txt t:$dlatch t:$adlatch; "
        script += "flatten; opt_clean; tee -o check.txt check; select -write inputs.txt o:* %ci*:-$dff i:* %i; "
        script += "opt_expr; opt_merge; opt_dff; opt_clean; write_json vta.json"
        run_yosys(script.replace("; ", "\n"), folder, limit_seconds=120)
        cells = json.loads((folder / "vta.json").read_text())["modules"][TOP_NAME]["cells"]
        latches, inputs = ((folder / f"{name}.txt").read_text().split() for name in ("latches", "inputs"))
        problems = re.search(r"Found and reported (\d+) problems", (folder / "check.txt").read_text())[1]
    products = [cell["connections"] for name, cell in cells.items() if cell["type"] == "$mul" and "planner" not in name]
    read = {bit for product in products for bit in product["A"] + product["B"] if isinstance(bit, int)}
    return Findings(
        latches=len(latches), problems=int(problems), before_outputs=frozenset(name.rpartition("/")[2] for name in inputs),
        products=len(products), other_readers=frozenset(
            cell["type"] for cell in cells.values() if cell["type"] != "$mul" for port, bits in cell["connections"].items()
            if cell["port_directions"][port] == "input" and not read.isdisjoint(bits)
        ),
    )


def yosys_finds(verilog: str) -> tuple[int, int]:
    """Return how many latches yosys infers, and how many problems it finds."""
    found = findings(verilog)
    return found.latches, found.problems


def products_and_other_readers(verilog: str) -> tuple[int, frozenset[str]]:
    """Return how many multipliers other than those of addresses there are, and what else reads their operands."""
    found = findings(verilog)
    return found.products, found.other_readers


def test_another_process_writes_the_same_text_whatever_yosys_the_system_has():
    """With another order of sets; the system's yosys, which would write another text, is here none, and Amaranth would fail."""
    program = (
        "import hashlib, os; from vtakit.hw.isa.config import NAMED; from vtakit.hw.params import CoreParams;"
        "from vtakit.hw.verilog import to_verilog;"
        "print(hashlib.sha256(to_verilog(CoreParams(cfg=NAMED['tiny'])).encode()).hexdigest(), os.environ['AMARANTH_USE_YOSYS'])"
    )
    around = os.environ | {"PYTHONHASHSEED": "1", "AMARANTH_USE_YOSYS": "system", "YOSYS": "/no/such/yosys"}
    done = subprocess.run([sys.executable, "-c", program], env=around, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == [hashlib.sha256(text_of("tiny", 64).encode()).hexdigest(), "system"]


@pytest.mark.parametrize("params", covering_sample(64, 1), ids=str)
@pytest.mark.slow
def test_legal_configurations_elaborate(params):
    assert f"module \\{TOP_NAME}\n" in elaborate(params)


def test_the_page_lists_the_waivers():
    page = SYNTHESIS_PAGE.read_text(encoding="utf-8")
    for waiver in WAIVERS:
        assert f"| {waiver.rule} | {waiver.reason} |" in page
