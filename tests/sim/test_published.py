"""Devices of the published instruction set alone, on programs as the original's runtime emits them; and the rules for ours."""

import random
from dataclasses import replace

import pytest
from sim_support import ACC, CODE_AT, FINISH, INP, OUT, TINY, UOP, WGT, execute, insn, store
from support import raises

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.codec import encode, encode_uop, from_bytes, to_bytes
from vtakit.hw.isa.config import DEFAULT, INSN_BYTES, NAMED
from vtakit.hw.isa.errors import ConfigError, EncodingError
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import FORMATS, AluOp, MemType, Opcode
from vtakit.hw.isa.published import EXTENSIONS, VTAKIT, Ability, Isa, misplaced, overwrite_bit
from vtakit.sim import run_image
from vtakit.sim.checker import check_image
from vtakit.sim.faults import ProgramFault
from vtakit.sim.random_programs import RandomProgram, random_program

RTL = pytest.mark.xdist_group("rtl")
DEVICES = {"fsim": {"published": True}, "cycle": {"core": {"published": True}}, "rtl": {"core": {"published": True}}}
STRICT = Isa.parse("original")


def as_the_original(program: RandomProgram, seed: int) -> tuple[bytes, int, int]:
    """The same program behind its DRAM: an image, the address of its instructions, and their number.

    It has random bits of no field, STOREs that move nothing of any memory type, and a FINISH that takes the token of the last.
    """
    draw, cfg = random.Random(seed), program.config
    code = program.dram[program.insn_addr : program.insn_addr + program.insn_count * INSN_BYTES]
    *words, finish = from_bytes(code)
    for _ in range(draw.randint(1, 5)):
        words.insert(draw.randint(0, len(words)), encode(cfg, "store") | draw.randrange(8) << 7)
    words.append(encode(cfg, "store", push_prev=1) | draw.randrange(8) << 7)
    words.append(finish | encode(cfg, "finish", pop_next=1))
    for at, word in enumerate(words):
        opcode = Opcode(word & 7)
        free = FORMATS[opcode].reserved_bits(cfg) | (overwrite_bit(cfg) if opcode is Opcode.GEMM else 0)
        words[at] |= draw.getrandbits(128) & free
    return program.dram + to_bytes(words), len(program.dram), len(words)


def test_fsim_takes_what_the_originals_runtime_emits():
    for seed in range(200):
        cfg = NAMED[("tiny", "blk8", "default")[seed % 3]]
        plain = random_program(cfg, seed)
        image, at, count = as_the_original(plain, seed)
        want = run_image(plain.dram, plain.insn_addr, plain.insn_count, cfg, bases=plain.bases)
        got = run_image(image, at, count, cfg, bases=plain.bases, published=True)
        assert got.dram[: len(want.dram)] == want.dram, seed
        assert (got.acc == want.acc).all(), seed
        with pytest.raises(ProgramFault):
            run_image(image, at, count, cfg, bases=plain.bases)


@RTL
def test_the_hardware_and_the_cycle_model_take_it_too():
    for seed in range(40):
        plain = random_program(TINY, seed)
        image, at, count = as_the_original(plain, seed)
        fsim, cycle, rtl = (run_image(image, at, count, TINY, name, bases=plain.bases, **options)
                            for name, options in DEVICES.items())
        assert fsim.dram == cycle.dram == rtl.dram, seed
        assert (fsim.acc == rtl.acc).all(), seed
        assert cycle.counters == rtl.counters, seed


@RTL
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("opcode", [op for op, extension in EXTENSIONS.items() if extension])
def test_a_published_device_has_no_extension(device, opcode):
    with pytest.raises(ProgramFault) as caught:
        execute_on(device, (FORMATS[opcode].pack(TINY, {"opcode": opcode}), FINISH))
    assert (caught.value.fault, caught.value.index) == (Fault.UNKNOWN_OPCODE, 0)


@RTL
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("words", "fault"), [
    ((store(), FINISH | 1 << 3), Fault.ILLEGAL_FLAG),  # pop_prev of FINISH
    ((insn("store", x_size=1) | MemType.INP << 7, FINISH), Fault.UNKNOWN_MEMORY_TYPE),  # one that moves a row
    ((insn("load") | 6 << 7, FINISH), Fault.UNKNOWN_MEMORY_TYPE),
])
def test_other_faults_stay_faults(device, words, fault):
    with pytest.raises(ProgramFault) as caught:
        execute_on(device, words)
    assert caught.value.fault is fault


def execute_on(device: str, words: tuple[int, ...]) -> object:
    image = bytes(CODE_AT) + to_bytes(list(words))
    return run_image(image, CODE_AT, len(words), TINY, device, **DEVICES[device])


def test_published_is_a_truth_value():
    with raises(VtakitError, "published must be True or False, not 1"):
        execute((FINISH,), "plain", published=1)



CONFIG = replace(DEFAULT, log_inp_buff_size=13, log_wgt_buff_size=16, log_acc_buff_size=15)


