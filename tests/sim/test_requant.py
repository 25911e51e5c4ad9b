"""REQUANT and GEMM's overwrite on both paths, against Python's own integers and cases worked out by hand."""

import random

import numpy as np
import pytest
from machine import CODE_AT, OUT, ROWS2, TINY, Machine, elements
from support import raises

from vtakit.hw.isa.codec import encode, encode_requant, encode_uop, to_bytes
from vtakit.hw.isa.config import NAMED, VTAConfig
from vtakit.hw.isa.errors import EncodingError
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import Feature, MemType
from vtakit.hw.isa.program import Program
from vtakit.sim import plain, run_image
from vtakit.sim.checker import check_image
from vtakit.sim.faults import ProgramFault
from vtakit.sim.fuzz import Case
from vtakit.sim.random_programs import random_program

ACC, INP, WGT, UOP = MemType.ACC, MemType.INP, MemType.WGT, MemType.UOP
INT4 = VTAConfig(log_inp_width=2, log_wgt_width=2, log_block=3, log_uop_buff_size=7, log_inp_buff_size=7, log_wgt_buff_size=8,
                 log_acc_buff_size=10)
SAME = {"multiplier": 1, "low": -128, "high": 127}  # leaves what fits into eight bits as it is


def wanted(x: int, bias: int = 0, multiplier: int = 0, shift: int = 0, zero_point: int = 0, low: int = 0, high: int = 0) -> int:
    """The definition, in integers without a width; the middle between two results goes up."""
    product = (x + bias) * multiplier
    rounded = (2 * product + 2**shift) // 2 ** (shift + 1)
    return min(max(rounded + zero_point, low), high)


def lanes(machine: Machine, parameters: list[dict[str, int]]) -> bytes:
    """The three accumulator elements of a set of parameters, one for each lane."""
    words = [encode_requant(machine.cfg, **each) for each in parameters]
    return machine.acc([np.int64(word).astype(np.int32) for column in zip(*words, strict=True) for word in column])


