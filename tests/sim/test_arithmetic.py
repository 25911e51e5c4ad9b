"""What GEMM and ALU instructions do, on cases small enough to be worked out by hand, on both paths (ISA.md section 4)."""

import struct

import numpy as np
import pytest
from machine import (
    ACC,
    ACC8,
    ACC16,
    ADD,
    IDENTITY,
    INP,
    MAX,
    MIN,
    MUL,
    OF_BITS,
    ONES,
    ROWS2,
    SHR,
    UOP,
    WGT,
    WIDE,
    Machine,
    elements,
)

# --- ALU -----------------------------------------------------------------------------------------------------------------

# (accumulator bits, value, amount, result): right for amounts from 0, left for negative ones.
SHIFTS = [
    (8, 5, 1, 2), (8, -5, 1, -3), (8, -1, 1, -1), (8, 127, 0, 127), (8, -128, 6, -2), (8, -128, 7, -1), (8, 127, 7, 0),
    (8, -128, 8, -1), (8, 127, 8, 0), (8, -1, 127, -1), (8, 1, 127, 0),
    (8, 1, -6, 64), (8, 1, -7, -128), (8, 3, -7, -128), (8, 2, -7, 0), (8, -1, -7, -128), (8, -3, -1, -6), (8, 100, -1, -56),
    (8, 1, -8, 0), (8, -1, -8, 0), (8, 127, -9, 0), (8, -1, -128, 0),
    (16, 1000, 3, 125), (16, -1001, 3, -126), (16, -32768, 15, -1), (16, 32767, 15, 0), (16, -32768, 16, -1),
    (16, 32767, 16, 0), (16, -2, 32767, -1), (16, 32767, 32767, 0),
    (16, 1, -14, 16384), (16, 1, -15, -32768), (16, 1, -16, 0), (16, -1, -16, 0), (16, 0x1234, -8, 0x3400), (16, 255, -8, -256),
    (16, -1, -32768, 0),
    (32, 1 << 30, 30, 1), (32, -(1 << 31), 31, -1), (32, (1 << 31) - 1, 31, 0), (32, -(1 << 31), 32, -1),
    (32, (1 << 31) - 1, 32, 0), (32, -7, 33, -1), (32, 7, 63, 0), (32, -7, 64, -1), (32, 7, 64, 0), (32, -7, 32767, -1),
    (32, 1, -31, -(1 << 31)), (32, 3, -31, -(1 << 31)), (32, 1, -32, 0), (32, -1, -32, 0), (32, 1, -33, 0), (32, 1, -64, 0),
    (32, -1, -32768, 0), (32, 0x01234567, -8, 0x23456700), (32, 0x00ABCDEF, -8, 0xABCDEF00 - (1 << 32)),
]
# Amounts that only another element can hold, or only an immediate.
LONG_SHIFTS = [
    (32, -7, (1 << 31) - 1, -1), (32, 7, (1 << 31) - 1, 0), (32, 1, -(1 << 31), 0), (32, -1, -(1 << 31), 0),
    (32, -7, 1 << 16, -1), (32, 1, -(1 << 16), 0), (32, 5, 1 << 30, 0), (32, 5, -65535, 0),
]
SHIFTS_BEYOND_VALUES = [(8, -1, 128, -1), (8, 1, 256, 0), (8, -1, 32767, -1), (8, 1, -129, 0), (8, 1, -256, 0), (8, 1, -32768, 0)]


