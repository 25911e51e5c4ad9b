"""Every error of ISA.md section 5, with its whole message, on both paths; what lies just inside each bound runs."""

import pickle
from dataclasses import replace

import pytest
from sim_support import (
    ACC,
    ACC_8BIT,
    CODE_AT,
    COMPUTE,
    FINISH,
    INP,
    LOAD,
    OUT,
    STORE,
    TINY,
    UOP,
    WGT,
    execute,
    insn,
    load,
    refused,
    steps,
    store,
    tokens,
)

from vtakit.base.errors import VtakitError
from vtakit.hw.isa.codec import encode, encode_uop
from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import AluOp, MemType
from vtakit.sim import Result
from vtakit.sim.faults import ProgramFault

LOADS = "is not one that LOAD moves; known: UOP 0, WGT 1, INP 2, ACC 3, ACC_8BIT 5"
STORES = "is not one that STORE moves; known: OUT 4"
ALU_OPCODES = "known: MIN 0, MAX 1, ADD 2, SHR 3, MUL 4"
RESERVED = "bits … no field … must be 0"
WINDOW = "outside the DRAM window 0 to 1056"  # of a program of two instructions

# Case: (instructions, fault, number of the instruction, its text, what is said of it).
STATIC = {
    "pad_load of UOP": (
        (6, FINISH), Fault.UNKNOWN_MEMORY_TYPE, 0, "pad_load.uop",
        "memory_type 0 is not one that PAD_LOAD moves; known: INP 2"),
    "every bit": (((1 << 128) - 1, FINISH), Fault.RESERVED_BITS, 0, f".word 0x{'f' * 32}", RESERVED),
    "load of memory type 6": (
        (6 << 7, FINISH), Fault.UNKNOWN_MEMORY_TYPE, 0, f".word 0x{0x300:032x}", f"memory_type 6 {LOADS}"),
    "load of memory type 7": (
        (7 << 7, FINISH), Fault.UNKNOWN_MEMORY_TYPE, 0, f".word 0x{0x380:032x}", f"memory_type 7 {LOADS}"),
    "load of OUT": (
        (insn("load", memory_type=OUT), FINISH), Fault.UNKNOWN_MEMORY_TYPE, 0, "load.out", f"memory_type 4 {LOADS}"),
    "store of memory type 6": (
        (1 | 6 << 7, FINISH), Fault.UNKNOWN_MEMORY_TYPE, 0, f".word 0x{0x301:032x}", f"memory_type 6 {STORES}"),
    **{
        f"store of {kind.name}": (
            (insn("store", memory_type=kind), FINISH), Fault.UNKNOWN_MEMORY_TYPE, 0, f"store.{kind.name.lower()}",
            f"memory_type {int(kind)} {STORES}")
        for kind in (UOP, WGT, INP, ACC, ACC_8BIT)
    },
    "alu opcode 5": (
        (4 | 5 << 84, FINISH), Fault.UNKNOWN_ALU_OPCODE, 0, ".word 0x00000000005000000000000000000004",
        f"alu_opcode 5 is unknown; {ALU_OPCODES}"),
    "alu opcode 7": (
        (4 | 7 << 84, FINISH), Fault.UNKNOWN_ALU_OPCODE, 0, ".word 0x00000000007000000000000000000004",
        f"alu_opcode 7 is unknown; {ALU_OPCODES}"),
    "reserved bit of load": ((1 << 58, FINISH), Fault.RESERVED_BITS, 0, f".word 0x{1 << 58:032x}", RESERVED),
    "reserved bit of store": (
        (insn("store", memory_type=OUT) | 1 << 63, FINISH), Fault.RESERVED_BITS, 0, ".word 0x00000000000000008000000000000201",
        RESERVED),
    "reserved bit of gemm": ((2 | 1 << 127, FINISH), Fault.RESERVED_BITS, 0, f".word 0x8{2:031x}", RESERVED),
    "reserved bit of alu": ((4 | 1 << 7, FINISH), Fault.RESERVED_BITS, 0, f".word 0x{0x84:032x}", RESERVED),
    "reserved bit of finish": (
        (FINISH | 1 << 64,), Fault.RESERVED_BITS, 0, ".word 0x00000000000000010000000000000003", RESERVED),
    **{
        f"{flag} of {op}.{kind.name.lower()}": (
            (insn(op, memory_type=kind, **{flag: 1}), FINISH), Fault.ILLEGAL_FLAG, 0, f"{op}.{kind.name.lower()} {flag}",
            f"{flag} points to a neighbour that the {op} stage does not have")
        for op, kind, flags in (
            ("load", INP, ("pop_prev", "push_prev")), ("load", WGT, ("pop_prev", "push_prev")),
            ("store", OUT, ("pop_next", "push_next")))
        for flag in flags
    },
    **{
        f"{flag} of finish": (
            (load(INP, push_next=1), insn("finish", **{flag: 1})), Fault.ILLEGAL_FLAG, 1, f"finish {flag}",
            f"{flag} is set, but the dependence flags of FINISH must be 0")
        for flag in ("pop_prev", "pop_next", "push_prev", "push_next")
    },
    "finish before others": (
        (FINISH, load(INP), FINISH), Fault.FINISH_NOT_LAST, 0, "finish", "FINISH must be the last instruction, and 2 follow"),
    "two finishes": (
        (load(INP), FINISH, FINISH), Fault.FINISH_NOT_LAST, 1, "finish", "FINISH must be the last instruction, and 1 follow"),
    "no finish": (
        (load(INP), store()), Fault.NO_FINISH, 1, "store.out y_size=1 x_size=1",
        "the program ends here and must end with FINISH"),
    **{
        f"store with {pad}": (
            (store(**{pad: 1}), FINISH), Fault.STORE_PAD, 0, f"store.out y_size=1 x_size=1 {pad}=1",
            "the pads of a STORE must be 0")
        for pad in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
    },
    "store of nothing with pads": (
        (insn("store", memory_type=OUT, y_pad_0=15), FINISH), Fault.STORE_PAD, 0, "store.out y_pad_0=15",
        "the pads of a STORE must be 0"),
    **{
        f"{kind.name} beyond its scratchpad": (
            (load(kind, sram_base=depth - 1, x_size=2), FINISH), Fault.SRAM_RANGE, 0,
            f"load.{kind.name.lower()} sram_base={depth - 1} y_size=1 x_size=2",
            f"sram_base {depth - 1} + 2 elements = {depth + 1} exceeds the {depth} of the {scratchpad} scratchpad")
        for kind, depth, scratchpad in (
            (UOP, 32, "uop"), (WGT, 16, "wgt"), (INP, 32, "inp"), (ACC, 32, "acc"), (ACC_8BIT, 32, "acc"))
    },
    "store beyond the scratchpad": (
        (store(sram_base=30, y_size=3), FINISH), Fault.SRAM_RANGE, 0, "store.out sram_base=30 y_size=3 x_size=1",
        "sram_base 30 + 3 elements = 33 exceeds the 32 of the acc scratchpad"),
    "pads beyond the scratchpad": (
        (load(INP, y_pad_0=3, y_pad_1=4, x_pad_0=1, x_pad_1=3, y_size=0), FINISH), Fault.SRAM_RANGE, 0,
        "load.inp x_size=1 y_pad_0=3 y_pad_1=4 x_pad_0=1 x_pad_1=3",
        "sram_base 0 + 35 elements = 35 exceeds the 32 of the inp scratchpad"),
    "the largest transfer": (
        (load(INP, sram_base=65535, x_size=65535, y_size=65535, x_pad_0=15, x_pad_1=15, y_pad_0=15, y_pad_1=15), FINISH),
        Fault.SRAM_RANGE, 0,
        "load.inp sram_base=65535 y_size=65535 x_size=65535 y_pad_0=15 y_pad_1=15 x_pad_0=15 x_pad_1=15",
        "sram_base 65535 + 4298769225 elements = 4298834760 exceeds the 32 of the inp scratchpad"),
    "micro-ops beyond the scratchpad, gemm": (
        (steps(uop_end=33), FINISH), Fault.UOP_RANGE, 0, "gemm uop_end=33 iter_out=1 iter_in=1",
        "uop_end 33 is beyond the 32 micro-ops of the scratchpad"),
    "micro-ops beyond the scratchpad, alu": (
        (steps("alu", uop_bgn=31, uop_end=63), FINISH), Fault.UOP_RANGE, 0,
        "alu.min uop_bgn=31 uop_end=63 iter_out=1 iter_in=1", "uop_end 63 is beyond the 32 micro-ops of the scratchpad"),
    "windows beyond the inputs": (
        (insn("dwconv", rows=3, columns=3, src=9, src_row=7, src_column=3), FINISH), Fault.SRAM_RANGE, 0,
        "dwconv src=9 rows=3 columns=3 src_row=7 src_column=3",
        "its largest index is 32, beyond the 32 elements of the inp scratchpad"),
    "windows beyond the accumulators": (
        (insn("dwconv", rows=9, columns=8, y_first=4, x_first=4, y_step=1, x_step=1, dst=15, dst_row=7, dst_column=2), FINISH),
        Fault.SRAM_RANGE, 0,
        "dwconv dst=15 rows=9 columns=8 y_first=4 x_first=4 y_step=1 x_step=1 dst_row=7 dst_column=2",
        "its largest index is 33, beyond the 32 elements of the acc scratchpad"),
    "load beyond the image": (
        (load(INP, dram_base=263, x_size=2), FINISH), Fault.DRAM_RANGE, 0, "load.inp dram_base=263 y_size=1 x_size=2",
        f"dram_base 263 reaches bytes 1052 to 1060, {WINDOW}"),
    "weights beyond the image": (
        (load(WGT, dram_base=66), FINISH), Fault.DRAM_RANGE, 0, "load.wgt dram_base=66 y_size=1 x_size=1",
        f"dram_base 66 reaches bytes 1056 to 1072, {WINDOW}"),
    "store beyond the image": (
        (store(dram_base=264), FINISH), Fault.DRAM_RANGE, 0, "store.out dram_base=264 y_size=1 x_size=1",
        f"dram_base 264 reaches bytes 1056 to 1060, {WINDOW}"),
    "last row beyond the image": (
        (load(ACC, dram_base=1, y_size=3, x_size=2, x_stride=32), FINISH), Fault.DRAM_RANGE, 0,
        "load.acc dram_base=1 y_size=3 x_size=2 x_stride=32", f"dram_base 1 reaches bytes 16 to 1072, {WINDOW}"),
    "an address that 32 bits would wrap": (
        (load(UOP, dram_base=(1 << 32) - 1), FINISH), Fault.DRAM_RANGE, 0, "load.uop dram_base=4294967295 y_size=1 x_size=1",
        f"dram_base 4294967295 reaches bytes 17179869180 to 17179869184, {WINDOW}"),
    "a row pitch that 32 bits would wrap": (
        (load(ACC_8BIT, y_size=17, x_stride=65535, dram_base=(1 << 32) - 16 * 65535), FINISH), Fault.DRAM_RANGE, 0,
        "load.acc_8bit dram_base=4293918736 y_size=17 x_size=1 x_stride=65535",
        f"dram_base 4293918736 reaches bytes 17175674944 to 17179869188, {WINDOW}"),
}


