"""Functions that kernels call, as IR: one meaning for all dialects.

A definition takes variables for the parameters and returns the result. Calls within it that only these files know:
``reinterpret`` (bits as another type), ``quotient`` and ``remainder`` (the language's own ``/`` and ``%`` of integers).
"""

from collections.abc import Callable

from vtakit.compiler.codegen.clike.math import FORMULAS, UINT32, reinterpret
from vtakit.compiler.codegen.clike.math import bits as _u
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.calls import math_call
from vtakit.compiler.ir.dtypes import FLOAT32, DType, dtype
from vtakit.compiler.ir.expr import Call, Expr
from vtakit.compiler.ir.ops import all_of, any_of, select
from vtakit.compiler.ir.values import cast, const

UINT64 = dtype("uint64")
_HALF, _BFLOAT = dtype("float16"), dtype("bfloat16")
_INFINITY = 0x7F800000  # the bits of a float32


# Integers. The divisor is not 0; the least integer by -1 is undefined in C.

def _truncdiv(a: Expr, b: Expr) -> Expr:
    return ir.IfThenElse(ir.EQ(b, const(-1, b.dtype)), const(0, a.dtype) - a, Call(a.dtype, "quotient", (a, b)))


def _truncmod(a: Expr, b: Expr) -> Expr:
    return ir.IfThenElse(ir.EQ(b, const(-1, b.dtype)), const(0, a.dtype), Call(a.dtype, "remainder", (a, b)))


def _below(r: Expr, b: Expr) -> Expr:
    """Return whether a quotient rounded to zero is above the one rounded down, by its remainder."""
    zero = const(0, b.dtype)
    return all_of(ir.NE(r, zero), ir.NE(ir.LT(r, zero), ir.LT(b, zero)))


def _floordiv(a: Expr, b: Expr) -> Expr:
    q = ir.TruncDiv(a, b)
    return q - select(_below(a - q * b, b), const(1, a.dtype), const(0, a.dtype))


def _floormod(a: Expr, b: Expr) -> Expr:
    r: Expr = ir.TruncMod(a, b)
    if a.dtype.is_float:
        zero = const(0, b.dtype)
        moved = select(ir.NE(ir.LT(r, zero), ir.LT(b, zero)), r + b, r)
        return select(ir.EQ(r, zero), math_call("copysign", zero, b), moved)
    return r + select(_below(r, b), b, const(0, b.dtype))


def _absolute(a: Expr) -> Expr:
    return select(a < const(0, a.dtype), const(0, a.dtype) - a, a)


# Floats.

def _min(a: Expr, b: Expr) -> Expr:
    return select(any_of(b < a, ir.NE(b, b)), b, a)


def _max(a: Expr, b: Expr) -> Expr:
    return select(any_of(a < b, ir.NE(b, b)), b, a)


def _half_value(bits: Expr) -> Expr:
    """The float32 that the bits of a float16 stand for: exact, also where float32 has no subnormal numbers."""
    size = bits & _u(0x7FFF)
    normal = (size << _u(13)) + _u(112 << 23)
    special = (size << _u(13)) | _u(_INFINITY)
    small = reinterpret(cast(size, FLOAT32) * const(2.0**-24, FLOAT32), UINT32)
    found = select(size < _u(0x400), small, select(size < _u(0x7C00), normal, special))
    return reinterpret(found | ((bits & _u(0x8000)) << _u(16)), FLOAT32)


def _half_bits(x: Expr) -> Expr:
    """The bits of a float32 rounded to float16, to nearest even."""
    raw = reinterpret(x, UINT32)
    size = raw & _u(0x7FFFFFFF)
    normal = ((size + _u(0xFFF) + ((size >> _u(13)) & _u(1))) >> _u(13)) - _u((127 - 15) << 10)
    # Half a unit of 0.5 is half of the least subnormal float16, so an addition rounds to that.
    small = reinterpret(reinterpret(size, FLOAT32) + const(0.5, FLOAT32), UINT32) - _u(0x3F000000)
    found = select(_u(0x387FFFFF) < size, normal, small)  # from 2**-14 on it is normal
    found = select(_u(0x477FFFFF) < size, _u(0x7C00), found)  # 2**16 and more is infinite
    quiet = ((size >> _u(13)) & _u(0x3FF)) | _u(0x7E00)
    return select(_u(_INFINITY) < size, quiet, found) | ((raw >> _u(16)) & _u(0x8000))


