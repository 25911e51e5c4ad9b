"""Products of warpgroups (wgmma): operands in shared memory through descriptors, sums in registers that are there after a wait.

Each warp computes its 16 of the 64 rows when it issues the instruction. Its reads count as those of an agent, as copies do, so
that a write to the operands races with them until the group has been waited for.
"""

from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.codes import (
    AGENTS,
    CLOCK_SHIFT,
    GROUP_AGENT,
    NOT_FENCED,
    NOT_WAITED,
    OK,
    OUT_OF_BOUNDS,
    RACE_READ,
    SHARED_BASE,
    SHARED_FIRST,
    UNDEFINED_REGISTER,
    UNFENCED_REGISTERS,
    W_COPY_FENCED,
    W_FENCED,
    W_GROUP_CLOCK,
    W_ORDERED,
    WRONG_LANES,
    X_BLOCK_CLOCK,
    X_CHECKS,
    X_GRANULE,
    X_SHARED,
    failed,
)
from vtakit.sim.ptx.execute.matrix import element, gather, summed
from vtakit.sim.ptx.execute.memory import raced, usable
from vtakit.sim.ptx.opcodes import COUNT, FLAGS, IMM, KIND, KIND2, LIST, SIGNED, A, B, C, K

_SWIZZLE_ROWS = (0, 7, 3, 1)  # by a descriptor's layout: none, 128, 64, 32 bytes
_ROW_BYTES = (16, 128, 64, 32)


def described(descriptor: Any, line: Any, byte: Any) -> Any:
    """Address in shared memory of a byte of a line of an operand whose lines are along the depth (K-major)."""
    start, leading = (descriptor & 0x3FFF) << 4, ((descriptor >> 16) & 0x3FFF) << 4
    stride, layout = ((descriptor >> 32) & 0x3FFF) << 4, (descriptor >> 62) & 3
    if layout == 0:
        return start + (line >> 3) * stride + (byte >> 4) * leading + (line & 7) * 16 + (byte & 15)
    at = start + (line >> 3) * stride + (line & 7) * _ROW_BYTES[layout] + byte
    return at ^ (((at >> 7) & _SWIZZLE_ROWS[layout]) << 4)


