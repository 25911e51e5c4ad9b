"""Windows of a REQUANT on both paths, against loops over each window, and what is refused."""

from itertools import product

import numpy as np
import pytest
from machine import ACC, ACC16, OUT, TINY, Machine

from vtakit.hw.isa.asm import describe
from vtakit.hw.isa.codec import decode, encode, encode_requant
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import Feature
from vtakit.hw.isa.program import Program
from vtakit.sim.faults import ProgramFault

SIZES = [  # y_size, x_size, and fields of windows whose image fits the 29 elements beside three of parameters
    (y, x, {"pool": pool, "pool_step": step, "pool_above": above, "pool_left": left})
    for y, x, pool, step, above, left in product((1, 2, 3), (1, 2, 3), range(4), range(2), range(2), range(2))
    if ((y - 1) * (step + 1) + pool + 1) * ((x - 1) * (step + 1) + pool + 1) <= 29 and (pool or not above + left)
]


def parameters(machine: Machine) -> bytes:
    """Three accumulator elements that leave what fits into eight bits as it is."""
    words = encode_requant(machine.cfg, multiplier=1, low=-128, high=127)
    return machine.acc([np.int64(word).astype(np.int32) for word in words for _ in range(4)])


def windows(acc: np.ndarray, y_size: int, x_size: int, pool: int, pool_step: int, pool_above: int, pool_left: int) -> np.ndarray:
    """Return the maximum of each window of elements [n, 4], by loops over `pool_above`, `pool_left` and the window."""
    size, step = pool + 1, pool_step + 1
    width = (x_size - 1) * step + size
    found = []
    for i, j in np.ndindex(y_size, x_size):
        inside = [acc[row * width + column] for row in range(i * step, i * step + size)
                  for column in range(j * step, j * step + size) if row >= pool_above and column >= pool_left]
        found.append(np.max(inside, axis=0))
    return np.array(found)


@pytest.mark.parametrize("first", [0, "last"])
def test_every_window_of_a_small_image(path, first):
    m, rng = Machine(path), np.random.default_rng(1)
    for y, x, fields in SIZES:
        step, size = fields["pool_step"] + 1, fields["pool"] + 1
        count = ((y - 1) * step + size) * ((x - 1) * step + size)
        values = rng.integers(-128, 128, (29, 4))
        base = 0 if first == 0 else 29 - count
        result = m.run(m.acc(values.reshape(-1)) + parameters(m), m.load(ACC, 32), m.insn(
            "requant", memory_type=OUT, sram_base=base, params=29, y_size=y, x_size=x, x_stride=x, dram_base=200, **fields))
        got = np.frombuffer(result.dram[800 : 800 + 4 * y * x], np.int8).reshape(-1, 4)
        assert np.array_equal(got, windows(values[base:], y, x, **fields)), (y, x, fields)
    assert len(SIZES) > 60


def test_the_least_number_is_greater_than_nothing(path):
    """A window of one element, the others flagged as pads, stores it even if it is the least accumulator."""
    m = Machine(path)
    least = -(1 << 31)
    given = encode_requant(TINY, bias=(1 << 31) - 1, multiplier=1, low=-128, high=127)
    words = [np.int64(word).astype(np.int32) for word in given for _ in range(4)]
    result = m.run(m.acc([7] * 12 + [least] * 4 + words), m.load(ACC, 7), m.insn(
        "requant", memory_type=OUT, params=4, y_size=1, x_size=1, dram_base=200, pool=1, pool_above=1, pool_left=1))
    assert result.dram[800:804] == bytes([255] * 4)


def refusal(machine: Machine, **fields: int) -> ProgramFault:
    with pytest.raises(ProgramFault) as caught:
        machine.run(b"", machine.insn("requant", memory_type=OUT, **{"y_size": 1, "x_size": 1} | fields))
    return caught.value


@pytest.mark.parametrize("name", ["pool_above", "pool_left"])
def test_windows_without_values_are_refused(path, name):
    fault = refusal(Machine(path), **{name: 1})
    assert (fault.fault, fault.index) == (Fault.RESERVED_BITS, 0)
    assert "pool_above and pool_left need pool of at least 1" in fault.detail


def test_an_image_that_ends_behind_the_accumulator_is_refused(path):
    m = Machine(path)
    m.run(b"", m.insn("requant", memory_type=OUT, sram_base=23, y_size=1, x_size=1, pool=2, dram_base=99))
    fault = refusal(m, sram_base=24, pool=2)
    assert (fault.fault, fault.detail) == (
        Fault.SRAM_RANGE, "sram_base 24 + 9 elements = 33 exceeds the 32 of the acc scratchpad")
    assert refusal(m, sram_base=0, y_size=2, x_size=3, pool=3, pool_step=1).fault is Fault.SRAM_RANGE
    m.run(b"", m.insn("requant", memory_type=OUT, sram_base=65535, y_size=0, x_size=9, pool=3, dram_base=99))


def test_programs_state_that_they_need_it():
    def needs(**fields: int) -> Feature:
        words = encode(TINY, "requant", memory_type=OUT, **fields), encode(TINY, "finish")
        return Program(config=TINY, insns=words, uops=(), buffers=(), relocations=()).features
    assert needs(pool=1) == needs(pool_step=1) == needs(pool=2, pool_left=1) == Feature.REQUANT | Feature.POOL
    assert needs() == Feature.REQUANT
    assert not ACC16.has_requant


def test_it_is_described():
    insn = decode(TINY, encode(TINY, "requant", memory_type=OUT, y_size=4, x_size=4, pool=2, pool_step=1, pool_left=1, params=90))
    assert describe(insn) == "store: the greatest of 3 x 3 in 4 x 4 windows of elements from acc[1:81], requantized by acc[90:93]"
