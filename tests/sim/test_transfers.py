"""What LOAD and STORE do, and whole programs, on cases worked out by hand, on both paths (ISA.md section 3)."""


import pytest
from machine import (
    ACC,
    ACC8,
    ACC16,
    ACC_8BIT,
    ADD,
    CODE_AT,
    IDENTITY,
    INP,
    MAX,
    MUL,
    OF_BITS,
    ONES,
    OUT,
    ROWS2,
    SHR,
    TINY,
    UOP,
    WGT,
    WIDE,
    Machine,
    elements,
)

from vtakit.hw.isa.insns import MemType

# --- LOAD ----------------------------------------------------------------------------------------------------------------


def test_acc_8bit_loads_are_sign_extended(path):
    m = Machine(path)
    dram = bytes(8) + bytes([0x80, 0x7F, 0xFF, 0x00, 1, 2, 3, 0xFD])
    result = m.run(dram, m.load(ACC_8BIT, 2, dram_base=2, sram_base=1))
    assert elements(result, 4) == [[0] * 4, [-128, 127, -1, 0], [1, 2, 3, -3], [0] * 4]
    assert result.counters["acc_load_nbytes"] == 8


def test_acc_8bit_counts_addresses_and_pitch_in_8_bit_elements(path):
    m = Machine(path)
    dram = bytes(range(64))
    result = m.run(dram, m.load(ACC_8BIT, 2, dram_base=1, y_size=2, x_stride=5))
    assert elements(result, 4) == [[4, 5, 6, 7], [8, 9, 10, 11], [24, 25, 26, 27], [28, 29, 30, 31]]
    m = Machine(path, ROWS2)
    assert elements(m.run(dram, m.load(ACC_8BIT, dram_base=3)), 1) == [list(range(24, 32))]


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_acc_loads_are_little_endian_and_signed(bits, path):
    m = Machine(path, OF_BITS[bits])
    values = ([1, -1, (1 << bits - 1) - 1, -(1 << bits - 1)] * 2)[: m.cfg.block]
    dram = b"".join(value.to_bytes(bits // 8, "little", signed=True) for value in values)
    assert elements(m.run(dram, m.load(ACC)), 2) == [values, [0] * m.cfg.block]


# DRAM element n of each memory is recognised by n; elements 1, 2 and 4, 5 are read, with one zero on every side.
PADDED = [0, 0, 0, 0, 0, 1, 2, 0, 0, 4, 5, 0, 0, 0, 0, 0]
PADS = {"dram_base": 1, "y_size": 2, "x_size": 2, "x_stride": 3, "y_pad_0": 1, "y_pad_1": 1, "x_pad_0": 1, "x_pad_1": 1}
# What a load leaves, for the sixteen elements that hold 9 before it: (changes to the padded load, what is there afterwards).
LOADS = {
    "padded": ({}, PADDED),
    "x_size 0 with pads": ({"x_size": 0}, [9] * 16),
    "x_size 0, y_size 0 with pads": ({"x_size": 0, "y_size": 0}, [9] * 16),
    "y_size 0 with x_size": ({"y_size": 0}, [0] * 8 + [9] * 8),
    "y_size 0 with x pads only": ({"y_size": 0, "y_pad_0": 0, "y_pad_1": 0}, [9] * 16),
    "rows before only": ({"y_pad_1": 0, "x_pad_0": 0, "x_pad_1": 0}, [0, 0, 1, 2, 4, 5] + [9] * 10),
    "rows after only": ({"y_pad_0": 0, "x_pad_0": 0, "x_pad_1": 0}, [1, 2, 4, 5, 0, 0] + [9] * 10),
    "columns before only": ({"y_pad_0": 0, "y_pad_1": 0, "x_pad_0": 2, "x_pad_1": 0}, [0, 0, 1, 2, 0, 0, 4, 5] + [9] * 8),
    "columns after only": ({"y_pad_0": 0, "y_pad_1": 0, "x_pad_0": 0, "x_pad_1": 2}, [1, 2, 0, 0, 4, 5, 0, 0] + [9] * 8),
    "no pads": ({"y_pad_0": 0, "y_pad_1": 0, "x_pad_0": 0, "x_pad_1": 0}, [1, 2, 4, 5] + [9] * 12),
    "pitch 0": ({"y_pad_0": 0, "y_pad_1": 0, "x_pad_0": 0, "x_pad_1": 0, "x_stride": 0, "y_size": 3},
                [1, 2, 1, 2, 1, 2] + [9] * 10),
    "pitch less than a row": ({"y_pad_0": 0, "y_pad_1": 0, "x_pad_0": 0, "x_pad_1": 0, "x_stride": 1, "x_size": 3},
                              [1, 2, 3, 2, 3, 4] + [9] * 10),
    "from the fourth element on": ({"sram_base": 3, "y_pad_0": 0, "y_pad_1": 0}, [9] * 3 + [0, 1, 2, 0, 0, 4, 5, 0] + [9] * 5),
    "many zeros": ({"y_pad_0": 0, "y_pad_1": 0, "x_pad_0": 12, "x_pad_1": 3, "x_size": 1, "y_size": 1}, [0] * 12 + [1] + [0] * 3),
    "many rows of zeros": ({"y_pad_0": 9, "y_pad_1": 6, "x_pad_0": 0, "x_pad_1": 0, "x_size": 1, "y_size": 1},
                           [0] * 9 + [1] + [0] * 6),
}


@pytest.mark.parametrize("case", LOADS)
@pytest.mark.parametrize("kind", [INP, WGT, ACC, ACC_8BIT, UOP])
def test_a_load_writes_its_pads_and_rows_and_nothing_else(kind, case, path):
    m = Machine(path)
    changes, want = LOADS[case]
    the_load = PADS | changes
    if kind is ACC:
        dram = m.acc([n for n in [0, 1, 2, 3, 4, 5, 6, *[9] * 16] for _ in range(4)])
        result = m.run(dram, m.load(ACC, 16, dram_base=7), m.load(ACC, **the_load))
        assert elements(result, 17) == [[n] * 4 for n in want] + [[0] * 4]
    elif kind is ACC_8BIT:
        dram = bytes(n for n in [0, 1, 2, 3, 4, 5, 6, *[9] * 16] for _ in range(4))
        result = m.run(dram, m.load(ACC_8BIT, 16, dram_base=7), m.load(ACC_8BIT, **the_load))
        assert elements(result, 17) == [[n] * 4 for n in want] + [[0] * 4]
    elif kind is INP:
        dram = IDENTITY + bytes(n for n in [0, 1, 2, 3, 4, 5, 6, *[9] * 16] for _ in range(4))
        the_load["dram_base"] += 4
        result = m.run(dram, m.load(WGT), m.load(INP, 16, dram_base=11), m.load(INP, **the_load, push_next=1),
                       m.gemm(pop_prev=1, iter_in=17, dst_in=1, src_in=1))
        assert elements(result, 17) == [[n] * 4 for n in want] + [[0] * 4]
    elif kind is WGT:
        # The weight scratchpad holds 16 elements; element n is all n, and an input of 1, 0, 0, 0 gives n.
        dram = bytes([1, 0, 0, 0]).ljust(16, b"\0") + bytes(n for n in [0, 1, 2, 3, 4, 5, 6, *[9] * 16] for _ in range(16))
        the_load["dram_base"] += 1
        result = m.run(dram, m.load(INP), m.load(WGT, 16, dram_base=8), m.load(WGT, **the_load, push_next=1),
                       m.gemm(pop_prev=1, iter_in=16, dst_in=1, wgt_in=1))
        assert elements(result, 17) == [[n] * 4 for n in want] + [[0] * 4]
    else:
        # Micro-op n adds 1 to acc[n]: how often each index stands among the first 17 micro-ops; the 17th is 0.
        dram = m.uops(*[(n, 0, 0) for n in [0, 1, 2, 3, 4, 5, 6, *[9] * 16]])
        result = m.run(dram, m.load(UOP, 16, dram_base=7), m.load(UOP, **the_load), m.alu(ADD, use_imm=1, imm=1, uop_end=17))
        assert elements(result, 12) == [[[*want, 0].count(n)] * 4 for n in range(12)]


def test_a_two_dimensional_load_of_micro_ops_keeps_their_order(path):
    m = Machine(path)
    # Each micro-op shifts acc[0] by another element: left 4, right 2, left 1, right 3.
    dram = m.uops((0, 9, 9), (0, 1, 0), (0, 2, 0), (0, 9, 9), (0, 3, 0), (0, 4, 0)).ljust(64, b"\0") + m.acc(
        [n for value in [70, -4, 2, -1, 3] for n in [value] * 4])
    result = m.run(dram, m.load(UOP, 2, dram_base=1, y_size=2, x_stride=3, sram_base=5), m.load(ACC, 5, dram_base=4),
                   m.alu(SHR, uop_bgn=5, uop_end=9))
    assert elements(result, 1) == [[70] * 4]  # 70 -> 1120 -> 280 -> 560 -> 70
    result = m.run(dram, m.load(UOP, 2, dram_base=1, y_size=2, x_stride=3, sram_base=5), m.load(ACC, 5, dram_base=4),
                   m.alu(SHR, uop_bgn=6, uop_end=9))
    assert elements(result, 1) == [[4] * 4]  # 70 -> 17 -> 34 -> 4


def test_micro_op_bits_outside_the_fields_mean_nothing(path):
    m = Machine(path)
    word = int.from_bytes(m.uops((1, 2, 0)), "little") | 0xFFFFC000  # tiny's fields end at bit 14
    dram = word.to_bytes(4, "little").ljust(64, b"\0") + m.acc([1] * 4 + [2] * 4 + [3] * 4)
    result = m.run(dram, m.load(UOP), m.load(ACC, 3, dram_base=4), m.alu(ADD))
    assert elements(result, 3) == [[1] * 4, [5] * 4, [3] * 4]


# --- STORE ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cfg", "values", "want"), [
    (TINY, [0x12345678, -1, 127, 128], [0x78, 0xFF, 0x7F, 0x80]),
    (ACC16, [0x1234, -32768, -129, 255], [0x34, 0x00, 0x7F, 0xFF]),
    (WIDE, [0x12345678, -1, 32768, -32769], [0x78, 0x56, 0xFF, 0xFF, 0x00, 0x80, 0xFF, 0x7F]),
    (ACC8, [1, 2, -1, -8, 0x17, 8, 127, -128], [0x21, 0x8F, 0x87, 0x0F]),
], ids=["8 of 32", "8 of 16", "16 of 32", "4 of 8"])
def test_store_right_after_load_writes_the_low_bits_of_the_accumulator(cfg, values, want, path):
    m = Machine(path, cfg)
    result = m.run(m.acc(values), m.load(ACC, push_next=1), m.store(dram_base=16, pop_prev=1))
    start = 16 * m.cfg.out_bytes
    assert list(result.dram[start : start + len(want)]) == want
    assert result.dram[start + len(want) : CODE_AT] == bytes(CODE_AT - start - len(want))
    assert result.counters["out_store_nbytes"] == len(want)