def stored(machine: Machine, values: list[int], parameters: list[dict[str, int]]) -> list[int]:
    """What a REQUANT writes of whole elements of `values`."""
    size, cfg = machine.cfg.batch * machine.cfg.block, machine.cfg
    count = len(values) // size
    image = machine.acc(values) + lanes(machine, parameters)
    out = -(-len(image) // cfg.out_bytes)
    result = machine.run(
        image, machine.load(ACC, count + 3),
        machine.insn("requant", memory_type=OUT, params=count, y_size=1, x_size=count, dram_base=out),
    )
    data = np.frombuffer(result.dram[out * cfg.out_bytes : (out + count) * cfg.out_bytes], np.uint8)
    return [int(value) for value in plain.unpack(data, cfg.out_bits)]


# (value, parameters, result), each worked out by hand.
CASES = {
    "as it is": (-77, SAME, -77),
    "bias": (5, SAME | {"bias": -8}, -3),
    "the sum has 33 bits": (2**31 - 1, SAME | {"bias": 2**31 - 1, "shift": 26}, 64),
    "the sum has 33 bits below 0": (-(2**31), SAME | {"bias": -(2**31), "shift": 26}, -64),
    "the multiplier has no sign": (3, SAME | {"multiplier": 65535, "shift": 16}, 3),
    "the product has 49 bits": (-(2**31), {"bias": -(2**31), "multiplier": 65535, "shift": 42, "low": -128, "high": 127}, -64),
    "half goes up": (5, SAME | {"shift": 1}, 3),
    "half below 0 goes up": (-5, SAME | {"shift": 1}, -2),
    "less than half goes down": (9, SAME | {"shift": 2}, 2),
    "shift 0 adds nothing": (9, SAME, 9),
    "shift 47": (2**31 - 1, {"multiplier": 65535, "shift": 47, "low": -128, "high": 127}, 1),
    "shift 48 of the least product": (-(2**31), {"bias": -(2**31), "multiplier": 65535, "shift": 48, "low": -9, "high": 9}, -1),
    "shift 49 leaves nothing": (-(2**31), {"bias": -(2**31), "multiplier": 65535, "shift": 49, "low": -9, "high": 9}, 0),
    "shift 63 leaves nothing": (2**31 - 1, {"bias": 2**31 - 1, "multiplier": 65535, "shift": 63, "low": -9, "high": 9}, 0),
    "zero point": (10, SAME | {"zero_point": -128}, -118),
    "the zero point comes before the clip": (100, SAME | {"zero_point": 100}, 127),
    "low": (-50, SAME | {"low": -3}, -3),
    "high": (50, SAME | {"high": 6}, 6),
    "low above high": (0, {"multiplier": 1, "low": 5, "high": -5}, -5),
    "no parameters": (99, {}, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_one_value(name, path):
    value, parameters, result = CASES[name]
    assert wanted(value, **parameters) == result
    assert stored(Machine(path), [value] * 4, [parameters] * 4) == [result] * 4


@pytest.mark.parametrize("cfg", [TINY, ROWS2, INT4], ids=["tiny", "two rows", "int4"])
def test_every_lane_has_its_own_parameters(cfg, path):
    pick = random.Random(cfg.block)
    size, machine = cfg.batch * cfg.block, Machine(path, cfg)
    for _ in range(40):
        parameters = [
            {
                "bias": pick.choice((0, pick.randint(-(2**31), 2**31 - 1))), "multiplier": pick.randrange(1 << 16),
                "shift": pick.choice((pick.randrange(64), pick.randint(28, 48))), "zero_point": pick.randint(-128, 127),
                "low": pick.choice((-128, pick.randint(-128, 127))), "high": pick.choice((127, pick.randint(-128, 127))),
            }
            for _ in range(size)
        ]
        values = [pick.choice((pick.randint(-(2**31), 2**31 - 1), pick.randint(-3000, 3000), 2**31 - 1)) for _ in range(4 * size)]
        want = [wanted(value, **parameters[at % size]) for at, value in enumerate(values)]
        half = 1 << cfg.out_bits - 1
        assert stored(machine, values, parameters) == [(value + half) % (2 * half) - half for value in want]


def test_bits_that_belong_to_no_parameter_are_not_looked_at(path):
    m = Machine(path)
    words = m.acc([7] * 4 + [0] * 4 + [-(1 << 16) | 1] * 4 + [np.int64(0x7F80_00C0).astype(np.int32)] * 4)
    result = m.run(words, m.load(ACC, 4), m.insn("requant", memory_type=OUT, params=1, y_size=1, x_size=1, dram_base=100))
    assert result.dram[400:404] == bytes([7] * 4)


def test_rows_lie_as_those_of_a_store(path):
    m = Machine(path)
    image = m.acc(range(1, 17)) + lanes(m, [SAME | {"bias": 1}] * 4)
    words = m.insn("requant", memory_type=OUT, params=4, y_size=2, x_size=2, x_stride=3, dram_base=100)
    result = m.run(image, m.load(ACC, 7), words)
    assert result.dram[400:420] == bytes([*range(2, 10), 0, 0, 0, 0, *range(10, 18)])
    assert result.counters["out_store_nbytes"] == 16


def test_parameters_may_be_among_the_values(path):
    m = Machine(path)
    image = lanes(m, [SAME] * 4)
    result = m.run(image, m.load(ACC, 3), m.insn("requant", memory_type=OUT, y_size=1, x_size=3, dram_base=100))
    assert result.dram[400:412] == bytes([0] * 4 + [1] * 4 + [127] * 4)


def test_a_requant_that_moves_nothing_reads_no_parameters(path):
    m = Machine(path)
    still = ({"y_size": 0, "x_size": 9}, {"y_size": 9, "x_size": 0})
    words = [m.insn("requant", memory_type=OUT, sram_base=65535, dram_base=2**32 - 1, params=65535, **fields) for fields in still]
    assert m.run(b"", *words).counters["out_store_nbytes"] == 0


def refusal(cfg: VTAConfig, path: str, **fields: int) -> ProgramFault:
    with pytest.raises(ProgramFault) as caught:
        Machine(path, cfg).run(b"", encode(cfg, "requant", y_size=1, x_size=1, **fields))
    assert caught.value.index == 0
    return caught.value


def test_what_is_refused(path):
    last, beyond = TINY.acc_depth - 3, "elements = 33 exceeds the 32 of the acc scratchpad"
    m = Machine(path)
    m.run(b"", m.insn("requant", memory_type=OUT, params=last, y_size=1, x_size=1, dram_base=9))
    fault = refusal(TINY, path, memory_type=OUT, params=last + 1)
    assert (fault.fault, fault.detail) == (Fault.SRAM_RANGE, f"params 30 + 3 {beyond}")
    fault = refusal(TINY, path, memory_type=OUT, sram_base=32)
    assert (fault.fault, fault.detail) == (Fault.SRAM_RANGE, f"sram_base 32 + 1 {beyond}")
    fault = refusal(TINY, path, memory_type=ACC)
    assert (fault.fault, fault.detail) == (Fault.UNKNOWN_MEMORY_TYPE, "memory_type 3 is not one that REQUANT moves; known: OUT 4")
    fault = refusal(TINY, path, memory_type=OUT, push_next=1)
    assert fault.fault is Fault.ILLEGAL_FLAG


@pytest.mark.parametrize("name", [name for name, cfg in NAMED.items() if not cfg.has_requant])
def test_configurations_without_it_refuse_it_by_name(name, path):
    fault = refusal(NAMED[name], path, memory_type=OUT)
    needs = "32-bit accumulators, at least 4 elements of them, and outputs of at most 8 bits"
    assert (fault.fault, fault.detail) == (Fault.UNKNOWN_OPCODE, f"REQUANT exists only for {needs}")


def test_who_has_it():
    assert [name for name, cfg in NAMED.items() if not cfg.has_requant] == ["tiny_acc16", "tiny_i16", "tiny_i4w2"]
    small = {"log_inp_buff_size": 7, "log_uop_buff_size": 7, "log_wgt_buff_size": 8, "log_block": 2}
    assert VTAConfig(**small, log_acc_buff_size=6).has_requant
    assert not VTAConfig(**small, log_acc_buff_size=5).has_requant


def test_a_lanes_parameters_as_words():
    words = encode_requant(TINY, bias=-1, multiplier=0x1234, shift=63, zero_point=-1, low=-128, high=127)
    assert [f"{word:08x}" for word in words] == ["ffffffff", "00001234", "7f80ff3f"]
    with raises(EncodingError, "requant parameters.shift is 64 and must be from 0 to 63 (6 bits)"):
        encode_requant(TINY, shift=64)


# --- What is needed, and by whom ------------------------------------------------------------------------------------------


def test_the_checker_sees_that_compute_writes_what_a_requant_reads():
    """Its parameters, not only its values; and a token makes it right."""
    uops = encode_uop(TINY, 20, 0, 0).to_bytes(4, "little")
    load = encode(TINY, "load", memory_type=UOP, y_size=1, x_size=1)

    def found(first: dict[str, int], second: dict[str, int], at: int) -> list[str]:
        reset = encode(TINY, "gemm", reset=1, uop_end=1, iter_out=1, iter_in=1, **first)
        requant = encode(TINY, "requant", memory_type=OUT, params=at, y_size=1, x_size=1, dram_base=99, **second)
        words = [load, reset, requant, encode(TINY, "finish")]
        image = uops.ljust(CODE_AT, b"\0") + to_bytes(words)
        return [f"{fault.index} {fault.detail}" for fault in check_image(image, CODE_AT, len(words), TINY)]

    assert found({}, {}, 17) == []
    text = "gemm uop_end=1 iter_out=1 iter_in=1 reset"
    for at in (18, 19, 20):
        assert found({}, {}, at) == [
            f"2 it reads acc[20], which instruction 1 ({text}) of the compute stage writes, and no token orders the two"]
        assert found({"push_next": 1}, {"pop_prev": 1}, at) == []


def test_programs_state_that_they_need_it():
    requant = encode(TINY, "requant", memory_type=OUT)
    overwrite = encode(TINY, "gemm", overwrite=1)
    finish = encode(TINY, "finish")

    def needs(*words: int) -> Feature:
        return Program(config=TINY, insns=(*words, finish), uops=(), buffers=(), relocations=()).features

    assert needs(encode(TINY, "store", memory_type=OUT), encode(TINY, "gemm", reset=1)) == Feature(0)
    assert needs(requant) == Feature.REQUANT
    assert needs(overwrite) == Feature.OVERWRITE
    assert needs(requant, overwrite) == Feature.REQUANT | Feature.OVERWRITE


@pytest.mark.parametrize("config", [name for name, cfg in NAMED.items() if cfg.has_requant])
def test_random_programs_requantize_real_numbers(config, monkeypatch):
    """Most REQUANTs that store something find parameters that leave several values; a wrong lane or parameter shows."""
    various, all_of_them = 0, 0

    def watching(cfg: VTAConfig, values: np.ndarray, words: np.ndarray) -> np.ndarray:
        nonlocal various, all_of_them
        found = right(cfg, values, words)
        all_of_them += 1
        various += len(np.unique(found)) > 2
        return found

    right = plain.requantized
    monkeypatch.setattr(plain, "requantized", watching)
    for seed in range(40):
        p = Case(config=config, seed=seed, length=40, device="fsim").program()
        run_image(p.dram, p.insn_addr, p.insn_count, p.config, path="plain", bases=p.bases)
    assert all_of_them > 20
    assert various > 0.3 * all_of_them


def test_without_the_features_a_seed_means_what_it_did():
    assert random_program(TINY, 5) != random_program(TINY, 5, features=Feature.OVERWRITE)
    assert random_program(TINY, 5) == random_program(TINY, 5, features=Feature.ALU_MUL | Feature.ACC_8BIT)


# --- GEMM overwrite -------------------------------------------------------------------------------------------------------


def test_overwrite_replaces_and_does_not_add(path):
    m = Machine(path)
    image = m.acc([100, -100, 7, 0]) + bytes([1, 2, 3, 4]) + bytes([5, 6, 7, 8]) + bytes(8)
    identity = bytes([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1])
    setup = m.load(ACC), m.load(INP, 2, dram_base=4), m.load(WGT, dram_base=2)
    image += identity
    assert elements(m.run(image, *setup, m.gemm(overwrite=1)), 1) == [[1, 2, 3, 4]]
    assert elements(m.run(image, *setup, m.gemm()), 1) == [[101, -98, 10, 4]]
    assert elements(m.run(image, *setup, m.gemm(overwrite=1, iter_in=2, src_in=1)), 1) == [[5, 6, 7, 8]], "each step overwrites"
    assert elements(m.run(image, *setup, m.gemm(overwrite=1), m.gemm(iter_in=2, src_in=1)), 1) == [[7, 10, 13, 16]]


def test_reset_beside_overwrite_is_a_reset(path):
    m = Machine(path)
    image = m.acc([1, 2, 3, 4]) + bytes([1] * 4)
    both = m.gemm(overwrite=1, reset=1)
    result = m.run(image, m.load(ACC), m.load(INP, dram_base=4), both)
    assert elements(result, 1) == [[0] * 4]
    assert (result.counters["gemm_counter"], result.counters["gemm_reset_counter"]) == (0, 1)
