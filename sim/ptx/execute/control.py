"""Branches with reconvergence, exits and barriers."""

from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.codes import (
    AT_BARRIER,
    B_ARRIVED,
    B_EXPECTED,
    B_PC,
    B_WARPS,
    BAD_BARRIER,
    BARRIERS,
    DEEP,
    DEPTH,
    DIVERGENT_BARRIER,
    DONE,
    EXITED_BARRIER,
    OK,
    RUNNING,
    S_MASK,
    S_PC,
    S_RECONVERGE,
    W_BARRIER,
    W_DEPTH,
    W_EXITED,
    W_LANES,
    W_STATUS,
    X_THREADS,
    X_WARPS,
)
from vtakit.sim.ptx.opcodes import RECONVERGE


def fill(lanes: Any, mask: Any) -> Any:
    """Write the numbers of a mask's lanes; returns how many they are."""
    n = 0
    for lane in range(32):
        if (mask >> lane) & 1:
            lanes[n] = lane
            n += 1
    return n


def chosen(r: Any, place: Any, negated: Any, lanes: Any, n: Any) -> Any:
    """Mask of the lanes whose predicate holds."""
    mask = np.int64(0)
    for i in range(n):
        if r[place + lanes[i]] != negated:
            mask |= np.int64(1) << lanes[i]
    return mask


def popped(w: Any, warps: Any) -> Any:
    """Drop entries of the stack whose lanes have all exited; returns whether a lane is left."""
    depth, gone = warps.state[w, W_DEPTH], warps.state[w, W_EXITED]
    while depth >= 0:
        mask = warps.stack[w, depth, S_MASK] & ~gone
        if mask != 0:
            warps.stack[w, depth, S_MASK] = mask
            warps.state[w, W_DEPTH] = depth
            return True
        depth -= 1
    warps.state[w, W_DEPTH] = 0
    warps.state[w, W_STATUS] = DONE
    return False


def branch(w: Any, row: Any, taken: Any, mask: Any, pc: Any, target: Any, warps: Any) -> Any:
    """Send the lanes of `taken` to the target, the others on: returns OK, or DEEP if the stack is full.

    The lanes meet again where all their ways lead (the branch's immediate post-dominator). If that is where the entry on top
    ends, the entry below waits there for them already.
    """
    depth = warps.state[w, W_DEPTH]
    entry = warps.stack[w]
    if taken == mask:
        entry[depth, S_PC] = target
        return OK
    if taken == 0:
        entry[depth, S_PC] = pc + 1
        return OK
    meet, ends = row[RECONVERGE], entry[depth, S_RECONVERGE]
    if meet < 0:
        meet = ends
    if meet == ends:
        depth -= 1
    else:
        entry[depth, S_PC] = meet
    if depth + 2 >= DEPTH:
        return DEEP
    if pc + 1 != meet:
        depth += 1
        entry[depth, S_PC], entry[depth, S_MASK], entry[depth, S_RECONVERGE] = pc + 1, mask & ~taken, meet
    if target != meet:
        depth += 1
        entry[depth, S_PC], entry[depth, S_MASK], entry[depth, S_RECONVERGE] = target, taken, meet
    warps.state[w, W_DEPTH] = depth
    return OK


def arrive(w: Any, pc: Any, active: Any, number: Any, expected: Any, waits: Any, warps: Any, ctl: Any) -> Any:
    """Arrive at a barrier with all threads of a warp; the last to arrive lets the others go on.

    `expected` is the number of threads, 0 for the whole block.
    """
    state = warps.state[w]
    present = ~state[W_EXITED] & 0xFFFFFFFF
    if active != present:
        return DIVERGENT_BARRIER
    if number < 0 or number >= BARRIERS or expected < 0 or expected & 31:
        return BAD_BARRIER
    lanes = 0
    for lane in range(32):
        lanes += (present >> lane) & 1
    if lanes != state[W_LANES]:
        return EXITED_BARRIER
    barrier = warps.barriers[number]
    if barrier[B_ARRIVED] == 0:
        barrier[B_EXPECTED], barrier[B_WARPS] = expected, 0
    elif barrier[B_EXPECTED] != expected:
        return BAD_BARRIER
    barrier[B_ARRIVED] += 32 if expected else lanes
    barrier[B_WARPS] |= np.int64(1) << w
    barrier[B_PC] = pc
    if waits:
        state[W_STATUS], state[W_BARRIER] = AT_BARRIER, number
    if barrier[B_ARRIVED] < (expected if expected else ctl[X_THREADS]):
        return OK
    together(barrier[B_WARPS], warps.clocks, ctl[X_WARPS])
    for other in range(ctl[X_WARPS]):
        there = warps.state[other]
        if there[W_STATUS] == AT_BARRIER and there[W_BARRIER] == number:
            there[W_STATUS] = RUNNING
    barrier[B_ARRIVED] = 0
    return OK


def together(members: Any, clocks: Any, count: Any) -> None:
    """Let the warps of a mask know what each of them has seen; their own clocks go on."""
    for number in range(3 * count):
        about = number % count + (number // count) * 32
        latest = np.int64(0)
        for warp in range(count):
            if (members >> warp) & 1 and clocks[warp, about] > latest:
                latest = clocks[warp, about]
        for warp in range(count):
            if (members >> warp) & 1 and warp != about:
                clocks[warp, about] = latest
    for warp in range(count):
        if (members >> warp) & 1:
            clocks[warp, warp] += 1
