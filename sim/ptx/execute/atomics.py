"""Atomic operations on memory."""

from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.codes import (
    CLOCK_SHIFT,
    OK,
    RACE_WRITE,
    X_CHECKS,
    X_REQUESTS,
    failed,
)
from vtakit.sim.ptx.execute.formats import (
    narrowed,
    odd_sum,
    widened,
)
from vtakit.sim.ptx.execute.integer import (
    ordering,
)
from vtakit.sim.ptx.execute.memory import (
    checked,
    fetched,
    put,
    raced,
)
from vtakit.sim.ptx.opcodes import (
    A_ADD,
    A_AND,
    A_CAS,
    A_DEC,
    A_EXCHANGE,
    A_INC,
    A_MAX,
    A_MIN,
    A_OR,
    ATOM,
    COUNT,
    E4M3,
    F64,
    IMM,
    KIND,
    NEAREST,
    OP,
    SIGNED,
    A,
    B,
    C,
    D,
    K,
    M,
)


def updated(op: Any, kind: Any, signed: Any, k: Any, old: Any, value: Any, other: Any) -> Any:
    """Return the value that an atomic operation stores; `kind` is a format of floating point, or E4M3 for integers."""
    if op == A_EXCHANGE:
        return value
    if op == A_CAS:
        return other if old == value else old
    if op == A_AND:
        return old & value
    if op == A_OR:
        return old | value
    if kind != E4M3:
        x, y = widened(kind, old), widened(kind, value)
        if op == A_ADD:
            return narrowed(kind, x + y if kind == F64 else odd_sum(x, y), NEAREST, False)
        return value if (y < x) == (op == A_MIN) else old
    if op == A_ADD:
        return old + value
    if signed:
        x, y = (old << k) >> k, (value << k) >> k
    else:
        x, y = old, value
    relation = ordering(x, y, signed)
    if op == A_MIN:
        return old if relation == 1 else value
    if op == A_MAX:
        return old if relation == 4 else value
    if op == A_INC:
        return old + 1 if relation == 1 else np.int64(0)
    if op == A_DEC:
        return value if old == 0 or relation == 4 else old - 1
    return old ^ value


def atomic(row: Any, r: Any, lanes: Any, n: Any, warp: Any, mem: Any, ctl: Any, clocks: Any, fault: Any) -> Any:
    """Run an atomic operation, lane after lane.

    SIGNED has the sign in bit 0, the operation in 4 bits above it, then the format; COUNT is the values in a register.
    """
    log2, k, m, parts = row[KIND], row[K], row[M], row[COUNT]
    size = np.int64(1) << log2
    signed, op, kind = row[SIGNED] & 1, (row[SIGNED] >> 1) & 15, row[SIGNED] >> 5
    clock = clocks[warp, warp] << CLOCK_SHIFT
    for i in range(n):
        lane = lanes[i]
        thread = warp * 32 + lane
        address = r[row[A] + lane] + row[IMM]
        at = checked(mem, row, address, size, lane, thread, ctl, True, fault)
        if at < 0:
            return fault[0]
        if ctl[X_CHECKS]:
            entry = raced(mem, at, size, clock | (thread << 1) | 1, thread, clocks, ctl, False, True, False)
            if entry:
                return failed(fault, RACE_WRITE, lane, address, entry, size)
        old = fetched(mem, at, log2)
        value, other = r[row[B] + lane] & m, r[row[C] + lane] & m
        if parts == 1:
            result = updated(op, kind, signed, k, old, value, other)
        else:
            low = updated(op, kind, signed, k, old & 0xFFFF, value & 0xFFFF, other & 0xFFFF)
            high = updated(op, kind, signed, k, (old >> 16) & 0xFFFF, (value >> 16) & 0xFFFF, (other >> 16) & 0xFFFF)
            result = low | (high << 16)
        put(mem, at, log2, result)
        if row[OP] == ATOM:
            r[row[D] + lane] = old
    ctl[X_REQUESTS] += 1
    return OK
