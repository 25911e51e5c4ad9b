"""The blocks of a launch, one after another, and the warps of a block in turns."""

from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.codes import (
    B_ARRIVED,
    BARRIERS,
    DEADLOCK,
    DONE,
    E_KIND,
    E_PC,
    E_WARP,
    FAULT,
    LOCAL_BASE,
    RUNNING,
    S_MASK,
    S_PC,
    S_RECONVERGE,
    VALID,
    W_COPY_CLOCK,
    W_DEPTH,
    W_EXITED,
    W_GROUP_CLOCK,
    W_LANES,
    W_STATUS,
    X_BLOCK,
    X_BLOCK_CLOCK,
    X_BLOCKS,
    X_GRID_X,
    X_GRID_Y,
    X_LOCAL,
    X_STARTED,
    X_THREADS,
    X_WARPS,
)
from vtakit.sim.ptx.execute.loop import run_warp

_TURN = 20_000  # instructions of one warp before the next has its turn


def begin(regs: Any, inits: Any, every_cause: Any, first: Any, mem: Any, ctl: Any, warps: Any, ranges: Any,
          block_slot: Any) -> None:
    """Begin a block: nothing of the block before is defined any more."""
    clock = np.int64(0)
    for warp in range(ctl[X_WARPS]):
        clock = max(clock, warps.clocks[warp, warp], warps.state[warp, W_COPY_CLOCK], warps.state[warp, W_GROUP_CLOCK])
    clock += 1
    ctl[X_BLOCK_CLOCK] = clock
    warps.clocks[:, :] = clock - 1
    block = ctl[X_BLOCK]
    place = block % ctl[X_GRID_X], (block // ctl[X_GRID_X]) % ctl[X_GRID_Y], block // (ctl[X_GRID_X] * ctl[X_GRID_Y])
    for warp in range(ctl[X_WARPS]):
        warps.clocks[warp, warp] = clock
        count = min(32, ctl[X_THREADS] - 32 * warp)
        mask = (np.int64(1) << count) - 1
        warps.state[warp, :] = 0
        warps.state[warp, W_LANES] = count
        warps.state[warp, W_COPY_CLOCK] = clock
        warps.state[warp, W_GROUP_CLOCK] = clock
        warps.state[warp, W_EXITED] = 0xFFFFFFFF & ~mask
        warps.stack[warp, 0, S_PC], warps.stack[warp, 0, S_MASK], warps.stack[warp, 0, S_RECONVERGE] = 0, mask, -1
        inits[warp, first:] = 0
        every_cause[warp] = 0
        for axis in range(3):
            for lane in range(32):
                regs[warp, (block_slot + axis) * 32 + lane] = place[axis]
    for number in range(BARRIERS):
        warps.barriers[number, B_ARRIVED] = 0
    for at in range(len(ranges)):
        mem.state[ranges[at, 0] : ranges[at, 1]] = VALID
    mem.state[LOCAL_BASE : LOCAL_BASE + ctl[X_LOCAL] * ctl[X_THREADS]] = VALID


def run_blocks(budget: Any, code: Any, lists: Any, regs: Any, floats: Any, inits: Any, every_cause: Any, first: Any, mem: Any,
               ctl: Any, warps: Any,
               counts: Any, ranges: Any, block_slot: Any, scratch: Any, reals: Any) -> Any:
    """Run about `budget` instructions of a launch; returns RUNNING, DONE or FAULT. A later call goes on where this one ended."""
    lanes, picked = scratch[0], scratch[1]
    while budget > 0:
        if ctl[X_STARTED] == 0:
            if ctl[X_BLOCK] >= ctl[X_BLOCKS]:
                return DONE
            begin(regs, inits, every_cause, first, mem, ctl, warps, ranges, block_slot)
            ctl[X_STARTED] = 1
        ran, left = 0, 0
        for w in range(ctl[X_WARPS]):
            if warps.state[w, W_STATUS] == RUNNING:
                steps = run_warp(w, min(_TURN, budget), code, lists, regs[w], floats[w], inits[w], every_cause[w], mem, ctl,
                                 warps, counts, lanes, picked,
                                 scratch[2], reals)
                if steps < 0:
                    warps.fault[E_WARP] = w
                    return FAULT
                ran += steps
            if warps.state[w, W_STATUS] != DONE:
                left += 1
        budget -= ran
        if left == 0:
            ctl[X_BLOCK] += 1
            ctl[X_STARTED] = 0
        elif ran == 0:
            for w in range(ctl[X_WARPS]):
                if warps.state[w, W_STATUS] != DONE:
                    warps.fault[E_KIND], warps.fault[E_WARP] = DEADLOCK, w
                    warps.fault[E_PC] = warps.stack[w, warps.state[w, W_DEPTH], S_PC] - 1
                    return FAULT
    return RUNNING