@pytest.mark.parametrize("case", STATIC)
def test_a_wrong_instruction_stops_the_program(case, path):
    words, fault, index, text, detail = STATIC[case]
    refused(words, path, fault, index, f"instruction {index} ({text}): {detail}")


def test_a_program_without_instructions_is_refused(path):
    refused((), path, Fault.NO_FINISH, -1, "the program has no instructions; it must end with FINISH")


def test_the_first_wrong_instruction_is_named_with_its_most_basic_error(path):
    everything_wrong = insn("store", memory_type=INP, pop_next=1, y_pad_0=1, sram_base=99, x_size=9, y_size=9) | 1 << 60
    words = (load(INP), load(INP), everything_wrong, 6, FINISH, load(INP, sram_base=99))
    refused(words, path, Fault.RESERVED_BITS, 2,
            f"instruction 2 (.word 0x{everything_wrong:032x}): bits … no field … must be 0")


def test_acc_8bit_exists_only_for_8_bit_inputs_and_32_bit_accumulators(path):
    for name in ("tiny_acc16", "tiny_i16", "tiny_i4w2", "i4w4"):
        refused((encode(NAMED[name], "load", memory_type=ACC_8BIT), FINISH), path, Fault.UNKNOWN_MEMORY_TYPE, 0,
                "instruction 0 (load.acc_8bit): memory_type ACC_8BIT … 8-bit inputs … 32-bit accumulators",
                cfg=NAMED[name])
    for name in ("tiny", "tiny_b2", "default", "w4"):
        assert execute((encode(NAMED[name], "load", memory_type=ACC_8BIT), FINISH), path, cfg=NAMED[name]).counters[
            "insn_counter"] == 2


