"""Run what the extra `sim` promises; `python sim_job.py` in an empty folder, with an empty cache."""

import json
import sys
from pathlib import Path

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from steps import command, step

from vtakit import sim
from vtakit.hw.isa.config import NAMED
from vtakit.sim.bench.model import build, simulate
from vtakit.sim.random_programs import random_program

with step("the functional simulator's machine code"):
    program = random_program(NAMED["tiny"], seed=3)
    where = program.dram, program.insn_addr, program.insn_count, "tiny"
    compiled, plain = (sim.run_image(*where, bases=program.bases, path=path) for path in ("compiled", "plain"))
    assert compiled.dram == plain.dram

with step("random programs on both paths"):
    assert "no difference" in command("vtakit", "fuzz", "--programs", "50", "--config", "tiny")

with step("build the hardware with Verilator, and run it"):
    rtl = sim.run_image(*where, "rtl", bases=program.bases, trace=True)
    assert rtl.dram == plain.dram
    assert rtl.counters["cycles"] > 0

with step("the hardware from the command line, with a waveform and a timeline"):
    load = "load.uop dram_base=@uops y_size=1 x_size=1 x_stride=1"
    Path("one.vtas").write_text(f".config tiny\n.buffer x input 16\n.uop dst=0 src=0 wgt=0\n{load}\nfinish\n")
    np.zeros(4, "<i4").tofile("x.bin")
    command("vtakit", "asm", "one.vtas")
    command("vtakit", "sim", "one.vta", "--input", "x=x.bin", "--device", "rtl", "--wave", "run.vcd", "--trace", "run.json")
    assert Path("run.vcd").read_text().startswith("$version")
    assert json.loads(Path("run.json").read_text())


class Counter(wiring.Component):
    """A block for cocotb."""

    goes: In(1)
    count: Out(8)

    def elaborate(self, platform: object) -> Module:
        """Count the cycles in which it goes."""
        m = Module()
        m.d.sync += self.count.eq(self.count + self.goes)
        return m


with step("a bench in cocotb"):
    sys.path.insert(0, str(Path.cwd()))  # where cocotb looks for the bench
    Path("bench_counter.py").write_text(
        "import cocotb\nfrom cocotb.clock import Clock\nfrom cocotb.triggers import ClockCycles, ReadOnly\n\n\n"
        "@cocotb.test()\nasync def counts(dut):\n    dut.goes.value, dut.rst.value = 0, 1\n"
        "    Clock(dut.clk, 10, 'ns').start()\n    await ClockCycles(dut.clk, 2)\n    dut.rst.value, dut.goes.value = 0, 1\n"
        "    await ClockCycles(dut.clk, 6)\n    await ReadOnly()\n    assert 4 <= int(dut.count.value) <= 6\n"
    )
    found = simulate(build(Counter()), ["bench_counter"], Path("bench"), {})
    assert found == {"bench_counter.counts": ""}, found
