"""Assembly: text and words, whole programs and text, in both directions; and text that is wrong in every way."""

from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support import configs, flag_names, instructions, programs, raises

from vtakit.hw.isa.asm import asm, asm_program, disasm, disasm_program
from vtakit.hw.isa.codec import encode, encode_uop
from vtakit.hw.isa.config import DEFAULT, NAMED
from vtakit.hw.isa.errors import AsmError, ProgramError
from vtakit.hw.isa.insns import FORMATS, UOP
from vtakit.hw.isa.program import UOPS, Buffer, BufferKind, Program, Relocation

ALL_NAMES = ", ".join(sorted(NAMED))
LOAD_FIELDS = (
    "dram_base, pop_next, pop_prev, push_next, push_prev, sram_base, x_pad_0, x_pad_1, x_size, x_stride, y_pad_0, y_pad_1, y_size"
)

# Each line with its word, in the default configuration: worked encodings of ISA.md section 4.
LINES = {
    "load.inp sram_base=18 dram_base=3430008 y_size=4 x_size=5 x_stride=16 y_pad_0=1 y_pad_1=2 x_pad_0=3 x_pad_1=4 pop_next "
    "push_next": 0x43210010000500040000D159E0004950,
    "store.out sram_base=7 dram_base=4096 y_size=2 x_size=3 x_stride=8 pop_prev push_prev": 0x00000008000300020000004000001E29,
    "gemm uop_bgn=3 uop_end=9 iter_out=14 iter_in=28 dst_out=28 dst_in=1 src_out=30 src_in=2 wgt_out=9 pop_prev push_prev "
    "push_next": 0x000090040780081C003800700120036A,
    "gemm uop_end=1 iter_out=1 iter_in=64 dst_in=1 push_prev reset": 0x000000000000080000800008002000A2,
    "alu.shr uop_bgn=5 uop_end=6 iter_out=2 iter_in=8 dst_out=8 dst_in=1 src_out=8 src_in=1 imm=-3 use_imm":
        0xFFFDB002020008080010001000C00504,
    "alu.add uop_end=4 iter_out=1 iter_in=7 dst_in=4 src_in=4 push_next": 0x0000200800002000000E000800800044,
    "load.uop pop_prev pop_next": 0x18,
    "requant.out sram_base=7 dram_base=4096 y_size=2 x_size=3 x_stride=8 params=2045 pop_prev push_prev":
        0x07FD0008000300020000004000001E2D,
    "gemm uop_end=1 iter_out=1 iter_in=64 dst_in=1 push_prev overwrite": 0x00000000000008008080000800200022,
    "finish": 3,
    ".word 0x80000000000000000000000000000007": 7 | 1 << 127,
    ".word 0xffffffffffffffffffffffffffffffff": (1 << 128) - 1,
}

SAME = {  # another way to write it: what `disasm` writes
    "  gemm\tuop_end=0x1   reset=1 iter_in=0b10 iter_out=0o7;anything": "gemm uop_end=1 iter_out=7 iter_in=2 reset",
    "finish ; finish": "finish",
    "alu.min push_next=0 imm=-0x8000": "alu.min imm=-32768",
    ".word 3": "finish",
    "load.uop dram_base=+1_000": "load.uop dram_base=1000",
}

