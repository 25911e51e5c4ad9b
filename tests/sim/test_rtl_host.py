"""The accelerator as its host sees it: registers, soft reset, bus errors, traces and waveforms."""

import json
from itertools import pairwise

import numpy as np
import pytest
from sim_support import FINISH, TINY

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.codec import encode, to_bytes
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import COMMAND_QUEUE_DEPTH, ISA_VERSION, TOKEN_QUEUE_DEPTH, MemType, Stage
from vtakit.hw.isa.regs import IDENTITY, REGISTERS, AccessMode, mask_of, offset_of, pack_config
from vtakit.hw.params import CoreParams
from vtakit.sim import run_image
from vtakit.sim.conv2d_data import pack_conv2d_inputs
from vtakit.sim.decode import Memories
from vtakit.sim.differences import first_difference
from vtakit.sim.faults import ProgramFault
from vtakit.sim.random_programs import random_program
from vtakit.sim.rtl.host import (
    Kind,
    Op,
    Surroundings,
    command,
    program_settings,
    read_register,
    session,
    until_idle,
    write_register,
)
from vtakit.sim.workloads import Conv2d, conv2d_program

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model

PARAMS = CoreParams(cfg=TINY)
OKAY, SLVERR = 0, 2
ENOUGH = Surroundings(max_cycles=200_000)


def talk(ops, dram=b"", around=ENOUGH):
    return session(PARAMS, bytearray(dram), list(ops), around)


def start(program):
    """The accesses that start a random program."""
    memories = Memories(bases=dict(program.memories.bases), window=program.memories.window)
    yield from program_settings(program.insn_addr, program.insn_count, memories.bases, memories.window)
    yield command("start")


def test_identity_and_configuration_registers():
    names = ("identity", "version", "features", "config", "bus", "status", "error", "error_insn", "cycles")
    found = talk(op for name in names for op in read_register(name)).registers()
    assert found == {
        "identity": IDENTITY, "version": ISA_VERSION[0] << 16 | ISA_VERSION[1], "features": int(CoreParams(cfg=TINY).features),
        "config": pack_config(TINY), "bus": 3 | PARAMS.outstanding << 8 | PARAMS.address_bits << 16, "status": 0, "error": 0,
        "error_insn": 0, "cycles": 0,
    }


WRITABLE = [r for r in REGISTERS if r.mode is AccessMode.READ_WRITE]
FEWER = {"insn_count": 24, "window_high": PARAMS.address_bits + 1, "irq_enable": 1, "timeout": 32, "attributes": 11}
BITS = {r.name: FEWER.get(r.name, PARAMS.address_bits) for r in WRITABLE}


def test_every_setting_is_kept():
    want = {r.name: (1 << BITS[r.name]) - r.align for r in WRITABLE}
    done = talk(op for name, bits in BITS.items() for op in (*write_register(name, (1 << bits) - 1), *read_register(name)))
    assert done.registers() == want
    assert {op.response for op in done.answers} == {OKAY}
    values = {name: 0x1234_5678_9ABC * (n + 3) & (1 << bits) - 1 for n, (name, bits) in enumerate(BITS.items())}
    ops = [op for name, value in values.items() for op in write_register(name, value)]
    done = talk([*ops, *(op for name in values for op in read_register(name))], around=Surroundings(stall=60, seed=4))
    assert done.registers() == {name: value & want[name] for name, value in values.items()}
    assert {op.response for op in done.answers} == {OKAY}


@pytest.mark.parametrize("name", BITS)
def test_a_bit_that_a_setting_does_not_have_is_refused(name):
    bits, words = BITS[name], next(r.words for r in WRITABLE if r.name == name)
    last, value = offset_of(name) + 4 * (words - 1), 64 if bits > 6 else 1
    for bit in range(bits, 32 * words):
        done = talk([
            *write_register(name, value),
            Op(kind=Kind.WRITE, address=last, value=1 << bit - 32 * (words - 1)),
            *read_register(name),
        ])
        assert [op.response for op in done.answers] == [OKAY] * words + [SLVERR] + [OKAY] * words, bit
        assert done.registers() == {name: value}, bit


def test_what_no_register_allows_is_answered_with_an_error():
    end = max(offset_of(r.name) + 4 * r.words for r in REGISTERS)
    ops = [
        Op(kind=Kind.READ, address=end), Op(kind=Kind.WRITE, address=end, value=1), *write_register("identity", 1),
        Op(kind=Kind.READ, address=0xFFC), *read_register("identity"), *read_register("control"),
    ]
    answers = talk(ops).answers
    assert [op.response for op in answers] == [SLVERR, SLVERR, SLVERR, SLVERR, OKAY, OKAY]
    assert {op.value for op in answers if op.kind is Kind.READ and op.response == SLVERR} == {0}


