"""What the three stages share: taking an instruction's tokens at once, and what a stage's cycle was spent on."""

from enum import IntEnum

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring

from vtakit.hw.decoder import FLAGS
from vtakit.hw.interfaces import layout
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import FLAG_QUEUES, LOAD, Stage


class Cause(IntEnum):
    """What a stage did in a cycle; the order of `hw.isa.regs.CYCLE_CAUSES`."""

    BUSY = 0
    WAIT_PREV = 1
    WAIT_NEXT = 2
    WAIT_MEMORY = 3
    IDLE = 4


def token_members(stage: Stage) -> dict[str, wiring.Member]:
    """Streams of the queues that the stage takes tokens from, and pulses for those that it gives to, by flag."""
    return {
        flag: wiring.In(stream.Signature(0)) if flag.startswith("pop") else wiring.Out(1)
        for flag in FLAGS if (stage, flag) in FLAG_QUEUES
    }


def tokens_there(
    m: Module, block: wiring.Component, stage: Stage, cfg: VTAConfig, word: Value, taken: Signal
) -> dict[str, Value]:
    """Drive the stage's token streams: all tokens of the instruction `word` are taken in the cycle `taken`.

    Returns for each pop flag whether its token is missing.
    """
    fields = data.View(layout(LOAD, cfg), word)
    missing = {}
    for flag in ("pop_prev", "pop_next"):
        if (stage, flag) in FLAG_QUEUES:
            tokens = getattr(block, flag)
            m.d.comb += tokens.ready.eq(taken & fields[flag])
            missing[flag] = fields[flag] & ~tokens.valid
    return missing
