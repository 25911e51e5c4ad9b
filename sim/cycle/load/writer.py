"""`hw.load.writer.LoadWriter`: pieces and beats in, writes to scratchpads out."""

from typing import Any

from vtakit.sim.cycle.compute.acc_memory import bank_of
from vtakit.sim.cycle.state import record

WRITER = record("has", "at", "next", "end", "begins", "done", "starved", "blocked", "taken", "turn",
                "uops", "uops_at", "uops_from")


def writer(s: Any, targets: Any, pieces: Any, buffer: Any, may_write: Any, first_acc: Any, result_bank: Any) -> Any:
    """One cycle; `begins`, `done`, `starved` are as in the hardware, `taken`: a beat is. Returns whether the next cycle may
    differ without another beat, another piece or a change of `may_write`.

    first_acc      targets from this number on are ACC, and the others scratchpads that take what comes
    result_bank    of ACC, which arithmetic writes in this cycle, or -1
    blocked        an element is complete, and waits for its bank (`hw.compute.acc_writer`)
    uops           so many micro-ops are written from number `uops_at` on: those at byte `uops_from`, or pads if that is -1
    """
    s.begins = s.done = s.starved = s.blocked = s.taken = s.uops = 0
    fires = turns = False
    if s.has:
        at = s.at
        pad = pieces.pad[at] != 0
        if not pad and buffer.queue.out == 0:
            s.starved = 1
        else:
            to_acc = pieces.target[at] >= first_acc
            s.blocked = to_acc and pieces.whole[at] != 0 and result_bank == bank_of(s.next)
            fires = not s.blocked
            if fires and pad and not to_acc:
                s.turn += 1
                fires = s.turn == targets.pad_turns[pieces.target[at]]
                turns = not fires
        if fires:
            s.has = s.turn = 0
            s.done = pieces.ends[at]
            s.taken = not pad and pieces.ends_beat[at] != 0
            if pieces.whole[at]:
                if first_acc == 1 and pieces.target[at] == 0:
                    s.uops, s.uops_at, s.uops_from = pieces.elements[at], s.next, -1 if pad else pieces.address[at]
                s.next += pieces.elements[at]
    changes = fires or turns or s.blocked
    if s.has == 0 and pieces.count and (pieces.begins[pieces.first] == 0 or may_write):
        changes = True
        s.has, s.at = 1, pieces.first
        pieces.first = (pieces.first + 1) % len(pieces.target)
        pieces.count -= 1
        if pieces.begins[s.at]:
            s.begins, s.next, s.end = 1, pieces.base[s.at], pieces.bound[s.at]
    return changes
