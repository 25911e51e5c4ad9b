"""`hw.memory.write_master.WriteMaster`: a burst starts only when all its data are here."""

from typing import Any

from vtakit.sim.cycle.pipeline import QUEUE, queue
from vtakit.sim.cycle.state import record
from vtakit.sim.cycle.surroundings import answer_taken, take_data, take_write

_BURSTS = 256  # more than can be outstanding

WRITE_MASTER = record("here", "in_flight", "aw_valid", "aw_at", "aw_beats", "sent", "lengths", "length_first", "final_first",
                      "newest", "burst_taken", "done", length=_BURSTS, final=_BURSTS, data=QUEUE)


def reset_write_master(s: Any) -> None:
    """Set the registers that a reset does not clear."""
    s.data.has_room = 1


def master_idle(s: Any) -> Any:
    """Return whether no data are here and no burst is under way."""
    return not (s.in_flight or s.here or s.data.fifo.inner or s.data.fifo.valid or s.data.out)


def write_master(s: Any, p: Any, memory: Any, bursts: Any, arrives: Any) -> None:
    """One cycle; `arrives`: a beat of data is transferred. `burst_taken` and `done` are as in the hardware."""
    s.burst_taken = s.done = 0
    memory.stands = 0
    if not (arrives or bursts.count) and master_idle(s):
        s.data.has_room = 1
        return
    start = ((bursts.count > 0) & ((s.aw_valid == 0) | memory.aw_ready) & (s.here > bursts.out_last[bursts.first])
             & (s.in_flight != p.outstanding))
    w_valid = (s.lengths > 0) & (s.data.out > 0)
    memory.stands = s.aw_valid & (memory.aw_ready == 0) & w_valid & (memory.w_ready == 0)
    moves = w_valid & memory.w_ready
    ends = moves & (s.sent == s.length[s.length_first])
    finished = memory.b_valid
    if s.aw_valid and memory.aw_ready:
        take_write(memory, s.aw_at, s.aw_beats)
        s.aw_valid = 0
    if moves:
        take_data(memory, ends)
        s.sent += 1
        if ends:
            s.sent = 0
            s.length_first = (s.length_first + 1) % _BURSTS
    if finished:
        answer_taken(memory)
        s.done = s.final[s.final_first]
        s.final_first = (s.final_first + 1) % _BURSTS
    s.here += arrives
    if start:
        s.burst_taken, s.aw_valid = 1, 1
        s.aw_at, s.aw_beats = bursts.out_beat[bursts.first], bursts.out_last[bursts.first] + 1
        s.length[s.newest], s.final[s.newest] = s.aw_beats - 1, bursts.out_final[bursts.first]
        s.newest = (s.newest + 1) % _BURSTS
        s.here -= s.aw_beats
    s.lengths += start - ends
    s.in_flight += start - finished
    queue(s.data, 4 * p.burst_beats, arrives, moves)