def test_store_after_reset_writes_zeros_and_what_no_reset_reached_stays(path):
    m = Machine(path)
    dram = m.acc([1] * 8).ljust(128, b"\xee")
    result = m.run(dram, m.load(ACC, 2), m.gemm(reset=1, push_next=1), m.store(2, dram_base=16, pop_prev=1))
    assert result.dram[64:80] == bytes([0, 0, 0, 0, 1, 1, 1, 1]) + b"\xee" * 8


def test_store_sees_each_write_before_its_token(path):
    m = Machine(path)
    dram = bytes(64)
    bump = m.alu(ADD, use_imm=1, imm=1, push_next=1)
    again = m.alu(ADD, use_imm=1, imm=1, pop_next=1, push_next=1)
    result = m.run(dram, bump, m.store(dram_base=0, pop_prev=1, push_prev=1), again,
                   m.store(dram_base=1, pop_prev=1, push_prev=1), again, m.store(dram_base=2, pop_prev=1))
    assert result.dram[:16] == bytes([1] * 4 + [2] * 4 + [3] * 4 + [0] * 4)


def test_store_writes_rows_at_their_pitch_and_not_between(path):
    m = Machine(path)
    dram = m.acc(range(100, 124)).ljust(256, b"\xee")
    result = m.run(dram, m.load(ACC, 6, push_next=1), m.store(2, sram_base=1, dram_base=30, y_size=2, x_stride=5, pop_prev=1))
    want = bytearray(dram)
    want[120:128] = bytes(range(104, 112))
    want[140:148] = bytes(range(112, 120))
    assert result.dram[:256] == want


