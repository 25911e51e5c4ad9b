"""`hw.memory.bursts.BurstGenerator`: from rows of bytes to bursts."""

from typing import Any

from vtakit.sim.cycle.state import record

BURST_GENERATOR = record(
    "any_left", "knows_end", "left", "address", "row_bytes", "pitch",  # the piece in hand
    "has_found", "found_address", "found_last",
    "has_row", "row_beat", "row_beats", "row_last",
    "busy", "beat", "beats", "is_last", "ends",
    "count", "first", out_beat=2, out_last=2, out_final=2,  # the slice behind it
)


def rows_ready(s: Any) -> Any:
    """Return whether the next piece would be taken."""
    return (s.any_left == 0) & (s.has_found == 0)


def give_rows(s: Any, address: Any, count: Any, row_bytes: Any, pitch: Any) -> None:
    """Take a piece at the end of this cycle: to be called behind `burst_generator`."""
    s.address, s.left, s.row_bytes, s.pitch = address, count, row_bytes, pitch
    s.any_left = (row_bytes != 0) & (count != 0)
    s.knows_end = 0


def burst_generator(s: Any, p: Any, taken: Any) -> Any:
    """One cycle; `taken`: the burst that is offered is. Returns whether the next cycle may differ if none is."""
    if not (s.any_left or s.has_found or s.has_row or s.busy or s.count):
        s.knows_end = 1
        return False
    moves = s.busy & (s.count < 2)
    ready = (s.busy == 0) | (moves & s.ends)
    passes = s.has_found & ((s.has_row == 0) | ready)
    begins = s.any_left & s.knows_end & ((s.has_found == 0) | passes)
    changes = moves or taken or (ready and s.has_row) or passes or begins or not s.knows_end
    if moves:
        room = p.burst_beats - (s.beat & (p.burst_beats - 1))
        size = s.beats if s.ends else room
        at = (s.first + s.count) & 1
        s.out_beat[at], s.out_last[at], s.out_final[at] = s.beat, size - 1, s.is_last & s.ends
        s.ends = s.beats <= room + p.burst_beats
        s.beat += size
        s.beats -= size
    s.count += moves - taken
    s.first ^= taken
    if ready:
        s.busy = s.has_row
        if s.has_row:
            s.beat, s.beats, s.is_last = s.row_beat, s.row_beats, s.row_last
            s.ends = s.beats <= p.burst_beats - (s.beat & (p.burst_beats - 1))
        s.has_row = 0
    if passes:
        s.has_found, s.has_row, s.row_last = 0, 1, s.found_last
        s.row_beat = s.found_address >> p.bus_bytes_log2
        within = s.found_address & (p.bus_bytes - 1)
        s.row_beats = (within + s.row_bytes + p.bus_bytes - 1) >> p.bus_bytes_log2
    if begins:
        s.has_found, s.found_address, s.found_last = 1, s.address, s.left == 1
        s.left -= 1
        s.any_left = s.left != 0
        s.address += s.pitch
    s.knows_end = 1
    return changes
