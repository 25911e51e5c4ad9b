"""Reports against what is counted by hand, and the parts of a launch against a count of single cycles."""

from dataclasses import replace

import numpy as np
import pytest
from driver_support import ADD, TINY, Work, convolution, tiny
from sim_support import FINISH, INP, UOP, WGT, load, steps, store
from support import raises

from vtakit import sim
from vtakit.base.errors import VtakitError
from vtakit.hw.isa.config import DEFAULT
from vtakit.hw.isa.insns import Stage
from vtakit.hw.isa.program import Program, Relocation
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.runtime.report import Layer, Report
from vtakit.runtime.report.sections import sections
from vtakit.sim.trace import Trace
from vtakit.sim.workloads import Conv2d, conv2d_program

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model

# 16 MACs a step; an element has 4 bytes (inp, uop, out) or 16 (wgt, acc).
GEMM = (
    load(UOP, x_size=2),                                          # 8 bytes
    load(INP, x_size=5, y_size=3, x_stride=7, x_pad_0=1),         # 60 bytes, pads not counted
    load(WGT, x_size=2),                                          # 32 bytes
    steps("gemm", reset=1, uop_end=2, iter_in=3),                 # 6 steps that reset
    steps("gemm", uop_end=2, iter_out=5, iter_in=7),              # 70 steps, 1,120 MACs
    steps("alu", uop_end=1, iter_in=4, use_imm=1),                # 4 steps
    store(x_size=9),                                              # 36 bytes
    FINISH,                                                       # 8 instructions, 128 bytes
)


def test_work_is_what_the_instructions_say():
    layer = Layer.of("by hand", TINY, GEMM, {})
    assert (layer.peak, layer.insn_count) == (16, 8)
    assert (layer.gemm_steps, layer.reset_steps, layer.alu_steps, layer.steps) == (70, 6, 4, 80)
    assert layer.macs == 70 * 16
    assert layer.read == {"uop": 8, "inp": 60, "wgt": 32, "acc": 0, "acc_8bit": 0, "insn": 128}
    assert layer.written == {"out": 36}
    assert (layer.read_bytes, layer.written_bytes) == (228, 36)
    assert layer.intensity == 1120 / 228
    # What no device has told is not known.
    assert (layer.cycles, layer.stages, layer.rate, layer.share_of_peak, layer.roof, layer.share_of_roof) == (
        None, {}, None, None, None, None)
    assert (layer.bounds, layer.bound_by, layer.share_of_bound) == ({"steps": 80}, None, None)


def measured(cycles: int, **changes: object) -> Layer:
    counters = {"cycles": cycles, **{f"{s.name.lower()}_{c}": 0 for s in Stage for c in CYCLE_CAUSES}}
    return replace(Layer.of("by hand", TINY, GEMM, counters, bus_bytes=8), **changes)


def test_rates_and_roofs():
    layer = measured(140)
    assert (layer.rate, layer.share_of_peak) == (8.0, 0.5)
    assert layer.roof == 16  # 1120 / 228 * 8 is more
    assert layer.share_of_roof == 0.5
    assert (layer.bounds, layer.bound_by) == ({"steps": 80, "reads": 29, "writes": 5}, "steps")
    assert layer.share_of_bound == 80 / 140
    slow = measured(1120, bus_bytes=0.5)
    assert slow.roof == 1120 / 228 * 0.5
    assert slow.share_of_roof == pytest.approx(228 / 0.5 / 1120)
    assert (slow.bounds["reads"], slow.bound_by) == (456, "reads")
    writes = measured(1000, written={"out": 2280}, macs=100)
    assert writes.intensity == 100 / 2280  # the busier direction
    assert (writes.bound_by, writes.bounds["writes"]) == ("writes", 285)
    assert measured(1000, macs=0).share_of_roof is None


@pytest.mark.parametrize("device", ["fsim", "rtl"])
def test_a_launch_is_reported_as_the_simulator_counts_it(device):
    work = convolution(5)
    counters = sim.run(work.program, work.inputs, device=device).counters
    with tiny(device) as driver:
        layer = Layer.of_launch("conv", driver.run(work.program, work.inputs), macs=work.shape.macs)
    assert layer.macs == work.shape.macs
    assert layer.gemm_steps == counters["gemm_counter"]
    assert layer.read["inp"] == counters["inp_load_nbytes"]
    assert layer.cycles == counters.get("cycles")
    assert layer.bus_bytes == {"fsim": None, "rtl": 8}[device]
    if device == "rtl":
        for stage, causes in layer.stages.items():
            assert causes == {cause: counters[f"{stage}_{cause}"] for cause in CYCLE_CAUSES}
            assert sum(causes.values()) == layer.cycles
        assert layer.read_beats * 8 >= layer.read_bytes
        assert 0 < layer.share_of_roof < 1
        assert 0 < layer.share_of_bound < 1


