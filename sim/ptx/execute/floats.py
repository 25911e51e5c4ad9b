"""Arithmetic of floating point: float32 by itself, every format through float64."""

import math
from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.codes import Real
from vtakit.sim.ptx.execute.formats import NAN, as_bits, flushed, narrowed, odd_sum, widened
from vtakit.sim.ptx.execute.fused import fma32, fma64
from vtakit.sim.ptx.execute.integer import MIN64, combined
from vtakit.sim.ptx.opcodes import (
    COUNT,
    F32,
    F64,
    F_ADD,
    F_FMA,
    F_SETP,
    F_SUB,
    FLAGS,
    FLUSH,
    IMM,
    KIND,
    KIND2,
    N_ABS,
    N_ADD,
    N_COPYSIGN,
    N_DIV,
    N_EX2,
    N_FMA,
    N_LG2,
    N_MAX,
    N_MIN,
    N_MUL,
    N_NEG,
    N_RCP,
    N_RSQRT,
    N_SET,
    N_SETP,
    N_SIN,
    N_SQRT,
    N_SUB,
    N_TANH,
    N_TESTP,
    NEAREST,
    OP,
    PROPAGATE_NAN,
    RELU,
    SATURATE,
    A,
    B,
    C,
    D,
    E,
    K,
)

_NAN32 = 0x7FFFFFFF


def float32(row: Any, r: Any, f: Any, lanes: Any, n: Any) -> None:
    """Run a frequent operation on float32 without flags; `f` is the registers as float32, two to a register."""
    op = row[OP]
    d, a, b, c = row[D], row[A], row[B], row[C]
    for i in range(n):
        at = lanes[i]
        x, y = f[2 * (a + at)], f[2 * (b + at)]
        if op == F_SETP:
            relation = 2 if x == y else 1 if x < y else 4 if x > y else 8
            truth = np.int64((row[KIND] & relation) != 0)
            other = r[c + at] ^ row[IMM]
            r[d + at] = combined(row[KIND2], truth, other)
            if row[E] >= 0:
                r[row[E] + at] = combined(row[KIND2], 1 - truth, other)
            continue
        if op == F_FMA:
            value = fma32(x, y, f[2 * (c + at)])
        elif op == F_ADD:
            value = x + y
        elif op == F_SUB:
            value = x - y
        else:
            value = x * y
        if value != value:
            r[d + at] = _NAN32
        else:
            f[2 * (d + at)] = value


def _is_nan(kind: Any, bits: Any) -> Any:
    value = widened(kind, bits)
    return value != value


def _least(op: Any, kind: Any, a: Any, b: Any, flags: Any) -> Any:
    """Smaller or larger of two numbers, as bits: -0 is below +0, and a NaN loses but with `.NaN`."""
    x, y = widened(kind, a), widened(kind, b)
    if x != x or y != y:
        if (flags & PROPAGATE_NAN) or (x != x and y != y):
            return np.int64(NAN[kind])
        return b if x != x else a
    if x == y:
        negative = as_bits(x) < 0
        return a if negative == (op == N_MIN) else b
    return a if (x < y) == (op == N_MIN) else b


def relation_of(x: Real, y: Real) -> Any:
    """LESS, EQUAL, GREATER or UNORDERED of two numbers."""
    return 2 if x == y else 1 if x < y else 4 if x > y else 8


def _function(op: Any, x: Real) -> Any:
    """A function's value in float64."""
    if op == N_SQRT:
        return np.sqrt(x)
    if op == N_RCP:
        return np.float64(1.0) / x
    if op == N_RSQRT:
        return np.float64(1.0) / np.sqrt(x)
    if x != x:
        return x
    if op == N_EX2:
        return np.float64(np.inf) if x > 1100.0 else np.float64(0.0) if x < -1100.0 else np.float64(math.exp2(x))
    if op == N_LG2:
        if x < 0:
            return np.float64(np.nan)
        if x == 0:
            return np.float64(-np.inf)
        return x if x - x != 0 else np.float64(math.log2(x))
    if op == N_TANH:
        return np.float64(math.tanh(x))
    if x - x != 0:
        return np.float64(np.nan)
    return np.float64(math.sin(x)) if op == N_SIN else np.float64(math.cos(x))