COMMENTS = {  # ISA.md's worked examples with what they do
    "load.inp sram_base=18 y_size=4 x_size=5 y_pad_0=1 y_pad_1=2 x_pad_0=3 x_pad_1=4":
        "load: 4 x 5 padded to 7 x 12 elements to inp[18:102]",
    "load.uop sram_base=3 y_size=1 x_size=9": "compute: 1 x 9 elements to uop[3:12]",
    "load.acc_8bit y_size=2 x_size=3": "compute: 2 x 3 elements to acc[0:6]",
    "store.out sram_base=7 y_size=2 x_size=3": "store: 2 x 3 elements from acc[7:13]",
    "requant.out sram_base=7 y_size=2 x_size=3 params=2045":
        "store: 2 x 3 elements from acc[7:13], requantized by acc[2045:2048]",
    "gemm uop_end=1 iter_out=1 iter_in=64 overwrite": "compute: overwrite 64 tiles (1 x 64 x 1 micro-ops)",
    "load.wgt x_pad_0=1": "load: tokens only",
    "gemm uop_bgn=3 uop_end=9 iter_out=14 iter_in=28": "compute: multiply 2352 tiles (14 x 28 x 6 micro-ops)",
    "gemm uop_end=1 iter_out=1 iter_in=64 reset": "compute: reset 64 tiles (1 x 64 x 1 micro-ops)",
    "gemm uop_bgn=2 uop_end=1 iter_out=1 iter_in=1": "compute: tokens only",
    "alu.shr uop_end=4 iter_out=2 iter_in=8": "compute: SHR 64 tiles (2 x 8 x 4 micro-ops)",
    "alu.mul iter_out=2 iter_in=8": "compute: tokens only",
    "finish": "compute: raise done",
    ".word 0x80000000000000000000000000000007": "dwconv has reserved bits set: 0x80000000000000000000000000000000",
    "dwconv rows=3 columns=8 x_first=2 src_row=9 src_column=1 dst_column=1": "compute: 3 x 9 tiles through a window",
    "dwconv columns=8": "compute: tokens only",
    "pad_load.inp pad_value=-7 y_size=2 x_size=3 y_pad_1=1 x_pad_0=1": "load: 2 x 3 padded to 3 x 4 elements to inp[0:12]",
    "requant.out y_size=1 x_size=3 params=8 lookup":
        "store: 1 x 3 elements from acc[0:3], requantized by acc[8:11], looked up in the table behind it",
    ".word 0x00000000000000000000000000000083": "finish has reserved bits set: 0x00000000000000000000000000000080",
}

WRONG = {  # one instruction
    "": "there is no instruction on the line",
    "   ; only a comment": "there is no instruction on the line",
    "gem": "unknown instruction 'gem'; did you mean 'gemm'? Known: alu, dwconv, finish, gemm, load, pad_load, requant, store",
    "xyzzy x": "unknown instruction 'xyzzy'; known: alu, dwconv, finish, gemm, load, pad_load, requant, store",
    "GEMM": "unknown instruction 'GEMM'; known: alu, dwconv, finish, gemm, load, pad_load, requant, store",
    "load": "load needs a memory_type after a dot, got 'load'; known: acc, acc_8bit, inp, out, uop, wgt",
    "load.input": "load needs a memory_type after a dot, got 'load.input'; did you mean 'inp'? Known: acc, acc_8bit, inp, out, "
                  "uop, wgt",
    "alu.": "alu needs a alu_opcode after a dot, got 'alu.'; known: add, max, min, mul, shr",
    "gemm.reset": "gemm takes no suffix, got 'gemm.reset'",
    "finish.now": "finish takes no suffix, got 'finish.now'",
    "gemm.": "gemm takes no suffix, got 'gemm.'",
    "load.inp xsize=3": f"load has no field 'xsize'; did you mean 'x_size'? Known: {LOAD_FIELDS}",
    "load.inp opcode=3": f"load has no field 'opcode'; known: {LOAD_FIELDS}",
    "load.inp memory_type=3": f"load has no field 'memory_type'; known: {LOAD_FIELDS}",
    "finish =": "finish has no field ''; known: pop_next, pop_prev, push_next, push_prev",
    "load.inp x_size=3 x_size=3": "load.x_size is given twice",
    "gemm reset reset": "gemm.reset is given twice",
    "load.inp x_size": "load.x_size needs a value: x_size=…",
    "load.inp x_size=": "load.x_size is '', which is not a number",
    "load.inp x_size=three": "load.x_size is 'three', which is not a number",
    "load.inp x_size=3.5": "load.x_size is '3.5', which is not a number",
    "load.inp x_size=007": "load.x_size is '007', which is not a number",
    "load.inp x_size=@image": "load.x_size is '@image', which is not a number",
    "gemm reset=yes": "gemm.reset is 'yes', which is not a number",
    "load.inp x_size=" + "9" * 65: f"load.x_size is '{'9' * 40}', which is not a number",
    "load.inp x_size=65536": "load.x_size is 65536 and must be from 0 to 65535 (16 bits)",
    "load.inp dram_base=-1": "load.dram_base is -1 and must be from 0 to 4294967295 (32 bits)",
    "gemm reset=2": "gemm.reset is 2 and must be from 0 to 1 (1 bits)",
    "load.inp dram_base=@image+4": "@image needs a whole program; a single instruction takes a number",
    ".word": ".word takes one number of 128 bits",
    ".word 1 2": ".word takes one number of 128 bits",
    ".word -1": ".word takes one number of 128 bits",
    f".word {1 << 128:#x}": ".word takes one number of 128 bits",
    ".word x": ".word is 'x', which is not a number",
}