def test_rows_of_a_store_that_overlap_are_written_in_order(path):
    m = Machine(path)
    dram = m.acc([n for n in range(1, 7) for _ in range(4)]).ljust(256, b"\xee")
    result = m.run(dram, m.load(ACC, 6, push_next=1), m.store(2, dram_base=32, y_size=3, x_stride=1, pop_prev=1))
    assert result.dram[128:148] == bytes([1] * 4 + [3] * 4 + [5] * 4 + [6] * 4) + b"\xee" * 4


@pytest.mark.parametrize("size", [{"x_size": 0}, {"y_size": 0}, {"x_size": 0, "y_size": 0}], ids=str)
def test_a_store_of_nothing_writes_nothing(size, path):
    m = Machine(path)
    dram = b"\xee" * 64
    result = m.run(dram, m.load(INP, push_next=1), m.load(ACC, pop_prev=1, push_next=1), m.store(pop_prev=1, **size))
    assert result.dram[:64] == dram
    assert result.counters["out_store_nbytes"] == 0


def test_only_the_stored_bytes_of_the_image_change(path):
    m = Machine(path)
    dram = bytes(range(256)) * 4
    result = m.run(dram, m.load(ACC), m.alu(ADD, use_imm=1, imm=1, push_next=1), m.store(dram_base=50, pop_prev=1))
    changed = [at for at in range(CODE_AT) if result.dram[at] != dram[at]]
    assert changed == [200, 201, 202, 203]
    assert result.dram[200:204] == bytes([1, 5, 9, 13])
    assert len(result.dram) == CODE_AT + 5 * 16 - 16


