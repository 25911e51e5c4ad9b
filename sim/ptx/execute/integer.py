"""Arithmetic of integers of any width: `K` = 64 - bits shifts a sign into place, `M` masks the bits."""

from typing import Any

import numpy as np

from vtakit.sim.ptx.opcodes import (
    ABS,
    ADD,
    ADD_CARRY,
    AND,
    CNOT,
    COMBINE_AND,
    COMBINE_NONE,
    COMBINE_OR,
    DIV,
    DOT2,
    DOT4,
    FLAGS,
    HALVES,
    IMM,
    KIND,
    KIND2,
    MAD,
    MAD_HIGH,
    MAD_WIDE,
    MAX,
    MIN,
    MOV,
    MUL,
    MUL_HIGH,
    MUL_WIDE,
    NEG,
    NOT,
    OP,
    OR,
    PACK,
    REM,
    SAD,
    SELP,
    SET,
    SETP,
    SIGNED,
    SLCT,
    SUB,
    SUB_CARRY,
    UNPACK,
    XOR,
    A,
    B,
    C,
    D,
    E,
    K,
    M,
)
from vtakit.sim.ptx.opcodes import COUNT as _COUNT
from vtakit.sim.ptx.opcodes import LIST as _LIST

MIN64 = -(1 << 63)
LOW32 = 0xFFFFFFFF


def multiply_high(a: Any, b: Any, signed: Any) -> Any:
    """High 64 bits of a product of 64-bit numbers."""
    a_low, a_high = a & LOW32, (a >> 32) & LOW32
    b_low, b_high = b & LOW32, (b >> 32) & LOW32
    low = a_low * b_low
    middle = a_high * b_low + ((low >> 32) & LOW32)
    other = a_low * b_high + (middle & LOW32)
    high = a_high * b_high + ((middle >> 32) & LOW32) + ((other >> 32) & LOW32)
    if signed:
        high -= (b if a < 0 else np.int64(0)) + (a if b < 0 else np.int64(0))
    return high


