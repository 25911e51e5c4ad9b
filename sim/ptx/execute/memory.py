"""Loads, stores and atomic operations, with their checks."""

from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.codes import (
    CLOCK_SHIFT,
    DEFINED,
    GLOBAL_BASE,
    LOCAL_BASE,
    MISALIGNED,
    OK,
    OUT_OF_BOUNDS,
    PARAM_BASE,
    RACE_READ,
    RACE_WRITE,
    SHARED_BASE,
    SHARED_FIRST,
    UNDEFINED_MEMORY,
    VALID,
    WRONG_SPACE,
    X_BLOCK_CLOCK,
    X_CHECKS,
    X_GRANULE,
    X_LAUNCH_CLOCK,
    X_LOCAL,
    X_PARAM,
    X_REQUESTS,
    X_SECTORS,
    X_SHARED,
    X_THREADS,
    X_TOP,
    failed,
)
from vtakit.sim.ptx.execute.races import (
    read_race,
    write_race,
)
from vtakit.sim.ptx.opcodes import (
    COUNT,
    FLAGS,
    GENERIC,
    IMM,
    KIND,
    KIND2,
    LIST,
    LOCAL,
    PARAM,
    SHARED,
    SIGNED,
    A,
    K,
    M,
)

_UNDEFINED = 0x03030303


def placed(address: Any, size: Any, space: Any, thread: Any, ctl: Any) -> Any:
    """Where in the arena an address of a space is: at least 0, or less a fault's number."""
    if space == SHARED:
        return address + SHARED_BASE if address >= 0 and address + size <= ctl[X_SHARED] else np.int64(-OUT_OF_BOUNDS)
    if space == LOCAL:
        inside = address >= 0 and address + size <= ctl[X_LOCAL]
        return LOCAL_BASE + thread * ctl[X_LOCAL] + address if inside else np.int64(-OUT_OF_BOUNDS)
    if space == PARAM:
        return PARAM_BASE + address if address >= 0 and address + size <= ctl[X_PARAM] else np.int64(-OUT_OF_BOUNDS)
    if address < 0 or address + size > ctl[X_TOP]:
        return np.int64(-OUT_OF_BOUNDS)
    if space != GENERIC and address < GLOBAL_BASE:
        shared = address >= SHARED_BASE + SHARED_FIRST and address < SHARED_BASE + ctl[X_SHARED]
        local = address >= LOCAL_BASE and address < LOCAL_BASE + ctl[X_LOCAL] * ctl[X_THREADS]
        return np.int64(-WRONG_SPACE) if shared or local else np.int64(-OUT_OF_BOUNDS)
    return address


def usable(mem: Any, at: Any, size: Any, reads: Any) -> Any:
    """OK, or the fault of bytes that no buffer holds or that nothing has written.

    A read needs one byte that is there: compilers load a whole aligned piece for the bytes of it that they want. A write needs
    all.
    """
    if size == 4 and mem.state32[at >> 2] == _UNDEFINED:
        return OK
    seen, every = np.int64(0), np.int64(VALID)
    for byte in range(at, at + size):
        seen |= mem.state[byte]
        every &= mem.state[byte]
    if not reads:
        return OK if every & VALID else OUT_OF_BOUNDS
    return OK if seen & DEFINED else UNDEFINED_MEMORY if seen & VALID else OUT_OF_BOUNDS


def fetched(mem: Any, at: Any, log2: Any) -> Any:
    """Bits of 1, 2, 4 or 8 bytes."""
    if log2 == 2:
        return np.int64(mem.words[at >> 2])
    if log2 == 3:
        return np.int64(mem.longs[at >> 3])
    if log2 == 1:
        return np.int64(mem.halves[at >> 1])
    return np.int64(mem.bytes[at])


def put(mem: Any, at: Any, log2: Any, value: Any) -> None:
    """Write 1, 2, 4 or 8 bytes, which then are defined."""
    if log2 == 2:
        mem.words[at >> 2] = value & 0xFFFFFFFF
        mem.state32[at >> 2] = _UNDEFINED
        return
    if log2 == 3:
        mem.longs[at >> 3] = value
        mem.state32[at >> 2] = _UNDEFINED
        mem.state32[(at >> 2) + 1] = _UNDEFINED
        return
    if log2 == 1:
        mem.halves[at >> 1] = value & 0xFFFF
        mem.state[at + 1] = VALID | DEFINED
    else:
        mem.bytes[at] = value & 0xFF
    mem.state[at] = VALID | DEFINED