@pytest.mark.parametrize(("bits", "value", "amount", "want"), SHIFTS + LONG_SHIFTS)
def test_shift_by_another_element(bits, value, amount, want, path):
    m = Machine(path, OF_BITS[bits])
    lanes = m.cfg.block
    dram = m.uops((0, 1, 0)).ljust(64, b"\0") + m.acc([value] * lanes + [amount] * lanes)
    result = m.run(dram, m.load(UOP), m.load(ACC, 2, dram_base=64 // m.cfg.acc_bytes), m.alu(SHR))
    assert elements(result, 2) == [[want] * lanes, [amount] * lanes]


@pytest.mark.parametrize(("bits", "value", "amount", "want"), SHIFTS + SHIFTS_BEYOND_VALUES)
def test_shift_by_an_immediate(bits, value, amount, want, path):
    m = Machine(path, OF_BITS[bits])
    result = m.run(m.acc([value] * m.cfg.block), m.load(ACC), m.alu(SHR, use_imm=1, imm=amount))
    assert elements(result, 2) == [[want] * m.cfg.block, [0] * m.cfg.block]


# (accumulator bits, operation, first operand, second operand, result)
ARITHMETIC = [
    (8, ADD, 127, 1, -128), (8, ADD, -128, -1, 127), (8, ADD, 100, 100, -56), (8, MUL, 16, 16, 0), (8, MUL, 12, 11, -124),
    (8, MUL, -128, -1, -128), (8, MUL, -128, -128, 0), (8, MIN, -128, 127, -128), (8, MAX, -128, 127, 127),
    (16, ADD, 32767, 1, -32768), (16, ADD, -32768, -1, 32767), (16, MUL, 300, 300, 24464), (16, MUL, -32768, -1, -32768),
    (16, MUL, 256, 256, 0), (16, MUL, 181, 181, 32761), (16, MUL, 182, 181, -32594), (16, MIN, 5, -5, -5), (16, MAX, 5, -5, 5),
    (32, ADD, (1 << 31) - 1, 1, -(1 << 31)), (32, ADD, -(1 << 31), -1, (1 << 31) - 1), (32, ADD, -5, 3, -2),
    (32, MUL, 1 << 16, 1 << 15, -(1 << 31)), (32, MUL, -(1 << 31), -1, -(1 << 31)), (32, MUL, 46341, 46341, -2147479015),
    (32, MUL, 46340, 46340, 2147395600), (32, MUL, 123456, 654321, -824525248), (32, MUL, -7, 9, -63),
    (32, MUL, 1 << 20, 4096, 0),
    (32, MUL, -(1 << 31), -(1 << 31), 0), (32, MUL, (1 << 31) - 1, (1 << 31) - 1, 1),
    (32, MIN, -1, 1, -1), (32, MIN, 1, -1, -1), (32, MAX, -1, 1, 1), (32, MAX, -(1 << 31), 0, 0), (32, MIN, 7, 7, 7),
]


@pytest.mark.parametrize(("bits", "op", "first", "second", "want"), ARITHMETIC)
def test_arithmetic_with_another_element_wraps_at_the_accumulators_width(bits, op, first, second, want, path):
    m = Machine(path, OF_BITS[bits])
    lanes = m.cfg.block
    dram = m.uops((0, 1, 0)).ljust(64, b"\0") + m.acc([first] * lanes + [second] * lanes)
    result = m.run(dram, m.load(UOP), m.load(ACC, 2, dram_base=64 // m.cfg.acc_bytes), m.alu(op))
    assert elements(result, 2) == [[want] * lanes, [second] * lanes]


IMMEDIATES = [
    *(case for case in ARITHMETIC if -32768 <= case[3] <= 32767),
    (8, ADD, 0, 300, 44), (8, MUL, 3, 1000, -72), (16, ADD, -1, -32768, 32767),
]


@pytest.mark.parametrize(("bits", "op", "first", "second", "want"), IMMEDIATES)
def test_arithmetic_with_an_immediate_has_the_element_first(bits, op, first, second, want, path):
    m = Machine(path, OF_BITS[bits])
    result = m.run(m.acc([first] * m.cfg.block), m.load(ACC), m.alu(op, use_imm=1, imm=second))
    assert elements(result, 1) == [[want] * m.cfg.block]


def test_each_lane_has_its_own_operands(path):
    m = Machine(path)
    dram = m.uops((0, 1, 0)).ljust(64, b"\0") + m.acc([1, -2, 3, -4, 0, 1, -1, 33])
    result = m.run(dram, m.load(UOP), m.load(ACC, 2, dram_base=4), m.alu(SHR))
    assert elements(result, 1) == [[1, -1, 6, -1]]


def test_an_immediate_ignores_src_and_takes_dst_as_first_operand(path):
    m = Machine(path)
    dram = m.uops((1, 2, 0)).ljust(64, b"\0") + m.acc([10] * 4 + [20] * 4 + [30] * 4)
    result = m.run(dram, m.load(UOP), m.load(ACC, 3, dram_base=4), m.alu(ADD, use_imm=1, imm=-1, src_in=1))
    assert elements(result, 3) == [[10] * 4, [19] * 4, [30] * 4]


# --- dependent steps -------------------------------------------------------------------------------------------------------


def test_neighbouring_alu_steps_see_each_others_results(path):
    m = Machine(path)
    dram = m.uops((1, 0, 0)).ljust(64, b"\0") + m.acc([n + lane for n in range(1, 9) for lane in (0, 10, 20, 30)])
    result = m.run(dram, m.load(UOP), m.load(ACC, 8, dram_base=4), m.alu(ADD, iter_in=7, dst_in=1, src_in=1))
    sums = [1, 3, 6, 10, 15, 21, 28, 36]
    assert elements(result, 8) == [[total + (n + 1) * more for more in (0, 10, 20, 30)] for n, total in enumerate(sums)]


def test_an_alu_step_may_read_what_it_writes_again_and_again(path):
    m = Machine(path)
    for loops in ({"iter_in": 5}, {"iter_out": 5}, {"uop_end": 5}):
        result = m.run(m.acc([1, -1, 3, 1 << 27]), m.load(ACC), m.alu(ADD, **loops))  # acc[0] += acc[0]
        assert elements(result, 1) == [[32, -32, 96, 0]]


def test_a_later_step_overwrites_what_an_earlier_one_read(path):
    m = Machine(path)
    dram = m.uops((0, 1, 0), (1, 0, 0)).ljust(64, b"\0") + m.acc([5] * 4 + [7] * 4)
    result = m.run(dram, m.load(UOP, 2), m.load(ACC, 2, dram_base=4), m.alu(ADD, uop_end=2, iter_in=2))
    assert elements(result, 2) == [[12 + 19] * 4, [19 + 31] * 4]  # 12, 19, 31, 50


def test_neighbouring_gemm_steps_add_to_one_entry(path):
    m = Machine(path)
    dram = IDENTITY + bytes([1, 2, 3, 4, 10, 20, 30, 40, 100, 100, 100, 0x9C])  # the last is -100
    for loops in ({"iter_in": 3, "src_in": 1}, {"iter_out": 3, "src_out": 1}):
        result = m.run(dram, m.load(WGT), m.load(INP, 3, dram_base=4, push_next=1), m.gemm(pop_prev=1, **loops))
        assert elements(result, 2) == [[111, 122, 133, -56], [0] * 4]


def test_steps_run_outer_loop_inner_loop_micro_ops(path):
    m = Machine(path)
    shifts = [-4, 2, -1, 3, 1, -5, 2, 1]  # left 4, right 2, ...: 7 -> 112 -> 28 -> 56 -> 7 -> 3 -> 96 -> 24 -> 12
    dram = m.uops((0, 1, 0), (0, 2, 0)).ljust(64, b"\0") + m.acc([n for value in [7, *shifts] for n in [value] * 4])
    result = m.run(dram, m.load(UOP, 2), m.load(ACC, 9, dram_base=4),
                   m.alu(SHR, iter_out=2, iter_in=2, src_out=4, src_in=2, uop_end=2))
    assert elements(result, 1) == [[12] * 4]


# --- GEMM ----------------------------------------------------------------------------------------------------------------


def test_gemm_multiplies_by_the_transposed_weights_and_adds(path):
    m = Machine(path)
    weights = bytes([1, 2, 3, 4, 255, 0, 0, 0, 0, 0, 0, 128, 5, 6, 7, 8])  # rows are outputs
    dram = weights + bytes([1, 2, 3, 0xFC]) + bytes(12) + m.acc([100, 200, 300, 400])
    words = (m.load(WGT), m.load(INP, dram_base=4, push_next=1), m.load(ACC, dram_base=2, pop_prev=1))
    result = m.run(dram, *words, m.gemm())
    # 1+4+9-16, -1, -128 * -4, 5+12+21-32
    assert elements(result, 2) == [[100 - 2, 200 - 1, 300 + 512, 400 + 6], [0] * 4]
    assert elements(m.run(dram, *words, m.gemm(iter_in=3)), 1) == [[100 - 6, 200 - 3, 300 + 1536, 400 + 18]]


def test_gemm_on_two_rows(path):
    m = Machine(path, ROWS2)
    weights = bytes([1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 1, 1, 1, 1])
    dram = weights + bytes([1, 2, 3, 4, 5, 6, 7, 0xF8])
    result = m.run(dram, m.load(WGT), m.load(INP, dram_base=2, push_next=1), m.gemm(pop_prev=1))
    assert result.acc.shape == (16, 2, 4)
    assert result.acc[0].tolist() == [[1, 4, 9, 10], [5, 12, 21, 10]]


def test_gemm_uses_each_index_with_its_own_factors(path):
    m = Machine(path)
    dram = m.uops((1, 2, 1)).ljust(16, b"\0") + b"".join(bytes([w] * 16) for w in range(1, 8)) + bytes(range(1, 13)) * 4
    words = (m.load(UOP), m.load(WGT, 7, dram_base=1), m.load(INP, 12, dram_base=32, push_next=1))
    loops = {"iter_out": 2, "iter_in": 3, "dst_out": 5, "dst_in": 1, "src_out": 4, "src_in": 2, "wgt_out": 3, "wgt_in": 1}
    result = m.run(dram, *words, m.gemm(pop_prev=1, **loops))
    # Input element e holds 4 * (e % 3) + 1 to 4 * (e % 3) + 4, whose sum is 10 + 16 * (e % 3); weight tile w is all w + 1.
    want = [[0] * 4 for _ in range(10)]
    for dst, src, wgt in ((1, 2, 1), (2, 4, 2), (3, 6, 3), (6, 6, 4), (7, 8, 5), (8, 10, 6)):
        want[dst] = [(10 + 16 * (src % 3)) * (wgt + 1)] * 4
    assert elements(result, 10) == want


def test_gemm_wraps_at_the_accumulators_width(path):
    m = Machine(path, ACC16)
    dram = bytes([127] * 16) + bytes([127] * 4)
    result = m.run(dram, m.load(WGT), m.load(INP, dram_base=4, push_next=1), m.gemm(pop_prev=1))
    assert elements(result, 1) == [[-1020] * 4]  # 4 * 16129 - 65536
    m = Machine(path)
    dram = bytes([128] * 16) + bytes([128] * 4)
    steps = 16383
    result = m.run(dram + m.acc([2147483647] * 4).rjust(28, b"\0"), m.load(WGT), m.load(INP, dram_base=4, push_next=1),
                   m.load(ACC, dram_base=2, pop_prev=1), m.gemm(iter_in=steps), m.gemm(iter_in=steps), m.gemm(iter_in=2))
    assert elements(result, 1) == [[-1] * 4]  # 2**31 - 1 + 32768 * 65536 is 2**31 - 1 + 2**31


def test_gemm_in_8_bits_from_4_bit_inputs_and_2_bit_weights(path):
    m = Machine(path, ACC8)
    # Values are packed from the low bits up: inputs 1, -1, 7, -8, 2, 3, 0, 5; each row of weights 1, -1, -2, 0, 1, 1, 0, -1.
    inputs, row = bytes([0xF1, 0x87, 0x32, 0x50]), bytes([0b00_10_11_01, 0b11_00_01_01])
    dram = row * 8 + inputs
    result = m.run(dram, m.load(WGT), m.load(INP, dram_base=4, push_next=1), m.gemm(pop_prev=1))
    assert elements(result, 1) == [[1 + 1 - 14 + 0 + 2 + 3 + 0 - 5] * 8]
    result = m.run(dram, m.load(WGT), m.load(INP, dram_base=4, push_next=1), m.gemm(pop_prev=1, iter_in=11))
    assert elements(result, 1) == [[-132 + 256] * 8]


def test_gemm_on_16_bit_values(path):
    m = Machine(path, WIDE)
    dram = struct.pack("<20h", *[-32768, 32767, 1, 0] * 4, -32768, 32767, 256, 9)
    result = m.run(dram, m.load(WGT), m.load(INP, dram_base=4, push_next=1), m.gemm(pop_prev=1))
    assert elements(result, 1) == [[(1 << 30) + 32767 * 32767 + 256] * 4]
    dram = struct.pack("<20h", *[-32768, -32768, 0, 0] * 4, -32768, -32768, 0, 0)
    result = m.run(dram, m.load(WGT), m.load(INP, dram_base=4, push_next=1), m.gemm(pop_prev=1))
    assert elements(result, 1) == [[-(1 << 31)] * 4]


def test_reset_zeroes_what_dst_names_and_nothing_else(path):
    m = Machine(path)
    words = (m.load(UOP), m.load(ACC, 6, dram_base=4))
    dram = m.uops((1, 31, 15)).ljust(64, b"\0") + m.acc([9] * 24)
    result = m.run(dram, *words, m.gemm(reset=1, iter_in=2, dst_in=3, src_in=31, wgt_in=15))
    assert elements(result, 6) == [[9] * 4, [0] * 4, [9] * 4, [9] * 4, [0] * 4, [9] * 4]


@pytest.mark.parametrize("loops", [{"iter_in": 0}, {"iter_out": 0}, {"uop_end": 0}, {"uop_bgn": 3, "uop_end": 3},
                                   {"uop_bgn": 3, "uop_end": 1}], ids=str)
def test_an_extent_of_zero_or_an_empty_micro_op_range_does_nothing(loops, path):
    m = Machine(path)
    dram = ONES + bytes([1] * 4) + bytes(12) + m.acc([5, 6, 7, 8])
    result = m.run(dram, m.load(WGT), m.load(INP, dram_base=4, push_next=1), m.load(ACC, dram_base=2, pop_prev=1),
                   m.gemm(**loops), m.gemm(reset=1, **loops), m.alu(ADD, use_imm=1, imm=1, **loops), m.alu(MUL, **loops))
    assert elements(result, 1) == [[5, 6, 7, 8]]
    assert [result.counters[name] for name in ("gemm_counter", "gemm_reset_counter", "alu_counter")] == [0, 0, 0]


def test_scratchpads_start_at_zero(path):
    m = Machine(path)
    result = m.run(b"\xff" * 64, m.gemm(uop_end=32), m.alu(ADD, iter_in=31, src_in=1), m.store(32, dram_base=16))
    assert not result.acc.any()
    assert result.acc.shape == (32, 1, 4)
    assert result.acc.dtype == np.int32
    assert result.dram[:192] == b"\xff" * 64 + bytes(128)
