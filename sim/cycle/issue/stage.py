"""`hw.issue`: in-order issue and retirement, and the cause of each of a stage's cycles."""

from typing import Any

from vtakit.hw.isa.insns import Opcode
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.hw.timing import INSNS_STARTED
from vtakit.sim.cycle.issue.token_queue import push
from vtakit.sim.cycle.pipeline import QUEUE
from vtakit.sim.cycle.program import COMMANDS, OPCODE, POP_NEXT, POP_PREV, PUSH_NEXT, PUSH_PREV, UNIT, place
from vtakit.sim.cycle.state import NONE, record

BUSY, WAIT_PREV, WAIT_NEXT, WAIT_MEMORY, IDLE = (
    list(CYCLE_CAUSES).index(cause) for cause in ("busy", "wait_prev", "wait_next", "wait_memory", "idle"))
_FINISH = int(Opcode.FINISH)

# Instructions are numbered stage by stage. next, oldest: the one at hand, and the oldest under way.
ISSUE = record("next", "oldest", "under_way", "finished1", "finished2", "starts", "unit", "lacks_prev", "lacks_next",
               "none_started", "retires", "finish", "cause", queue=QUEUE, commands=COMMANDS)


def reset_issue(s: Any) -> None:
    """Set the registers that a reset does not clear."""
    s.queue.has_room = 1


def issue(s: Any, tokens: Any, prev: Any, following: Any, takes1: Any, takes2: Any) -> None:
    """One cycle of Issue: `starts` is the instruction that starts, or NONE; `unit` who does it.

    prev, following  numbers of the queues from the neighbours
    takes1, takes2   a unit would take the instruction
    """
    s.starts, s.lacks_prev, s.lacks_next = NONE, 0, 0
    s.none_started = s.under_way == 0
    if s.queue.out == 0:
        return
    f, at = s.commands.fields, place(s.next)
    wants_prev, wants_next = f[at + POP_PREV], f[at + POP_NEXT]
    s.lacks_prev = (wants_prev != 0) & (tokens.count[prev] == 0)
    s.lacks_next = (wants_next != 0) & (tokens.count[following] == 0)
    unit = f[at + UNIT]
    if (not s.lacks_prev and not s.lacks_next and s.under_way != INSNS_STARTED
            and (unit == 0 or (unit == 1 and takes1) or (unit == 2 and takes2))):
        s.starts, s.unit = s.next, unit
        tokens.count[prev] -= wants_prev
        tokens.count[following] -= wants_next


def retire(s: Any, tokens: Any, to_prev: Any, to_next: Any, done1: Any, done2: Any) -> None:
    """One cycle of Retire, behind `issue`."""
    s.retires, s.finish = NONE, 0
    if s.under_way:
        f, at = s.commands.fields, place(s.oldest)
        unit = f[at + UNIT]
        if unit == 0 or (unit == 1 and s.finished1) or (unit == 2 and s.finished2):
            s.retires = s.oldest
            push(tokens, to_prev, f[at + PUSH_PREV])
            push(tokens, to_next, f[at + PUSH_NEXT])
            s.finish = f[at + OPCODE] == _FINISH
            s.finished1 -= unit == 1
            s.finished2 -= unit == 2
            s.oldest += 1
            s.under_way -= 1
    s.finished1 += done1
    s.finished2 += done2
    if s.starts != NONE:
        s.under_way += 1
        s.next += 1