def fetch(descriptor: Any, rows: Any, first_row: Any, depth: Any, bits: Any, kind: Any, signed: Any, across: Any, reals: Any,
          at: Any, warp: Any, mem: Any, ctl: Any, warps: Any) -> Any:
    """Write an operand from shared memory to `reals`: [rows, depth], or [depth, rows] if `across`."""
    fault, clocks = warps.fault, warps.clocks
    me = (warps.state[warp, W_GROUP_CLOCK] << CLOCK_SHIFT) | ((GROUP_AGENT + warp) * 32 << 1)
    mask = (np.int64(1) << bits) - 1
    for line in range(rows):
        for byte in range(0, depth * bits >> 3, 4):
            place = described(descriptor, first_row + line, byte)
            where = place + SHARED_BASE
            if place < SHARED_FIRST or place + 4 > ctl[X_SHARED]:
                return failed(fault, OUT_OF_BOUNDS, 0, place, 1, 4)
            if ctl[X_CHECKS]:
                state = usable(mem, where, 4, True)
                if state != OK:
                    return failed(fault, state, 0, place, 1, 4)
                entry = raced(mem, where, 4, me, warp * 32, clocks, ctl, False, False, False)
                if entry:
                    return failed(fault, RACE_READ, 0, place, entry, 4)
                entry = mem.shadow[3 * (where >> ctl[X_GRANULE])]
                writer = ((entry >> 1) % AGENTS) >> 5
                if entry >> CLOCK_SHIFT >= ctl[X_BLOCK_CLOCK] and writer < 64 and not fenced(entry >> CLOCK_SHIFT, writer, warps):
                    return failed(fault, NOT_FENCED, 0, place, entry, 4)
            word = np.int64(mem.words[where >> 2])
            for part in range(32 // bits):
                value = element(kind, (word >> (bits * part)) & mask, bits, signed)
                k = (byte << 3) // bits + part
                reals[at + (k * rows + line if across else line * depth + k)] = value
    return OK


def fenced(clock: Any, writer: Any, warps: Any) -> Any:
    """Return whether the warp that wrote, or whose agent did, has made its writes visible to descriptors (fence.proxy.async)."""
    if writer >= 32:
        return warps.state[writer - 32, W_COPY_FENCED] >= clock
    return warps.state[writer, W_FENCED] >= clock


def multiply_group(row: Any, r: Any, lists: Any, active: Any, warp: Any, mem: Any, ctl: Any, warps: Any, init: Any, causes: Any,
                   pc: Any, reals: Any) -> Any:
    """Run wgmma.mma_async of 64 x COUNT x IMM.

    LIST has the sums, then A's four registers if FLAGS has bit 0; else A is a descriptor, as B is. C is the predicate that says
    whether sums are added to. FLAGS bit 1 negates A, bit 2 B. Formats are as those of mma.sync.
    """
    fault = warps.fault
    if active != 0xFFFFFFFF:
        return failed(fault, WRONG_LANES, 0, 0xFFFFFFFF, active, 0)
    if warps.state[warp, W_ORDERED] == 0 and ctl[X_CHECKS]:
        return failed(fault, UNFENCED_REGISTERS, 0, 0, 0, 0)
    columns, depth, bits, kind = row[COUNT], row[IMM], row[K], row[KIND]
    start = row[LIST]
    of_sums = columns // 4 if kind != 0 and kind < 16 else columns // 2
    if row[FLAGS] & 1:
        gather(row[KIND2], r, lists, start + of_sums, 4, bits, row[SIGNED] & 1, True, depth, reals, 0)
    else:
        found = fetch(r[row[A]], 16, 16 * (warp & 3), depth, bits, row[KIND2], row[SIGNED] & 1, False, reals, 0, warp, mem, ctl,
                      warps)
        if found != OK:
            return found
    found = fetch(r[row[B]], columns, 0, depth, bits, row[KIND2], row[SIGNED] >> 1, True, reals, 2048, warp, mem, ctl, warps)
    if found != OK:
        return found
    adds = r[row[C]]
    for number in range(of_sums):
        slot = lists[start + number] >> 5
        if adds and init[slot] != 0xFFFFFFFF and causes[slot, 0] != NOT_WAITED:
            return failed(fault, UNDEFINED_REGISTER, 0, slot, ~init[slot] & 0xFFFFFFFF, 0)
    sign = np.float64(-1.0) if ((row[FLAGS] >> 1) ^ (row[FLAGS] >> 2)) & 1 else np.float64(1.0)
    for lane in range(32):
        g, t = lane >> 2, lane & 3
        for number in range(columns // 2):
            i, j = g + 8 * ((number >> 1) & 1), 8 * (number >> 2) + 2 * t + (number & 1)
            total = np.float64(0.0)
            for k in range(depth):
                total += reals[i * depth + k] * reals[2048 + k * columns + j]
            total *= sign
            if of_sums == columns // 2:
                place = lists[start + number] + lane
                r[place] = summed(total, r[place] if adds else np.int64(0), kind, False)
            else:
                place, low = lists[start + (number >> 1)] + lane, 16 * (number & 1)
                value = summed(total, (r[place] >> low) & 0xFFFF if adds else np.int64(0), kind, False)
                r[place] = (r[place] & ~(np.int64(0xFFFF) << low)) | (value << low)
    for number in range(of_sums):
        slot = lists[start + number] >> 5
        init[slot] = 0
        causes[slot, 0], causes[slot, 1], causes[slot, 4] = NOT_WAITED, pc, warps.state[warp, W_GROUP_CLOCK]
    return OK


def finished(done: Any, init: Any, causes: Any) -> None:
    """Define the sums of the groups up to a clock."""
    for slot in range(len(init)):
        if causes[slot, 0] == NOT_WAITED and causes[slot, 4] <= done:
            causes[slot, 0] = 0
            init[slot] = 0xFFFFFFFF
