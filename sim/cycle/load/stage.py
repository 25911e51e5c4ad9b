"""`hw.load.stage.LoadStage`: LOADs of INP and WGT."""

from typing import Any

from vtakit.hw.isa.insns import FLAG_QUEUES, Stage
from vtakit.sim.cycle.issue.stage import BUSY, IDLE, ISSUE, WAIT_MEMORY, WAIT_NEXT, issue, retire
from vtakit.sim.cycle.load.port import LOAD_PORT, load_port, port_ready
from vtakit.sim.cycle.memory.read_master import LOAD
from vtakit.sim.cycle.state import NONE, record

_POP = int(FLAG_QUEUES[Stage.LOAD, "pop_next"])
_PUSH = int(FLAG_QUEUES[Stage.LOAD, "push_next"])
_NO_ACC = 99  # no target is ACC

# quiet: nothing changes without a transfer from or to outside, or another number of commands or tokens
LOAD_STAGE = record("quiet", "commands", "tokens", issue=ISSUE, port=LOAD_PORT)


def load_stage(s: Any, p: Any, tokens: Any, reader: Any) -> None:
    """One cycle."""
    port = s.port
    requested, returned = reader.requested == LOAD, reader.returned == LOAD
    if s.quiet and not requested and not returned and s.commands == s.issue.queue.out and s.tokens == tokens.count[_POP]:
        return
    s.commands, s.tokens = s.issue.queue.out, tokens.count[_POP]
    issue(s.issue, tokens, _POP, _POP, port_ready(port), False)
    insn = s.issue.starts if s.issue.unit else NONE
    load_port(port, p, p.load, s.issue.commands, insn, True, _NO_ACC, NONE, requested, returned)
    if s.issue.starts != NONE or (not s.issue.none_started and not port.writer.starved):
        s.issue.cause = BUSY
    elif not s.issue.none_started:
        s.issue.cause = WAIT_MEMORY
    else:
        s.issue.cause = WAIT_NEXT if s.issue.lacks_next else IDLE
    retire(s.issue, tokens, _PUSH, _PUSH, port.writer.done, 0)
    s.quiet = port.quiet and s.issue.starts == NONE and s.issue.retires == NONE
