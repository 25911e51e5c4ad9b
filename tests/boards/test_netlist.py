"""The core as synthesis leaves it, in simulation: a small one runs random programs; models of cells against their guides."""

import random
import shutil
import subprocess
from dataclasses import replace
from importlib.util import find_spec

import pytest
from netlist_programs import compare, random_cases

from vtakit.boards.synth.netlist import CELLS, netlist
from vtakit.hw.isa.config import NAMED
from vtakit.hw.params import CoreParams
from vtakit.sim.faults import ProgramFault
from vtakit.sim.rtl.netlist import netlist_library

SMALL = {"windows": False, "lookups": False, "pools": False, "counters": False}
needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog: apt install iverilog")


@pytest.mark.skipif(find_spec("pyosys") is None, reason="needs pyosys: pip install 'vtakit[fpga]'")
@pytest.mark.timeout(1800)
@pytest.mark.slow
def test_a_small_core_runs_programs_as_its_source(pytestconfig):
    """Bytes of the definition, cycles of the cycle model. Products and the registers behind them are in DSP blocks."""
    if not pytestconfig.getoption("--all-models"):
        pytest.skip("synthesizes and builds a netlist for minutes; runs with --all-models")
    tiny = NAMED["tiny"]
    cfg = replace(tiny, log_block=1, log_inp_buff_size=tiny.log_inp_buff_size - 1, log_wgt_buff_size=tiny.log_wgt_buff_size - 2,
                  log_acc_buff_size=tiny.log_acc_buff_size - 1)
    params = CoreParams.of(cfg, 64, SMALL)
    text = netlist(params)
    library = netlist_library(params, text)
    count, cycles = compare(params, SMALL, library, random_cases(params, 0, 40))
    assert (count, cycles > 20_000) == (40, True)
    # The same with sums for products, those of addresses too: so they matter, and what is wrong is found.
    wrong = text.replace("* $signed(", "+ $signed(")
    assert wrong != text
    with pytest.raises((AssertionError, ProgramFault), match=r"leaves other bytes|outside its scratchpad"):
        compare(params, SMALL, netlist_library(params, wrong), random_cases(params, 0, 40))


def run_icarus(bench: str, folder) -> str:
    """The output of a bench beside the models of the cells."""
    (folder / "bench.v").write_text(bench)
    subprocess.run(["iverilog", "-g2005", "-o", str(folder / "bench"), str(folder / "bench.v"), str(CELLS)], check=True)
    return subprocess.run(["vvp", str(folder / "bench")], check=True, capture_output=True, text=True).stdout


def bits(name: str, width: int, wire: str) -> str:
    return ", ".join(f".{name}{n}({wire}[{n}])" for n in range(width))


@needs_icarus
@pytest.mark.parametrize("registers", range(8))
@pytest.mark.parametrize(("signed_a", "signed_b"), [(0, 0), (1, 1), (1, 0), (0, 1)])
def test_a_multiplier_has_the_registers_that_it_is_given(registers, signed_a, signed_b, tmp_path):
    """Registers of operands, of the product and of the output, each with its own clock's enable and reset, against a list."""
    pick = random.Random(8 * registers + 2 * signed_a + signed_b)
    stages = {"INPUTA": registers & 1, "INPUTB": registers & 1, "PIPELINE": registers & 2, "OUTPUT": registers & 4}
    wired = {"INPUTA": 1, "INPUTB": 2, "PIPELINE": 3, "OUTPUT": 0}
    given = [f'.REG_{name}_CLK("CLK{wired[name]}"), .REG_{name}_CE("CE{wired[name]}"), .REG_{name}_RST("RST{wired[name]}")'
             for name, there in stages.items() if there]
    steps, held, lines, wanted = 200, dict.fromkeys(stages, 0), [], []

    def number(value: int, signed: int) -> int:
        return value - (1 << 18) if signed and value >> 17 else value

    for _ in range(steps):
        a, b = (pick.choice([0, 1, (1 << 18) - 1, 1 << 17, pick.getrandbits(18)]) for _ in range(2))
        enables, resets = pick.choice([15, pick.getrandbits(4)]), pick.choice([0, 0, 0, pick.getrandbits(4)])
        into = {"INPUTA": number(a, signed_a), "INPUTB": number(b, signed_b)}

        def now(name: str, fresh: int, held: dict[str, int] = held) -> int:
            return held[name] if stages[name] else fresh

        def through(into: dict[str, int] = into) -> dict[str, int]:
            product = now("INPUTA", into["INPUTA"]) * now("INPUTB", into["INPUTB"])
            return into | {"PIPELINE": product, "OUTPUT": now("PIPELINE", product)}

        before = through()
        for name, place in wired.items():
            if stages[name]:
                held[name] = 0 if resets >> place & 1 else before[name] if enables >> place & 1 else held[name]
        wanted.append(now("OUTPUT", through()["OUTPUT"]) % (1 << 36))
        lines.append(f"a = {a}; b = {b}; ce = {enables}; rst = {resets}; #1 clk = 15; #1 clk = 0; #1 $display(\"%0d\", p);")
    parameters = f"#({', '.join(given)})" if given else ""
    ports = [bits("A", 18, "a"), bits("B", 18, "b"), bits("P", 36, "p"), *(f".C{n}(1'b0)" for n in range(18)),
             *(f".{name}{n}({wire}[{n}])" for name, wire in (("CLK", "clk"), ("CE", "ce"), ("RST", "rst")) for n in range(4)),
             f".SIGNEDA(1'b{signed_a}), .SIGNEDB(1'b{signed_b}), .SOURCEA(1'b0), .SOURCEB(1'b0)"]
    bench = f"""module bench; reg [17:0] a, b; reg [3:0] clk = 0, ce, rst; wire [35:0] p;
MULT18X18D {parameters} dut({', '.join(ports)});
initial begin {' '.join(lines)} end endmodule"""
    assert [int(word) for word in run_icarus(bench, tmp_path).split()] == wanted


