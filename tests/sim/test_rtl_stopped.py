"""Runs that do not end well have a trace up to there; and models of one process may be closed in any order."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from driver_support import ADD, convolution, tiny

from vtakit import sim
from vtakit.hw.isa.file import save
from vtakit.hw.isa.insns import Stage
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.runtime import cli
from vtakit.runtime.vta import DeviceTimeout, ProgramStopped
from vtakit.sim.faults import DeviceError, ProgramFault
from vtakit.sim.trace import Trace

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model
NO_INSTRUCTION = 7 | 1 << 127  # a reserved bit of DWCONV


def cycle_by_cycle(trace: Trace, stage: Stage) -> np.ndarray:
    found = np.full(trace.cycles, -1)
    for span in trace.causes:
        if span.stage is stage:
            assert (found[span.start : span.end] == -1).all()
            found[span.start : span.end] = list(CYCLE_CAUSES).index(span.name)
    return found


@pytest.mark.parametrize("device", ["rtl", "cycle"])
@pytest.mark.parametrize("max_cycles", [150, 400, 700])
def test_the_trace_of_a_run_that_is_too_long_is_the_beginning_of_the_whole(max_cycles, device):
    work = convolution(5)
    whole = sim.run(work.program, work.inputs, device="rtl", trace=True).trace
    with pytest.raises(DeviceError) as caught:
        sim.run(work.program, work.inputs, device=device, trace=True, max_cycles=max_cycles)
    cut = caught.value.trace
    assert 0 < cut.cycles < max_cycles < whole.cycles
    for stage in Stage:
        assert np.array_equal(cycle_by_cycle(cut, stage), cycle_by_cycle(whole, stage)[: cut.cycles])
    assert {(s.index, s.start, min(s.end, cut.cycles)) for s in whole.instructions if s.start < cut.cycles} == {
        (s.index, s.start, s.end) for s in cut.instructions}


@pytest.mark.parametrize("device", ["rtl", "cycle"])
def test_a_run_that_ends_before_the_start_has_an_empty_trace(device):
    with pytest.raises(DeviceError) as caught:
        sim.run(ADD, {"x": bytes(16)}, device=device, trace=True, max_cycles=1)
    assert caught.value.trace == Trace(cycles=0, instructions=(), causes=())
    with pytest.raises(DeviceError) as caught:
        sim.run(ADD, {"x": bytes(16)}, device=device, max_cycles=1)
    assert caught.value.trace is None


def stopped():
    """A program whose last but one instruction is none."""
    return replace(ADD, insns=(*ADD.insns[:-1], NO_INSTRUCTION, ADD.insns[-1]))


def test_a_program_that_the_hardware_stops_has_a_trace():
    with pytest.raises(ProgramFault) as caught:
        sim.run(stopped(), {"x": bytes(16)}, device="rtl", trace=True)
    trace = caught.value.trace
    assert f"stopped in cycle {trace.cycles}" in str(caught.value)
    assert {span.index for span in trace.instructions} <= {0, 1, 2, 3}
    for stage in Stage:
        assert (cycle_by_cycle(trace, stage) >= 0).all()


def test_the_drivers_errors_have_it_too():
    work = convolution(5)
    with tiny("cycle", trace=True, max_cycles=300) as driver:
        with pytest.raises(DeviceError) as cut:
            driver.run(work.program, work.inputs)
        assert 200 < cut.value.trace.cycles < 300
        assert driver.run(ADD, {"x": bytes(16)}).trace.cycles > 0
    with tiny("rtl", trace=True) as driver, pytest.raises(ProgramStopped) as caught:
        driver.run(stopped(), {"x": bytes(16)})
    assert f"in cycle {caught.value.trace.cycles}" in str(caught.value)
    with tiny("rtl", trace=True, max_cycles=300) as driver:
        with pytest.raises(DeviceTimeout) as late:
            driver.run(work.program, work.inputs)
        assert 200 < late.value.trace.cycles < 400
        assert driver.run(ADD, {"x": bytes(16)}).trace.cycles > 0
    with tiny("rtl", max_cycles=300) as driver, pytest.raises(DeviceTimeout) as late:
        driver.run(work.program, work.inputs)
    assert late.value.trace is None


@pytest.mark.parametrize(("device", "more", "told"), [
    ("rtl", (), "RESERVED_BITS"), ("cycle", ("--max-cycles", "150"), "the cycle model has not finished within 150 cycles"),
])
def test_the_command_writes_the_timeline_of_a_program_that_was_stopped(tmp_path, monkeypatch, capsys, device, more, told):
    monkeypatch.chdir(tmp_path)
    save(ADD if more else stopped(), "stopped.vta")
    Path("x.bin").write_bytes(bytes(16))
    words = ["sim", "stopped.vta", "--device", device, "--input", "x=x.bin", "--trace", "t.json", "--json", "s.json", *more]
    assert cli.main(words) == 2
    assert told in capsys.readouterr().err
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    assert any(event.get("name") == "load.uop" for event in events)
    assert not Path("s.json").exists()


OPEN_AND_END = """
import sys
from driver_support import ADD, tiny
first, second, third = (tiny("rtl") for _ in range(3))
second.close()
assert first.run(ADD, {"x": bytes(16)}).buffers["y"] == bytes([3] * 4)
del third
assert first.run(ADD, {"x": bytes(16)}).buffers["y"] == bytes([3] * 4)
fourth = tiny("rtl")
if sys.argv[1] == "close":
    first.close()
    fourth.close()
"""


@pytest.mark.parametrize("end", ["close", "leave open"])
def test_models_of_one_process_end_in_any_order(end):
    """Verilator keeps what belongs to a model where the thread's newest one is looked for."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN_AND_END, end], capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[1],
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
