"""The static checker finds each planted defect, and is right about random programs from which a dependence is removed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtakit.hw.isa.codec import decode, encode, encode_uop, from_bytes, to_bytes
from vtakit.hw.isa.config import DEFAULT, INSN_BYTES, NAMED, VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import COMMAND_QUEUE_DEPTH, FORMATS, TOKEN_QUEUE_DEPTH, MemType
from vtakit.hw.isa.program import Buffer, BufferKind, Program, Relocation
from vtakit.sim import run_image
from vtakit.sim.checker import check_image, check_program
from vtakit.sim.faults import ProgramFault
from vtakit.sim.random_programs import random_program

CODE_AT = 4096


def insn(op: str, **fields: int) -> int:
    return encode(DEFAULT, op, **fields)


def move(op: str, kind: MemType, *, sram: int = 0, dram: int = 0, count: int = 1, **flags: int) -> int:
    return insn(op, memory_type=kind, sram_base=sram, dram_base=dram, y_size=1, x_size=count, x_stride=count, **flags)


def steps(op: str = "gemm", **fields: int) -> int:
    """One step on micro-op 0, which is all zero unless it is loaded."""
    return insn(op, uop_bgn=0, uop_end=1, iter_out=1, iter_in=1, **fields)


FINISH = insn("finish")
LOAD_TOKEN, COMPUTE_TOKEN = insn("load", memory_type=MemType.INP, pop_next=1), {"memory_type": MemType.UOP}


def check(*words: int, image: bytes = b"") -> list[ProgramFault]:
    dram = image.ljust(CODE_AT, b"\0") + to_bytes(words)
    return check_image(dram, CODE_AT, len(words), DEFAULT)


def one(*words: int, image: bytes = b"") -> tuple[Fault, int, str]:
    found = check(*words, image=image)
    assert len(found) == 1, [str(fault) for fault in found]
    return found[0].fault, found[0].index, found[0].detail


RIGHT = (
    move("load", MemType.INP, push_next=1), steps(pop_prev=1, push_prev=1, push_next=1),
    move("load", MemType.INP, pop_next=1, push_next=1), move("store", MemType.OUT, dram=9, pop_prev=1, push_prev=1),
    steps(pop_prev=1, pop_next=1), FINISH,
)


def test_nothing_is_found_in_a_right_program():
    assert check(*RIGHT) == []


def test_reading_what_load_writes_needs_a_token():
    fault, index, detail = one(move("load", MemType.INP), steps(), FINISH)
    assert (fault, index) == (Fault.RACE, 1)
    assert detail == (
        "it reads inp[0], which instruction 0 (load.inp y_size=1 x_size=1 x_stride=1) of the load stage writes, "
        "and no token orders the two"
    )


def test_a_weight_is_a_scratchpad_of_its_own():
    assert one(move("load", MemType.WGT), steps(), FINISH)[:2] == (Fault.RACE, 1)
    assert check(move("load", MemType.WGT, sram=1), steps(), FINISH) == []


def test_a_load_may_not_replace_what_compute_still_reads():
    fault, index, detail = one(steps(), move("load", MemType.INP), FINISH)
    assert (fault, index) == (Fault.RACE, 1)
    assert "it writes inp[0], which instruction 0" in detail
    assert "of the compute stage reads" in detail


def test_a_reset_reads_neither_input_nor_weight():
    assert check(steps(reset=1), move("load", MemType.INP), FINISH) == []


def test_store_needs_a_token_from_what_it_stores():
    assert one(steps("alu", use_imm=1), move("store", MemType.OUT), FINISH)[:2] == (Fault.RACE, 1)


def test_compute_may_not_change_what_store_still_reads():
    assert one(move("store", MemType.OUT), steps("alu", use_imm=1), FINISH)[:2] == (Fault.RACE, 1)
    assert check(move("store", MemType.OUT, sram=1), steps("alu", use_imm=1), FINISH) == []


def test_a_load_acc_writes_the_accumulator():
    assert one(move("store", MemType.OUT, dram=9), move("load", MemType.ACC), FINISH)[:2] == (Fault.RACE, 1)


def test_dram_is_a_memory_too():
    store = move("store", MemType.OUT, sram=7, dram=40)
    fault, index, detail = one(store, move("load", MemType.INP, sram=9, dram=40), FINISH)
    assert (fault, index) == (Fault.RACE, 1)
    assert "it reads DRAM bytes 640 to 644, which instruction 0" in detail
    assert one(move("load", MemType.INP, sram=9, dram=40), store, FINISH)[:2] == (Fault.RACE, 1)
    assert check(store, move("load", MemType.INP, sram=9, dram=41), FINISH) == []


def test_store_to_load_through_compute_is_ordered():
    assert check(
        move("store", MemType.OUT, sram=7, dram=40, push_prev=1), insn("load", **COMPUTE_TOKEN, pop_next=1, push_prev=1),
        move("load", MemType.INP, sram=9, dram=40, pop_next=1), FINISH,
    ) == []


def test_a_token_orders_only_what_comes_before_it():
    late = (move("load", MemType.INP, push_next=1), move("load", MemType.INP, sram=1), steps(pop_prev=1, src_in=1))
    assert check(*late, FINISH) == []
    uops = encode_uop(DEFAULT, src=1).to_bytes(4, "little")
    found = one(move("load", MemType.UOP), *late, FINISH, image=uops)
    assert found[:2] == (Fault.RACE, 3)


def test_micro_ops_decide_what_is_touched():
    uops = encode_uop(DEFAULT, dst=5, src=3, wgt=2).to_bytes(4, "little")
    load = move("load", MemType.UOP)
    assert check(load, move("load", MemType.INP, sram=2), steps(), FINISH, image=uops) == []
    assert one(load, move("load", MemType.INP, sram=3), steps(), FINISH, image=uops)[:2] == (Fault.RACE, 2)
    assert one(load, steps(), move("store", MemType.OUT, sram=5, dram=64), FINISH, image=uops)[:2] == (Fault.RACE, 2)


def test_loops_decide_what_is_touched():
    strided = insn("gemm", uop_bgn=0, uop_end=1, iter_out=2, iter_in=3, src_out=100, src_in=10)
    for touched in (0, 10, 20, 100, 110, 120):
        assert one(move("load", MemType.INP, sram=touched), strided, FINISH)[:2] == (Fault.RACE, 1)
    for free in (1, 9, 30, 99, 121, 130):
        assert check(move("load", MemType.INP, sram=free), strided, FINISH) == []


def test_huge_loops_that_stay_in_place_are_quick():
    assert check(insn("gemm", uop_bgn=0, uop_end=8192, iter_out=16383, iter_in=16383), FINISH) == []


def test_every_index_of_a_deep_scratchpad_is_quick():
    cfg = VTAConfig(log_inp_buff_size=20, log_acc_buff_size=12, log_wgt_buff_size=14)
    words = [
        encode(cfg, "gemm", uop_bgn=0, uop_end=8192, iter_out=16383, iter_in=16383, src_out=1, src_in=1), encode(cfg, "finish"),
    ]
    assert check_image(to_bytes(words), 0, 2, cfg) == []  # enumerating the steps would take hours: the suite's limit ends it


def test_index_out_of_range():
    fault, index, detail = one(insn("gemm", uop_bgn=0, uop_end=1, iter_out=3, iter_in=1, dst_out=1024), FINISH)
    assert (fault, index) == (Fault.SRAM_RANGE, 0)
    assert detail == "its largest dst index is 2048, beyond the 2048 elements of the acc scratchpad"


def test_deadlock():
    fault, index, detail = one(steps(pop_prev=1), move("load", MemType.INP, pop_next=1, push_next=1), FINISH)
    assert (fault, index, detail) == (Fault.DEADLOCK, 0, "it waits for ever for a token in the load-to-compute queue")


def test_deadlock_behind_a_full_command_queue():
    waiting = [insn("load", memory_type=MemType.INP, pop_next=1)] * COMMAND_QUEUE_DEPTH
    givers = [insn("load", **COMPUTE_TOKEN, push_prev=1)] * COMMAND_QUEUE_DEPTH
    assert check(*waiting, *givers, FINISH) == []
    fault, index, detail = one(waiting[0], *waiting, givers[0], *givers, FINISH)
    assert (fault, index) == (Fault.DEADLOCK, 0)
    assert detail == (
        "it waits for ever for a token in the compute-to-load queue; "
        f"{COMMAND_QUEUE_DEPTH} instructions wait for one stage, so none after {COMMAND_QUEUE_DEPTH - 1} is fetched"
    )


def test_tokens_left_over():
    fault, index, detail = one(move("load", MemType.INP, push_next=1), FINISH)
    assert (fault, index) == (Fault.TOKENS_LEFT, 0)
    assert detail == "no instruction takes its token: 1 left in the load-to-compute queue at the end"


def test_token_overflow_in_some_interleaving():
    """In program order the queue never holds more than one; with load running ahead it holds all."""
    pair = (insn("load", memory_type=MemType.INP, push_next=1), insn("load", **COMPUTE_TOKEN, pop_prev=1))
    assert check(*pair * TOKEN_QUEUE_DEPTH, FINISH) == []
    fault, index, detail = one(*pair * (TOKEN_QUEUE_DEPTH + 1), FINISH)
    assert (fault, index) == (Fault.TOKEN_OVERFLOW, 2 * TOKEN_QUEUE_DEPTH)
    assert detail == f"{TOKEN_QUEUE_DEPTH + 1} tokens can wait in the load-to-compute queue, which holds {TOKEN_QUEUE_DEPTH}"


def test_encodings_bounds_and_finish_are_found():
    assert one(7 | 1 << 127, FINISH)[:2] == (Fault.RESERVED_BITS, 0)
    assert one(FINISH, FINISH)[:2] == (Fault.FINISH_NOT_LAST, 0)
    assert one(steps())[:2] == (Fault.NO_FINISH, 0)
    assert one(move("load", MemType.INP, sram=2048), FINISH)[:2] == (Fault.SRAM_RANGE, 0)
    assert one(move("load", MemType.INP, dram=2**31), FINISH)[:2] == (Fault.DRAM_RANGE, 0)


def test_a_program_may_not_write_its_own_instructions():
    assert one(move("store", MemType.OUT, dram=CODE_AT // 16), FINISH)[:2] == (Fault.CODE_WRITTEN, 0)
    assert check(move("store", MemType.OUT, dram=CODE_AT // 16 - 1), FINISH) == []


def test_a_strided_store_may_step_over_the_instructions():
    rows = insn("store", memory_type=MemType.OUT, y_size=2, x_size=1, x_stride=512)
    assert check(rows, FINISH, image=bytes(4096 - 64)) != []  # its second row lies outside the image
    dram = bytes(4096) + to_bytes([rows, FINISH]) + bytes(8192)
    assert check_image(dram, 4096, 2, DEFAULT) == []


def test_micro_ops_may_not_be_computed():
    found = one(
        move("store", MemType.OUT, push_prev=1), insn("load", **COMPUTE_TOKEN, pop_next=1), move("load", MemType.UOP), FINISH,
    )
    assert found == (Fault.CODE_WRITTEN, 2, "it loads micro-ops that instruction 0 has written")


def program(*words: int, uops: tuple[int, ...] = (), relocations: tuple[Relocation, ...] = ()) -> Program:
    buffers = (Buffer(name="x", size_bytes=64), Buffer(name="y", size_bytes=64, kind=BufferKind.OUTPUT))
    return Program(config=DEFAULT, insns=words, uops=uops, buffers=buffers, relocations=relocations)


def test_a_transfer_must_stay_in_its_buffer():
    inside = program(move("load", MemType.INP, dram=2, count=2), FINISH, relocations=(Relocation(0, "x"),))
    assert check_program(inside) == []
    outside = program(move("load", MemType.INP, dram=2, count=3), FINISH, relocations=(Relocation(0, "x"),))
    (found,) = check_program(outside)
    assert str(found) == (
        "instruction 0 (load.inp dram_base=@x+2 y_size=1 x_size=3 x_stride=3): "
        "it reaches bytes 32 to 80 of buffer 'x', which has 64 [DRAM_RANGE]"
    )


def test_micro_ops_must_come_with_the_program():
    given_here = program(move("load", MemType.UOP), FINISH, uops=(0,), relocations=(Relocation(0, "uops"),))
    assert check_program(given_here) == []
    from_input = program(move("load", MemType.UOP), FINISH, relocations=(Relocation(0, "x"),))
    assert [(f.fault, f.detail) for f in check_program(from_input)] == [
        (Fault.CODE_WRITTEN, "it loads micro-ops whose contents the program does not give")
    ]


FLAG_PAIRS = {  # giver's flag, taker's flag, and the stages they stand in
    "load to compute": (0, "push_next", 1, "pop_prev"), "compute to load": (1, "push_prev", 0, "pop_next"),
    "compute to store": (1, "push_next", 2, "pop_prev"), "store to compute": (2, "push_prev", 1, "pop_next"),
}


@pytest.mark.parametrize("pair", FLAG_PAIRS, ids=lambda pair: pair.replace(" ", "-"))
def test_what_the_checker_passes_gives_one_result_in_every_order(pair):
    """Remove one token from random programs: if any order changes the result, the checker must have said so."""
    giver_stage, push, taker_stage, pop = FLAG_PAIRS[pair]
    removed = rejected = broken = 0
    for seed in range(40):
        cfg = NAMED[("tiny", "tiny_b2", "tiny_i4w2", "default")[seed % 4]]
        p = random_program(cfg, seed, length=60)
        code = [decode(cfg, word) for word in from_bytes(p.dram[p.insn_addr : p.insn_addr + p.insn_count * INSN_BYTES])]
        givers = [i for i, c in enumerate(code) if c.stage == giver_stage and c[push]]
        takers = [i for i, c in enumerate(code) if c.stage == taker_stage and c[pop]]
        for giver, taker in zip(givers, takers, strict=True):
            cut = {giver: push, taker: pop}
            words = [
                encode(cfg, FORMATS[c.op].name, **{**c.fields, **({cut[i]: 0} if i in cut else {})}) for i, c in enumerate(code)
            ]
            dram = p.dram[: p.insn_addr] + to_bytes(words)
            found = check_image(dram, p.insn_addr, p.insn_count, cfg, memories=p.memories)
            results = {
                (r.dram, r.acc.tobytes())
                for order in ("program", "eager", "lazy", seed)
                for r in [run_image(dram, p.insn_addr, p.insn_count, cfg, order=order, bases=p.bases)]
            }
            assert all(fault.fault is Fault.RACE for fault in found)
            assert found or len(results) == 1, f"{pair} seed {seed}: orders differ without instruction {giver}'s token"
            removed, rejected, broken = removed + 1, rejected + bool(found), broken + (len(results) > 1)
    assert broken > 5  # the races are real: some change what the program computes
    assert broken <= rejected < removed  # and some tokens were given for nothing


@settings(max_examples=50)
@given(st.sampled_from(list(NAMED)), st.integers(0, 2**32))
def test_random_programs_are_legal_by_construction(config, seed):
    p = random_program(NAMED[config], seed)
    assert check_image(p.dram, p.insn_addr, p.insn_count, config, memories=p.memories) == []
