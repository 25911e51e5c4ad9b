"""Device "cycle" against the RTL, its compiled form against the plain one, and what it refuses."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from sim_support import FINISH, INP, SMALL_CORE, TINY, UOP, insn, load, steps, store
from support import raises
from test_faults import INDEX, INDEX_UOPS, LOAD_UOPS, STATIC

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.codec import to_bytes
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.insns import AluOp
from vtakit.hw.isa.regs import COUNTERS
from vtakit.hw.params import CoreParams
from vtakit.hw.timing import STORE_PATIENCE
from vtakit.runtime.vta import connect
from vtakit.sim import run_image
from vtakit.sim.cycle.timing import run_cycles
from vtakit.sim.decode import Decoded
from vtakit.sim.differences import first_cycle
from vtakit.sim.faults import DeviceError, ProgramFault
from vtakit.sim.fuzz import Case, options, random_config, run_case
from vtakit.sim.random_programs import random_program
from vtakit.sim.rtl.surroundings import Surroundings

RTL = pytest.mark.xdist_group("rtl")  # one process builds each model


@RTL
def test_random_programs_take_the_cycles_of_the_hardware():
    """Starts and ends of instructions, each stage's causes, every counter; the seed chooses latency, bandwidth and stalls."""
    for seed in range(60):
        failure = run_case(Case(config="tiny", seed=seed, length=40, device="cycle"))
        assert failure is None, str(failure)


@RTL
def test_a_small_core_takes_the_cycles_of_the_hardware():
    """Steps of several passes, and one copy of ACC, for which STOREs wait."""
    for seed in range(60):
        p = random_program(TINY, seed, features=CoreParams.of(TINY, 64, SMALL_CORE).features)
        around = {"core": SMALL_CORE, "latency": 7 * (seed % 5), "stall": 30 * (seed % 3), "seed": seed, "trace": True}
        want, got = (run_image(p.dram, p.insn_addr, p.insn_count, TINY, device, bases=p.bases, **around)
                     for device in ("rtl", "cycle"))
        assert first_cycle(got, want) is None, seed


@RTL
def test_one_copy_of_acc_keeps_no_store_waiting_for_a_long_instruction():
    """Sums on four elements of bank 0, a read of it in every cycle, beside a STORE of elements of both banks."""
    words = (
        load(UOP), steps(reset=1, iter_out=16, dst_out=1, push_next=1),
        steps("alu", alu_opcode=AluOp.ADD, use_imm=1, imm=1, iter_out=1_300, iter_in=4, dst_in=2),
        store(x_size=12, sram_base=1, pop_prev=1, push_prev=1),
        insn("load", memory_type=UOP, pop_next=1), FINISH,
    )
    image = bytes(1024) + to_bytes(list(words))
    ends = []
    for device in ("rtl", "cycle"):
        result = run_image(image, 1024, len(words), TINY, device, core=SMALL_CORE, trace=True)
        spans = {span.index: span for span in result.trace.instructions}
        assert spans[2].end - spans[2].start > 5_000
        assert spans[3].end - spans[3].start < 12 * 2 * (STORE_PATIENCE + 8)
        ends.append(spans)
    assert ends[0] == ends[1]


@RTL
def test_counters_trace_and_results_are_those_of_the_hardware():
    p = random_program(TINY, 3)
    want = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "rtl", bases=p.bases, trace=True)
    got = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "cycle", bases=p.bases, trace=True)
    assert got.counters == want.counters
    assert got.trace == want.trace
    assert got.dram == want.dram
    assert np.array_equal(got.acc, want.acc)


@RTL
def test_a_driver_counts_the_cycles_of_the_hardware():
    program = random_program(TINY, 5)
    found = []
    for device in ("rtl", "cycle"):
        with connect(device, TINY, memory_bytes=1 << 20, bandwidth=30) as driver:
            driver.device.write(0, program.dram)
            driver.device.start(program.insn_addr, program.insn_count)
            found.append(driver.device.wait(60))
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", [0, *range(2, 13)])  # 98 % of the 480,000 cycles of seed 1 wait for its memory
def test_machine_code_is_the_plain_definition_of_any_configuration_and_core(seed):
    """And blocks that are left out while they wait change nothing."""
    cfg = random_config(seed)
    p = random_program(cfg, seed)
    case = options(Case(config="any", seed=seed * 250, length=40, device="cycle"))
    core = CoreParams.of(cfg, case.pop("bus_bits"), case.pop("core"))
    code = p.dram[p.insn_addr : p.insn_addr + 16 * p.insn_count]
    decoded, around = Decoded(cfg, code), Surroundings(trace=True, **case)
    want = run_cycles(decoded, bytearray(p.dram), p.insn_addr, p.memories, core, around, plain=True, skips=False)
    for plain, skips in ((True, True), (False, True), (False, False)):
        got = run_cycles(decoded, bytearray(p.dram), p.insn_addr, p.memories, core, around, plain=plain, skips=skips)
        assert got.counters == want.counters
        for name in ("started", "retired", "changes"):
            assert np.array_equal(getattr(got, name), getattr(want, name)), name


@pytest.mark.parametrize("path", ["compiled", "plain"])
@pytest.mark.parametrize("case", [*STATIC])
def test_a_wrong_instruction_is_told_as_fsim_tells_it(case, path):
    words = STATIC[case][0]
    image = bytes(1024) + to_bytes(list(words))
    with pytest.raises(ProgramFault) as want:
        run_image(image, 1024, len(words), TINY)
    with pytest.raises(ProgramFault) as got:
        run_image(image, 1024, len(words), TINY, "cycle", path=path)
    assert str(got.value) == str(want.value)