def _value(op: Any, kind: Any, a: Any, b: Any, c: Any, flags: Any) -> Any:
    """Bits of an operation's result from the bits of its operands."""
    if op == N_MIN or op == N_MAX:
        found = _least(op, kind, a, b, flags)
        if (flags & RELU) and not widened(kind, found) > 0 and not _is_nan(kind, found):
            return np.int64(0)
        return found
    top = np.int64(MIN64 if kind == F64 else 0x80000000 if kind == F32 else 0x8000)
    if op == N_NEG:
        return np.int64(NAN[kind]) if kind != F64 and _is_nan(kind, a) else a ^ top
    if op == N_ABS:
        return np.int64(NAN[kind]) if kind != F64 and _is_nan(kind, a) else a & ~top
    if op == N_COPYSIGN:  # the first operand's sign
        return (b & ~top) | (a & top)
    x, y = widened(kind, a), widened(kind, b)
    if op == N_ADD:
        value = x + y if kind == F64 else odd_sum(x, y)
    elif op == N_SUB:
        value = x - y if kind == F64 else odd_sum(x, -y)
    elif op == N_MUL:
        value = x * y
    elif op == N_FMA:
        z = widened(kind, c)
        value = fma64(x, y, z) if kind == F64 else odd_sum(x * y, z)
    elif op == N_DIV:
        value = x / y
    else:
        value = _function(op, x)
    if flags & SATURATE:
        value = value if value > 0 else np.float64(0.0)
        value = value if value < 1 else np.float64(1.0)
    if (flags & RELU) and value < 0:
        value = np.float64(0.0)
    return narrowed(kind, value, NEAREST, False)


def _tested(kind: Any, bits: Any, test: Any) -> Any:
    """PTX's testp: finite, infinite, number, notanumber, normal and subnormal, from 0 on."""
    value = widened(kind, bits)
    finite = value - value == 0
    magnitude = -value if value < 0 else value
    smallest = 2.0**-126 if kind == F32 else 2.0**-1022
    if test == 0:
        return finite
    if test == 1:
        return value == value and not finite
    if test == 2:
        return value == value
    if test == 3:
        return value != value
    if test == 4:
        return finite and magnitude >= smallest
    return finite and magnitude < smallest and magnitude > 0


def floating(row: Any, r: Any, lanes: Any, n: Any) -> None:
    """Run an operation of any format; COUNT is the values in a register, K the bits of one if there are several."""
    op, kind, flags = row[OP], row[KIND], row[FLAGS]
    d, a, b, c, bits = row[D], row[A], row[B], row[C], row[K]
    mask = ~(np.int64(-1) << bits) if bits < 64 else np.int64(-1)
    for i in range(n):
        at = lanes[i]
        if op == N_SETP or op == N_SET:
            x, y = r[a + at], r[b + at]
            if flags & FLUSH:
                x, y = flushed(x), flushed(y)
            truth = np.int64((row[KIND2] & relation_of(widened(kind, x), widened(kind, y))) != 0)
            if op == N_SET:
                r[d + at] = row[IMM] if truth else np.int64(0)
                continue
            other = r[c + at] ^ (row[IMM] >> 2)
            r[d + at] = combined(row[IMM] & 3, truth, other)
            if row[E] >= 0:
                r[row[E] + at] = combined(row[IMM] & 3, 1 - truth, other)
            continue
        if op == N_TESTP:
            r[d + at] = np.int64(_tested(kind, r[a + at], row[IMM]))
            continue
        result = np.int64(0)
        for part in range(row[COUNT]):
            low = bits * part
            x, y, z = (r[a + at] >> low) & mask, (r[b + at] >> low) & mask, (r[c + at] >> low) & mask
            if flags & FLUSH and kind == F32:
                found = flushed(_value(op, kind, flushed(x), flushed(y), flushed(z), flags))
            else:
                found = _value(op, kind, x, y, z, flags)
            result |= found << low
        r[d + at] = result