def _bfloat_value(bits: Expr) -> Expr:
    return reinterpret(bits << _u(16), FLOAT32)


def _bfloat_bits(x: Expr) -> Expr:
    """The bits of a float32 rounded to bfloat16, to nearest even."""
    raw = reinterpret(x, UINT32)
    rounded = raw + _u(0x7FFF) + ((raw >> _u(16)) & _u(1))
    return select(_u(_INFINITY) < (raw & _u(0x7FFFFFFF)), raw | _u(0x400000), rounded) >> _u(16)


def _half_round(x: Expr) -> Expr:
    return Call(FLOAT32, "half_value", (Call(UINT32, "half_bits", (x,)),))


def _bfloat_round(x: Expr) -> Expr:
    return Call(FLOAT32, "bfloat_value", (Call(UINT32, "bfloat_bits", (x,)),))


def _to_odd(x: Expr) -> Expr:
    """A float64 as a float32 rounded to odd: rounding that to fewer bits gives what rounding once would.

    (S. Boldo, G. Melquiond, Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd, 2008.)
    """
    near = cast(x, FLOAT32)
    back = cast(near, x.dtype)
    raw = reinterpret(near, UINT32)
    over = ir.LT(Call(x.dtype, "abs", (x,)), Call(x.dtype, "abs", (back,)))
    below = select(over, raw - _u(1), raw)
    inexact = any_of(back < x, x < back)
    return reinterpret(select(inexact, below | _u(1), below), FLOAT32)


def _narrow_fma(a: Expr, b: Expr, c: Expr) -> Expr:
    """a * b + c of numbers of at most 12 bits, whose product float32 holds, rounded to odd."""
    product = a * b
    total = product + c
    part = total - product
    rest = (product - (total - part)) + (c - part)  # the sum's error (Knuth's TwoSum)
    raw = reinterpret(total, UINT32)
    away = ir.EQ(rest < const(0, FLOAT32), total < const(0, FLOAT32))
    odd = select(away, raw | _u(1), (raw - _u(1)) | _u(1))
    inexact = all_of(ir.NE(rest, const(0, FLOAT32)), Call(dtype("bool"), "isfinite", (total,)))
    even = ir.EQ(raw & _u(1), _u(0))
    return select(all_of(inexact, even), reinterpret(odd, FLOAT32), total)


def _next_half(x: Expr, y: Expr, kind: DType) -> Expr:
    """The next number of a narrow type towards the second: a step of the bits."""
    word = "half" if kind is _HALF else "bfloat"
    zero = const(0, FLOAT32)
    bits, goal = (Call(UINT32, f"{word}_bits", (value,)) for value in (x, y))
    stepped = select(ir.NE(x < y, x < zero), bits + _u(1), bits - _u(1))
    stepped = select(ir.EQ(x, zero), (goal & _u(0x8000)) | _u(1), stepped)
    found = select(ir.EQ(x, y), y, Call(FLOAT32, f"{word}_value", (stepped,)))
    return select(any_of(ir.NE(x, x), ir.NE(y, y)), x + y, found)


def _half_next(x: Expr, y: Expr) -> Expr:
    return _next_half(x, y, _HALF)


def _bfloat_next(x: Expr, y: Expr) -> Expr:
    return _next_half(x, y, _BFLOAT)


def _sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x)), and exp(x) / (1 + exp(x)) below 0, so that exp does not overflow."""
    one = const(1, x.dtype)
    e = math_call("exp", const(0, x.dtype) - Call(x.dtype, "abs", (x,)))
    return ir.Div(select(x < const(0, x.dtype), e, one), one + e)


DEFINITIONS: dict[str, Callable[..., Expr]] = {
    "truncdiv": _truncdiv, "truncmod": _truncmod, "floordiv": _floordiv, "floormod": _floormod, "absolute": _absolute,
    "min": _min, "max": _max, "half_value": _half_value, "half_bits": _half_bits, "half_round": _half_round,
    "bfloat_value": _bfloat_value, "bfloat_bits": _bfloat_bits, "bfloat_round": _bfloat_round, "to_odd": _to_odd,
    "narrow_fma": _narrow_fma, "half_next": _half_next, "bfloat_next": _bfloat_next, "sigmoid": _sigmoid, **FORMULAS,
}
