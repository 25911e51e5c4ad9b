"""`hw.memory.read_buffer.ReadBuffer`: a burst is asked for only when all its beats will fit."""

from typing import Any

from vtakit.sim.cycle.pipeline import QUEUE, queue
from vtakit.sim.cycle.state import record

# asked: a burst is taken; changes: the next cycle may differ without a transfer from or to outside
READ_BUFFER = record("asked", "changes", "room", "taken_before", "count", "first", out_beat=2, out_last=2, queue=QUEUE)


def reset_read_buffer(s: Any, p: Any) -> None:
    """Set the registers that a reset does not clear."""
    s.room = p.buffer_beats
    s.queue.has_room = 1


def read_buffer(s: Any, p: Any, bursts: Any, requested: Any, returned: Any, taken: Any) -> None:
    """One cycle: its request, a beat from memory and a beat to the reader, if they are transferred."""
    asked = (bursts.count > 0) & (s.count < 2) & (s.room > bursts.out_last[bursts.first])
    s.asked = asked
    s.changes = asked or requested or returned or taken or s.taken_before
    if not (s.changes or s.queue.fifo.inner or s.queue.fifo.valid):
        return
    at = (s.first + s.count) & 1
    s.count += asked - requested
    s.first ^= requested
    s.room += s.taken_before
    if asked:
        s.out_beat[at], s.out_last[at] = bursts.out_beat[bursts.first], bursts.out_last[bursts.first]
        s.room -= s.out_last[at] + 1
    s.taken_before = taken
    if queue(s.queue, p.buffer_beats, returned, taken):
        s.changes = 1