# --- base registers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MemType)
def test_a_base_register_is_added_to_the_address_of_its_memory_alone(kind, path):
    m = Machine(path)
    size = {UOP: 4, WGT: 16, INP: 4, ACC: 16, OUT: 4, ACC_8BIT: 4}[kind]
    at = 192 + 64  # a base of 192 and an offset of 64, which share a bit: OR would give 192
    dram = bytearray(512)
    others = {other.name.lower(): 128 for other in MemType if other not in (kind, OUT)}
    options = {"bases": {kind.name.lower(): 192}}
    where = {"dram_base": 64 // size}
    if kind is UOP:
        dram[at : at + 4] = m.uops((3, 0, 0))
        result = m.run(bytes(dram), m.load(UOP, **where), m.alu(ADD, use_imm=1, imm=7), **options)
        assert elements(result, 5) == [[0] * 4, [0] * 4, [0] * 4, [7] * 4, [0] * 4]
    elif kind is WGT:
        dram[at : at + 16], dram[0:4] = ONES, bytes([1, 2, 3, 4])
        result = m.run(bytes(dram), m.load(WGT, **where), m.load(INP, push_next=1), m.gemm(pop_prev=1), **options)
        assert elements(result, 1) == [[10] * 4]
    elif kind is INP:
        dram[0:16], dram[at : at + 4] = IDENTITY, bytes([1, 2, 3, 4])
        result = m.run(bytes(dram), m.load(WGT), m.load(INP, **where, push_next=1), m.gemm(pop_prev=1), **options)
        assert elements(result, 1) == [[1, 2, 3, 4]]
    elif kind is ACC:
        dram[at : at + 16] = m.acc([1, 2, 3, 4])
        result = m.run(bytes(dram), m.load(ACC, **where), bases=options["bases"] | others)
        assert elements(result, 1) == [[1, 2, 3, 4]]
    elif kind is ACC_8BIT:
        dram[at : at + 4] = bytes([1, 2, 3, 4])
        result = m.run(bytes(dram), m.load(ACC_8BIT, **where), bases=options["bases"] | others)
        assert elements(result, 1) == [[1, 2, 3, 4]]
    else:
        dram[0:16] = m.acc([1, 2, 3, 4])
        want = bytes(dram[:at]) + bytes([1, 2, 3, 4]) + bytes(dram[at + 4 :])
        result = m.run(bytes(dram), m.load(ACC, push_next=1), m.store(pop_prev=1, **where), **options)
        assert result.dram[:512] == want


# --- a whole program -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["program", "eager", "lazy", 0, 1, 2])
def test_a_program_whose_tokens_are_complete_gives_the_same_bytes_in_every_order(order, path):
    m = Machine(path)
    dram = IDENTITY + bytes(range(1, 17)) + bytes(96)
    words = [m.load(WGT)]
    for n in range(4):  # one input element at a time through the same entries
        words.append(m.load(INP, dram_base=4 + n, push_next=1, pop_next=n > 0))
        words.append(m.gemm(reset=1, pop_next=n > 0))
        words.append(m.gemm(pop_prev=1, push_prev=n < 3))
        words.append(m.alu(MUL, use_imm=1, imm=3, push_next=1))
        words.append(m.store(dram_base=16 + n, pop_prev=1, push_prev=n < 3))
    result = m.run(dram, *words, order=order)
    assert result.dram[64:80] == bytes(3 * n for n in range(1, 17))
    assert result.counters == {
        "inp_load_nbytes": 16, "wgt_load_nbytes": 16, "acc_load_nbytes": 0, "uop_load_nbytes": 0, "out_store_nbytes": 16,
        "gemm_counter": 4, "gemm_reset_counter": 4, "alu_counter": 4, "dwconv_counter": 0, "insn_counter": 22,
    }


def test_without_a_token_the_order_decides(path):
    m = Machine(path)
    words = (m.load(ACC), m.store(dram_base=16))
    dram = m.acc([1, 2, 3, 4])
    assert m.run(dram, *words, order="program").dram[64:68] == bytes([1, 2, 3, 4])
    assert m.run(dram, *words, order="eager").dram[64:68] == bytes([1, 2, 3, 4])
    assert m.run(dram, *words, order="lazy").dram[64:68] == bytes(4)


def test_a_stage_runs_its_own_instructions_in_order_whatever_the_order_of_stages(path):
    m = Machine(path)
    dram = m.acc([1, 2, 3, 4, 5, 6, 7, 8])
    for order in ("program", "eager", "lazy", 0, 1, 2):
        result = m.run(dram, m.load(ACC), m.load(ACC, dram_base=1), m.alu(ADD, use_imm=1, imm=1), order=order)
        assert elements(result, 1) == [[6, 7, 8, 9]]


def test_counters_count_what_moved_and_each_step(path):
    m = Machine(path)
    result = m.run(
        bytes(512), m.load(UOP, 3, y_size=2, x_stride=3), m.load(ACC, 2), m.load(ACC_8BIT, 5), m.load(WGT, 2),
        m.load(INP, 3, y_size=2, x_stride=3, x_pad_0=1, y_pad_1=1), m.load(INP, 0, x_pad_0=3),
        m.gemm(iter_out=2, iter_in=3, uop_end=4),
        m.gemm(reset=1, iter_out=5, uop_end=2), m.alu(MAX, iter_in=7), m.store(4, dram_base=100, y_size=2, x_stride=4),
        m.insn("dwconv", rows=3, columns=3))
    assert result.counters == {
        "inp_load_nbytes": 24, "wgt_load_nbytes": 32, "acc_load_nbytes": 32 + 20, "uop_load_nbytes": 24, "out_store_nbytes": 32,
        "gemm_counter": 24, "gemm_reset_counter": 10, "alu_counter": 7, "dwconv_counter": 12, "insn_counter": 12,
    }
