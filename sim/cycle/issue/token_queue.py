"""`hw.issue.token_queue.TokenQueue`: the four of them, as counts."""

from typing import Any

from vtakit.hw.isa.insns import Queue
from vtakit.sim.cycle.state import record

TOKEN_QUEUES = record("gives", count=len(Queue), given=len(Queue))


def push(s: Any, queue: Any, tokens: Any) -> None:
    """Add tokens to a queue, to be taken from the next cycle on."""
    s.given[queue] += tokens
    s.gives |= tokens


def end_cycle(s: Any) -> None:
    """Make what was pushed in this cycle available."""
    if s.gives:
        for n in range(len(s.count)):
            s.count[n] += s.given[n]
            s.given[n] = 0
        s.gives = 0