def raced(mem: Any, at: Any, size: Any, me: Any, thread: Any, clocks: Any, ctl: Any, early: Any, writes: Any,
          same: Any) -> Any:
    """Note an access in the shadow; returns what it races with, or 0. Local memory and parameters are a thread's own."""
    if at < SHARED_BASE or (at >= LOCAL_BASE and at < GLOBAL_BASE):
        return 0
    first, last = at >> ctl[X_GRANULE], ((at + size - 1) >> ctl[X_GRANULE]) + 1
    block, launch = ctl[X_BLOCK_CLOCK] << CLOCK_SHIFT, ctl[X_LAUNCH_CLOCK] << CLOCK_SHIFT
    if at < LOCAL_BASE:
        launch = block
    if writes:
        return write_race(mem.shadow, first, last, me, thread, clocks, block, launch, same)
    return read_race(mem.shadow, first, last, me, thread, clocks, block, launch, early)


def checked(mem: Any, row: Any, address: Any, size: Any, lane: Any, thread: Any, ctl: Any, reads: Any, fault: Any) -> Any:
    """Return where an access is in the arena, or -1 with the fault written down."""
    at = placed(address, size, row[KIND2], thread, ctl)
    if at < 0:
        failed(fault, -at, lane, address, 0, size)
        return np.int64(-1)
    if at & (size - 1):
        failed(fault, MISALIGNED, lane, address, 0, size)
        return np.int64(-1)
    if ctl[X_CHECKS]:
        state = usable(mem, at, size, reads)
        if state != OK:
            failed(fault, state, lane, address, 0, size)
            return np.int64(-2 if state == UNDEFINED_MEMORY else -1)
    return at


def load(row: Any, r: Any, lists: Any, lanes: Any, n: Any, warp: Any, mem: Any, ctl: Any, clocks: Any, fault: Any) -> Any:
    """Run a load of COUNT values of 2**KIND bytes each.

    Returns the lanes that got no value: the fault says why. A compiler may load early what a branch then uses or not; for such a
    load (bit 1 of FLAGS) memory that is undefined or that another thread writes makes the register undefined. Others return -1.
    """
    log2, count, start, k, m = row[KIND], row[COUNT], row[LIST], row[K], row[M]
    size = count << log2
    sector, space, early, strong = np.int64(-1), row[KIND2], row[FLAGS] & 2, row[FLAGS] & 1
    clock = clocks[warp, warp] << CLOCK_SHIFT
    lost = np.int64(0)
    for i in range(n):
        lane = lanes[i]
        thread = warp * 32 + lane
        address = r[row[A] + lane] + row[IMM]
        at = checked(mem, row, address, size, lane, thread, ctl, True, fault)
        if at < 0:
            if early and at == -2:
                lost |= np.int64(1) << lane
                continue
            return np.int64(-1)
        if ctl[X_CHECKS]:
            entry = raced(mem, at, size, clock | (thread << 1) | strong, thread, clocks, ctl, early, False, False)
            if entry:
                failed(fault, RACE_READ, lane, address, entry, size)
                if early:
                    lost |= np.int64(1) << lane
                    continue
                return np.int64(-1)
        for part in range(count):
            value = fetched(mem, at + (part << log2), log2)
            r[lists[start + part] + lane] = ((value << k) >> k) & m if row[SIGNED] else value
        if at >= GLOBAL_BASE and at >> 5 != sector:
            sector = at >> 5
            ctl[X_SECTORS] += (size + 31) >> 5
    if space != PARAM:
        ctl[X_REQUESTS] += 1
    return lost


def store(row: Any, r: Any, lists: Any, lanes: Any, n: Any, warp: Any, mem: Any, ctl: Any, clocks: Any, fault: Any) -> Any:
    """Run a store, as `load`."""
    log2, count, start = row[KIND], row[COUNT], row[LIST]
    size = count << log2
    mask = row[M]
    sector = np.int64(-1)
    clock = clocks[warp, warp] << CLOCK_SHIFT
    for i in range(n):
        lane = lanes[i]
        thread = warp * 32 + lane
        address = r[row[A] + lane] + row[IMM]
        at = checked(mem, row, address, size, lane, thread, ctl, False, fault)
        if at < 0:
            return fault[0]
        if ctl[X_CHECKS]:
            same = True
            for part in range(count):
                value = r[lists[start + part] + lane] & mask
                same = same and value == fetched(mem, at + (part << log2), log2) and mem.state[at] & DEFINED != 0
            entry = raced(mem, at, size, clock | (thread << 1) | row[FLAGS], thread, clocks, ctl, False, True, same)
            if entry:
                return failed(fault, RACE_WRITE, lane, address, entry, size)
        for part in range(count):
            put(mem, at + (part << log2), log2, r[lists[start + part] + lane])
        if at >= GLOBAL_BASE and at >> 5 != sector:
            sector = at >> 5
            ctl[X_SECTORS] += (size + 31) >> 5
    ctl[X_REQUESTS] += 1
    return OK
