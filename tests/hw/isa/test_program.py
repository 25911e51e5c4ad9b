"""Programs: what cannot be one, which device may run one, and where linking puts its parts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import configs, programs, raises

from vtakit.hw.isa import program as program_module
from vtakit.hw.isa.codec import decode, encode, encode_uop, from_bytes, to_bytes
from vtakit.hw.isa.config import DEFAULT, NAMED, VTAConfig
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.insns import MEMORIES, Feature, MemType
from vtakit.hw.isa.program import UOPS, Buffer, BufferKind, Part, Program, Relocation, dotted

FINISH = 3
LOAD_INP = encode(DEFAULT, "load", memory_type=MemType.INP)


def three_buffers(**changes: object) -> Program:
    """Two instructions, three micro-ops and three buffers of 100, 64 and 1 bytes."""
    return replace(Program(
        config=DEFAULT, insns=(LOAD_INP, FINISH), uops=(1, 2, 3),
        buffers=(
            Buffer(name="image", size_bytes=100),
            Buffer(name="table", size_bytes=64, kind=BufferKind.CONST, data=bytes(range(64))),
            Buffer(name="result", size_bytes=1, kind=BufferKind.OUTPUT),
        ),
    ), **changes)


@pytest.mark.parametrize(("fields", "message"), [
    ({"name": "1a", "size_bytes": 1}, "buffer name '1a' must be an identifier other than 'uops'"),
    ({"name": "", "size_bytes": 1}, "buffer name '' must be an identifier other than 'uops'"),
    ({"name": "a b", "size_bytes": 1}, "buffer name 'a b' must be an identifier other than 'uops'"),
    ({"name": "uops", "size_bytes": 1}, "buffer name 'uops' must be an identifier other than 'uops'"),
    ({"name": "a", "size_bytes": -1}, "buffer 'a' has a negative size, -1 bytes"),
    ({"name": "a", "size_bytes": 4, "kind": BufferKind.CONST}, "constant buffer 'a' has no data"),
    ({"name": "a", "size_bytes": 4, "data": b"abc"}, "buffer 'a' has 4 bytes but 3 bytes of data"),
    ({"name": "a", "size_bytes": 0, "data": b"abc"}, "buffer 'a' has 0 bytes but 3 bytes of data"),
])
def test_a_buffer_that_cannot_be(fields, message):
    with raises(ProgramError, message):
        Buffer(**fields)


@pytest.mark.parametrize(("changes", "message"), [
    ({"insns": (FINISH, 1 << 128)}, f"instruction 1 is {1 << 128:#x}, which is not a word of 128 bits"),
    ({"insns": (-1,)}, "instruction 0 is -0x1, which is not a word of 128 bits"),
    ({"uops": (0, 0, 1 << 32)}, "micro-op 2 is 0x100000000, which is not a word of 32 bits"),
    ({"buffers": (Buffer(name="a", size_bytes=1), Buffer(name="a", size_bytes=2))}, "two buffers are named 'a'"),
    ({"relocations": (Relocation(2, "image"),)}, "relocation … instruction 2 … program … 2"),
    ({"relocations": (Relocation(-1, "image"),)}, "relocation names instruction -1, but the program has 2"),
    ({"relocations": (Relocation(0, "imag"),)},
     "relocation of instruction 0: unknown buffer 'imag'; did you mean 'image'? Known: image, result, table, uops"),
    ({"relocations": (Relocation(0, "image"), Relocation(0, "uops"))}, "instruction 0 is relocated twice"),
    ({"relocations": (Relocation(1, "image"),)}, "relocation names instruction 1, a finish, not a load or store"),
    ({"relocations": (Relocation(0, "image", "conv"),)},
     "relocation … instruction 0 … 'conv' in 'image' … identifier … scratch buffer"),
    ({"parts": (Part("a", 1), Part("a", 2))}, "two parts have one name: a, a"),
    ({"parts": (Part("a", 1),)}, "… parts … 2 instructions … in order … 2: a 1"),
    ({"parts": (Part("a", 2), Part("b", 1), Part("c", 2))},
     "… parts … 2 instructions … in order … 2: a 2, b 1, c 2"),
    ({"parts": (Part("a", -1), Part("b", 2))},
     "… parts … 2 instructions … in order … 2: a -1, b 2"),
])
def test_a_program_that_cannot_be(changes, message):
    with raises(ProgramError, message):
        three_buffers(**changes)


@pytest.mark.parametrize("name", ["", "a b", "a;", "a\n", "\0"])
def test_a_part_whose_name_text_could_not_hold(name):
    with raises(ProgramError, f"… name … part … printable … without spaces … ';' … {name!r}"):
        Part(name, 1)


def test_the_largest_words_are_words():
    program = three_buffers(insns=((1 << 128) - 1, 0), uops=((1 << 32) - 1, 0))
    assert from_bytes(bytes(program.link().dram[:32])) == ((1 << 128) - 1, 0)


def test_a_buffer_is_found_by_name():
    assert three_buffers().buffer("table").size_bytes == 64
    with raises(ProgramError, "the program has no buffer 'tabel'; did you mean 'table'? Known: image, result, table"):
        three_buffers().buffer("tabel")
    with raises(ProgramError, "the program has no buffer 'a'; known: "):
        Program(config=DEFAULT, insns=()).buffer("a")


def test_new_contents_of_a_buffer_make_a_new_program():
    before = three_buffers()
    after = before.with_data("table", bytes(64))
    assert after.buffer("table").data == bytes(64)
    assert before.buffer("table").data == bytes(range(64))
    assert [b for b in after.buffers if b.name != "table"] == [b for b in before.buffers if b.name != "table"]
    with raises(ProgramError, "buffer 'table' has 64 bytes but 63 bytes of data"):
        before.with_data("table", bytes(63))
    with raises(ProgramError, "the program has no buffer 'b'; known: image, result, table"):
        before.with_data("b", b"")


def test_features_are_those_of_all_instructions():
    mul = encode(DEFAULT, "alu", alu_opcode=4)
    acc8 = encode(DEFAULT, "load", memory_type=MemType.ACC_8BIT)
    words_that_are_none = (7 | 1 << 127, encode(DEFAULT, "alu", alu_opcode=4) | 1 << 7)
    assert three_buffers().features == Feature(0)
    assert three_buffers(insns=(mul, FINISH)).features == Feature.ALU_MUL
    assert three_buffers(insns=(acc8, mul, mul, FINISH)).features == Feature.ALU_MUL | Feature.ACC_8BIT
    assert three_buffers(insns=words_that_are_none).features == Feature(0)
    assert three_buffers(insns=()).features == Feature(0)


def test_a_device_that_cannot_run_the_program_is_refused():
    program = three_buffers(insns=(
        encode(DEFAULT, "alu", alu_opcode=4), encode(DEFAULT, "load", memory_type=MemType.ACC_8BIT), FINISH))
    program.require(DEFAULT)
    with raises(ProgramError, "… program … another configuration … device: LOG_BATCH 0 (device 1)"):
        program.require(NAMED["b2x16"])
    with raises(ProgramError, "… program … another configuration … device: LOG_INP_WIDTH 3 (device 2), "
                              "LOG_WGT_WIDTH 3 (device 2), LOG_INP_BUFF_SIZE 15 (device 14), LOG_WGT_BUFF_SIZE 18 (device 17)"):
        program.require(NAMED["i4w4"])
    with raises(ProgramError, "the program needs ALU_MUL, which the device lacks"):
        program.require(DEFAULT, features=Feature.ACC_8BIT)
    with raises(ProgramError, "the program needs ALU_MUL, ACC_8BIT, which the device lacks"):
        program.require(DEFAULT, features=Feature(0))


@pytest.mark.parametrize(("needs", "has", "runs"), [
    ((1, 0), (1, 0), True), ((1, 0), (1, 7), True), ((1, 3), (1, 3), True),
    ((1, 1), (1, 0), False), ((2, 0), (1, 9), False), ((1, 0), (2, 0), False),
])
def test_a_device_runs_its_own_major_version_up_to_its_minor(needs, has, runs):
    program = three_buffers(isa_version=needs)
    if runs:
        program.require(DEFAULT, version=has)
    else:
        with raises(ProgramError, f"… program … ISA version {dotted(needs)} … device … {dotted(has)}"):
            program.require(DEFAULT, version=has)


def test_linking_places_code_micro_ops_and_buffers_in_order_each_aligned():
    image = three_buffers().link({"image": b"\xaa" * 100, "result": b"\xbb"})
    # The largest element of the default is a weight tile of 256 bytes.
    assert (image.insn_addr, image.insn_count) == (0, 2)
    assert dict(image.addresses) == {"uops": 256, "image": 512, "table": 768, "result": 1024}
    want = bytearray(1025)
    want[0:32] = to_bytes([LOAD_INP, FINISH])
    want[256:268] = bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])
    want[512:612] = b"\xaa" * 100
    want[768:832] = bytes(range(64))
    want[1024:1025] = b"\xbb"
    assert image.dram == want


def test_linking_from_a_base_leaves_what_lies_below_zero():
    image = three_buffers().link(base=300)
    assert (image.insn_addr, dict(image.addresses)) == (512, {"uops": 768, "image": 1024, "table": 1280, "result": 1536})
    assert image.dram[:512] == bytes(512)
    assert len(image.dram) == 1537


def test_linking_from_a_negative_base_is_refused():
    with raises(ProgramError, "the base address of a link is -64 and must be at least 0"):
        three_buffers().link(base=-64)
    with raises(ProgramError, "the base address of a link is -5000 and must be at least 0"):
        three_buffers().link(base=-5000)


def test_small_elements_are_aligned_to_64_bytes():
    program = Program(config=NAMED["tiny"], insns=(FINISH,), uops=(1,), buffers=(Buffer(name="a", size_bytes=1),))
    assert program.link().addresses == {"uops": 64, "a": 128}


def test_contents_replace_data_from_the_start_and_the_rest_is_zero():
    assert three_buffers().link({"table": b"\xff\xfe"}).dram[768:832] == b"\xff\xfe" + bytes(62)
    assert three_buffers().link({"image": b"\xff\xfe"}).dram[512:612] == b"\xff\xfe" + bytes(98)
    assert three_buffers().link({"image": b""}).dram[512:612] == bytes(100)
    assert three_buffers().link().dram[512:612] == bytes(100)


@pytest.mark.parametrize(("contents", "message"), [
    ({"image": bytes(101)}, "buffer 'image' holds 100 bytes, got 101"),
    ({"result": bytes(2)}, "buffer 'result' holds 1 bytes, got 2"),
    ({"imgae": b""}, "the program has no buffer 'imgae'; did you mean 'image'? Known: image, result, table"),
    ({"uops": b""}, "the program has no buffer 'uops'; known: image, result, table"),
    ({"": b""}, "the program has no buffer ''; known: image, result, table"),
])
def test_contents_that_do_not_fit_are_refused(contents, message):
    with raises(ProgramError, message):
        three_buffers().link(contents)


@pytest.mark.parametrize("kind", MemType)
def test_a_relocated_instruction_counts_in_its_own_elements(kind):
    op = "store" if kind is MemType.OUT else "load"
    program = Program(
        config=DEFAULT, buffers=(Buffer(name="a", size_bytes=4096), Buffer(name="b", size_bytes=4096)),
        insns=(encode(DEFAULT, op, memory_type=kind, dram_base=5, x_size=7), encode(DEFAULT, op, memory_type=kind, dram_base=5)),
        relocations=(Relocation(0, "b"),),
    )
    image = program.link()
    first, second = from_bytes(bytes(image.dram[:32]))
    assert image.addresses == {"uops": 256, "a": 256, "b": 256 + 4096}  # there are no micro-ops
    element_bytes = {"UOP": 4, "WGT": 256, "INP": 16, "ACC": 64, "OUT": 16, "ACC_8BIT": 16}[kind.name]
    assert decode(DEFAULT, first)["dram_base"] == 5 + image.addresses["b"] // element_bytes
    assert decode(DEFAULT, first)["x_size"] == 7
    assert second == program.insns[1]


def test_micro_ops_have_the_symbol_uops():
    word = encode(DEFAULT, "load", memory_type=MemType.UOP, dram_base=1)
    program = Program(config=DEFAULT, insns=(word,), uops=(1, 2), relocations=(Relocation(0, UOPS),))
    image = program.link(base=1024)
    assert image.addresses[UOPS] == 1280
    assert decode(DEFAULT, from_bytes(bytes(image.dram[1024:1040]))[0])["dram_base"] == 1280 // 4 + 1


def test_a_relocation_beyond_the_address_field_is_refused():
    word = encode(DEFAULT, "load", memory_type=MemType.INP, dram_base=(1 << 32) - 1)
    with raises(ProgramError, "instruction 0 cannot … 'image' … load.dram_base … 4294967327 … 0 to 4294967295 …"):
        three_buffers(insns=(word, FINISH), relocations=(Relocation(0, "image"),)).link()


@pytest.mark.parametrize(("addresses", "why"), [
    ({"image": 256}, "instruction 0 cannot be relocated: buffer 'uops' has no address"),
    ({"uops": 4, "image": 256}, "buffer 'uops' lies at byte 4, which is no multiple of 256"),
])
def test_addresses_that_instructions_cannot_take_are_refused(addresses, why):
    load = encode(DEFAULT, "load", memory_type=MemType.UOP)
    program = three_buffers(relocations=(Relocation(0, "uops"),), insns=(load, FINISH))
    with raises(ProgramError, why):
        program.relocated(addresses)


def test_more_dram_than_any_device_has_is_refused():
    with raises(ProgramError, f"… program … {1024 + (1 << 41)} bytes of DRAM … more than {1 << 40}"):
        three_buffers(buffers=(Buffer(name="a", size_bytes=1 << 41),)).link(base=300)


@pytest.mark.parametrize("size", [1 << 38, 1 << 39])
def test_more_dram_than_this_machine_has_is_not_asked_for(monkeypatch, size):
    """A system may grant more memory than there is, and end the process once it is used."""
    monkeypatch.setattr(program_module, "bytearray", lambda size: pytest.fail("it is asked for"), raising=False)
    with raises(ProgramError, f"… program … {size + 512} bytes of DRAM … more than this machine has"):
        three_buffers(buffers=(Buffer(name="a", size_bytes=size),)).link()


def test_more_dram_than_this_machine_has_is_refused(monkeypatch):
    def no_memory(size):
        raise MemoryError

    monkeypatch.setattr(program_module, "bytearray", no_memory, raising=False)
    with raises(ProgramError, "the program needs 1025 bytes of DRAM, more than this machine has"):
        three_buffers().link()


@st.composite
def small_programs(draw: st.DrawFn) -> Program:
    """Programs whose buffers fit into memory and whose relocated loads fit into their field."""
    program = draw(programs())
    small = tuple(replace(b, size_bytes=b.size_bytes % 5000) if b.data is None else b for b in program.buffers)
    insns = list(program.insns)
    for entry in program.relocations:
        insn = decode(program.config, insns[entry.insn])
        fields = dict(insn.fields) | {"dram_base": insn["dram_base"] % (1 << 29)}
        insns[entry.insn] = encode(program.config, insn.op.name.lower(), **fields)
    return replace(program, buffers=small, insns=tuple(insns))


@given(small_programs(), st.integers(0, 10_000))
def test_parts_are_aligned_apart_and_unchanged_wherever_they_are_linked(program, base):
    image = program.link(base=base)
    cfg: VTAConfig = program.config
    sizes = {"code": 16 * len(program.insns), UOPS: 4 * len(program.uops)} | {b.name: b.size_bytes for b in program.buffers}
    starts = {"code": image.insn_addr} | dict(image.addresses)
    assert starts.keys() == sizes.keys()
    end = base
    for name, start in starts.items():
        assert start >= end
        assert start - end < max(64, cfg.wgt_bytes, cfg.acc_bytes, cfg.inp_bytes, cfg.acc8_bytes)
        assert all(start % memory.bytes_in(cfg) == 0 and start % 64 == 0 for memory in MEMORIES.values())
        end = start + sizes[name]
    assert len(image.dram) == end
    relocated = {entry.insn: entry.symbol for entry in program.relocations}
    for index, word in enumerate(from_bytes(bytes(image.dram[image.insn_addr : image.insn_addr + sizes["code"]]))):
        if index not in relocated:
            assert word == program.insns[index]
            continue
        before, after = decode(cfg, program.insns[index]), decode(cfg, word)
        element = MEMORIES[MemType(before["memory_type"])].bytes_in(cfg)
        assert (after["dram_base"] - before["dram_base"]) * element == image.addresses[relocated[index]]
        assert dict(after.fields) | {"dram_base": 0} == dict(before.fields) | {"dram_base": 0}
    for buffer in program.buffers:
        start = image.addresses[buffer.name]
        want = bytes(buffer.size_bytes) if buffer.data is None else buffer.data
        assert image.dram[start : start + buffer.size_bytes] == want


@given(configs(), st.data())
def test_micro_ops_lie_in_dram_as_little_endian_words(cfg, data):
    values = {name: data.draw(st.integers(0, (1 << width) - 1)) for name, width in (
        ("dst", cfg.acc_depth_log2), ("src", cfg.src_depth_log2), ("wgt", cfg.wgt_depth_log2))}
    word = encode_uop(cfg, **values)
    image = Program(config=cfg, insns=(), uops=(word,)).link()
    assert int.from_bytes(image.dram[image.addresses[UOPS] :], "little") == word


def test_versions_are_dotted():
    assert dotted((1, 12)) == "1.12"