WRONG_PROGRAM = {
    ".isa 2.0": "line 1: the text is for ISA 2.0; this vtakit knows 1.0",
    ".isa 1.1": "line 1: the text is for ISA 1.1; this vtakit knows 1.0",
    ".isa 0.9": "line 1: the text is for ISA 0.9; this vtakit knows 1.0",
    ".isa 1.-1": "line 1: the text is for ISA 1.-1; this vtakit knows 1.0",
    ".isa": "line 1: .isa is '', which is not a number",
    ".isa one": "line 1: .isa is 'one', which is not a number",
    ".isa 1.x": "line 1: .isa is 'x', which is not a number",
    ".config": f"line 1: unknown configuration ''; known: {ALL_NAMES}, or a JSON object",
    ".config defualt": f"line 1: unknown configuration 'defualt'; did you mean 'default'? Known: {ALL_NAMES}, or a JSON object",
    ".config {": "line 1: .config is not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    '.config {"LOG_BLOCK": 8}': "line 1: .config: illegal configuration: LOG_BLOCK must be from 0 to 7, got 8",
    ".uop dst=1\n.config tiny": "line 2: .config must stand before the first micro-op",
    "finish\n.config tiny": "line 2: .config must stand before the first instruction",
    "finish\n.uop dst=1": "line 2: .uop must stand before the first instruction",
    ".word 5\n\n.buffer a input 1": "line 3: .buffer must stand before the first instruction",
    ".buffer a input": "line 1: .buffer takes a name, a kind and a size in bytes",
    ".buffer a input 4 5": "line 1: .buffer takes a name, a kind and a size in bytes",
    ".buffer a inptu 4": "line 1: unknown buffer kind 'inptu'; did you mean 'input'? Known: const, input, output, scratch",
    ".buffer a input four": "line 1: size of buffer 'a' is 'four', which is not a number",
    ".buffer a input 4\n.buffer a input 4": "line 2: buffer 'a' is declared twice",
    ".data": "line 1: .data names no declared buffer: ''; known: ",
    ".buffer image input 4\n.data imag 00": "line 2: .data names no declared buffer: 'imag'; did you mean 'image'? Known: image",
    ".buffer a input 1\n.data a 0": "line 2: .data of 'a' is not hexadecimal bytes",
    ".buffer a input 1\n.data a zz": "line 2: .data of 'a' is not hexadecimal bytes",
    ".buffer a input 1\n.data a 0001": "the program as a whole: buffer 'a' has 1 bytes but 2 bytes of data",
    ".buffer a const 1": "the program as a whole: constant buffer 'a' has no data",
    ".buffer a input -1": "the program as a whole: buffer 'a' has a negative size, -1 bytes",
    ".buffer 1a input 1": "the program as a whole: buffer name '1a' must be an identifier other than 'uops'",
    ".buffer uops input 1": "the program as a whole: buffer name 'uops' must be an identifier other than 'uops'",
    "load.inp dram_base=@b": "the program as a whole: relocation of instruction 0: unknown buffer 'b'; known: uops",
    "load.inp dram_base=@": "the program as a whole: relocation of instruction 0: unknown buffer ''; known: uops",
    ".buffer image input 1\nfinish\nload.inp dram_base=@imag": "the program as a whole: relocation of instruction 1: unknown "
                                                               "buffer 'imag'; did you mean 'image'? Known: image, uops",
    "load.inp dram_base=@uops+": "line 1: load.dram_base is '', which is not a number",
    "load.inp dram_base=@uops+-1": "line 1: load.dram_base is -1 and must be from 0 to 4294967295 (32 bits)",
    "gemm dst_in=@uops": "line 1: gemm.dst_in is '@uops', which is not a number",
    ".uop 4294967296": "line 1: .uop takes one number of 32 bits, or dst=, src= and wgt=",
    ".uop -1": "line 1: .uop takes one number of 32 bits, or dst=, src= and wgt=",
    ".uop 1 2": "line 1: .uop takes dst=, src= and wgt= once each, got '1'",
    ".uop dst=1 dst=1": "line 1: .uop takes dst=, src= and wgt= once each, got 'dst=1'",
    ".uop dst": "line 1: .uop is 'dst', which is not a number",
    ".uop dts=1": "line 1: .uop takes dst=, src= and wgt= once each, got 'dts=1'",
    ".uop dst=x": "line 1: .uop dst is 'x', which is not a number",
    ".uop wgt=1024": "line 1: uop.wgt is 1024 and must be from 0 to 1023 (10 bits)",
    ".config tiny\n.uop wgt=16": "line 2: uop.wgt is 16 and must be from 0 to 15 (4 bits)",
    ".confg tiny": "line 1: unknown directive '.confg'; did you mean '.config'? Known: .buffer, .config, .data, .isa, .part, "
                   ".uop, .word",
    ".": "line 1: unknown directive '.'; known: .buffer, .config, .data, .isa, .part, .uop, .word",
    "; a comment\n\nfinish\nfinsh": "line 4: unknown instruction 'finsh'; did you mean 'finish'? Known: alu, dwconv, finish, "
                                    "gemm, load, pad_load, requant, store",
    ".part": "line 1: .part takes a name without spaces",
    ".part a b": "line 1: .part takes a name without spaces",
    "finish\n.part a": "line 2: the first .part must stand before the first instruction",
    ".part a\nfinish\n.part a": "the program as a whole: two parts have one name: a, a",
    "\n.word": "line 2: .word takes one number of 128 bits",
}

