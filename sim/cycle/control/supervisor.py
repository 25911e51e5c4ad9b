"""`hw.control`: the host's registers as far as they take time, the states of the supervisor, and the counters."""

from typing import Any

from vtakit.sim.cycle.state import record
from vtakit.sim.cycle.surroundings import POLL, POLL_CYCLES

IDLE, START, CLEAR, BEGIN, RUN = range(5)

REGISTERS = record("has_address", "has_data", "b_valid", "reads", "r_valid", "r_busy")
SUPERVISOR = record("state", "ended")


def registers(s: Any, host: Any, kinds: Any, busy: Any, awake: Any) -> Any:
    """One cycle of the registers' bus, and of the host at it. Returns whether the program is started."""
    aw_ready, w_ready = awake and not s.has_address, awake and not s.has_data
    ar_ready = awake and not s.reads
    accept = s.has_address and s.has_data and not s.b_valid
    accept_read = s.reads and not s.r_valid
    starts = accept and host.op == len(kinds) - 2
    answered, read = s.b_valid and host.b_ready, s.r_valid and host.r_ready
    r_busy = s.r_busy
    if host.aw_valid and aw_ready:
        s.has_address = 1
    if host.w_valid and w_ready:
        s.has_data = 1
    if host.ar_valid and ar_ready:
        s.reads = 1
    if host.b_ready:
        s.b_valid = 0
    if accept:
        s.has_address, s.has_data, s.b_valid = 0, 0, 1
    if host.r_ready:
        s.r_valid = 0
    if accept_read:
        s.reads, s.r_valid, s.r_busy = 0, 1, busy
    if aw_ready:
        host.aw_valid = 0
    if w_ready:
        host.w_valid = 0
    if ar_ready:
        host.ar_valid = 0
    if answered:
        host.begun = 0
        host.op += 1
    elif read:
        host.begun = 0
        if kinds[host.op] == POLL and r_busy:
            host.pause = POLL_CYCLES
        else:
            host.op += 1
    return starts


def supervisor(s: Any, starts: Any, ended: Any) -> None:
    """One cycle; `ended` is the core's, and `starts` the host's."""
    if s.state == IDLE:
        if starts:
            s.state = START
    elif s.state == RUN:
        if s.ended:
            s.state = IDLE
    else:
        s.state += 1
    s.ended = ended if s.state == RUN else 0