def divide(a: Any, b: Any, signed: Any, remainder: Any) -> Any:
    """Quotient or remainder, rounded to zero; of a division by 0 all bits are set, and the remainder is the dividend."""
    if b == 0:
        return a if remainder else np.int64(-1)
    negative_a, negative_b = signed and a < 0, signed and b < 0
    above = np.uint64(-a) if negative_a else np.uint64(a)
    below = np.uint64(-b) if negative_b else np.uint64(b)
    quotient = np.int64(above // below)
    if negative_a != negative_b:
        quotient = -quotient
    return a - quotient * b if remainder else quotient


def _narrow(value: Any, shift: Any, mask: Any, signed: Any) -> Any:
    return (value << shift) >> shift if signed else value & mask


def _dot(a: Any, b: Any, signed_a: Any, signed_b: Any) -> Any:
    total = np.int64(0)
    for byte in range(4):
        x, y = (a >> (8 * byte)) & 255, (b >> (8 * byte)) & 255
        if signed_a:
            x = (x ^ 128) - 128
        if signed_b:
            y = (y ^ 128) - 128
        total += x * y
    return total


def _dot2(a: Any, b: Any, signed_a: Any, signed_b: Any, high: Any) -> Any:
    total = np.int64(0)
    for at in range(2):
        x, y = (a >> (16 * at)) & 0xFFFF, (b >> (8 * at + 16 * high)) & 255
        if signed_a:
            x = (x ^ 0x8000) - 0x8000
        if signed_b:
            y = (y ^ 128) - 128
        total += x * y
    return total


def ordering(x: Any, y: Any, signed: Any) -> Any:
    """LESS, EQUAL or GREATER of two integers."""
    if not signed:
        x, y = x ^ MIN64, y ^ MIN64
    return 2 if x == y else 1 if x < y else 4


def combined(how: Any, value: Any, other: Any) -> Any:
    """A comparison's result beside a predicate."""
    if how == COMBINE_NONE:
        return value
    if how == COMBINE_AND:
        return value & other
    if how == COMBINE_OR:
        return value | other
    return value ^ other


def integer(row: Any, r: Any, lanes: Any, n: Any) -> None:
    """Run one operation on integers."""
    op = row[OP]
    d, a, b, c = row[D], row[A], row[B], row[C]
    k, m, signed = row[K], row[M], row[SIGNED]
    if op == MOV:
        for i in range(n):
            at = lanes[i]
            r[d + at] = r[a + at] & m
    elif op == ADD:
        for i in range(n):
            at = lanes[i]
            r[d + at] = (r[a + at] + r[b + at]) & m
    elif op == SUB:
        for i in range(n):
            at = lanes[i]
            r[d + at] = (r[a + at] - r[b + at]) & m
    elif op == MUL:
        for i in range(n):
            at = lanes[i]
            r[d + at] = (r[a + at] * r[b + at]) & m
    elif op == MAD:
        for i in range(n):
            at = lanes[i]
            r[d + at] = (r[a + at] * r[b + at] + r[c + at]) & m
    elif op == MUL_WIDE or op == MAD_WIDE:
        wide = (m << (64 - k)) | m
        for i in range(n):
            at = lanes[i]
            value = _narrow(r[a + at], k, m, signed) * _narrow(r[b + at], k, m, signed)
            if op == MAD_WIDE:
                value += r[c + at]
            r[d + at] = value & wide
    elif op == MUL_HIGH or op == MAD_HIGH:
        for i in range(n):
            at = lanes[i]
            x, y = _narrow(r[a + at], k, m, signed), _narrow(r[b + at], k, m, signed)
            value = multiply_high(x, y, signed) if k == 0 else (x * y) >> (64 - k)
            if op == MAD_HIGH:
                value += r[c + at]
            r[d + at] = value & m
    elif op == DIV or op == REM:
        for i in range(n):
            at = lanes[i]
            x, y = _narrow(r[a + at], k, m, signed), _narrow(r[b + at], k, m, signed)
            r[d + at] = divide(x, y, signed, op == REM) & m
    elif op == SETP:
        for i in range(n):
            at = lanes[i]
            x, y = _narrow(r[a + at], k, m, signed), _narrow(r[b + at], k, m, signed)
            truth = np.int64((row[KIND] & ordering(x, y, signed)) != 0)
            other = r[c + at] ^ row[IMM]
            r[d + at] = combined(row[KIND2], truth, other)
            if row[E] >= 0:
                r[row[E] + at] = combined(row[KIND2], 1 - truth, other)
    elif op == AND:
        for i in range(n):
            at = lanes[i]
            r[d + at] = r[a + at] & r[b + at]
    elif op == OR:
        for i in range(n):
            at = lanes[i]
            r[d + at] = (r[a + at] | r[b + at]) & m
    elif op == XOR:
        for i in range(n):
            at = lanes[i]
            r[d + at] = (r[a + at] ^ r[b + at]) & m
    elif op == SELP:
        for i in range(n):
            at = lanes[i]
            r[d + at] = (r[a + at] if r[c + at] else r[b + at]) & m
    else:
        seldom(row, r, lanes, n)


def least(op: Any, x: Any, y: Any, signed: Any, relu: Any) -> Any:
    """Smaller or larger of two integers; `relu` makes a negative one 0."""
    value = x if (ordering(x, y, signed) == 1) == (op == MIN) else y
    return np.int64(0) if relu and value < 0 else value


def seldom(row: Any, r: Any, lanes: Any, n: Any) -> None:
    """Run an operation that is not frequent."""
    op = row[OP]
    d, a, b, c = row[D], row[A], row[B], row[C]
    k, m, signed = row[K], row[M], row[SIGNED]
    for i in range(n):
        at = lanes[i]
        x = _narrow(r[a + at], k, m, signed)
        y = _narrow(r[b + at], k, m, signed)
        z = r[c + at]
        value = np.int64(0)
        if op == MIN or op == MAX:
            value = least(op, x, y, signed, row[FLAGS])
        elif op == HALVES:
            for half in range(2):
                x = _narrow(r[a + at] >> (16 * half), k, m, signed)
                y = _narrow(r[b + at] >> (16 * half), k, m, signed)
                if row[IMM] == ADD:
                    part = x + y
                elif row[IMM] == SUB:
                    part = x - y
                else:
                    part = least(row[IMM], x, y, signed, row[FLAGS])
                value |= (part & 0xFFFF) << (16 * half)
            r[d + at] = value
            continue
        elif op == NEG:
            value = -x
        elif op == ABS:
            value = -x if x < 0 else x
        elif op == NOT:
            value = ~x
        elif op == CNOT:
            value = np.int64(x == 0)
        elif op == SAD:
            value = (x - y if ordering(x, y, signed) == 4 else y - x) + z
        elif op == DOT4:
            value = _dot(r[a + at], r[b + at], signed, row[KIND]) + z
        elif op == DOT2:
            value = _dot2(r[a + at], r[b + at], signed, row[KIND], row[IMM]) + z
        elif op == SLCT:
            value = x if (z << row[KIND]) >= 0 else y
        elif op == SET:
            truth = np.int64((row[KIND] & ordering(x, y, signed)) != 0)
            r[d + at] = (-truth if row[FLAGS] == 0 else truth * np.int64(0x3F800000)) & row[IMM]
            continue
        elif op == ADD_CARRY or op == SUB_CARRY:  # E: the carry, which FLAGS says is taken (1) and given (2)
            taken = r[row[E] + at] if row[FLAGS] & 1 else np.int64(0)
            x, y = r[a + at] & m, r[b + at] & m
            if op == ADD_CARRY:
                value = (x + y + taken) & m
                carry = ordering(value, x, 0) == 1 or (taken == 1 and value == x)
            else:
                value = (x - y - taken) & m
                carry = ordering(x, y, 0) == 1 or (taken == 1 and x == y)
            if row[FLAGS] & 2:
                r[row[E] + at] = np.int64(carry)
        r[d + at] = value & m


def pack(row: Any, r: Any, lists: Any, lanes: Any, n: Any) -> None:
    """Move the parts of a vector into one register, or the other way about; K is the bits of a part."""
    bits, m, start, count = row[K], row[M], row[_LIST], row[_COUNT]
    for i in range(n):
        at = lanes[i]
        if row[OP] == PACK:
            value = np.int64(0)
            for part in range(count):
                value |= (r[lists[start + part] + at] & m) << (bits * part)
            r[row[D] + at] = value
        elif row[OP] == UNPACK:
            value = r[row[A] + at]
            for part in range(count):
                r[lists[start + part] + at] = (value >> (bits * part)) & m
