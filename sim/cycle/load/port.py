"""`hw.load.port.LoadPort`: addresses on one side, scratchpad writes on the other, memory's delay between them."""

from typing import Any

from vtakit.hw.timing import LOADS_AHEAD
from vtakit.sim.cycle.load.planner import PLANNER, planner, planner_ready
from vtakit.sim.cycle.load.writer import WRITER, writer
from vtakit.sim.cycle.memory.bursts import BURST_GENERATOR, burst_generator, give_rows, rows_ready
from vtakit.sim.cycle.memory.read_buffer import READ_BUFFER, read_buffer
from vtakit.sim.cycle.program import DRAM_BASE, MEMORY_TYPE, X_SIZE, X_STRIDE, Y_SIZE, place
from vtakit.sim.cycle.state import record

# quiet: nothing changes without a transfer from or to outside, or a change of `may_write`
LOAD_PORT = record("quiet", "may_write", "queued", "first", queue=LOADS_AHEAD, bursts=BURST_GENERATOR, buffer=READ_BUFFER,
                   planner=PLANNER, writer=WRITER)


def port_ready(s: Any) -> Any:
    """Return whether the next LOAD would be taken."""
    return rows_ready(s.bursts) & (s.queued < LOADS_AHEAD)


def load_port(
    s: Any, p: Any, targets: Any, commands: Any, insn: Any, may_write: Any, first_acc: Any, result_bank: Any,
    requested: Any, returned: Any,
) -> None:
    """One cycle; `insn` is the LOAD that starts, or -1; transfers as in `read_buffer`, the others as in `writer`."""
    if s.quiet and insn < 0 and not requested and not returned and s.may_write == may_write:
        return
    s.may_write = may_write
    room = s.planner.pieces.count < 2
    changes = insn >= 0
    changes |= writer(s.writer, targets, s.planner.pieces, s.buffer, may_write, first_acc, result_bank)
    planned = -1
    if s.queued and planner_ready(s.planner):
        planned = s.queue[s.first]
        s.first = (s.first + 1) % LOADS_AHEAD
        s.queued -= 1
    changes |= planner(s.planner, p, targets, commands, planned, room)
    read_buffer(s.buffer, p, s.bursts, requested, returned, s.writer.taken)
    changes |= burst_generator(s.bursts, p, s.buffer.asked)
    s.quiet = p.skips and not (changes or s.buffer.changes)
    if insn >= 0:
        s.queue[(s.first + s.queued) % LOADS_AHEAD] = insn
        s.queued += 1
        f, at = commands.fields, place(insn)
        kind = f[at + MEMORY_TYPE]
        log2 = targets.element_log2[targets.number[kind]]
        give_rows(s.bursts, p.bases[kind] + (f[at + DRAM_BASE] << log2), f[at + Y_SIZE], f[at + X_SIZE] << log2,
                  f[at + X_STRIDE] << log2)