TEXT = """\
.isa 1.0
.config tiny
.buffer image input 64
.buffer table const 33
.data table 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
.data table 20
.buffer nothing const 0
.data nothing
.buffer result output 128
.uop dst=1 src=2 wgt=3
.uop 0xffffffff
load.uop dram_base=@uops y_size=1 x_size=2
load.inp dram_base=@image+4 y_size=1 x_size=5 push_next
.word 0x00000000000000000000000000000083
gemm uop_end=1 iter_out=1 iter_in=1 pop_prev push_next
store.out dram_base=@result y_size=1 x_size=1 pop_prev
finish
"""

TEXT_WITH_COMMENTS = """\
.isa 1.0
.config tiny
.buffer image input 64
.buffer table const 33
.data table 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
.data table 20
.buffer nothing const 0
.data nothing
.buffer result output 128
.uop dst=1 src=2 wgt=3  ; 0
.uop 0xffffffff
; instruction 0
load.uop dram_base=@uops y_size=1 x_size=2  ; compute: 1 x 2 elements to uop[0:2]
load.inp dram_base=@image+4 y_size=1 x_size=5 push_next  ; load: 1 x 5 elements to inp[0:5]
.word 0x00000000000000000000000000000083  ; finish has reserved bits set: 0x00000000000000000000000000000080
gemm uop_end=1 iter_out=1 iter_in=1 pop_prev push_next  ; compute: multiply 1 tiles (1 x 1 x 1 micro-ops)
store.out dram_base=@result y_size=1 x_size=1 pop_prev  ; store: 1 x 1 elements from acc[0:1]
finish  ; compute: raise done
"""


def test_parts_stand_before_their_instructions():
    text = ".part conv\n.part nothing\nload.inp\ngemm\n.part pool/1\nfinish\n.part last\n"
    program = asm_program(text)
    assert [(part.name, part.end) for part in program.parts] == [("conv", 0), ("nothing", 2), ("pool/1", 3), ("last", 3)]
    assert disasm_program(program, comments=False).endswith(text)


def program_of_text() -> Program:
    tiny = NAMED["tiny"]
    return Program(
        config=tiny,
        insns=(
            encode(tiny, "load", memory_type=0, y_size=1, x_size=2),
            encode(tiny, "load", memory_type=2, dram_base=4, y_size=1, x_size=5, push_next=1),
            0x83,
            encode(tiny, "gemm", uop_end=1, iter_out=1, iter_in=1, pop_prev=1, push_next=1),
            encode(tiny, "store", memory_type=4, y_size=1, x_size=1, pop_prev=1),
            encode(tiny, "finish"),
        ),
        uops=(encode_uop(tiny, dst=1, src=2, wgt=3), 0xFFFFFFFF),
        buffers=(
            Buffer(name="image", size_bytes=64),
            Buffer(name="table", size_bytes=33, kind=BufferKind.CONST, data=bytes(range(33))),
            Buffer(name="nothing", size_bytes=0, kind=BufferKind.CONST, data=b""),
            Buffer(name="result", size_bytes=128, kind=BufferKind.OUTPUT),
        ),
        relocations=(Relocation(0, UOPS), Relocation(1, "image"), Relocation(4, "result")),
    )