def test_start_and_settings_are_refused_while_busy_and_the_run_is_not_disturbed():
    p = random_program(TINY, 7)
    want = run_image(p.dram, p.insn_addr, p.insn_count, TINY, bases=p.bases)
    dram = bytearray(p.dram)
    ops = [*start(p), command("start"), *write_register("base_inp", 64), *write_register("insn_count", 1), until_idle(),
           *read_register("base_inp"), *read_register("status")]
    done = session(PARAMS, dram, ops, Surroundings(latency=300))
    begun = len(list(start(p)))
    assert [op.response for op in done.answers[begun : begun + 4]] == [SLVERR] * 4
    assert done.registers() == {"base_inp": p.memories.bases[MemType.INP], "status": mask_of("status", "done")}
    assert dram == want.dram


@pytest.mark.parametrize("after_cycles", [1, 40, 90, 150, 260, 500])
@pytest.mark.parametrize("stall", [0, 50])
def test_a_soft_reset_stops_a_program_and_the_next_runs_as_if_it_were_the_first(after_cycles, stall):
    first = random_program(TINY, 5)
    shape = Conv2d(height=5, width=5, in_channels=4, out_channels=8, kernel=3, stride=1, pad=1)
    rng = np.random.default_rng(after_cycles)
    data, weights = rng.integers(-128, 128, (1, 4, 5, 5)), rng.integers(-128, 128, (8, 4, 3, 3))
    second = conv2d_program(TINY, shape).link(pack_conv2d_inputs(TINY, shape, data, weights))
    want = run_image(second.dram, second.insn_addr, second.insn_count, TINY)
    around = Surroundings(latency=100, stall=stall, seed=after_cycles)
    halted = [
        *start(first), Op(kind=Kind.WAIT, value=after_cycles), command("reset"), until_idle(),
        *(op for name in ("status", "error") for op in read_register(name)),
    ]
    # The second program lies behind the first, and is told so by its settings.
    base = -(-len(first.dram) // 64) * 64
    dram = bytearray(first.dram.ljust(base, b"\0") + second.dram)
    ops = [
        *halted,
        *program_settings(second.insn_addr + base, second.insn_count, dict.fromkeys(MemType, base), (base, len(dram))),
        command("start"), until_idle(), *read_register("status"),
    ]
    done = session(PARAMS, dram, ops, around)
    assert [op.value for op in done.answers if op.kind is Kind.READ] == [0, 0, mask_of("status", "done")]
    assert bytes(dram[base:]) == want.dram


def test_a_start_after_a_fault_needs_no_reset():
    load = {"memory_type": MemType.INP}
    good, bad = to_bytes([FINISH]), to_bytes([encode(TINY, "load", **load), encode(TINY, "load", pop_next=1, **load), FINISH])
    states = [op for name in ("status", "error", "error_insn") for op in read_register(name)]
    ops = [
        *program_settings(0, 3, dict.fromkeys(MemType, 0), (0, 64)), command("start"), until_idle(), *states,
        *write_register("insn_addr", 48), *write_register("insn_count", 1), command("start"), until_idle(), *states,
    ]
    values = [op.value for op in talk(ops, bad + good).answers if op.kind is Kind.READ]
    assert values == [mask_of("status", "error"), Fault.DEADLOCK | Stage.COMPUTE << 8, 1, mask_of("status", "done"), 0, 0]


def test_counters_run_on_until_they_are_cleared():
    settings = [*program_settings(0, 1, dict.fromkeys(MemType, 0), (0, 64))]
    run = [command("start"), until_idle(), *read_register("cycles")]
    done = talk([*settings, *run, *run, command("clear_counters"), *read_register("cycles")], to_bytes([FINISH]))
    once, twice, cleared = (op.value for op in done.answers if op.kind is Kind.READ and op.address == offset_of("cycles"))
    assert once > 40  # one read of memory
    assert (twice, cleared) == (2 * once, 0)


LOAD = {"memory_type": MemType.INP, "x_size": 4, "y_size": 3, "x_stride": 8}


@pytest.mark.parametrize("stall", [0, 40])
def test_a_read_error_names_the_instruction_that_needs_the_data(stall):
    code = [encode(TINY, "load", dram_base=n * 64, **LOAD) for n in range(3)]
    image = to_bytes([*code, FINISH]).ljust(4096, b"\0")
    with pytest.raises(ProgramFault) as stopped:
        run_image(image, 0, 4, TINY, "rtl", read_error=64 * TINY.inp_bytes + 8 * TINY.inp_bytes, stall=stall, max_cycles=100_000)
    assert (stopped.value.fault, stopped.value.index) == (Fault.BUS_READ, 1)


@pytest.mark.parametrize("index", [0, 1, 3])
def test_a_read_error_in_the_program_names_the_instruction(index):
    code = to_bytes([encode(TINY, "load", memory_type=MemType.INP)] * 3 + [FINISH])
    for half in (0, 8):
        with pytest.raises(ProgramFault) as stopped:
            run_image(code, 0, 4, TINY, "rtl", read_error=16 * index + half, max_cycles=100_000)
        assert (stopped.value.fault, stopped.value.index) == (Fault.BUS_FETCH, index)
        assert "the fetch of an instruction" in str(stopped.value)


def test_an_error_beside_what_is_needed_is_none():
    code = to_bytes([encode(TINY, "load", dram_base=64, **LOAD), FINISH]).ljust(4096, b"\0")
    run_image(code, 0, 2, TINY, "rtl", read_error=64 * TINY.inp_bytes + 4 * TINY.inp_bytes, max_cycles=100_000)


@pytest.mark.parametrize("stall", [0, 40])
def test_a_write_error_names_the_store(stall):
    store = {"memory_type": MemType.OUT, "x_size": 4, "y_size": 3, "x_stride": 8}
    image = to_bytes([encode(TINY, "store", dram_base=64 * (n + 1), **store) for n in range(3)] + [FINISH]).ljust(4096, b"\0")
    with pytest.raises(ProgramFault) as stopped:
        run_image(image, 0, 4, TINY, "rtl", write_error=(128 + 16) * TINY.out_bytes, stall=stall, max_cycles=100_000)
    assert (stopped.value.fault, stopped.value.index) == (Fault.BUS_WRITE, 1)


COMPUTE = {"memory_type": MemType.UOP}
GIVERS = {
    "load": {"memory_type": MemType.INP, "push_next": 1}, "compute-prev": {**COMPUTE, "push_prev": 1},
    "compute-next": {**COMPUTE, "push_next": 1},
}


@pytest.mark.parametrize("giver", GIVERS)
def test_tokens_that_are_left_and_overflow_are_named_as_by_the_functional_simulator(giver):
    give = encode(TINY, "load", **GIVERS[giver])
    for count in (3, TOKEN_QUEUE_DEPTH + 2):
        faults = []
        for device in ("fsim", "rtl"):
            with pytest.raises(ProgramFault) as stopped:
                run_image(to_bytes([give] * count + [FINISH]), 0, count + 1, TINY, device)
            faults.append((stopped.value.fault, stopped.value.index))
        assert faults[0] == faults[1]


def test_a_trace_accounts_for_every_cycle_as_the_counters_do():
    for seed in range(20):
        p = random_program(TINY, seed)
        result = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "rtl", bases=p.bases, stall=20 * (seed % 3), trace=True)
        trace = result.trace
        assert trace.cycles == result.counters["cycles"]
        assert trace.totals() == {name: result.counters[name] for name in trace.totals()}
        for stage in Stage:
            edges = [(s.start, s.end) for s in trace.causes if s.stage is stage]
            assert edges[0][0] == 0
            assert edges[-1][1] == trace.cycles
            assert all(end == begin for (_, end), (begin, _) in pairwise(edges))
        assert sorted(s.index for s in trace.instructions) == list(range(p.insn_count))


