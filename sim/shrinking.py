"""Shrinking of a random program that fails: its shortest beginning, without instructions that the failure does not need."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

from vtakit.hw.isa.codec import decode, encode, from_bytes, to_bytes
from vtakit.hw.isa.insns import FORMATS, TRANSFERS, Opcode
from vtakit.sim.random_programs import RandomProgram

_MANY_INSNS = 300  # of a program, of which not every beginning is tried


def narrowed(program: RandomProgram, fails: Callable[[RandomProgram], bool]) -> tuple[int, list[bool]]:
    """Return after how many instructions a failing program fails first, and which of these it needs; others only carry tokens.

    Of a long program it is a number after which it fails and before which it does not, and instructions are dropped by pieces.
    """
    count = program.insn_count

    def still_fails(kept: list[bool]) -> bool:
        return fails(_emptied(program, kept))

    def beginning(length: int) -> list[bool]:
        return [i < length for i in range(count)]

    if count > _MANY_INSNS:  # each trial is a run
        first = bisect_left(range(count), True, key=lambda n: still_fails(beginning(n)))
    else:
        first = next(n for n in range(count + 1) if n == count or still_fails(beginning(n)))
    return first, shrink(beginning(first), still_fails, -(-count // _MANY_INSNS))


def shrink(kept: list[bool], still_fails: Callable[[list[bool]], bool], least: int = 1) -> list[bool]:
    """Drop instructions, in halves and then `least` at once, while the failure stays."""
    step = max(least, len(kept) // 2)
    while step >= least:
        for start in range(0, len(kept), step):
            trial = [keep and not start <= i < start + step for i, keep in enumerate(kept)]
            if trial != kept and still_fails(trial):
                kept = trial
        step //= 2
    return kept


def _emptied(program: RandomProgram, kept: list[bool]) -> RandomProgram:
    """The program with all but the kept instructions turned into ones that only carry their tokens."""
    words = []
    for word, keep in zip(from_bytes(program.code), kept, strict=True):
        insn = decode(program.config, word)
        if not keep and insn.op is not Opcode.FINISH:
            empty = {"x_size": 0} if insn.op in TRANSFERS else {"rows": 0} if insn.op is Opcode.DWCONV else {"iter_out": 0}
            word = encode(program.config, FORMATS[insn.op].name, **{**insn.fields, **empty})
        words.append(word)
    code = to_bytes(words)
    return replace(program, dram=program.dram[: program.insn_addr] + code + program.dram[program.insn_addr + len(code) :])