def test_an_instruction_that_a_configuration_has_not(path):
    for cfg, op, what in (
        (NAMED["tiny_acc16"], "requant", "REQUANT exists only … 32-bit accumulators … at most 8 bits"),
        (NAMED["tiny_i16"], "pad_load", "PAD_LOAD … inputs of at most 8 bits"),
        (replace(TINY, log_block=1), "dwconv", "DWCONV … blocks of at least 4"),
    ):
        fields = {"requant": {"memory_type": OUT}, "pad_load": {"memory_type": INP}, "dwconv": {}}[op]
        refused((encode(cfg, op, **fields), FINISH), path, Fault.UNKNOWN_OPCODE, 0, f"instruction 0 … {what}", cfg=cfg)


def test_a_configuration_without_acc_8bit_does_not_propose_it(path):
    cfg = NAMED["tiny_acc16"]
    refused((encode(cfg, "load", memory_type=OUT), FINISH), path, Fault.UNKNOWN_MEMORY_TYPE, 0,
            "instruction 0 (load.out): memory_type 4 … not … LOAD … known: UOP 0, WGT 1, INP 2, ACC 3", cfg=cfg)


RIGHT = {
    "every scratchpad to its last element": (
        load(UOP, sram_base=31), load(WGT, sram_base=15), load(INP, sram_base=31), load(ACC, sram_base=31),
        load(ACC_8BIT, sram_base=31), store(sram_base=31)),
    "every scratchpad as a whole": (
        load(UOP, x_size=32), load(WGT, x_size=16), load(INP, x_size=32), load(ACC, x_size=32), load(ACC_8BIT, x_size=32),
        store(x_size=32)),
    "pads to the last element": (load(INP, y_pad_0=2, y_pad_1=1, x_pad_0=3, x_pad_1=4),),
    "no element, wherever": (
        load(INP, sram_base=65535, dram_base=(1 << 32) - 1, x_size=0, y_pad_0=15, y_pad_1=15, x_pad_0=15, x_pad_1=15),
        load(ACC, sram_base=65535, dram_base=(1 << 32) - 1, y_size=0, x_pad_0=15, x_pad_1=15),
        store(sram_base=65535, dram_base=(1 << 32) - 1, x_size=0), store(sram_base=65535, dram_base=(1 << 32) - 1, y_size=0)),
    "pads alone read no DRAM": (load(INP, dram_base=(1 << 32) - 1, y_size=0, y_pad_0=1),),
    "no step, whatever the micro-ops": (
        steps(uop_end=63, iter_in=0), steps("alu", uop_end=63, iter_out=0), steps(uop_bgn=31, uop_end=31),
        steps(uop_bgn=31, uop_end=1), steps(dst_in=31, iter_in=16383, iter_out=0)),
    "windows to the last elements": (
        insn("dwconv", rows=3, columns=3, src=8, src_row=7, src_column=3, dst=31, wgt=15),
        insn("dwconv", rows=9, columns=8, y_first=4, x_first=4, y_step=1, x_step=1, dst=15, dst_row=7, dst_column=1)),
    "no window, or none with an output": (
        insn("dwconv", rows=0, src=31, src_column=31, columns=15, dst=31, dst_column=31),
        insn("dwconv", rows=1, columns=3, x_first=4, dst=31, dst_row=31, dst_column=31),
        insn("dwconv", rows=3, columns=3, y_first=3, dst=31, dst_row=31, dst_column=31)),
    "the last micro-op": (steps(uop_bgn=31, uop_end=32), steps("alu", uop_end=32)),
    "the last byte of the image": (load(UOP, dram_base=CODE_AT // 4 + 4 + 3), store(dram_base=255)),
    "every flag of the compute stage": (
        load(INP, push_next=1), load(UOP, pop_prev=1, push_prev=1), steps(push_next=1),
        load(WGT, pop_next=1, push_next=1), store(pop_prev=1, push_prev=1),
        tokens("load", {"memory_type": ACC_8BIT}, "pop_prev", "pop_next", "push_prev", "push_next"),
        load(INP, pop_next=1), store(pop_prev=1)),
}


@pytest.mark.parametrize("case", RIGHT)
@pytest.mark.parametrize("order", ["program", "eager", "lazy", 3])
def test_what_lies_just_inside_a_bound_runs(case, path, order):
    words = (*RIGHT[case], FINISH)
    assert execute(words, path, order=order).counters["insn_counter"] == len(words)


# Micro-ops 0 to 3 in DRAM for the index tests: zero, and each index at 1.
INDEX_UOPS = b"".join(
    encode_uop(TINY, **fields).to_bytes(4, "little") for fields in ({}, {"dst": 1}, {"src": 1}, {"wgt": 1}))
LOAD_UOPS = load(UOP, x_size=4)
INDEX = {
    "gemm dst by the inner factor": (
        {"uop_bgn": 1, "uop_end": 2, "iter_in": 2, "dst_in": 31},
        "gemm uop_bgn=1 uop_end=2 iter_out=1 iter_in=2 dst_in=31", "dst index is 32, beyond the 32 elements of the acc"),
    "gemm dst by the outer factor": (
        {"uop_bgn": 1, "uop_end": 2, "iter_out": 2, "dst_out": 31},
        "gemm uop_bgn=1 uop_end=2 iter_out=2 iter_in=1 dst_out=31", "dst index is 32, beyond the 32 elements of the acc"),
    "gemm dst by both factors": (
        {"iter_in": 5, "iter_out": 5, "dst_in": 3, "dst_out": 5}, "gemm uop_end=1 iter_out=5 iter_in=5 dst_out=5 dst_in=3",
        "dst index is 32, beyond the 32 elements of the acc"),
    "gemm dst by one of several micro-ops": (
        {"uop_end": 4, "iter_in": 2, "dst_in": 31}, "gemm uop_end=4 iter_out=1 iter_in=2 dst_in=31",
        "dst index is 32, beyond the 32 elements of the acc"),
    "gemm src": (
        {"uop_bgn": 2, "uop_end": 3, "iter_in": 2, "src_in": 31}, "gemm uop_bgn=2 uop_end=3 iter_out=1 iter_in=2 src_in=31",
        "src index is 32, beyond the 32 elements of the inp"),
    "gemm wgt": (
        {"uop_bgn": 3, "uop_end": 4, "iter_in": 2, "wgt_in": 15}, "gemm uop_bgn=3 uop_end=4 iter_out=1 iter_in=2 wgt_in=15",
        "wgt index is 16, beyond the 16 elements of the wgt"),
    "gemm wgt by the outer factor": (
        {"iter_out": 16383, "wgt_out": 15}, "gemm uop_end=1 iter_out=16383 iter_in=1 wgt_out=15",
        "wgt index is 245730, beyond the 16 elements of the wgt"),
    "gemm reset dst": (
        {"uop_bgn": 1, "uop_end": 2, "iter_in": 2, "dst_in": 31, "reset": 1},
        "gemm uop_bgn=1 uop_end=2 iter_out=1 iter_in=2 dst_in=31 reset", "dst index is 32, beyond the 32 elements of the acc"),
    "alu dst": (
        {"op": "alu", "uop_bgn": 1, "uop_end": 2, "iter_in": 2, "dst_in": 31},
        "alu.min uop_bgn=1 uop_end=2 iter_out=1 iter_in=2 dst_in=31", "dst index is 32, beyond the 32 elements of the acc"),
    "alu dst with an immediate": (
        {"op": "alu", "uop_bgn": 1, "uop_end": 2, "iter_in": 2, "dst_in": 31, "use_imm": 1},
        "alu.min uop_bgn=1 uop_end=2 iter_out=1 iter_in=2 dst_in=31 use_imm",
        "dst index is 32, beyond the 32 elements of the acc"),
    "alu src": (
        {"op": "alu", "uop_bgn": 2, "uop_end": 3, "iter_out": 2, "src_out": 31, "alu_opcode": AluOp.MUL},
        "alu.mul uop_bgn=2 uop_end=3 iter_out=2 iter_in=1 src_out=31", "src index is 32, beyond the 32 elements of the acc"),
}


@pytest.mark.parametrize("case", INDEX)
def test_an_index_beyond_a_scratchpad_stops_the_program(case, path):
    fields, text, detail = INDEX[case]
    words = (LOAD_UOPS, steps(), steps(**fields), FINISH)
    refused(words, path, Fault.SRAM_RANGE, 2, f"instruction 2 ({text}): its largest {detail} scratchpad",
            dram=INDEX_UOPS)


INSIDE = [
    *({k: v for k, v in case[0].items() if k not in ("uop_bgn", "uop_end")} for case in INDEX.values() if "uop_bgn" in case[0]),
    {"uop_bgn": 2, "uop_end": 4, "iter_in": 40, "src_in": 31, "wgt_in": 15, "reset": 1},
    {"uop_bgn": 2, "uop_end": 4, "iter_out": 40, "src_out": 31, "wgt_out": 15, "reset": 1},
    {"op": "alu", "uop_bgn": 2, "uop_end": 4, "iter_in": 40, "src_in": 31, "use_imm": 1},
    {"op": "alu", "uop_bgn": 3, "uop_end": 4},
]


@pytest.mark.parametrize("fields", INSIDE, ids=str)
def test_an_index_that_is_inside_or_not_used_runs(fields, path):
    assert execute((LOAD_UOPS, steps(**fields), FINISH), path, dram=INDEX_UOPS).counters["insn_counter"] == 3


def test_the_src_of_a_micro_op_has_the_bits_of_the_larger_scratchpad_and_each_instruction_its_own_bound(path):
    cfg = NAMED["tiny_i4w2"]  # 32 inputs, 16 accumulators
    words = (encode(cfg, "load", memory_type=UOP, y_size=1, x_size=1),)
    uop = encode_uop(cfg, src=16).to_bytes(4, "little")
    fields = {"uop_end": 1, "iter_out": 1, "iter_in": 1}
    assert execute((*words, encode(cfg, "gemm", **fields), FINISH), path, cfg=cfg, dram=uop).counters["gemm_counter"] == 1
    refused((*words, encode(cfg, "alu", **fields), FINISH), path, Fault.SRAM_RANGE, 1,
            "instruction 1 (alu.min uop_end=1 iter_out=1 iter_in=1): … largest src index … 16 … 16 elements … acc scratchpad",
            cfg=cfg, dram=uop)
    cfg = replace(TINY, log_inp_buff_size=5)  # 8 inputs, 32 accumulators
    uop = encode_uop(cfg, src=8).to_bytes(4, "little")
    assert execute((*words, encode(cfg, "alu", **fields), FINISH), path, cfg=cfg, dram=uop).counters["alu_counter"] == 1
    refused((*words, encode(cfg, "gemm", **fields), FINISH), path, Fault.SRAM_RANGE, 1,
            "instruction 1 (gemm uop_end=1 iter_out=1 iter_in=1): … largest src index … 8 … 8 elements … inp scratchpad",
            cfg=cfg, dram=uop)


def test_the_micro_ops_that_count_are_those_loaded_when_the_instruction_runs(path):
    bad = encode_uop(TINY, dst=31).to_bytes(4, "little")
    far, near = steps(iter_in=2, dst_in=1), load(UOP, dram_base=1)
    assert execute((load(UOP), near, far, FINISH), path, dram=bad).counters["gemm_counter"] == 2
    refused((near, far, load(UOP), far, near, FINISH), path, Fault.SRAM_RANGE, 3,
            "instruction 3 (gemm uop_end=1 iter_out=1 iter_in=2 dst_in=1): … largest dst index … 32 … 32 elements … acc …",
            dram=bad)


def test_dram_outside_the_window_is_refused_on_both_sides(path):
    def touch(word: int) -> Result:
        return execute((word, FINISH), path, window=(64, 128))

    for word in (load(INP, dram_base=16, x_size=16), store(dram_base=16, x_size=16), load(WGT, dram_base=7),
                 load(ACC, dram_base=4), load(INP, dram_base=0, x_size=0), load(INP, dram_base=0, y_size=0)):
        assert touch(word).counters["insn_counter"] == 2
    for word, text, reach in (
        (load(INP, dram_base=15, x_size=2), "load.inp dram_base=15 y_size=1 x_size=2", "15 reaches bytes 60 to 68"),
        (load(INP, dram_base=31, x_size=2), "load.inp dram_base=31 y_size=1 x_size=2", "31 reaches bytes 124 to 132"),
        (store(dram_base=15), "store.out dram_base=15 y_size=1 x_size=1", "15 reaches bytes 60 to 64"),
        (store(dram_base=32), "store.out dram_base=32 y_size=1 x_size=1", "32 reaches bytes 128 to 132"),
        (load(ACC, dram_base=3), "load.acc dram_base=3 y_size=1 x_size=1", "3 reaches bytes 48 to 64"),
        (load(UOP), "load.uop y_size=1 x_size=1", "0 reaches bytes 0 to 4"),
    ):
        refused((word, FINISH), path, Fault.DRAM_RANGE, 0,
                f"instruction 0 ({text}): dram_base {reach} … outside … DRAM window 64 to 128", window=(64, 128))


@pytest.mark.parametrize("kind", MemType)
def test_a_base_register_counts_towards_the_window(kind, path):
    size = {UOP: 4, WGT: 16, INP: 4, ACC: 16, OUT: 4, ACC_8BIT: 4}[kind]
    move = store if kind is OUT else lambda **fields: load(kind, **fields)
    name, op = kind.name.lower(), "store" if kind is OUT else "load"
    end = CODE_AT + 2 * 16
    inside, outside = (end - 64) // size - 1, (end - 64) // size
    others = {other.name.lower(): (1 << 40) - 64 for other in MemType if other is not kind}
    assert execute((move(dram_base=inside), FINISH), path, bases={name: 64} | others).counters["insn_counter"] == 2
    refused((move(dram_base=outside), FINISH), path, Fault.DRAM_RANGE, 0,
            f"instruction 0 ({op}.{name} dram_base={outside} y_size=1 x_size=1): dram_base {outside} reaches bytes {end} to "
            f"{end + size} … outside … DRAM window 0 to {end}", bases={name: 64} | others)
    top = (1 << 40) - 64
    refused((move(), FINISH), path, Fault.DRAM_RANGE, 0,
            f"instruction 0 ({op}.{name} y_size=1 x_size=1): dram_base 0 reaches bytes {top} to {top + size}, outside the DRAM "
            f"window 0 to {end}", bases={name: top})


# Each token queue: who gives (instruction, text), who takes.
QUEUES = {
    "load-to-compute": (tokens("load", LOAD, "push_next"), "load.inp push_next", tokens("load", COMPUTE, "pop_prev"),
                        "load.uop pop_prev"),
    "compute-to-load": (tokens("load", COMPUTE, "push_prev"), "load.uop push_prev", tokens("load", LOAD, "pop_next"),
                        "load.inp pop_next"),
    "compute-to-store": (tokens("load", COMPUTE, "push_next"), "load.uop push_next", tokens("store", STORE, "pop_prev"),
                         "store.out pop_prev"),
    "store-to-compute": (tokens("store", STORE, "push_prev"), "store.out push_prev", tokens("load", COMPUTE, "pop_next"),
                         "load.uop pop_next"),
}


@pytest.mark.parametrize("queue", QUEUES)
def test_a_queue_holds_1023_tokens_and_no_more(queue, path):
    give, text, take, _ = QUEUES[queue]
    assert execute((*[give] * 1023, *[take] * 1023, FINISH), path).counters["insn_counter"] == 2047
    refused((*[give] * 1024, *[take] * 1024, FINISH), path, Fault.TOKEN_OVERFLOW, 1023,
            f"instruction 1023 ({text}): the {queue} queue … already … 1023 tokens")


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("order", ["program", "eager", "lazy", 5])
def test_tokens_that_are_left_name_who_gave_the_last(queue, path, order):
    give, text, take, _ = QUEUES[queue]
    refused((give, FINISH), path, Fault.TOKENS_LEFT, 0,
            f"instruction 0 ({text}): no instruction takes … token … 1 left … {queue} queue …", order=order)
    refused((load(INP), give, give, take, give, FINISH), path, Fault.TOKENS_LEFT, 4,
            f"instruction 4 ({text}): no instruction takes … token … 2 left … {queue} queue …", order=order)


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("order", ["program", "eager", "lazy", 5])
def test_a_token_that_nothing_gives_is_a_deadlock(queue, path, order):
    give, _, take, text = QUEUES[queue]
    detail = f"it waits for ever for a token in the {queue} queue"
    refused((take, FINISH), path, Fault.DEADLOCK, 0, f"instruction 0 ({text}): {detail}", order=order)
    refused((give, take, take, FINISH), path, Fault.DEADLOCK, 2, f"instruction 2 ({text}): {detail}", order=order)


def test_stages_that_wait_for_each_other_are_a_deadlock(path):
    words = (
        tokens("load", LOAD, "pop_next", "push_next"), tokens("load", COMPUTE, "pop_prev", "push_prev", "push_next"),
        tokens("store", STORE, "pop_prev"), FINISH,
    )
    refused(words, path, Fault.DEADLOCK, 0,
            "instruction 0 (load.inp pop_next push_next): … waits … token … compute-to-load queue")


def test_a_deadlock_names_the_token_that_is_missing(path):
    both = tokens("load", COMPUTE, "pop_prev", "pop_next")
    refused((tokens("load", LOAD, "push_next"), both, FINISH), path, Fault.DEADLOCK, 1,
            "instruction 1 (load.uop pop_prev pop_next): … waits … token … store-to-compute queue")
    refused((tokens("store", STORE, "push_prev"), both, FINISH), path, Fault.DEADLOCK, 1,
            "instruction 1 (load.uop pop_prev pop_next): … waits … token … load-to-compute queue")


@pytest.mark.parametrize("order", ["program", "eager", "lazy", 5])
def test_a_giver_behind_a_full_command_queue_is_a_deadlock(path, order):
    take, give, idle = QUEUES["load-to-compute"][2], QUEUES["load-to-compute"][0], tokens("load", COMPUTE)
    assert execute((take, *[idle] * 511, give, FINISH), path, order=order).counters["insn_counter"] == 514
    refused((take, *[idle] * 512, give, FINISH), path, Fault.DEADLOCK, 0,
            "instruction 0 (load.uop pop_prev): … waits … token … load-to-compute queue … 512 instructions … 511 …", order=order)


def test_a_fault_survives_pickling():
    with pytest.raises(ProgramFault) as caught:
        execute((load(INP, sram_base=32), FINISH), "plain")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) == (
        "instruction 0 (load.inp sram_base=32 y_size=1 x_size=1): sram_base 32 + 1 elements = 33 exceeds the 32 of the inp "
        "scratchpad [SRAM_RANGE]")
    assert (again.fault, again.index, again.disassembly, again.detail) == (
        Fault.SRAM_RANGE, 0, "load.inp sram_base=32 y_size=1 x_size=1",
        "sram_base 32 + 1 elements = 33 exceeds the 32 of the inp scratchpad")


def test_a_fault_is_an_error_of_the_kit():
    with pytest.raises(VtakitError):
        execute((FINISH, FINISH), "plain")
