"""Encodings: the frozen words of ISA.md section 4, field positions, and that every reader of an instruction agrees."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import configs, fields_of, instructions, raises

from vtakit.hw.isa.asm import asm, disasm
from vtakit.hw.isa.codec import Insn, decode, decode_uop, encode, encode_uop, from_bytes, to_bytes
from vtakit.hw.isa.config import DEFAULT, NAMED, VTAConfig
from vtakit.hw.isa.errors import EncodingError, ProgramError
from vtakit.hw.isa.formats import Align, Field, Format, Kind
from vtakit.hw.isa.insns import FORMATS, UOP, AluOp, Feature, MemType, Opcode, Stage
from vtakit.sim.columns import COLUMNS
from vtakit.sim.decode import Decoded

# ISA.md section 4, "Worked encodings": instruction, fields, word 0 and word 1 in hexadecimal.
WORKED = {
    "load inp": (
        "load", {"memory_type": 2, "sram_base": 0x12, "dram_base": 0x345678, "y_size": 4, "x_size": 5, "x_stride": 16,
                 "y_pad_0": 1, "y_pad_1": 2, "x_pad_0": 3, "x_pad_1": 4, "pop_next": 1, "push_next": 1},
        "0000d159e0004950", "4321001000050004"),
    "store out": (
        "store", {"memory_type": 4, "sram_base": 7, "dram_base": 0x1000, "y_size": 2, "x_size": 3, "x_stride": 8,
                  "pop_prev": 1, "push_prev": 1},
        "0000004000001e29", "0000000800030002"),
    "gemm": (
        "gemm", {"uop_bgn": 3, "uop_end": 9, "iter_out": 14, "iter_in": 28, "dst_out": 28, "dst_in": 1, "src_out": 30,
                 "src_in": 2, "wgt_out": 9, "wgt_in": 0, "pop_prev": 1, "push_prev": 1, "push_next": 1},
        "003800700120036a", "000090040780081c"),
    "gemm reset": (
        "gemm", {"reset": 1, "uop_bgn": 0, "uop_end": 1, "iter_out": 1, "iter_in": 64, "dst_out": 0, "dst_in": 1, "push_prev": 1},
        "00800008002000a2", "0000000000000800"),
    "alu shr immediate": (
        "alu", {"alu_opcode": 3, "use_imm": 1, "imm": -3, "uop_bgn": 5, "uop_end": 6, "iter_out": 2, "iter_in": 8, "dst_out": 8,
                "dst_in": 1, "src_out": 8, "src_in": 1},
        "0010001000c00504", "fffdb00202000808"),
    "alu add vector": (
        "alu", {"alu_opcode": 2, "uop_bgn": 0, "uop_end": 4, "iter_out": 1, "iter_in": 7, "dst_out": 0, "dst_in": 4, "src_out": 0,
                "src_in": 4, "push_next": 1},
        "000e000800800044", "0000200800002000"),
    "token only on compute": ("load", {"memory_type": 0, "pop_prev": 1, "pop_next": 1}, "0000000000000018", "0000000000000000"),
    "finish": ("finish", {}, "0000000000000003", "0000000000000000"),
    "requant": (
        "requant", {"memory_type": 4, "sram_base": 7, "dram_base": 0x1000, "y_size": 2, "x_size": 3, "x_stride": 8,
                    "params": 0x7FD, "pop_prev": 1, "push_prev": 1},
        "0000004000001e2d", "07fd000800030002"),
    "gemm overwrite": (
        "gemm", {"overwrite": 1, "uop_end": 1, "iter_out": 1, "iter_in": 64, "dst_in": 1, "push_prev": 1},
        "8080000800200022", "0000000000000800"),
}

HEADER = {"opcode": (2, 0), "pop_prev": (3, 3), "pop_next": (4, 4), "push_prev": (5, 5), "push_next": (6, 6)}
TRANSFER = {
    "memory_type": (9, 7), "sram_base": (25, 10), "dram_base": (57, 26),
    "y_size": (79, 64), "x_size": (95, 80), "x_stride": (111, 96),
    "y_pad_0": (115, 112), "y_pad_1": (119, 116), "x_pad_0": (123, 120), "x_pad_1": (127, 124),
}
LOOPS = {"uop_bgn": (20, 8), "uop_end": (34, 21), "iter_out": (48, 35), "iter_in": (62, 49)}
INDICES = {"dst_out": (74, 64), "dst_in": (85, 75), "src_out": (96, 86), "src_in": (107, 97)}
# ISA.md sections 2 to 4: (highest, lowest) bit of each field for the default configuration.
POSITIONS = {
    Opcode.LOAD: HEADER | TRANSFER,
    Opcode.STORE: HEADER | TRANSFER,
    Opcode.PAD_LOAD: HEADER | TRANSFER | {"dram_base": (55, 26), "pad_value": (63, 56)},
    Opcode.GEMM: HEADER | {"reset": (7, 7)} | LOOPS | {"overwrite": (63, 63)} | INDICES | {
        "wgt_out": (117, 108), "wgt_in": (127, 118)},
    Opcode.ALU: HEADER | LOOPS | INDICES | {"alu_opcode": (110, 108), "use_imm": (111, 111), "imm": (127, 112)},
    Opcode.FINISH: HEADER,
    Opcode.REQUANT: HEADER | {name: TRANSFER[name] for name in TRANSFER if "pad" not in name} | {
        "lookup": (58, 58), "pool": (60, 59), "pool_step": (61, 61), "pool_above": (62, 62), "pool_left": (63, 63),
        "params": (127, 112)},
    Opcode.DWCONV: HEADER | {
        "dst": (17, 7), "src": (28, 18), "wgt": (38, 29), "rows": (48, 39), "columns": (52, 49), "y_first": (55, 53),
        "x_first": (58, 56), "y_step": (60, 59), "x_step": (62, 61), "src_row": (74, 64), "src_column": (85, 75),
        "dst_row": (96, 86), "dst_column": (107, 97), "overwrite": (108, 108)},
}


def word_of(low: str, high: str) -> int:
    return int(high + low, 16)


@pytest.mark.parametrize("name", WORKED)
def test_a_worked_encoding_gives_its_two_words(name):
    op, fields, low, high = WORKED[name]
    word = encode(DEFAULT, op, **fields)
    assert (f"{word & (2**64 - 1):016x}", f"{word >> 64:016x}") == (low, high)
    assert to_bytes([word]) == bytes.fromhex(low)[::-1] + bytes.fromhex(high)[::-1]


@pytest.mark.parametrize("name", WORKED)
def test_a_worked_encoding_is_read_back(name):
    op, fields, low, high = WORKED[name]
    insn = decode(DEFAULT, word_of(low, high))
    assert FORMATS[insn.op].name == op
    absent = {name: 0 for name in insn.fields if name not in fields}
    assert insn.fields == fields | absent


def test_the_worked_micro_op_gives_its_word():
    assert f"{encode_uop(DEFAULT, dst=5, src=1029, wgt=777):08x}" == "c2602805"
    assert decode_uop(DEFAULT, 0xC2602805) == {"dst": 5, "src": 1029, "wgt": 777}


def test_a_uop_load_with_every_field_zero_is_the_zero_word():
    assert encode(DEFAULT, "load") == 0


@pytest.mark.parametrize("op", Opcode)
def test_the_defaults_fields_lie_where_the_specification_says(op):
    got = {p.field.name: (p.offset + p.width - 1, p.offset) for p in FORMATS[op].place(DEFAULT)}
    assert got == POSITIONS[op]


def test_the_defaults_micro_op_fields_lie_where_the_specification_says():
    assert {p.field.name: (p.offset + p.width - 1, p.offset) for p in UOP.place(DEFAULT)} == {
        "dst": (10, 0), "src": (21, 11), "wgt": (31, 22)}


def test_codes_are_the_specifications():
    assert {op.name: int(op) for op in Opcode} == {
        "LOAD": 0, "STORE": 1, "GEMM": 2, "FINISH": 3, "ALU": 4, "REQUANT": 5, "PAD_LOAD": 6,
        "DWCONV": 7}
    assert {kind.name: int(kind) for kind in MemType} == {"UOP": 0, "WGT": 1, "INP": 2, "ACC": 3, "OUT": 4, "ACC_8BIT": 5}
    assert {op.name: int(op) for op in AluOp} == {"MIN": 0, "MAX": 1, "ADD": 2, "SHR": 3, "MUL": 4}


def test_each_instruction_goes_to_the_specifications_stage():
    def stage(op, **fields):
        return decode(DEFAULT, encode(DEFAULT, op, **fields)).stage

    assert {kind.name: stage("load", memory_type=kind) for kind in MemType if kind is not MemType.OUT} == {
        "INP": Stage.LOAD, "WGT": Stage.LOAD, "UOP": Stage.COMPUTE, "ACC": Stage.COMPUTE, "ACC_8BIT": Stage.COMPUTE}
    assert [stage(op, memory_type=kind) for op in ("store", "requant") for kind in MemType] == [Stage.STORE] * 12
    assert [stage(op) for op in ("gemm", "alu", "finish", "dwconv")] == [Stage.COMPUTE] * 4
    assert stage("pad_load", memory_type=MemType.INP) is Stage.LOAD


def test_what_an_instruction_needs_beyond_the_smallest_device():
    def features(op, **fields):
        return decode(DEFAULT, encode(DEFAULT, op, **fields)).features

    assert [features("alu", alu_opcode=op) for op in AluOp] == [Feature(0)] * 4 + [Feature.ALU_MUL]
    assert [features("load", memory_type=kind) for kind in MemType] == [Feature(0)] * 5 + [Feature.ACC_8BIT]
    assert [features(op) for op in ("store", "gemm", "finish")] == [Feature(0)] * 3
    assert (features("requant"), features("gemm", overwrite=1)) == (Feature.REQUANT, Feature.OVERWRITE)
    assert features("dwconv") is Feature.DWCONV
    assert (features("requant", lookup=1), features("pad_load")) == (Feature.REQUANT | Feature.LOOKUP, Feature.PAD_VALUE)
    assert features("requant", pool=1) == features("requant", pool_step=1) == Feature.REQUANT | Feature.POOL


@given(instructions())
def test_every_reader_of_an_instruction_agrees(case):
    cfg, op, values = case
    name = FORMATS[op].name
    word = encode(cfg, name, **values)
    assert FORMATS[op].pack(cfg, {"opcode": op, **values}) == word
    assert FORMATS[op].unpack(cfg, word) == {"opcode": op, **values}
    assert decode(cfg, word) == Insn(op, values)
    assert from_bytes(to_bytes([word])) == (word,)
    assert asm(disasm(word, cfg), cfg) == word
    assert asm(disasm(word, cfg, comment=True), cfg) == word
    decoded = Decoded(cfg, to_bytes([word]))
    assert decoded.word(0) == word
    assert {name: int(decoded[name][0]) for name in COLUMNS} == dict.fromkeys(COLUMNS, 0) | {"opcode": op} | values
    assert decoded.reserved.tolist() == [False]
    if (op, values.get("memory_type")) != (Opcode.LOAD, MemType.OUT):  # which goes nowhere: it is an error
        assert Stage(int(decoded.stage[0])) is decode(cfg, word).stage


@given(configs().flatmap(lambda cfg: st.tuples(st.just(cfg), fields_of(UOP, cfg))))
def test_every_reader_of_a_micro_op_agrees(case):
    cfg, values = case
    word = encode_uop(cfg, **values)
    assert 0 <= word < 1 << 32
    assert decode_uop(cfg, word) == values
    assert UOP.pack(cfg, values) == word


@given(configs())
def test_fields_fill_their_words_without_overlap_and_none_straddles_bit_64(cfg):
    for fmt in (*FORMATS.values(), UOP):
        placed = fmt.place(cfg)
        bits = [bit for p in placed for bit in range(p.offset, p.offset + p.width)]
        assert len(bits) == len(set(bits)), fmt.name
        assert max(bits) < fmt.bits, fmt.name
        assert bits == sorted(bits), fmt.name
        assert [p.field.name for p in placed if p.offset < 64 < p.offset + p.width] == [], fmt.name
        assert fmt.reserved_bits(cfg) == ((1 << fmt.bits) - 1) - sum(1 << bit for bit in bits), fmt.name
        assert placed[0].offset == 0


@given(instructions())
def test_one_field_more_changes_only_its_own_bits(case):
    cfg, op, values = case
    for p in FORMATS[op].place(cfg)[1:]:
        alone = FORMATS[op].pack(cfg, {p.field.name: values[p.field.name]})
        mask = ((1 << p.width) - 1) << p.offset
        assert alone & ~mask == 0
        assert (alone >> p.offset) == values[p.field.name] % (1 << p.width)


def reference_decode(cfg: VTAConfig, word: int) -> bool:
    """Whether a word is an instruction: listed values known, no bit outside the fields."""
    fmt = FORMATS[Opcode(word & 7)]
    for p in fmt.place(cfg):
        if p.field.members is not None and (word >> p.offset) % (1 << p.width) not in [int(m) for m in p.field.members]:
            return False
        word &= ~(((1 << p.width) - 1) << p.offset)
    return word == 0


WORDS = st.integers(0, (1 << 128) - 1) | st.sets(st.integers(0, 127), max_size=5).map(lambda bits: sum(1 << bit for bit in bits))


@given(configs(), WORDS)
def test_any_word_is_an_instruction_or_an_encoding_error(cfg, word):
    try:
        insn = decode(cfg, word)
    except EncodingError:
        assert not reference_decode(cfg, word)
    else:
        assert reference_decode(cfg, word)
        assert encode(cfg, FORMATS[insn.op].name, **insn.fields) == word
    assert asm(disasm(word, cfg), cfg) == word
    assert asm(disasm(word, cfg, comment=True), cfg) == word


@given(instructions(), st.data())
def test_a_value_out_of_range_names_the_field_and_its_range(case, data):
    cfg, op, values = case
    name = FORMATS[op].name
    p = data.draw(st.sampled_from([p for p in FORMATS[op].place(cfg) if p.field.members is None]))
    low, high = (-(1 << p.width - 1), (1 << p.width - 1) - 1) if p.field.kind is Kind.INT else (0, (1 << p.width) - 1)
    bad = data.draw(st.sampled_from([low - 1, high + 1]) | st.integers(max_value=low - 1) | st.integers(min_value=high + 1))
    with raises(EncodingError, f"{name}.{p.field.name} … {bad} … {low} to {high} …"):
        encode(cfg, name, **values | {p.field.name: bad})


def test_the_immediate_and_the_value_of_pads_are_signed():
    signed = [(op.name, f.name) for op, fmt in FORMATS.items() for f in fmt.fields if f.kind is Kind.INT]
    assert signed == [("ALU", "imm"), ("PAD_LOAD", "pad_value")]
    assert [f.name for f in UOP.fields if f.kind is Kind.INT] == []


@pytest.mark.parametrize(("op", "fields", "message"), [
    ("load", {"x_size": 65536}, "load.x_size … 65536 … 0 to 65535 …"),
    ("load", {"dram_base": -1}, "load.dram_base is -1 and must be from 0 to 4294967295 (32 bits)"),
    ("store", {"x_pad_1": 16}, "store.x_pad_1 is 16 and must be from 0 to 15 (4 bits)"),
    ("gemm", {"uop_end": 16384}, "gemm.uop_end is 16384 and must be from 0 to 16383 (14 bits)"),
    ("gemm", {"wgt_in": 1024}, "gemm.wgt_in is 1024 and must be from 0 to 1023 (10 bits)"),
    ("gemm", {"reset": 2}, "gemm.reset is 2 and must be from 0 to 1 (1 bits)"),
    ("alu", {"imm": 32768}, "alu.imm is 32768 and must be from -32768 to 32767 (16 bits)"),
    ("alu", {"imm": -32769}, "alu.imm is -32769 and must be from -32768 to 32767 (16 bits)"),
    ("load", {"memory_type": 6}, "load.memory_type … 6 … known: UOP 0, WGT 1, INP 2, ACC 3, OUT 4, ACC_8BIT 5"),
    ("alu", {"alu_opcode": 5}, "alu.alu_opcode is 5; known: MIN 0, MAX 1, ADD 2, SHR 3, MUL 4"),
    ("finish", {"push_next": 2}, "finish.push_next is 2 and must be from 0 to 1 (1 bits)"),
])
def test_a_value_that_does_not_fit_is_refused(op, fields, message):
    with raises(EncodingError, message):
        encode(DEFAULT, op, **fields)


def test_a_value_that_is_no_integer_is_refused():
    with raises(EncodingError, "gemm.iter_in is 2.5 and must be an integer"):
        encode(DEFAULT, "gemm", iter_in=2.5)
    with raises(EncodingError, "load.x_size is '3' and must be an integer"):
        encode(DEFAULT, "load", x_size="3")


def test_numpy_integers_are_integers():
    assert encode(DEFAULT, "gemm", iter_in=np.int64(5), iter_out=np.uint16(3)) == encode(DEFAULT, "gemm", iter_in=5, iter_out=3)


def test_the_opcode_cannot_be_given_beside_the_instructions_name():
    with raises(EncodingError, "load.opcode is given by the instruction's name"):
        encode(DEFAULT, "load", opcode=4)


@pytest.mark.parametrize(("op", "field", "message"), [
    ("load", "xsize", (
        "load has no field 'xsize'; did you mean 'x_size'? Known: dram_base, memory_type, opcode, pop_next, pop_prev, "
        "push_next, push_prev, sram_base, x_pad_0, x_pad_1, x_size, x_stride, y_pad_0, y_pad_1, y_size")),
    ("finish", "reset", "finish has no field 'reset'; known: opcode, pop_next, pop_prev, push_next, push_prev"),
    ("alu", "wgt_in", (
        "alu has no field 'wgt_in'; did you mean 'dst_in'? Known: alu_opcode, dst_in, dst_out, imm, iter_in, "
        "iter_out, opcode, pop_next, pop_prev, push_next, push_prev, src_in, src_out, uop_bgn, uop_end, use_imm")),
])
def test_an_unknown_field_is_refused_with_the_nearest(op, field, message):
    with raises(EncodingError, message):
        encode(DEFAULT, op, **{field: 1})


def test_an_unknown_instruction_is_refused_with_the_nearest():
    known = "alu, dwconv, finish, gemm, load, pad_load, requant, store"
    with raises(EncodingError, f"unknown instruction 'stor'; did you mean 'store'? Known: {known}"):
        encode(DEFAULT, "stor")
    with raises(EncodingError, f"unknown instruction 'xyz'; known: {known}"):
        encode(DEFAULT, "xyz")


def test_a_micro_op_that_does_not_fit_is_refused():
    with raises(EncodingError, "uop.wgt is 1024 and must be from 0 to 1023 (10 bits)"):
        encode_uop(DEFAULT, wgt=1024)
    with raises(EncodingError, "uop.dst is 32 and must be from 0 to 31 (5 bits)"):
        encode_uop(NAMED["tiny"], dst=32)


@pytest.mark.parametrize(("word", "message"), [
    ((1 << 128) - 1, "dwconv has reserved bits set: 0xffffe000000000008000000000000000"),
    (7 | 1 << 127, "dwconv has reserved bits set: 0x80000000000000000000000000000000"),
    (6 << 7, "load.memory_type … 6 … known: UOP 0, WGT 1, INP 2, ACC 3, OUT 4, ACC_8BIT 5"),
    (1 | 7 << 7, "store.memory_type … 7 … known: UOP 0, WGT 1, INP 2, ACC 3, OUT 4, ACC_8BIT 5"),
    (4 | 5 << 108, "alu.alu_opcode is 5; known: MIN 0, MAX 1, ADD 2, SHR 3, MUL 4"),
    (3 | 1 << 7, "finish has reserved bits set: 0x00000000000000000000000000000080"),
    (3 | 1 << 127, "finish has reserved bits set: 0x80000000000000000000000000000000"),
    (0 | 1 << 58 | 1 << 63, "load has reserved bits set: 0x00000000000000008400000000000000"),
    (4 | 1 << 7, "alu has reserved bits set: 0x00000000000000000000000000000080"),
    (3 | 1 << 128, "finish has 128 bits, but 0x100000000000000000000000000000003 has 129"),
])
def test_a_word_that_is_no_instruction_says_why(word, message):
    with raises(EncodingError, message):
        decode(DEFAULT, word)


@given(configs(), st.sampled_from(Opcode), st.data())
def test_every_reserved_bit_alone_is_refused_by_every_reader(cfg, op, data):
    reserved = [bit for bit in range(128) if FORMATS[op].reserved_bits(cfg) >> bit & 1]
    assume(reserved)  # GEMM of the default configuration has none
    bit = data.draw(st.sampled_from(reserved))
    word = encode(cfg, FORMATS[op].name) | 1 << bit
    with raises(EncodingError, f"{FORMATS[op].name} has reserved bits set: 0x{1 << bit:032x}"):
        decode(cfg, word)
    assert Decoded(cfg, to_bytes([word])).reserved.tolist() == [True]


def test_bytes_that_are_no_whole_number_of_instructions_are_refused():
    with raises(ProgramError, "17 bytes are not a whole number of 16-byte instructions"):
        from_bytes(bytes(17))
    assert from_bytes(b"") == ()


def test_a_format_whose_fields_do_not_fit_is_refused():
    wide = Format(name="wide", doc="", bits=8, items=(
        Field(name="a", width=5, doc=""), Field(name="b", width="uop_end_bits", doc="")))
    with raises(EncodingError, f"wide.b ends at bit 19 but wide has only 8 bits for {DEFAULT}"):
        wide.place(DEFAULT)
    late = Format(name="late", doc="", bits=32, items=(
        Field(name="a", width=9, doc=""), Align(8), Field(name="b", width=1, doc="")))
    with raises(EncodingError, f"late: the fields before bit 8 end at bit 9 for {DEFAULT}"):
        late.place(DEFAULT)
