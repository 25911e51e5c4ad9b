"""Shifts, bit fields, permutations and counts of bits."""

from typing import Any

import numpy as np

from vtakit.sim.ptx.opcodes import (
    BFE,
    BFI,
    BFIND,
    BREV,
    CLZ,
    FLAGS,
    IMM,
    LOP3,
    OP,
    POPC,
    PRMT,
    SHF_LEFT,
    SHF_RIGHT,
    SHL,
    SHR,
    SIGNED,
    A,
    B,
    C,
    D,
    E,
    K,
    M,
)

LOW32 = 0xFFFFFFFF


def shifted_right(value: Any, amount: Any, k: Any, m: Any, signed: Any) -> Any:
    """Shift right a number of 64 - `k` bits by a non-negative amount; one at least as large as the width leaves the sign."""
    bits = 64 - k
    if signed:
        value = (value << k) >> k
        return (value >> (amount if amount < 63 else np.int64(63))) & m
    if amount >= bits:
        return np.int64(0)
    value = value & m
    return value if amount == 0 else (value >> amount) & ~(np.int64(-1) << (64 - amount))


def population(value: Any) -> Any:
    """Number of bits that are set."""
    count = np.int64(0)
    for step in range(16):
        nibble = (value >> (4 * step)) & 15
        count += (0x4332322132212110 >> (4 * nibble)) & 15
    return count


def leading(value: Any, bits: Any) -> Any:
    """Number of zeros above the highest bit that is set."""
    count = np.int64(0)
    while count < bits and (value >> (bits - 1 - count)) & 1 == 0:
        count += 1
    return count


def permuted(a: Any, b: Any, selector: Any, mode: Any) -> Any:
    """Bytes of `b` and `a` chosen by the selector's nibbles; `mode` 1 to 6 are PTX's f4e, b4e, rc8, ecl, ecr and rc16."""
    value = np.int64(0)
    start = selector & 3
    for byte in range(4):
        sign = np.int64(0)
        if mode == 0:
            nibble = (selector >> (4 * byte)) & 15
            pick, sign = nibble & 7, nibble >> 3
        elif mode == 1:
            pick = start + byte
        elif mode == 2:
            pick = (start - byte) & 7
        elif mode == 3:
            pick = start
        elif mode == 4:
            pick = max(start, byte)
        elif mode == 5:
            pick = min(start, byte)
        else:
            pick = (start & 1) * 2 + (byte & 1)
        found = ((a if pick < 4 else b) >> (8 * (pick & 3))) & 255
        if sign:
            found = 255 if found & 128 else 0
        value |= found << (8 * byte)
    return value


def field(value: Any, start: Any, length: Any, k: Any, m: Any, signed: Any) -> Any:
    """The bit field of PTX's bfe."""
    bits = 64 - k
    if length == 0:
        return np.int64(0)
    top = start + length - 1
    if top > bits - 1:
        top = bits - 1
    sign = (value >> top) & 1 if signed else np.int64(0)
    found = np.int64(0)
    for at in range(bits):
        bit = (value >> (start + at)) & 1 if at < length and start + at < bits else sign
        found |= bit << at
    return found & m


def inserted(value: Any, into: Any, start: Any, length: Any, k: Any, m: Any) -> Any:
    """PTX's bfi: the low `length` bits of a value put into another from bit `start` on."""
    bits = 64 - k
    if start >= bits or length == 0:
        return into & m
    ones = np.int64(-1) if length >= 64 else ~(np.int64(-1) << length)
    place = (ones << start) & m
    return (into & ~place & m) | ((value << start) & place)


def bits_of(row: Any, r: Any, lanes: Any, n: Any) -> None:
    """Run one operation on bits."""
    op = row[OP]
    d, a, b, c, k, m, signed = row[D], row[A], row[B], row[C], row[K], row[M], row[SIGNED]
    for i in range(n):
        at = lanes[i]
        x, y, z = r[a + at] & m, r[b + at], r[c + at]
        value = np.int64(0)
        if op == SHL:
            y = y & LOW32
            value = (x << y) & m if y < 64 - k else np.int64(0)
        elif op == SHR:
            value = shifted_right(x, y & LOW32, k, m, signed)
        elif op == POPC:
            value = population(x)
        elif op == CLZ:
            value = leading(x, 64 - k)
        elif op == BFIND:
            if signed and (x >> (63 - k)) & 1:
                x = ~x & m
            value = leading(x, 64 - k)
            if value == 64 - k:
                value = np.int64(LOW32)
            elif row[FLAGS] == 0:
                value = 63 - k - value
        elif op == BREV:
            for bit in range(64 - k):
                value |= ((x >> bit) & 1) << (63 - k - bit)
        elif op == BFE:
            value = field(x, y & 255, z & 255, k, m, signed)
        elif op == BFI:
            value = inserted(x, y, z & 255, r[row[E] + at] & 255, k, m)
        elif op == PRMT:
            value = permuted(x, y, z, row[IMM])
        elif op == SHF_LEFT or op == SHF_RIGHT:
            amount = z & 31 if row[FLAGS] else min(z & LOW32, np.int64(32))
            both = (y << 32) | x
            value = (both >> (32 - amount)) & LOW32 if op == SHF_LEFT else shifted_right(both, amount, 0, -1, 0) & LOW32
            if op == SHF_LEFT and amount == 0:
                value = y & LOW32
        elif op == LOP3:
            for term in range(8):
                if (row[IMM] >> term) & 1:
                    part = x if term & 4 else ~x
                    part = part & (y if term & 2 else ~y)
                    value |= part & (z if term & 1 else ~z)
            value = value & m
        r[d + at] = value
