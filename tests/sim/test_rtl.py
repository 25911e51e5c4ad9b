"""The RTL in Verilator gives the functional simulator's bytes: random programs, the original's programs, and faults."""

import numpy as np
import pytest
from sim_support import CODE_AT, FINISH, SMALL_CORE, TINY
from support import raises
from test_faults import STATIC

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.codec import encode, to_bytes
from vtakit.hw.isa.config import DEFAULT, NAMED
from vtakit.hw.isa.errors import ConfigError
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import MemType, Stage
from vtakit.hw.isa.regs import CYCLE_CAUSES, device_features
from vtakit.hw.params import CoreParams
from vtakit.sim import run_image
from vtakit.sim.conv2d_data import conv2d_reference, pack_conv2d_inputs, unpack_conv2d_result
from vtakit.sim.faults import DeviceError, ProgramFault
from vtakit.sim.fuzz import cases, fuzz
from vtakit.sim.random_programs import random_program
from vtakit.sim.workloads import Conv2d, conv2d_program

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model


def test_random_programs_give_the_definitions_results():
    """With memory latency and stalls on every channel by seed. The long run is `vtakit fuzz --device rtl`."""
    assert [str(failure) for failure in fuzz(list(cases("rtl", ["tiny"], 0, 300, 40)), 1, lambda count: None)] == []


def test_a_wide_bus_and_narrow_elements_give_the_same_results():
    """Both in one model, since each takes most of a minute to build."""
    config = NAMED["tiny_i4w2"]
    for seed in range(300):
        p = random_program(config, seed, features=device_features(config))
        want = run_image(p.dram, p.insn_addr, p.insn_count, config, bases=p.bases)
        memory = {
            "latency": 7 * (seed % 5), "outstanding": (1, 2, 4, 16)[seed % 4], "bandwidth": (100, 30)[seed % 2],
            "stall": 30 * (seed % 3), "seed": seed,
        }
        got = run_image(p.dram, p.insn_addr, p.insn_count, config, "rtl", bases=p.bases, bus_bits=512, **memory)
        assert got.dram == want.dram, seed
        assert np.array_equal(got.acc, want.acc), seed


def test_a_small_core_gives_the_same_results():
    """Half of the multipliers, lanes that share them, one copy of ACC, and no DWCONV, which it refuses."""
    features = CoreParams.of(TINY, 64, SMALL_CORE).features
    for seed in range(200):
        p = random_program(TINY, seed, features=features)
        want = run_image(p.dram, p.insn_addr, p.insn_count, TINY, bases=p.bases)
        memory = {"stall": 30 * (seed % 3), "seed": seed, "latency": 7 * (seed % 5)}
        got = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "rtl", bases=p.bases, core=SMALL_CORE, **memory)
        assert got.dram == want.dram, seed
        assert np.array_equal(got.acc, want.acc), seed
    words = (encode(TINY, "dwconv", rows=1), FINISH)
    with pytest.raises(ProgramFault, match="opcode"):
        run_image(to_bytes(words), 0, 2, TINY, "rtl", core=SMALL_CORE)


@pytest.mark.parametrize(("core", "message"), [
    ({"mulpasses": 4}, "core has no field 'mulpasses'; did you mean 'mul_passes'? Known: … windows"),
    ({"bus_bits": 64}, "core has no field 'bus_bits'; … mul_passes …"),
    ({"mul_passes": 8}, "mul_passes must be a power of two up to the 4 lanes of the ALU, got 8"),
    ({"gemm_passes": 3}, "gemm_passes must be a power of two up to the block of 4, got 3"),
    ({"mul_passes": "4"}, "mul_passes must be an integer, got '4'"),
    ({"mul_passes": True}, "mul_passes must be an integer, got True"),
    ({"windows": 0}, "windows must be True or False, got 0"),
    ("mul_passes", "core must be a mapping of fields, such as {'mul_passes': 4}, got 'mul_passes'"),
    ({"acc_copies": 3}, "acc_copies must be 1 or 2, got 3"),
])
def test_a_core_that_cannot_be_is_refused(core, message):
    with raises(ConfigError, message):
        run_image(bytes(64), 0, 1, TINY, "rtl", core=core)


def test_a_convolution_keeps_the_matrix_core_busy():
    """One step a cycle but for 2.0 %, the first loads, the last store and waits for tokens: exact, on the reference system."""
    shape = Conv2d(height=28, width=28, in_channels=64, out_channels=64, kernel=3, stride=1, pad=1)
    rng = np.random.default_rng(1)
    data, weights = rng.integers(-128, 128, (1, 64, 28, 28)), rng.integers(-128, 128, (64, 64, 3, 3))
    program = conv2d_program(DEFAULT, shape)
    image = program.link(pack_conv2d_inputs(DEFAULT, shape, data, weights))
    result = run_image(image.dram, image.insn_addr, image.insn_count, DEFAULT, "rtl")
    at, size = image.addresses["result"], program.buffer("result").size_bytes
    got = unpack_conv2d_result(DEFAULT, shape, result.dram[at : at + size])
    np.testing.assert_array_equal(got, conv2d_reference(DEFAULT, shape, data, weights))
    steps = sum(result.counters[name] for name in ("gemm_counter", "gemm_reset_counter", "alu_counter"))
    assert (result.counters["cycles"], steps) == (128_031, 125_440)  # if this is intended, say so in the commit


def test_every_cycle_of_every_stage_has_one_cause():
    p = random_program(TINY, 11)
    counters = run_image(p.dram, p.insn_addr, p.insn_count, TINY, "rtl", bases=p.bases).counters
    for stage in Stage:
        assert sum(counters[f"{stage.name.lower()}_{cause}"] for cause in CYCLE_CAUSES) == counters["cycles"]


# Both errors of this one hold at once; hardware meets the address first.
MEETS_ANOTHER_FIRST = {"the largest transfer"}


@pytest.mark.parametrize("case", sorted(set(STATIC) - MEETS_ANOTHER_FIRST))
def test_a_wrong_instruction_stops_the_hardware(case):
    words, fault, index, *_ = STATIC[case]
    image = bytes(CODE_AT) + to_bytes(words)
    with pytest.raises(ProgramFault) as stopped:
        run_image(image, CODE_AT, len(words), TINY, "rtl", max_cycles=100_000)
    assert (stopped.value.fault, stopped.value.index) == (fault, index)


def test_a_deadlock_stops_the_hardware():
    words = (encode(TINY, "load", memory_type=MemType.INP, pop_next=1), FINISH)
    with pytest.raises(ProgramFault) as stopped:
        run_image(to_bytes(words), 0, 2, TINY, "rtl", max_cycles=100_000)
    assert (stopped.value.fault, stopped.value.index) == (Fault.DEADLOCK, 0)


def test_wrong_options_are_refused():
    code = to_bytes([FINISH])
    with raises(VtakitError, "stall is 100 and must be from 0 to 99"):
        run_image(code, 0, 1, TINY, "rtl", stall=100)
    with raises(ConfigError, "bus_bits must be one of (64, 128, 256, 512), got 32"):
        run_image(code, 0, 1, TINY, "rtl", bus_bits=32)
    with raises(DeviceError, "the RTL has not finished within 3 cycles"):
        run_image(code, 0, 1, NAMED["tiny"], "rtl", max_cycles=3)
