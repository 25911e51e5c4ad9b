"""Asynchronous copies from global to shared memory (cp.async).

Each warp has an agent that copies for it, with a clock that goes up with each group that is committed. The data is there at once,
but it counts as written by the agent: a read races with it until the reader has seen the agent's clock, by waiting for the group
and, in other warps, a barrier after that.
"""

from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.codes import (
    CLOCK_SHIFT,
    COPY_AGENT,
    MISALIGNED,
    OK,
    OUT_OF_BOUNDS,
    RACE_READ,
    RACE_WRITE,
    SHARED_BASE,
    W_COPY_CLOCK,
    X_CHECKS,
    X_SHARED,
    failed,
)
from vtakit.sim.ptx.execute.memory import placed, put, raced, usable
from vtakit.sim.ptx.opcodes import COUNT, GLOBAL, IMM, KIND, KIND2, A, B, C


def copy_async(row: Any, r: Any, lanes: Any, n: Any, warp: Any, mem: Any, ctl: Any, warps: Any) -> Any:
    """Run cp.async of COUNT bytes: A is the place in shared memory (IMM more), B the one in global memory (KIND more).

    C has the bytes that are read; the rest becomes 0. KIND2 says that A is an address of shared memory, else it is generic.
    """
    size, fault, clocks = row[COUNT], warps.fault, warps.clocks
    agent = np.int64(COPY_AGENT + warp)
    clock = clocks[warp, warp] << CLOCK_SHIFT
    for i in range(n):
        lane = lanes[i]
        thread = warp * 32 + lane
        to = r[row[A] + lane] + row[IMM]
        at = to + SHARED_BASE if row[KIND2] else to
        if at < SHARED_BASE or at + size > SHARED_BASE + ctl[X_SHARED]:
            return failed(fault, OUT_OF_BOUNDS, lane, to, 1, size)
        source = r[row[B] + lane] + row[KIND]
        given = min(max(r[row[C] + lane], np.int64(0)), size)
        if at & (size - 1) or source & (size - 1):
            return failed(fault, MISALIGNED, lane, to if at & (size - 1) else source, 0, size)
        if given:
            there = placed(source, given, np.int64(GLOBAL), thread, ctl)
            if there < 0:
                return failed(fault, -there, lane, source, 0, given)
        if ctl[X_CHECKS]:
            state = usable(mem, at, size, False)
            if state != OK:
                return failed(fault, state, lane, to, 1, size)
            if given:
                state = usable(mem, source, given, True)
                if state != OK:
                    return failed(fault, state, lane, source, 0, given)
                entry = raced(mem, source, given, clock | (thread << 1), thread, clocks, ctl, False, False, False)
                if entry:
                    return failed(fault, RACE_READ, lane, source, entry, given)
            me = (warps.state[warp, W_COPY_CLOCK] << CLOCK_SHIFT) | ((agent * 32 + lane) << 1)
            entry = raced(mem, at, size, me, thread, clocks, ctl, False, True, False)
            if entry:
                return failed(fault, RACE_WRITE, lane, to, entry, size)
        for byte in range(size):
            put(mem, at + byte, np.int64(0), np.int64(mem.bytes[source + byte]) if byte < given else np.int64(0))
    return OK


def commit(warp: Any, clock_column: Any, warps: Any) -> None:
    """End a group."""
    warps.state[warp, clock_column] += 1


def wait(warp: Any, clock_column: Any, agent: Any, newest: Any, warps: Any) -> Any:
    """Wait for all groups but the newest ones: the warp then has seen what its agent did in them.

    Returns the last clock of these.
    """
    done = warps.state[warp, clock_column] - 1 - newest
    if done > warps.clocks[warp, agent + warp]:
        warps.clocks[warp, agent + warp] = done
    return done
