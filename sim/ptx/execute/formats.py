"""Formats of floating point: bits to float64 and back, rounded once."""

from typing import Any

import numpy as np

from vtakit.sim.ptx.execute.codes import Real
from vtakit.sim.ptx.opcodes import AWAY, BF16, DOWN, E4M3, F32, F64, NEAREST, TF32, UP

# By format: bits of the fraction, the exponent's bias, the canonical NaN, infinity (E4M3: the pattern above the largest number).
FRACTION = (23, 52, 10, 7, 10, 3, 2)
BIAS = (127, 1023, 15, 127, 127, 7, 15)
NAN = (0x7FFFFFFF, 0x7FF8000000000000, 0x7FFF, 0x7FFF, 0x7FFFFFFF, 0x7F, 0x7F)
INFINITY = (0x7F800000, 0x7FF0000000000000, 0x7C00, 0x7F80, 0xFF << 10, 0x7F, 0x7C)
LOW = (0, 0, 0, 0, 13, 0, 0)  # bits below the fraction, which are 0
BITS = (32, 64, 16, 16, 32, 8, 8)
_FRACTION64 = (1 << 52) - 1
_MAGNITUDE = (1 << 63) - 1


def as_bits(value: Real) -> Any:
    """The bits of a float64."""
    return np.float64(value).view(np.int64)


def as_float(bits: Any) -> Any:
    """The float64 of bits."""
    return np.int64(bits).view(np.float64)


def widened(kind: Any, bits: Any) -> Any:
    """Return the value of a format's bits as float64, which holds it exactly."""
    if kind == F64:
        return as_float(bits)
    if kind == F32 or kind == TF32:
        return np.float64(np.int32(bits).view(np.float32))
    if kind == BF16:
        return np.float64(np.int32(bits << 16).view(np.float32))
    fraction, bias, width = FRACTION[kind], BIAS[kind], BITS[kind]
    sign = (bits >> (width - 1)) & 1
    exponent = (bits >> fraction) & ((1 << (width - 1 - fraction)) - 1)
    part = bits & ((1 << fraction) - 1)
    if kind == E4M3:
        if (bits & 0x7F) == 0x7F:
            return as_float(np.int64(0x7FF8000000000000))
    elif (bits & ((1 << (width - 1)) - 1)) >= INFINITY[kind]:
        if part:
            return as_float(np.int64(0x7FF8000000000000))
        return as_float((sign << 63) | np.int64(0x7FF0000000000000))
    if exponent == 0:
        value = np.float64(part) * as_float(np.int64(1024 - bias - fraction) << 52)
        return -value if sign else value
    return as_float((sign << 63) | ((exponent - bias + 1023) << 52) | (part << (52 - fraction)))


def narrowed(kind: Any, value: Real, rounding: Any, finite: Any) -> Any:
    """Return the bits of a float64 in a format; `finite` makes the largest number of an overflow."""
    if value != value:
        return np.int64(NAN[kind])
    bits = as_bits(value)
    if kind == F64:
        return bits
    if kind == F32 and rounding == NEAREST and not finite:
        return np.int64(np.float32(value).view(np.int32)) & np.int64(0xFFFFFFFF)
    fraction, bias = FRACTION[kind], BIAS[kind]
    sign = (bits >> 63) & 1
    head = sign << (BITS[kind] - 1)
    magnitude = bits & _MAGNITUDE
    if magnitude == np.int64(0x7FF0000000000000):
        return head | ((INFINITY[kind] - 1 if finite else INFINITY[kind]) << LOW[kind])
    exponent = (magnitude >> 52) - 1023
    kept = (magnitude & _FRACTION64) | ((np.int64(1) << 52) if exponent > -1023 else np.int64(0))
    drop = np.int64(52 - fraction)
    least = 1 - bias
    if exponent < least:
        drop += least - exponent
        exponent = np.int64(least)
    if drop > 60:
        drop = np.int64(60)
    result = kept >> drop
    rest = kept & ((np.int64(1) << drop) - 1)
    half = np.int64(1) << (drop - 1)
    up = False
    if rounding == NEAREST:
        up = rest > half or (rest == half and (result & 1) == 1)
    elif rounding == AWAY:
        up = rest >= half
    elif rounding == UP:
        up = rest > 0 and sign == 0
    elif rounding == DOWN:
        up = rest > 0 and sign == 1
    if up:
        result += 1
    result += (exponent - least) << fraction
    # below the smallest normal number `result` has no hidden bit, and so its exponent field is 0 as it should be
    if result >= INFINITY[kind]:
        outwards = rounding == UP if sign == 0 else rounding == DOWN
        stays = finite or not (rounding == NEAREST or rounding == AWAY or outwards)
        result = np.int64(INFINITY[kind] - 1) if stays else np.int64(INFINITY[kind])
    return head | (result << LOW[kind])


def odd_sum(x: Real, y: Real) -> Any:
    """x + y rounded to odd: a later rounding to a format of less than 52 bits then is that of the exact sum."""
    total = x + y
    if total - total != 0:  # an infinity or NaN
        return total
    back = total - x
    error = (x - (total - back)) + (y - back)
    if error != 0:
        bits = as_bits(total)
        if bits & 1 == 0:
            total = as_float(bits + 1 if (error > 0) == (total > 0) else bits - 1)
    return total


def flushed(bits: Any) -> Any:
    """A float32's bits with a subnormal number made zero of its sign."""
    return bits & np.int64(0x80000000) if (bits & np.int64(0x7F800000)) == 0 else bits