def found(*words: int, isa: Isa = STRICT, uops: tuple[int, ...] = (0,)) -> list[str]:
    """Details of the checker's faults for a program that begins with a LOAD of micro-ops."""
    table = b"".join(word.to_bytes(4, "little") for word in uops).ljust(CODE_AT, b"\0")
    first = encode(CONFIG, "load", memory_type=UOP, y_size=1, x_size=len(uops))
    code = (first, *words, encode(CONFIG, "finish"))
    faults = check_image(table + to_bytes(list(code)), CODE_AT, len(code), CONFIG, isa=isa)
    assert all(fault.fault is Fault.UNPUBLISHED for fault in faults), [str(fault) for fault in faults]
    return [fault.detail for fault in faults]


def alu(op: AluOp, **fields: int) -> int:
    return encode(CONFIG, "alu", alu_opcode=op, **{"uop_end": 1, "iter_out": 1, "iter_in": 1} | fields)


def wide(op: str, **fields: int) -> int:
    return encode(CONFIG, op, **{"y_size": 1, "x_size": 1} | fields)


ONE = encode_uop(CONFIG, 1, 1, 0)
NOP = {"memory_type": UOP}


@pytest.mark.parametrize(("words", "said", "cure"), [
    ((encode(CONFIG, "load", memory_type=INP, x_size=2, y_pad_0=1),), "no row from DRAM", None),
    ((wide("load", memory_type=WGT, y_pad_0=1),), "weights with pads", None),
    ((wide("load", memory_type=UOP, y_size=2),), "loads micro-ops in rows", None),
    ((wide("load", memory_type=MemType.ACC_8BIT),), "ACC_8BIT", "acc_8bit"),
    ((alu(AluOp.MUL, use_imm=1, imm=3),), "not every implementation has MUL", "mul"),
    ((alu(AluOp.SHR),), "shifts by accumulators", "vector_shift"),
    ((alu(AluOp.SHR, use_imm=1, imm=16),), "it shifts by 16 bits", "wide_shift"),
    ((alu(AluOp.SHR, use_imm=1, imm=-16),), "it shifts by 16 bits", "wide_shift"),
    ((alu(AluOp.ADD, use_imm=1, imm=1, dst_in=1, iter_in=2),), "the original reads src all the same", None),
    ((encode(CONFIG, "gemm", overwrite=1),), "overwrite is an extension", None),
    ((wide("load", memory_type=ACC, push_next=1), wide("store", memory_type=OUT, pop_prev=1, push_prev=1),
      encode(CONFIG, "load", pop_next=1, **NOP)), "a LOAD or a reset wrote last", None),
    ((alu(AluOp.ADD, use_imm=1, imm=1, push_next=1), wide("store", memory_type=OUT, pop_prev=1)),
     "nothing orders it after STORE 2", None),
])
def test_a_program_that_breaks_one_rule_is_told_so(words, said, cure):
    details = found(*words)
    assert len(details) == 1
    assert said in details[0]
    assert found(*words, isa=VTAKIT) == []
    if cure is not None:
        assert f"+{cure}" in details[0]
        assert found(*words, isa=Isa.parse(f"original+{cure}")) == []


def test_an_extension_is_an_unknown_opcode():
    code = [encode(CONFIG, "requant", memory_type=OUT), encode(CONFIG, "finish")]
    faults = check_image(bytes(CODE_AT) + to_bytes(code), CODE_AT, 2, CONFIG, isa=STRICT)
    assert [fault.fault for fault in faults] == [Fault.UNKNOWN_OPCODE]


def test_a_program_that_keeps_the_rules_is_right():
    assert found(
        encode(CONFIG, "load", memory_type=INP, x_size=2, y_size=1, y_pad_0=3), alu(AluOp.SHR, use_imm=1, imm=15),
        alu(AluOp.ADD, use_imm=1, imm=1, dst_in=1, src_in=1, iter_in=2, push_next=1),
        wide("store", memory_type=OUT, x_size=2, dram_base=32, pop_prev=1, push_prev=1),
        encode(CONFIG, "load", pop_next=1, **NOP),
    ) == []
    assert "the original reads src" in found(alu(AluOp.ADD, use_imm=1, uop_end=2), uops=(ONE, encode_uop(CONFIG, 1, 0, 0)))[0]


def test_names_of_instruction_sets():
    assert str(Isa.parse("Original+Wide-Shift+mul")) == "original+mul+wide_shift"
    assert Isa.parse(Isa.parse("original")) == Isa(published=True, abilities=Ability(0))
    assert str(VTAKIT) == "vtakit" == str(Isa.parse("vtakit"))
    for text, said in {"origin": "unknown instruction set 'origin'; did you mean 'original'? …", 3: "… give the text …",
                       "vtakit+mul": "unknown instruction set 'vtakit+mul' …", "original+divide": "… 'divide' …"}.items():
        with raises(EncodingError, said):
            Isa.parse(text)


def test_a_configuration_whose_bit_fields_lie_elsewhere():
    assert misplaced(DEFAULT) == ""
    small = replace(DEFAULT, log_uop_buff_size=10, log_acc_buff_size=17)  # 2 * 8 + 11 = 27
    assert misplaced(small)
    assert misplaced(replace(small, log_uop_buff_size=11)) == ""
    with pytest.raises(ConfigError, match=r"raise LOG_UOP_BUFF_SIZE 10 by 1$"):
        check_image(bytes(CODE_AT), 0, 1, small, isa=STRICT)