@pytest.mark.parametrize("line", LINES)
def test_a_line_and_its_word(line):
    assert asm(line, DEFAULT) == LINES[line]
    assert disasm(LINES[line], DEFAULT) == line


@pytest.mark.parametrize("line", SAME)
def test_another_way_to_write_a_line(line):
    assert disasm(asm(line, DEFAULT), DEFAULT) == SAME[line]


@pytest.mark.parametrize("line", COMMENTS)
def test_a_comment_says_what_an_instruction_does(line):
    assert disasm(asm(line, DEFAULT), DEFAULT, comment=True) == f"{line}  ; {COMMENTS[line]}"


def test_a_symbol_stands_before_the_offset_from_it():
    word = encode(DEFAULT, "load", memory_type=2, dram_base=4, x_size=1)
    assert disasm(word, DEFAULT, symbol="image") == "load.inp dram_base=@image+4 x_size=1"
    assert disasm(encode(DEFAULT, "load", memory_type=2), DEFAULT, symbol="image") == "load.inp dram_base=@image"


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_says_what_would_be_right(line):
    with raises(AsmError, WRONG[line]):
        asm(line, DEFAULT)


@pytest.mark.parametrize("line", [line for line in WRONG if line.partition(";")[0].strip() and "@" not in line])
def test_a_wrong_line_in_a_program_has_its_number(line):
    with raises(AsmError, f"line 3: {WRONG[line]}"):
        asm_program(f"finish\n; comment\n{line}\nfinish")


@pytest.mark.parametrize("text", WRONG_PROGRAM)
def test_a_wrong_program_says_where_and_what(text):
    with raises(AsmError, WRONG_PROGRAM[text]):
        asm_program(text)


def test_a_whole_programs_text():
    assert disasm_program(program_of_text(), comments=False) == TEXT
    assert disasm_program(program_of_text()) == TEXT_WITH_COMMENTS
    assert asm_program(TEXT) == program_of_text()
    assert asm_program(TEXT_WITH_COMMENTS) == program_of_text()


def test_every_sixteenth_instruction_is_numbered():
    lines = disasm_program(Program(config=DEFAULT, insns=(3,) * 33)).splitlines()
    assert [at for at, line in enumerate(lines) if line.startswith(";")] == [2, 19, 36]
    assert [line for line in lines if line.startswith(";")] == ["; instruction 0", "; instruction 16", "; instruction 32"]


def test_text_without_a_configuration_takes_the_one_given():
    assert asm_program("finish").config == DEFAULT
    assert asm_program("finish", NAMED["tiny"]).config == NAMED["tiny"]
    assert asm_program(".config w4\nfinish", NAMED["tiny"]).config == NAMED["w4"]
    assert asm_program("").insns == ()


def test_a_configuration_without_a_name_is_written_as_json():
    cfg = replace(DEFAULT, log_uop_buff_size=10)
    text = disasm_program(Program(config=cfg, insns=()))
    assert text == (
        '.isa 1.0\n.config {"LOG_INP_WIDTH": 3, "LOG_WGT_WIDTH": 3, "LOG_ACC_WIDTH": 5, "LOG_BATCH": 0, "LOG_BLOCK": 4, '
        '"LOG_UOP_BUFF_SIZE": 10, "LOG_INP_BUFF_SIZE": 15, "LOG_WGT_BUFF_SIZE": 18, "LOG_ACC_BUFF_SIZE": 17}\n'
    )
    assert asm_program(text).config == cfg


def test_a_version_without_a_minor_number_is_its_first():
    assert asm_program(".isa 1\nfinish").isa_version == (1, 0)


