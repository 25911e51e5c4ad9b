"""Products of small matrices by a warp, and loads of their fragments (PTX ISA, "Warp Level Matrix Multiply-Accumulate").

A register holds P = 32 / bits elements of A or B. With g = lane / 4 and t = lane % 4, register r of A has row g + 8 (r % 2) and
columns (r / 2) 4P + tP on; register r of B has column g and rows r 4P + tP on. Sums are in rows g and g + 8, columns 2t and
2t + 1.
"""

from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.codes import (
    CLOCK_SHIFT,
    MISALIGNED,
    OK,
    OUT_OF_BOUNDS,
    RACE_READ,
    SHARED_BASE,
    WRONG_LANES,
    X_CHECKS,
    X_SHARED,
    Real,
    failed,
)
from vtakit.sim.ptx.execute.formats import narrowed, widened
from vtakit.sim.ptx.execute.memory import raced, usable
from vtakit.sim.ptx.opcodes import COUNT, FLAGS, IMM, KIND, KIND2, LIST, NEAREST, SIGNED, A, K

SHARED_ROW = 16  # bytes of a row of 8x8 elements
INTEGERS = 16  # KIND2 of integers: this and 1 for a signed A, 2 for a signed B


def element(kind: Any, value: Any, bits: Any, signed: Any) -> Any:
    """An element of A or B as float64: of a format, or an integer if `kind` is at least INTEGERS."""
    if kind >= INTEGERS:
        if signed:
            value = (value ^ (np.int64(1) << (bits - 1))) - (np.int64(1) << (bits - 1))
        return np.float64(value)
    if bits == 32:  # tf32: the low bits are not looked at
        value = value & 0xFFFFE000
    return widened(kind, value)


def gather(kind: Any, r: Any, lists: Any, first: Any, count: Any, bits: Any, signed: Any, is_a: Any, columns: Any, reals: Any,
           at: Any) -> None:
    """Write A [16, columns] or B [columns, 8] from registers to `reals` from `at` on."""
    parts = 32 // bits
    mask = (np.int64(1) << bits) - 1
    for number in range(count):
        place = lists[first + number]
        for lane in range(32):
            word = r[place + lane]
            g, t = lane >> 2, lane & 3
            for part in range(parts):
                value = element(kind, (word >> (bits * part)) & mask, bits, signed)
                if is_a:
                    reals[at + (g + 8 * (number & 1)) * columns + (number >> 1) * 4 * parts + t * parts + part] = value
                else:
                    reals[at + (number * 4 * parts + t * parts + part) * 8 + g] = value


def summed(total: Real, start: Any, kind: Any, saturate: Any) -> Any:
    """A sum's bits: exact products, added in float64 and rounded once; of integers modulo 2**32, or saturated."""
    if kind >= INTEGERS:
        value = np.int64(total) + ((start << 32) >> 32)
        if saturate:
            value = min(max(value, np.int64(-(1 << 31))), np.int64((1 << 31) - 1))
        return value & 0xFFFFFFFF
    return narrowed(kind, total + widened(kind, start), NEAREST, False)


def multiply(row: Any, r: Any, lists: Any, active: Any, reals: Any, fault: Any) -> Any:
    """Run mma.sync of 16 x 8 x K: LIST has the registers of D, A, B, C; KIND is the sums' format or INTEGERS, KIND2 A's and B's.

    COUNT is A's registers times 16 plus B's; IMM the depth, K the bits of an element, SIGNED bit 0 and 1 the signs of A and B.
    """
    if active != 0xFFFFFFFF:
        return failed(fault, WRONG_LANES, 0, 0xFFFFFFFF, active, 0)
    start, depth, bits = row[LIST], row[IMM], row[K]
    of_a, of_b = row[COUNT] >> 4, row[COUNT] & 15
    kind = row[KIND]
    halves = kind != 0 and kind < INTEGERS  # sums of 16 bits, two to a register
    of_sums = 2 if halves else 4
    gather(row[KIND2], r, lists, start + of_sums, of_a, bits, row[SIGNED] & 1, True, depth, reals, 0)
    gather(row[KIND2], r, lists, start + of_sums + of_a, of_b, bits, row[SIGNED] >> 1, False, depth, reals, 4096)
    c = start + of_sums + of_a + of_b
    for lane in range(32):
        g, t = lane >> 2, lane & 3
        for number in range(4):
            i, j = g + 8 * (number >> 1), 2 * t + (number & 1)
            total = np.float64(0.0)
            for k in range(depth):
                total += reals[i * depth + k] * reals[4096 + k * 8 + j]
            if halves:
                low = 16 * (number & 1)
                word = summed(total, (r[lists[c + (number >> 1)] + lane] >> low) & 0xFFFF, kind, False) << low
                place = lists[start + (number >> 1)] + lane
                r[place] = word if low == 0 else r[place] | word
            else:
                r[lists[start + number] + lane] = summed(total, r[lists[c + number] + lane], kind, row[FLAGS])
    return OK


def load_matrices(row: Any, r: Any, lists: Any, active: Any, warp: Any, mem: Any, ctl: Any, clocks: Any, stores: Any,
                  fault: Any) -> Any:
    """Run ldmatrix or stmatrix of COUNT matrices of 8 x 8 elements of 16 bits; FLAGS turns them.

    Lane 8 m + i has the address of row i of matrix m.
    """
    if active != 0xFFFFFFFF:
        return failed(fault, WRONG_LANES, 0, 0xFFFFFFFF, active, 0)
    clock = clocks[warp, warp] << CLOCK_SHIFT
    base = SHARED_BASE if row[KIND2] else np.int64(0)
    for lane in range(8 * row[COUNT]):
        address = r[row[A] + lane] + row[IMM]
        at = address + base
        thread = warp * 32 + lane
        if at < SHARED_BASE or at + SHARED_ROW > SHARED_BASE + ctl[X_SHARED]:
            return failed(fault, OUT_OF_BOUNDS, lane, address, 0, SHARED_ROW)
        if at & (SHARED_ROW - 1):
            return failed(fault, MISALIGNED, lane, address, 0, SHARED_ROW)
        if ctl[X_CHECKS]:
            state = usable(mem, at, SHARED_ROW, not stores)
            if state != OK:
                return failed(fault, state, lane, address, 0, SHARED_ROW)
            entry = raced(mem, at, SHARED_ROW, clock | (thread << 1), thread, clocks, ctl, False, stores, False)
            if entry:
                return failed(fault, RACE_READ, lane, address, entry, SHARED_ROW)
    for matrix in range(row[COUNT]):
        place = lists[row[LIST] + matrix]
        for lane in range(32):
            value = np.int64(0)
            for half in range(2):
                i, j = lane >> 2, 2 * (lane & 3) + half
                if row[FLAGS]:
                    i, j = j, i
                at = r[row[A] + 8 * matrix + i] + row[IMM] + base + 2 * j
                if stores:
                    mem.halves[at >> 1] = (r[place + lane] >> (16 * half)) & 0xFFFF
                    mem.state[at] = 3
                    mem.state[at + 1] = 3
                else:
                    value |= np.int64(mem.halves[at >> 1]) << (16 * half)
            if not stores:
                r[place + lane] = value
    return OK