@pytest.mark.parametrize("data", [True, False])
@pytest.mark.parametrize("case", INDEX)
def test_an_index_beyond_a_scratchpad_is_told_as_fsim_tells_it(case, data):
    words = (LOAD_UOPS, steps(), steps(**INDEX[case][0]), FINISH)
    image = INDEX_UOPS.ljust(1024, b"\0") + to_bytes(list(words))
    with pytest.raises(ProgramFault) as want:
        run_image(image, 1024, len(words), TINY)
    with pytest.raises(ProgramFault) as got:
        run_image(image, 1024, len(words), TINY, "cycle", data=data)
    assert str(got.value) == str(want.value)
    assert got.value.trace is None


@RTL
def test_an_index_beyond_a_scratchpad_has_the_trace_up_to_its_step():
    words = (LOAD_UOPS, steps(), steps(**INDEX["gemm dst by both factors"][0]), FINISH)
    image = INDEX_UOPS.ljust(1024, b"\0") + to_bytes(list(words))
    found = []
    for device in ("rtl", "cycle"):
        with pytest.raises(ProgramFault) as caught:
            run_image(image, 1024, len(words), TINY, device, trace=True)
        found.append(caught.value.trace)
    want, got = found
    assert 100 < got.cycles < want.cycles  # the hardware stops a few cycles later
    for mine, theirs in ((got.instructions, want.instructions), (got.causes, want.causes)):
        assert mine == tuple(replace(span, end=min(span.end, got.cycles)) for span in theirs if span.start < got.cycles)


@pytest.mark.parametrize(("given", "message"), [
    ({"data": 1}, "data must be True or False, not 1"),
    ({"path": "fast"}, "unknown path 'fast'; known: auto, compiled, plain"),
    ({"wave": "run.vcd"}, "device 'cycle' has no option 'wave'"),
    ({"latency": -1}, "latency is -1 and must be from 0 to 100000"),
    ({"bus_bits": 100}, "bus_bits must be one of (64, 128, 256, 512), got 100"),
    ({"system": "fast"}, "unknown memory system 'fast'; known: ideal, pynq, reference, ultra96, ulx3s, or the path of a .json"),
    ({"chip": "ddr"}, "chip must be a vtakit.hw.dram.Dram or None, not 'ddr'; system= takes names and files"),
    ({"system": {"kind": "sdram", "rows": 1, "banks": 1, "columns": 1, "width": 8, "burst": 1}},
     "the program and its data take 16 bytes of memory, and this memory system has 1: rows x banks x columns x width / 8"),
])
def test_wrong_options_are_refused_in_a_sentence(given, message):
    with pytest.raises(VtakitError) as error:
        run_image(to_bytes([FINISH]), 0, 1, TINY, "cycle", **given)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("path", ["compiled", "plain"])
def test_a_run_ends_after_as_many_cycles_as_it_may_take(path):
    with raises(DeviceError, "the cycle model has not finished within 100 cycles"):
        run_image(to_bytes([FINISH]), 0, 1, TINY, "cycle", path=path, max_cycles=100)


def test_without_data_there_are_only_cycles():
    p = random_program(TINY, 3)
    timed = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "cycle", bases=p.bases, data=False)
    whole = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "cycle", bases=p.bases)
    assert timed.counters == whole.counters
    assert (timed.dram, timed.acc.size) == (b"", 0)
    assert whole.dram == run_image(p.dram, p.insn_addr, p.insn_count, TINY, bases=p.bases).dram


def test_without_numba_the_plain_definition_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "vtakit.sim.cycle.compiled", raising=False)
    p = random_program(TINY, 3)
    found = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "cycle", bases=p.bases, data=False)
    assert found.counters["cycles"] > 0
    with raises(VtakitError, "the compiled path needs numba (pip install 'vtakit[sim]', or use path 'plain'): … numba …"):
        run_image(p.dram, p.insn_addr, p.insn_count, TINY, "cycle", bases=p.bases, path="compiled")


def test_the_first_difference_is_the_earliest():
    p = random_program(TINY, 3)
    want = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "cycle", bases=p.bases, data=False, trace=True)
    assert first_cycle(want, want) is None
    spans = want.trace.instructions
    moved = {1: replace(spans[1], end=spans[1].end + 1), 4: replace(spans[4], start=spans[4].start - 1)}
    trace = replace(want.trace, instructions=tuple(moved.get(n, span) for n, span in enumerate(spans)))
    told = first_cycle(replace(want, trace=trace), want)
    parts = [(spans[1].end, f"instruction {spans[1].index} ends"), (spans[4].start - 1, f"instruction {spans[4].index} starts")]
    cycle, text = min(parts)
    assert told.startswith(f"cycle {cycle}: ")
    assert text in told
    assert "; 2 differences, " in told
    name = COUNTERS[3]
    told = first_cycle(replace(want, counters=want.counters | {name: -1}), want)
    assert told == f"counter {name}: got -1, want {want.counters[name]}"


def test_what_a_slow_memory_costs_is_seen_at_once():
    words = [load(UOP, x_size=32), load(INP, x_size=32), FINISH]
    image = to_bytes(words).ljust(1 << 12, b"\0")
    fast, slow = (run_image(image, 0, 3, NAMED["tiny"], "cycle", latency=latency).counters["cycles"] for latency in (10, 500))
    assert slow - fast == 2 * 490  # the program is read, and then both loads at once
