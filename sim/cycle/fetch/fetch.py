"""`hw.fetch.fetch.Fetch`: streams the program from DRAM ahead of the stages and sorts it into their queues."""

from typing import Any

from vtakit.hw.isa.config import INSN_BITS, INSN_BYTES
from vtakit.hw.isa.insns import COMMAND_QUEUE_DEPTH
from vtakit.sim.cycle.memory.bursts import BURST_GENERATOR, burst_generator, give_rows
from vtakit.sim.cycle.memory.read_buffer import READ_BUFFER, read_buffer
from vtakit.sim.cycle.memory.read_master import FETCH
from vtakit.sim.cycle.pipeline import queue
from vtakit.sim.cycle.state import record

_DEPTH = COMMAND_QUEUE_DEPTH - 2
_INSN_BYTES_LOG2 = INSN_BYTES.bit_length() - 1

# left: instructions not yet put together; fetched: in the slice before the decoder; stage: of the decoded one;
# quiet: nothing changes without a transfer from or to outside
FETCH_UNIT = record("held", "lane", "left", "fetched", "has_decoded", "stage", "sent", "quiet",
                    bursts=BURST_GENERATOR, buffer=READ_BUFFER)


def ended(s: Any) -> Any:
    """Return whether every instruction is in a queue."""
    return s.left == 0 and s.fetched == 0 and not s.has_decoded


def fetch(s: Any, p: Any, starts: Any, reader: Any, load: Any, compute: Any, store: Any, taken: Any) -> None:
    """One cycle. load, compute, store: the queues of commands; `taken`: bit n: stage n takes one. `sent`: one goes there."""
    s.sent = 0
    requested, returned = reader.requested == FETCH, reader.returned == FETCH
    if s.quiet and not (requested or returned or taken or starts):
        return
    stage, sent = s.stage, False
    if s.has_decoded:
        sent = (load.has_room if stage == 0 else compute.has_room if stage == 1 else store.has_room) != 0
    s.sent = sent
    moves = queue(load, _DEPTH, sent and stage == 0, taken & 1)
    moves |= queue(compute, _DEPTH, sent and stage == 1, taken >> 1 & 1)
    moves |= queue(store, _DEPTH, sent and stage == 2, taken >> 2 & 1)

    comes = s.left > 0 and s.fetched < 2 and s.buffer.queue.out > 0
    ready = not s.has_decoded or sent
    beat_taken = False
    if p.bus_bits < INSN_BITS:
        whole = s.held == INSN_BITS // p.bus_bits - 1
        comes = comes and whole
        beat_taken = s.buffer.queue.out > 0 and (not whole or comes)
        if beat_taken:
            s.held = 0 if whole else s.held + 1
    elif comes:
        last = p.bus_bits // INSN_BITS - 1
        beat_taken = s.lane == last
        s.lane = 0 if beat_taken else s.lane + 1
    if ready:
        moves |= s.fetched > 0
        s.has_decoded = s.fetched > 0
        s.fetched -= s.has_decoded
    s.fetched += comes
    s.left -= comes

    read_buffer(s.buffer, p, s.bursts, requested, returned, beat_taken)
    moves |= burst_generator(s.bursts, p, s.buffer.asked)
    s.quiet = p.skips and not (moves or sent or comes or s.buffer.changes or starts)
    if starts:
        s.left = p.insn_count
        s.lane = p.insn_addr >> _INSN_BYTES_LOG2 & (max(1, p.bus_bits // INSN_BITS) - 1)
        give_rows(s.bursts, p.insn_addr, 1, p.insn_count << _INSN_BYTES_LOG2, 0)