def test_a_trace_in_perfettos_format():
    p = random_program(TINY, 3)
    trace = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "rtl", bases=p.bases, trace=True).trace
    events = json.loads(trace.to_perfetto([f"insn{n} text" for n in range(p.insn_count)]))["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == len(trace.instructions) + len(trace.causes)
    assert {e["args"]["index"] for e in spans if e["cat"] == "instruction"} == set(range(p.insn_count))
    tracks: dict[int, int] = {}
    for e in sorted(spans, key=lambda e: e["ts"]):  # spans of one track follow each other
        assert tracks.get(e["tid"], 0) <= e["ts"]
        tracks[e["tid"]] = e["ts"] + e["dur"]


@pytest.mark.parametrize("bandwidth", [100, 99, 60, 50, 30, 25, 7, 1])
def test_bandwidth_is_exact(bandwidth):
    """Fractions of a beat a cycle add up: a long transfer takes what it must, at any percentage."""
    row = {"x_size": 32, "y_size": 1, "x_stride": 32}
    moves = {"load": {"memory_type": MemType.INP, **row}, "store": {"memory_type": MemType.OUT, "dram_base": 512, **row}}
    for op, fields in moves.items():
        if op == "store" and bandwidth > 30:  # the stage itself takes up to three cycles a beat of such small elements
            continue
        cycles = {}
        for count in (10, 90):
            image = to_bytes([encode(TINY, op, **fields)] * count + [FINISH]).ljust(4096, b"\0")
            counters = run_image(image, 0, count + 1, TINY, "rtl", latency=0, bandwidth=bandwidth).counters
            cycles[count] = counters["cycles"], counters["read_beats"] if op == "load" else counters["write_beats"]
        beats = cycles[90][1] - cycles[10][1]
        assert beats == 80 * (32 * TINY.inp_bytes // 8 + (2 if op == "load" else 0))
        exact = beats * 100 / bandwidth
        took = cycles[90][0] - cycles[10][0]
        # At full speed the hardware itself waits now and then; slower, the memory is what bounds it.
        assert exact - 100 / bandwidth - 1 <= took <= (1.3 * exact if bandwidth > 60 else exact + 100 / bandwidth + 1), op


def test_random_programs_under_bad_memory_give_the_same_results():
    for seed in range(40):
        p = random_program(TINY, seed)
        want = run_image(p.dram, p.insn_addr, p.insn_count, TINY, bases=p.bases)
        got = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "rtl", bases=p.bases, bandwidth=7, outstanding=1, latency=99)
        assert first_difference(got, want) is None


@pytest.mark.parametrize(("option", "message"), [
    ({"wave": "x.txt"}, "wave must be the name of a .vcd or .fst file, got 'x.txt'"),
    ({"wave": 5}, "wave must be the name of a .vcd or .fst file, got 5"),
    ({"bandwidth": 0}, "bandwidth is 0 and must be from 1 to 100"),
    ({"latency": 1.5}, "latency must be an integer, not 1.5"),
    ({"stall": "40"}, "stall must be an integer, not '40'"),
    ({"read_error": None}, "read_error must be an integer, not None"),
    ({"bus_bits": "64"}, "bus_bits must be an integer, not '64'"),
    ({"bus_bits": 64.0}, "bus_bits must be an integer, not 64.0"),
    ({"trace": "yes"}, "trace must be True or False, not 'yes'"),
])
def test_wrong_options_are_refused(option, message):
    with pytest.raises(VtakitError) as refused:
        run_image(to_bytes([FINISH]), 0, 1, TINY, "rtl", **option)
    assert str(refused.value) == message


# Instructions that take their stage much longer than their fetch.
SLOW = {
    "load": {"memory_type": MemType.WGT, "x_size": 16, "y_size": 1},
    "store": {"memory_type": MemType.OUT, "x_size": 32, "y_size": 1},
    "gemm": {"reset": 1, "uop_end": 1, "iter_out": 4, "iter_in": 8},
}


@pytest.mark.parametrize("op", SLOW)
def test_a_stage_that_has_more_instructions_than_its_queue_holds_loses_none(op):
    count, code_at = COMMAND_QUEUE_DEPTH + 88, 1024
    image = bytes(code_at) + to_bytes([encode(TINY, op, **SLOW[op])] * count + [FINISH])
    trace = run_image(image, code_at, count + 1, TINY, "rtl", trace=True, max_cycles=100_000).trace
    assert sorted(s.index for s in trace.instructions) == list(range(count + 1))


def test_stores_that_the_memory_takes_slowly_lose_nothing():
    stores, code_at = 12, 4096
    row = {"memory_type": MemType.OUT, "x_size": 31, "y_size": 1}
    words = [
        encode(TINY, "load", memory_type=MemType.ACC, x_size=32, y_size=1, push_next=1),
        *(encode(TINY, "store", dram_base=200 + 33 * n, pop_prev=n == 0, **row) for n in range(stores)), FINISH,
    ]
    data = bytes(n * 37 % 251 for n in range(TINY.acc_depth * TINY.acc_bytes))
    image = data.ljust(code_at, b"\0") + to_bytes(words)
    want = run_image(image, code_at, len(words), TINY)
    for bandwidth in (100, 20, 3):
        got = run_image(image, code_at, len(words), TINY, "rtl", bandwidth=bandwidth, max_cycles=100_000)
        assert first_difference(got, want) is None
