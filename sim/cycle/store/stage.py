"""`hw.store.stage.StoreStage`: STOREs, from the accumulator to DRAM."""

from typing import Any

from vtakit.hw.isa.insns import FLAG_QUEUES, Stage
from vtakit.sim.cycle.issue.stage import BUSY, IDLE, ISSUE, WAIT_MEMORY, WAIT_PREV, issue, retire
from vtakit.sim.cycle.memory.write_master import WRITE_MASTER, master_idle, write_master
from vtakit.sim.cycle.state import NONE, record
from vtakit.sim.cycle.store.port import STORE_PORT, beat_valid, port_idle, port_ready, stalled, store_port

_POP = int(FLAG_QUEUES[Stage.STORE, "pop_prev"])
_PUSH = int(FLAG_QUEUES[Stage.STORE, "push_prev"])

# quiet: nothing changes without another number of commands or tokens
STORE_STAGE = record("quiet", "commands", "tokens", issue=ISSUE, port=STORE_PORT, master=WRITE_MASTER)


def store_stage(s: Any, p: Any, tokens: Any, memory: Any, acc_ready: Any) -> None:
    """One cycle; `acc_ready`: the port of ACC is the stage's."""
    port = s.port
    if s.quiet and s.commands == s.issue.queue.out and s.tokens == tokens.count[_POP]:
        return
    s.commands, s.tokens = s.issue.queue.out, tokens.count[_POP]
    issue(s.issue, tokens, _POP, _POP, port_ready(port), False)
    insn = s.issue.starts if s.issue.unit else NONE
    beats_ready = s.master.data.has_room
    reads = port.active and not stalled(port)
    write_master(s.master, p, memory, port.bursts, beat_valid(port, p) and beats_ready)
    store_port(port, p, s.issue.commands, insn, acc_ready, beats_ready, s.master.burst_taken)
    if s.issue.starts != NONE or reads:
        s.issue.cause = BUSY
    elif not s.issue.none_started:
        s.issue.cause = WAIT_MEMORY
    else:
        s.issue.cause = WAIT_PREV if s.issue.lacks_prev else IDLE
    retire(s.issue, tokens, _PUSH, _PUSH, s.master.done, 0)
    s.quiet = (p.skips and s.issue.starts == NONE and s.issue.retires == NONE and s.issue.finished1 == 0 and port_idle(port)
               and master_idle(s.master))
