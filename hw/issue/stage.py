"""Shared parts of the three stages: the members of their tokens, their status, and the cause of each cycle."""

from enum import IntEnum

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import FAULT_BITS, INDEX_BITS
from vtakit.hw.isa.insns import FLAG_QUEUES, FLAGS, Stage


class Cause(IntEnum):
    """Cause of a stage's cycle, in the order of `hw.isa.regs.CYCLE_CAUSES`."""

    BUSY = 0
    WAIT_PREV = 1
    WAIT_NEXT = 2
    WAIT_MEMORY = 3
    IDLE = 4


def activity() -> data.StructLayout:
    """Return the layout of a stage's activity in one cycle: a `Cause`, and the instructions that it started and retired."""
    return data.StructLayout({
        "cause": 3, "starts": 1, "retires": 1, "start_index": INDEX_BITS, "retire_index": INDEX_BITS,
    })


def status() -> wiring.Signature:
    """Return the signature of a stage's status.

    fault, fault_index   a `Fault` and the number of its instruction
    activity             what the cycle was spent on
    waits, index         an instruction waits for a token, and nothing else is under way; its number
    empty                nothing is under way
    """
    return wiring.Signature({
        "fault": Out(FAULT_BITS), "fault_index": Out(INDEX_BITS), "activity": Out(activity()), "waits": Out(1),
        "index": Out(INDEX_BITS), "empty": Out(1),
    })


def token_members(stage: Stage) -> dict[str, wiring.Member]:
    """Streams of the queues that the stage takes tokens from, and pulses for those that it gives to, by flag."""
    return {
        flag: In(stream.Signature(0)) if flag.startswith("pop") else Out(1)
        for flag in FLAGS if (stage, flag) in FLAG_QUEUES
    }


def attribute(m: Module, cause: Value, reasons: dict[Cause, Value]) -> None:
    """Drive `cause`: the first that holds, or idle."""
    chosen: Value | Cause = Cause.IDLE
    for reason, holds in reversed(reasons.items()):
        chosen = Mux(holds, reason, chosen)
    m.d.comb += cause.eq(chosen)
