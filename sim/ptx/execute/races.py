"""Races by happens-before: granules of memory know their last writer and two readers, warps how far they have seen the others.

An entry is clock, thread and whether the access was atomic. A warp's own clock goes up at each barrier; what it has seen of
another warp is in `clocks`. So lanes of one warp are ordered by barriers too, as they are on hardware whose threads go their own
ways.
"""

from typing import Any

from vtakit.sim.ptx.execute.codes import AGENTS, CLOCK_SHIFT


def unordered(entry: Any, thread: Any, clocks: Any, block_entry: Any, launch_entry: Any) -> Any:
    """Return whether an access of this launch did not come before what `thread` does now."""
    if entry < launch_entry:
        return False
    if entry < block_entry:
        return True
    other = (entry >> 1) % AGENTS
    if other == thread:
        return False
    clock = entry >> CLOCK_SHIFT
    mine, its = thread >> 5, other >> 5
    return clock >= clocks[mine, mine] if mine == its else clock > clocks[mine, its]


def read_race(shadow: Any, first: Any, last: Any, me: Any, thread: Any, clocks: Any, block_entry: Any, launch_entry: Any,
              early: Any) -> Any:
    """Note a read of granules, but not one that a compiler may have made `early`; returns the write that it races with, or 0."""
    for granule in range(first, last):
        at = 3 * granule
        entry = shadow[at]
        if entry >= launch_entry and not (entry & me & 1) and unordered(entry, thread, clocks, block_entry, launch_entry):
            return entry
        if early:
            continue
        entry = shadow[at + 1]
        if entry >= launch_entry and unordered(entry, thread, clocks, block_entry, launch_entry):
            shadow[at + 2] = me
        else:
            shadow[at + 1] = me
    return 0


def write_race(shadow: Any, first: Any, last: Any, me: Any, thread: Any, clocks: Any, block_entry: Any, launch_entry: Any,
               same: Any) -> Any:
    """Note a write of granules; returns the access that it races with, or 0. Writes of the `same` value do not race."""
    if same:
        return 0
    for granule in range(first, last):
        at = 3 * granule
        for role in range(3):
            entry = shadow[at + role]
            if entry >= launch_entry and not (entry & me & 1) and unordered(entry, thread, clocks, block_entry, launch_entry):
                return entry
        shadow[at] = me
        shadow[at + 1] = 0
        shadow[at + 2] = 0
    return 0
