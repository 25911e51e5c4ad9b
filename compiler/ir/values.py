"""Constants and conversions between types.

Types of two operands: a Python number takes the other's type (a float beside an integer expression becomes float32);
lanes are broadcast; a float wins over an integer, the wider over the narrower, float32 over the pair float16 and
bfloat16; a signed and an unsigned integer meet in the signed type if it is wider than the unsigned one. Any other pair is
a TypeError that asks for `astype`.
"""

import math
import struct
from typing import Any

from vtakit.compiler.ir.base import Expr
from vtakit.compiler.ir.basic import Broadcast, Cast, FloatImm, IntImm
from vtakit.compiler.ir.dtypes import BOOL, FLOAT32, INT32, INT64, DType, dtype

TRUE, FALSE = IntImm(1, BOOL), IntImm(0, BOOL)
_NUMBERS = (IntImm, FloatImm)


def wrap(value: Any) -> Expr:
    """Return a Python or NumPy number as a constant: bool, int32 (int64 if it is too large), float32; an expression as it is.

    Raises TypeError for anything else.
    """
    if isinstance(value, Expr):
        return value
    if hasattr(value, "as_expr"):  # an iteration variable or a tensor of rank 0 stands for an expression
        found: Expr = value.as_expr()
        return found
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return TRUE if value else FALSE
    if isinstance(value, int):
        return const(value, INT32 if INT32.min <= value <= INT32.max else INT64)
    if isinstance(value, float):
        return FloatImm(float(value), FLOAT32)
    if hasattr(value, "item") and hasattr(value, "dtype") and not getattr(value, "shape", ()):
        return const(value.item(), dtype(value.dtype))
    raise TypeError(
        f"{value!r} of type {type(value).__name__} is no expression: give a number, a variable, an axis or a tensor's element"
    )


def const(value: float, to: str | DType) -> Expr:
    """Return a constant of a type, to which a float is rounded; a vector type gives a broadcast.

    Raises ValueError if an integer type cannot hold the value.
    """
    kind = dtype(to)
    if kind.lanes > 1:
        return Broadcast(const(value, kind.scalar), kind.lanes)
    if kind.is_float:
        return FloatImm(rounded(float(value), kind), kind)
    if kind.is_bool:
        return TRUE if value else FALSE
    if value != int(value) or not kind.min <= value <= kind.max:
        raise ValueError(f"{value} is not a value of {kind}, whose values are the integers {kind.min} to {kind.max}")
    return IntImm(int(value), kind)


def value_of(e: Expr) -> int | float | None:
    """Return the number that a constant, or a broadcast of one, is; else None."""
    while isinstance(e, Broadcast):
        e = e.value
    return e.value if isinstance(e, _NUMBERS) else None


def int_value(e: Expr) -> int | None:
    """Return the integer that a scalar constant is; else None."""
    return e.value if isinstance(e, IntImm) else None


def wrapped(value: int, to: DType) -> int:
    """Return the low bits of an integer as a value of the type, as machine arithmetic leaves it."""
    value &= (1 << to.bits) - 1
    return value - (1 << to.bits) if to.code == "int" and value > to.max else value


def rounded(value: float, to: DType) -> float:
    """Return a float as the type can hold it (round to nearest even); infinities and NaN stay."""
    if to.bits == 64 or math.isnan(value) or math.isinf(value):
        return value
    if to.code == "bfloat":
        bits = struct.unpack("<I", struct.pack("<f", rounded(value, FLOAT32)))[0]
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])
    try:
        form = "<f" if to.bits == 32 else "<e"
        return float(struct.unpack(form, struct.pack(form, value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def cast(value: Any, to: str | DType) -> Expr:
    """Return `value` as another type; constants are converted at once. A scalar type given for a vector keeps the lanes."""
    e, kind = wrap(value), dtype(to)
    if kind.lanes != e.dtype.lanes:
        if kind.lanes != 1 and e.dtype.lanes != 1:
            raise TypeError(f"cannot convert {e}, which has {e.dtype.lanes} lanes, to {kind}")
        kind = kind.with_lanes(max(kind.lanes, e.dtype.lanes))
        if e.dtype.lanes == 1:
            return Broadcast(cast(e, kind.scalar), kind.lanes)
    if e.dtype is kind:
        return e
    if isinstance(e, Broadcast):
        return Broadcast(cast(e.value, kind.scalar), e.lanes)
    number = value_of(e)
    if number is None or kind.code == "handle":
        return Cast(kind, e)
    if kind.is_bool:
        return TRUE if number else FALSE
    if kind.is_float:
        return FloatImm(rounded(float(number), kind), kind)
    if isinstance(number, float) and not (math.isfinite(number) and kind.min <= int(number) <= kind.max):
        return Cast(kind, e)  # undefined in C, so left to the machine
    return IntImm(wrapped(int(number), kind), kind)


def common_type(a: DType, b: DType) -> DType:
    """Return the scalar type in which two operands meet. Raises TypeError where none is certain."""
    a, b = a.scalar, b.scalar
    if a is b:
        return a
    if "handle" in (a.code, b.code):
        raise TypeError(f"no operation takes an address ({a}, {b})")
    if a.is_float or b.is_float:
        if not (a.is_float and b.is_float):
            return a if a.is_float else b
        if a.bits == b.bits:
            return FLOAT32
        return a if a.bits > b.bits else b
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.code == b.code:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.code == "int" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    raise TypeError(f"{a} and {b} have no common type that holds all their values: convert one with .astype(…)")


def unify(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Return two operands in their common type and number of lanes."""
    x, y = wrap(a), wrap(b)
    if x is not a and isinstance(a, (int, float)) and _holds(y.dtype, a):
        x = const(a, y.dtype.scalar)
    elif y is not b and isinstance(b, (int, float)) and _holds(x.dtype, b):
        y = const(b, x.dtype.scalar)
    if x.dtype is y.dtype:
        return x, y
    kind = common_type(x.dtype, y.dtype)
    lanes = max(x.dtype.lanes, y.dtype.lanes)
    if min(x.dtype.lanes, y.dtype.lanes) not in (1, lanes):
        raise TypeError(f"{x} has {x.dtype.lanes} lanes and {y} has {y.dtype.lanes}: both need the same number, or one")
    return cast(cast(x, kind), kind.with_lanes(lanes)), cast(cast(y, kind), kind.with_lanes(lanes))


def _holds(kind: DType, value: float) -> bool:
    """Return whether a Python number is a value of a type, so that it takes that type beside an operand of it."""
    if kind.is_float:
        return True
    if isinstance(value, float) or kind.code == "handle":
        return False
    return kind.min <= value <= kind.max and (not kind.is_bool or isinstance(value, bool))