def test_the_convolutions_of_the_exact_cycles_page():
    """56x56, 64->64, 3x3 of docs/cycles.md: its cycles are put in, its shares come out."""
    shape = Conv2d(height=56, width=56, in_channels=64, out_channels=64, kernel=3, stride=1, pad=1)
    program = conv2d_program(DEFAULT, shape)
    counters = {"cycles": 506_845, **{f"{s.name.lower()}_{c}": 0 for s in Stage for c in CYCLE_CAUSES}}
    layer = Layer.of("conv", DEFAULT, program.insns, counters, bus_bytes=8, macs=shape.macs)
    assert layer.macs == 115_605_504 == layer.gemm_steps * 256
    assert layer.bounds["steps"] == 501_760
    assert (round(layer.share_of_peak, 3), layer.bound_by, round(layer.share_of_bound, 3)) == (0.891, "steps", 0.990)


def test_the_bandwidth_is_part_of_the_roof():
    work = convolution(5)
    with tiny("rtl", bus_bits=64, bandwidth=25) as driver:
        assert Layer.of_launch("conv", driver.run(work.program, work.inputs)).bus_bytes == 2


def twice(work: Work) -> Program:
    """The program's instructions twice in a row; what it computes is not looked at."""
    one, count = work.program, len(work.program.insns) - 1
    again = tuple(Relocation(entry.insn + count, entry.symbol) for entry in one.relocations)
    return replace(one, insns=one.insns[:-1] + one.insns, relocations=one.relocations + again)


@pytest.mark.parametrize("latency", [0, 40, 300])
def test_the_parts_of_a_launch_share_its_cycles_out(latency):
    work = convolution(5)
    program = twice(work)
    with tiny("rtl", trace=True, latency=latency) as driver:
        result = driver.run(program, work.inputs)
    trace, half = result.trace, len(work.program.insns) - 1
    ends = {"first": half, "nothing": half, "second": len(program.insns) - 1, "the end": len(program.insns)}
    layers = sections(TINY, program.insns, ends, trace, bus_bytes=8, macs={"first": 7})
    whole = Layer.of_launch("whole", result)
    total = Report("rtl", tuple(layers)).total
    assert [layer.name for layer in layers] == list(ends)
    assert (total.cycles, total.stages, total.read, total.written) == (whole.cycles, whole.stages, whole.read, whole.written)
    assert [layer.macs for layer in layers] == [7, 0, whole.macs // 2, 0]
    assert layers[1].cycles == 0
    # A cycle belongs to the part in which the last instruction has not yet retired.
    last = [max(s.end for s in trace.instructions if s.index < end) for end in ends.values()]
    part = np.searchsorted(last[:-1], np.arange(trace.cycles), side="right")
    assert [layer.cycles for layer in layers] == np.bincount(part, minlength=4).tolist()
    for stage in Stage:
        causes = np.zeros(trace.cycles, int)
        for span in trace.causes:
            if span.stage is stage:
                causes[span.start : span.end] = list(CYCLE_CAUSES).index(span.name)
        for number, layer in enumerate(layers):
            want = np.bincount(causes[part == number], minlength=len(CYCLE_CAUSES)).tolist()
            assert list(layer.stages[stage.name.lower()].values()) == want


def test_parts_without_a_trace_have_no_cycles():
    layers = sections(TINY, GEMM, {"one": 4, "two": 8}, None)
    assert [(layer.cycles, layer.steps, layer.insn_count) for layer in layers] == [(None, 6, 4), (None, 74, 4)]


@pytest.mark.parametrize(("ends", "macs", "message"), [
    ({"one": 5, "two": 4, "three": 8}, {},
     "the parts of a program of 8 instructions must end in order, the last at 8: one 5, two 4, three 8"),
    ({"one": 5}, {}, "the parts of a program of 8 instructions must end in order, the last at 8: one 5"),
    ({"one": 8}, {"two": 1}, "macs names 'two', which is none of the parts one"),
])
def test_parts_that_are_none(ends, macs, message):
    with raises(VtakitError, message):
        sections(TINY, GEMM, ends, Trace(cycles=1, instructions=(), causes=()), macs=macs)


def test_a_program_that_multiplies_nothing():
    layer = Layer.of("add", TINY, ADD.insns, {})
    assert (layer.macs, layer.alu_steps, layer.intensity) == (0, 1, 0)
    assert layer.read == {"uop": 4, "inp": 0, "wgt": 0, "acc": 16, "acc_8bit": 0, "insn": 80}
    assert layer.written == {"out": 4}
