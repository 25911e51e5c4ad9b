"""decoder against `sim.decode`: every opcode with every flag, memory type and pad, random words, last or not."""

import cocotb
import numpy as np
from board import blocks, params

from vtakit.hw.isa.codec import decode, encode
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import FORMATS, MEMORIES, TRANSFERS, Opcode
from vtakit.sim.bench.agents import Bench
from vtakit.sim.decode import Decoded, Memories

OPCODE_MASK = 7
# Faults that depend on more than the word: later blocks find them.
ELSEWHERE = {Fault.SRAM_RANGE, Fault.DRAM_RANGE}
ANYWHERE = Memories(bases=dict.fromkeys(MEMORIES, 0), window=(0, 1 << 60))


def decoded(cfg, words):
    """Return (stage, fault) of each word with a FINISH behind it; fault is 0 where a later block finds the error."""
    many = Decoded(cfg, b"".join(word.to_bytes(16, "little") for word in [*words, encode(cfg, "finish")]))
    faults = np.where(np.isin(many.faults(ANYWHERE), list(ELSEWHERE)), 0, many.faults(ANYWHERE))
    return list(zip(many.stage[:-1].tolist(), faults[:-1].tolist(), strict=True))


def at_the_end(cfg, word, stage, fault):
    """Return stage and fault of a word that is the last of its program: NO_FINISH if nothing else is wrong with it."""
    if word & OPCODE_MASK == Opcode.FINISH:
        fault = int(Decoded(cfg, word.to_bytes(16, "little")).faults(ANYWHERE)[0])
        return stage, fault
    return stage, fault or int(Fault.NO_FINISH)


def does_something(cfg, word):
    """Whether a legal instruction moves or computes anything."""
    insn = decode(cfg, word)
    if insn.op is Opcode.FINISH:
        return False
    if insn.op is Opcode.DWCONV:
        return bool(insn["rows"])
    if insn.op in (Opcode.GEMM, Opcode.ALU):
        return bool(insn["iter_out"] and insn["iter_in"] and insn["uop_bgn"] < insn["uop_end"])
    return bool(insn["x_size"] and (insn["y_size"] or insn.fields.get("y_pad_0") or insn.fields.get("y_pad_1")))


def legal_words(cfg, pick):
    """Fields at random, most of them legal: what a fuzzer over words seldom meets."""
    for op, fmt in FORMATS.items():
        for _ in range(150):
            values = {p.field.name: pick.choice((0, p.high, pick.randint(p.low, p.high))) for p in fmt.place(cfg)}
            for place in fmt.place(cfg):
                name = place.field.name
                if name.endswith(("_prev", "_next")) or "pad" in name:
                    values[name] = values[name] if pick.randrange(6) == 0 else 0
                if place.field.members is not None and pick.randrange(8):
                    values[name] = int(pick.choice(list(place.field.members)))
            yield fmt.pack(cfg, values | {"opcode": int(op)})


def flags_of_every_transfer(cfg):
    """Opcode x memory type x flags x one pad, if it has any."""
    for op in TRANSFERS:
        for kind in range(8):
            for flags in range(16):
                for pad in ("",) if op is Opcode.REQUANT else ("", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"):
                    values = {"memory_type": kind, "x_size": 1, "y_size": 1, "opcode": int(op)} | ({pad: 1} if pad else {})
                    yield FORMATS[op].pack(cfg, values) | flags << 3
    for op in range(8):
        for flags in range(16):
            yield op | flags << 3


@cocotb.test()
@cocotb.parametrize(seed=[0, 1])
async def agrees_with_the_simulators(dut, seed):
    cfg = params().cfg
    bench = await Bench.start(dut, "decoder", blocks()["decoder"], seed)
    pick = bench.random
    words = [*legal_words(cfg, pick), *(pick.getrandbits(128) for _ in range(400))]
    for one in (1 << bit for bit in range(128)):  # each bit of each format, reserved ones too
        words += [one | int(op) for op in Opcode]
    if seed == 0:
        words += flags_of_every_transfer(cfg)
    seen = set()
    for word, alone in zip(words, decoded(cfg, words), strict=True):
        is_last = int(pick.randrange(4) == 0)
        bench.pins.set("word", word)
        bench.pins.set("is_last", is_last)
        await bench.step()
        want = at_the_end(cfg, word, *alone) if is_last else alone
        got = bench.pins.get("stage"), bench.pins.get("fault")
        if want[1] in (Fault.UNKNOWN_OPCODE, Fault.UNKNOWN_MEMORY_TYPE):  # no stage is meant
            got, want = got[1:], want[1:]
        assert got == want, f"word {word:032x} last {is_last}: got {got}, want {want}"
        if not want[-1]:
            assert bench.pins.get("works") == does_something(cfg, word), f"word {word:032x}"
        seen.add(Fault(want[-1]) if want[-1] else None)
    assert seen >= {None, Fault.RESERVED_BITS, Fault.UNKNOWN_MEMORY_TYPE, Fault.UNKNOWN_ALU_OPCODE,
                    Fault.FINISH_NOT_LAST, Fault.ILLEGAL_FLAG, Fault.STORE_PAD, Fault.UOP_RANGE, Fault.NO_FINISH}


@cocotb.test()
async def has_no_opcode_that_its_device_lacks(dut):
    cfg = params().cfg
    bench = await Bench.start(dut, "decoder_plain", blocks()["decoder_plain"], 0)
    for fields in ({}, {"rows": 3, "columns": 3}, {"rows": 1, "push_next": 1, "pop_prev": 1}):
        for more in (0, 1 << 127):
            bench.pins.set("word", encode(cfg, "dwconv", **fields) | more)
            await bench.step()
            assert bench.pins.get("fault") == Fault.UNKNOWN_OPCODE
    for fields in ({"pool": 2}, {"pool_step": 1}, {"pool": 1, "pool_left": 1}):
        bench.pins.set("word", encode(cfg, "requant", memory_type=4, x_size=1, y_size=1, **fields))
        await bench.step()
        assert bench.pins.get("fault") == (Fault.RESERVED_BITS if cfg.has_requant else Fault.UNKNOWN_OPCODE)
    words = [word for word in legal_words(cfg, bench.random) if word & OPCODE_MASK not in (Opcode.DWCONV, Opcode.REQUANT)]
    for word, (_, fault) in zip(words, decoded(cfg, words), strict=True):
        bench.pins.set("word", word)
        await bench.step()
        assert bench.pins.get("fault") == fault
