"""`hw.memory.read_master.ReadMaster`: bursts of three readers in turn, their data back in the same order."""

from typing import Any

from vtakit.sim.cycle.pipeline import BUFFERED, buffered
from vtakit.sim.cycle.state import NONE, record
from vtakit.sim.cycle.surroundings import read_taken, take_read

FETCH, COMPUTE, LOAD = 0, 1, 2  # numbers of the readers
_OWNERS = 256  # more than can be outstanding

READ_MASTER = record("is_open", "in_flight", "latest", "requested", "returned", "count", "first", "oldest", "newest",
                     out_beat=2, out_last=2, owners=BUFFERED, owner=_OWNERS)


def read_master(s: Any, p: Any, memory: Any, fetch: Any, compute: Any, load: Any) -> None:
    """One cycle. The arguments are the readers' buffers; `requested` and `returned` name those that have a transfer."""
    s.requested = s.returned = NONE
    if not (s.in_flight or fetch.count or compute.count or load.count):
        s.is_open = 1
        return
    start = 0
    if s.is_open and s.count < 2 and (fetch.count or compute.count or load.count):
        choice = s.latest
        for away in range(3, 0, -1):
            n = (s.latest + away) % 3
            if (fetch.count if n == FETCH else compute.count if n == COMPUTE else load.count) > 0:
                choice = n
        start = 1
        s.requested = s.latest = choice
        at = (s.first + s.count) & 1
        if choice == FETCH:
            s.out_beat[at], s.out_last[at] = fetch.out_beat[fetch.first], fetch.out_last[fetch.first]
        elif choice == COMPUTE:
            s.out_beat[at], s.out_last[at] = compute.out_beat[compute.first], compute.out_last[compute.first]
        else:
            s.out_beat[at], s.out_last[at] = load.out_beat[load.first], load.out_last[load.first]
    finished = 0
    if memory.r_valid and s.owners.valid:
        s.returned = s.owner[s.oldest]
        finished = read_taken(memory)
    if s.count and memory.ar_ready:
        take_read(memory, p, s.out_beat[s.first], s.out_last[s.first] + 1)
        s.count -= 1
        s.first ^= 1
    s.count += start
    if start:
        s.owner[s.newest] = s.latest
        s.newest = (s.newest + 1) % _OWNERS
    if finished:
        s.oldest = (s.oldest + 1) % _OWNERS
    buffered(s.owners, start, finished)
    s.is_open = s.in_flight + start < p.outstanding
    s.in_flight += start - finished
