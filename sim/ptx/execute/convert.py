"""Conversions between formats."""

from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.codes import Real
from vtakit.sim.ptx.execute.formats import FRACTION, as_bits, flushed, narrowed, widened
from vtakit.sim.ptx.execute.integer import MIN64
from vtakit.sim.ptx.opcodes import (
    AWAY,
    COUNT,
    CVT_FLOAT,
    CVT_INT,
    CVT_PACK,
    CVT_TO_FLOAT,
    CVT_TO_INT,
    CVT_UNPACK,
    DOWN,
    F32,
    F64,
    FLAGS,
    FLUSH,
    IMM,
    KIND,
    KIND2,
    NEAREST,
    OP,
    RELU,
    SATURATE,
    SIGNED,
    TO_INTEGRAL,
    UP,
    A,
    B,
    D,
    K,
    M,
)


def integral(value: Real, rounding: Any) -> Any:
    """Round to an integral number."""
    if value - value != 0:
        return value
    if rounding == NEAREST:
        found = np.rint(value)
    elif rounding == DOWN:
        found = np.floor(value)
    elif rounding == UP:
        found = np.ceil(value)
    elif rounding == AWAY:
        found = np.floor(np.abs(value) + 0.5)
    else:
        found = np.trunc(value)
    return found


def _clamped(value: Any, bits: Any, signed: Any, from_signed: Any) -> Any:
    """An integer of 64 bits brought into the range of a type (PTX's .sat)."""
    if signed:
        high = np.int64(MIN64 ^ -1) if bits == 64 else (np.int64(1) << (bits - 1)) - 1
        if not from_signed and value < 0:
            return high
        return min(max(value, -high - 1), high)
    if from_signed and value < 0:
        return np.int64(0)
    high = np.int64(-1) if bits == 64 else (np.int64(1) << bits) - 1
    return high if bits < 64 and (value < 0 or value > high) else value


def to_integer(value: Real, bits: Any, signed: Any, wide: Any) -> Any:
    """An integral number as an integer of a type; one outside its range becomes the nearest, a NaN what PTX says."""
    if value != value:
        return np.int64(1) << (bits - 1) if wide or bits == 64 else np.int64(0)
    if signed:
        top = 2.0 ** 63 if bits == 64 else np.float64(np.int64(1) << (bits - 1))
        if value >= top:
            return (np.int64(-1) << (bits - 1)) ^ -1
        if value < -top:
            return np.int64(-1) << (bits - 1)
        return np.int64(value)
    if value <= 0:
        return np.int64(0)
    if bits == 64:
        if value >= 2.0 ** 64:
            return np.int64(-1)
        return np.int64(value) if value < 2.0 ** 63 else np.int64(value - 2.0 ** 63) ^ MIN64
    top = np.float64(np.int64(1) << bits)
    return (np.int64(1) << bits) - 1 if value >= top else np.int64(value)


def from_integer(value: Any, signed: Any, kind: Any, rounding: Any) -> Any:
    """Bits of an integer's value in a format."""
    if kind == F64:
        return as_bits(np.float64(value) if signed or value >= 0 else np.float64(np.uint64(value)))
    if kind == F32 and rounding == NEAREST:
        number = np.float32(value) if signed or value >= 0 else np.float32(np.uint64(value))
        return np.int64(np.float32(number).view(np.int32)) & np.int64(0xFFFFFFFF)
    # more than float64 holds: the lowest bits become one that says that they are not 0
    negative = signed and value < 0
    size = -value if negative else value
    scale = np.float64(1.0)
    if size < 0 or size >= np.int64(1) << 52:
        size = ((size >> 12) & 0xFFFFFFFFFFFFF) | np.int64((size & 4095) != 0)
        scale = np.float64(4096.0)
    number64 = np.float64(size) * scale
    return narrowed(kind, -number64 if negative else number64, rounding, False)


def _adjusted(value: Real, flags: Any) -> Any:
    if flags & SATURATE:
        value = value if value > 0 else np.float64(0.0)
        value = value if value < 1 else np.float64(1.0)
    if flags & RELU and value < 0:
        value = np.float64(0.0)
    return value


def convert(row: Any, r: Any, lanes: Any, n: Any) -> None:
    """Run a conversion.

    KIND is the format of the result, KIND2 that of the operand, IMM the rounding; K and SIGNED (bit 0: result, bit 1: operand)
    are of the integer in it; M is the bits of the result's register; COUNT the bits of an integer result.
    """
    op, kind, source, rounding, flags, k, m = row[OP], row[KIND], row[KIND2], row[IMM], row[FLAGS], row[K], row[M]
    d, a, b = row[D], row[A], row[B]
    signed, from_signed = row[SIGNED] & 1, row[SIGNED] >> 1
    for i in range(n):
        at = lanes[i]
        x = r[a + at]
        value = np.int64(0)
        if op == CVT_INT:
            x = x << k
            x = x >> k if from_signed else (x >> k) & (np.int64(-1) if k == 0 else (np.int64(1) << (64 - k)) - 1)
            if flags & SATURATE:
                x = _clamped(x, row[COUNT], signed, from_signed)
            cut = 64 - row[COUNT]
            value = x << cut
            value = value >> cut if signed else (value >> cut) & (np.int64(-1) if cut == 0 else (np.int64(1) << (64 - cut)) - 1)
        elif op == CVT_TO_FLOAT:
            x = x << k
            x = x >> k if from_signed else (x >> k) & (np.int64(-1) if k == 0 else (np.int64(1) << (64 - k)) - 1)
            value = from_integer(x, from_signed, kind, rounding)
            if flags & SATURATE:
                value = narrowed(kind, _adjusted(widened(kind, value), flags), NEAREST, False)
        elif op == CVT_TO_INT:
            x = flushed(x) if flags & FLUSH and source == F32 else x
            number = integral(widened(source, x), rounding)
            value = to_integer(number, row[COUNT], signed, source == F64)
        elif op == CVT_FLOAT:
            x = flushed(x) if flags & FLUSH and source == F32 else x
            number = widened(source, x)
            if flags & TO_INTEGRAL:
                number = np.copysign(integral(number, rounding), number)
            value = narrowed(kind, _adjusted(number, flags), NEAREST if flags & TO_INTEGRAL else rounding, row[SIGNED] == 1)
            if flags & FLUSH and kind == F32:
                value = flushed(value)
        elif op == CVT_PACK:
            width = 8 if FRACTION[kind] < 7 else 16
            high = narrowed(kind, _adjusted(widened(source, x), flags), rounding, row[SIGNED] == 1)
            low = narrowed(kind, _adjusted(widened(source, r[b + at]), flags), rounding, row[SIGNED] == 1)
            value = (high << width) | low
        elif op == CVT_UNPACK:  # two of 8 bits to two of 16
            low = narrowed(kind, widened(source, x & 255), NEAREST, False)
            high = narrowed(kind, widened(source, (x >> 8) & 255), NEAREST, False)
            value = (high << 16) | low
        r[d + at] = value & m