@given(instructions())
def test_any_instruction_reads_back_in_any_order_of_its_operands(case):
    cfg, op, values = case
    word = encode(cfg, FORMATS[op].name, **values)
    mnemonic, *operands = disasm(word, cfg).split()
    assert asm(" ".join([mnemonic, *reversed(operands)]), cfg) == word
    given_flags = {operand for operand in operands if "=" not in operand}
    assert given_flags == {name for name in flag_names(FORMATS[op].fields) if values[name]}
    assert all(not operand.endswith("=0") for operand in operands)


@given(programs(), st.booleans())
def test_any_program_reads_back_to_an_equal_one(program, comments):
    text = disasm_program(program, comments=comments)
    again = asm_program(text)
    assert again == program
    assert disasm_program(again, comments=comments) == text


@given(configs(), st.integers(0, (1 << 32) - 1))
def test_a_micro_op_whose_bits_are_no_fields_reads_back(cfg, word):
    program = Program(config=cfg, insns=(), uops=(word,))
    line = disasm_program(program, comments=False).splitlines()[2]
    assert line.startswith(".uop 0x") == bool(word & UOP.reserved_bits(cfg))
    assert asm_program(disasm_program(program)).uops == (word,)


def test_relocations_read_back_whatever_their_order():
    load = encode(DEFAULT, "load", memory_type=2)
    program = Program(config=DEFAULT, insns=(load, load), relocations=(Relocation(1, UOPS), Relocation(0, UOPS)))
    assert asm_program(disasm_program(program)) == program


@pytest.mark.parametrize(("word", "message"), [
    (3, "relocation names instruction 0, a finish, not a load or store"),
    (2, "relocation names instruction 0, a gemm, not a load or store"),
    (7, "relocation names instruction 0, a dwconv, not a load or store"),
    (1 << 58, "instruction 0 cannot be relocated to 'uops': load has reserved bits set: 0x00000000000000000400000000000000"),
])
def test_a_relocation_that_text_would_lose_cannot_exist(word, message):
    with raises(ProgramError, message):
        Program(config=DEFAULT, insns=(word,), relocations=(Relocation(0, UOPS),))


def read_or_refuse(text: str) -> None:
    """Any text is a program, which its own text gives back, or an `AsmError`."""
    try:
        program = asm_program(text)
    except AsmError:
        return
    assert asm_program(disasm_program(program)) == program


WORDS_OF_TEXT = sorted({word for text in (TEXT_WITH_COMMENTS, *LINES, *WRONG, *WRONG_PROGRAM) for word in text.split()})


@given(st.text())
@example("\x00")
@example("\ud800 \ud800=1")
@example(".config " + '{"a":' * 50_000)
@example(".config {\"LOG_BLOCK\": " + "9" * 4400 + "}")
@example(".buffer a input " + "9" * 64)
@example("load.inp x_size=١٢")
@example(".uop " + "0x" + "f" * 60)
def test_any_text_is_a_program_or_refused(text):
    read_or_refuse(text)


@given(st.lists(st.lists(st.sampled_from(WORDS_OF_TEXT), max_size=5).map(" ".join), max_size=8).map("\n".join))
def test_any_words_of_the_language_are_a_program_or_refused(text):
    read_or_refuse(text)


@given(programs().map(disasm_program) | st.just(TEXT), st.data())
def test_text_with_a_few_changes_is_a_program_or_refused(text, data):
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        match data.draw(st.sampled_from(("insert", "delete", "repeat", "swap lines"))):
            case "insert":
                piece = data.draw(st.sampled_from(WORDS_OF_TEXT) | st.characters() | st.sampled_from(" \n;=@+.-0"))
                text = text[:at] + piece + text[at:]
            case "delete":
                text = text[:at] + text[at + data.draw(st.integers(1, 10)) :]
            case "repeat":
                text = text[: at + data.draw(st.integers(1, 60))] + text[at:]
            case _:
                lines = text.split("\n")
                first, second = data.draw(st.tuples(*[st.integers(0, len(lines) - 1)] * 2))
                lines[first], lines[second] = lines[second], lines[first]
                text = "\n".join(lines)
    read_or_refuse(text)


@given(configs(), st.text() | st.lists(st.sampled_from(WORDS_OF_TEXT), max_size=5).map(" ".join))
def test_any_line_is_an_instruction_or_refused(cfg, line):
    assume("\n" not in line)
    try:
        word = asm(line, cfg)
    except AsmError:
        return
    assert asm(disasm(word, cfg), cfg) == word