class Ram:
    """Block RAM as a list of bits: 18 in each word, the ninth and the last of which narrower ports do not reach."""

    def __init__(self) -> None:
        self.bits = [0] * (1024 * 18)

    def places(self, width: int, address: int) -> list[int]:
        """Places of a word, the lowest bit first; the address counts bits without the ninth ones."""
        if width >= 18:
            return [18 * (address >> 4 & ~(width > 18)) + n for n in range(width)]
        half = 18 * (address >> 4) + 9 * (address >> 3 & 1)
        return [half + n for n in range(9)] if width == 9 else [half + (address & 7 & -width) + n for n in range(width)]

    def read(self, width: int, address: int) -> int:
        return sum(self.bits[place] << n for n, place in enumerate(self.places(width, address)))

    def write(self, width: int, address: int, value: int) -> None:
        for n, place in enumerate(self.places(width, address)):
            if width < 18 or address >> n // 9 & 1:  # the lowest address bits enable halves
                self.bits[place] = value >> n & 1


@needs_icarus
@pytest.mark.parametrize(("write_width", "read_width"), [
    (36, 36), (36, 18), (36, 9), (36, 4), (36, 1), (18, 18), (18, 9), (9, 18), (9, 9), (4, 4), (2, 4), (1, 1), (1, 18), (4, 9)])
@pytest.mark.parametrize("mode", ["NORMAL", "READBEFOREWRITE"])
@pytest.mark.slow
def test_a_block_ram_keeps_words_of_every_width(write_width, read_width, mode, tmp_path):
    """Port A writes, and reads unless it is 36 bits wide; port B reads. Addresses are few, so that they meet."""
    pick = random.Random(f"{write_width} {read_width} {mode}")
    ram, lines, wanted = Ram(), [], []
    words = [pick.getrandbits(18) for _ in range(1024)]
    ram.bits = [word >> n & 1 for word in words for n in range(18)]
    first = {f"INITVAL_{n:02X}": sum(words[16 * n + k] << 20 * k for k in range(16)) for n in range(64)}
    out = {"a": 0, "b": 0}

    def address(width: int) -> int:
        step = {36: 32, 18: 16, 9: 8}.get(width, width)
        free = pick.getrandbits(7) | pick.choice([0, 0x3F80])
        return free // step * step | (pick.getrandbits(width // 9) if width >= 18 else 0)

    for _ in range(300):
        a, b = address(write_width), address(read_width)
        if read_width >= 18:
            b &= ~15
        value, enables = pick.getrandbits(36), pick.getrandbits(4)  # of A and B, WEA, RSTB
        runs_a, runs_b, writes, resets = (enables >> n & 1 for n in range(4))
        old = ram.read(min(write_width, 18), a & ~15 if write_width >= 18 else a)
        fresh = ram.read(read_width, b)
        meets = runs_a and writes and runs_b and set(ram.places(write_width, a)) & set(ram.places(read_width, b))
        if meets:  # what is read then is not defined, and the kit never reads it
            runs_b = 0
        if runs_a and writes:
            ram.write(write_width, a, value)
        if write_width < 36 and runs_a and (not writes or mode == "READBEFOREWRITE"):
            out["a"] = old
        out["b"] = 0 if resets else fresh if runs_b else out["b"]
        lines.append(f"a = {a}; b = {b}; d = 36'd{value}; cea = {runs_a}; ceb = {runs_b}; wea = {writes}; rstb = {resets}; "
                     "#1 clk = 1; #1 clk = 0; #1 $display(\"%0d %0d\", qa, qb);")
        wanted.append((0 if write_width == 36 else out["a"], out["b"]))
    parameters = {"DATA_WIDTH_A": write_width, "DATA_WIDTH_B": read_width}
    parameters |= {name: f"320'h{value:x}" for name, value in first.items()}
    words = [f".{name}({value})" for name, value in parameters.items()]
    words += [f'.WRITEMODE_{port}("{mode}")' for port in "AB"]
    split = {"DOA": "oa", "DOB": "ob", "ADA": "a", "ADB": "b"}
    ports = [*(bits(name, 18 if name[0] == "D" else 14, wire) for name, wire in split.items()), bits("DIA", 18, "d"),
             *(f".DIB{n}(d[{n + 18}])" for n in range(18)),
             ".CLKA(clk), .CLKB(clk), .CEA(cea), .CEB(ceb), .WEA(wea), .RSTB(rstb)",
             ".WEB(1'b0), .RSTA(1'b0), .OCEA(1'b1), .OCEB(1'b1)", *(f".CS{port}{n}(1'b0)" for port in "AB" for n in range(3))]
    read = "{ob, oa}" if read_width == 36 else "ob"
    bench = f"""module bench; reg [13:0] a, b; reg [35:0] d; reg clk = 0, cea, ceb, wea, rstb; wire [17:0] oa, ob;
wire [17:0] qa = {"0" if write_width == 36 else "oa"}; wire [35:0] qb = {read};
DP16KD #({', '.join(words)}) dut({', '.join(ports)});
initial begin {' '.join(lines)} end endmodule"""
    found = run_icarus(bench, tmp_path).split()
    assert [tuple(map(int, found[n : n + 2])) for n in range(0, len(found), 2)] == wanted
