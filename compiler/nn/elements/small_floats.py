"""Floating-point numbers of 8 and 4 bits, which are stored and converted, not computed with.

Source: arXiv 2209.05433, 2206.02915, OCP Microscaling Formats 1.0; ONNX Cast.

    float8_e4m3fn    no infinity, NaN is S.1111.111        float8_e4m3fnuz  one zero, the only NaN in place of -0
    float8_e5m2      infinity and NaN as IEEE 754          float8_e5m2fnuz  as e4m3fnuz
    float8_e8m0fnu   powers of two; 255 is NaN             float4_e2m1fn    neither infinity nor NaN
"""

from dataclasses import dataclass

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import FLOAT32, DType, dtype
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, any_of, binary, select
from vtakit.compiler.ir.values import const
from vtakit.compiler.te import math

UINT32 = dtype("uint32")
ROUND_MODES = ("up", "down", "nearest")
_MANTISSA, _BIAS, _INFINITE, _NAN = 23, 127, 0x7F800000, 0x7FC00000  # of float32
_SCALES = "float8_e8m0fnu"


@dataclass(frozen=True, slots=True)
class Format:
    """Layout of a small float.

    mantissa, bias : bits of the one, and what is taken off the exponent
    most           : code of the greatest finite number
    over           : code of what is greater, and of infinity, where it does not become the greatest one
    nan            : code of NaN
    one_zero       : whether -0 is 0
    """

    mantissa: int
    bias: int
    most: int
    over: int
    nan: int
    one_zero: bool = False


FORMATS = {
    "float8_e4m3fn": Format(3, 7, 0x7E, 0x7F, 0x7F), "float8_e4m3fnuz": Format(3, 8, 0x7F, 0x80, 0x80, True),
    "float8_e5m2": Format(2, 15, 0x7B, 0x7C, 0x7E), "float8_e5m2fnuz": Format(2, 16, 0x7F, 0x80, 0x80, True),
    "float4_e2m1fn": Format(1, 1, 0x7, 0x7, 0x8),
}


def _u(value: int) -> Expr:
    return const(value, UINT32)


def _raw(value: Expr) -> Expr:
    """The code of a small float."""
    found: Expr = math.reinterpret(value, f"uint{value.dtype.bits}").astype(UINT32)
    return found


def _equal(a: Expr, b: Expr) -> Expr:
    return binary(ir.EQ, a, b)


def decoded(value: Expr) -> Expr:
    """The number that a small float is, as a float32: each is exact."""
    raw, kind = _raw(value), value.dtype
    nan = math.reinterpret(_u(_NAN), FLOAT32)
    if kind.code == _SCALES:
        found = math.reinterpret(select(_equal(raw, _u(0)), _u(1 << _MANTISSA - 1), raw << _u(_MANTISSA)), FLOAT32)
        return select(_equal(raw, _u(255)), nan, found)
    form = FORMATS[kind.code]
    top = kind.bits - 1
    size = raw & _u((1 << top) - 1)
    sign = (raw >> _u(top)) << _u(31)
    bits = (size << _u(_MANTISSA - form.mantissa)) + _u(_BIAS - form.bias << _MANTISSA)
    small = size.astype(FLOAT32) * const(2.0 ** (1 - form.bias - form.mantissa), FLOAT32)  # subnormal: no implied one
    number = select(size < _u(1 << form.mantissa), math.reinterpret(small, UINT32), bits)
    found = math.reinterpret(number | sign, FLOAT32)
    if form.one_zero:
        return select(_equal(raw, _u(form.nan)), nan, found)
    if form.over > form.most:  # infinity or NaN is among the codes
        infinite = math.reinterpret(_u(_INFINITE) | sign, FLOAT32)
        found = select(size > _u(form.most), select(_equal(size, _u(form.nan)), nan, infinite) if form.over == form.nan
                       else select(size > _u(form.over), nan, infinite), found)
    return found


def encoded(value: Expr, kind: DType, *, saturate: bool = True, round_mode: str = "up") -> Expr:
    """The small float nearest to a float32, halves to even.

    saturate   : whether what is too great, infinity too, becomes the greatest number
    round_mode : of powers of two, "up", "down" or "nearest"
    """
    bits = math.reinterpret(value, UINT32)
    if kind.code == _SCALES:
        return _as(_power(bits, saturate, round_mode), kind)
    form = FORMATS[kind.code]
    size = bits & _u(0x7FFFFFFF)
    sign = (bits >> _u(31)) << _u(kind.bits - 1)
    drop = _MANTISSA - form.mantissa
    rounded = size + _u((1 << drop - 1) - 1) + (size >> _u(drop) & _u(1))
    normal = (rounded >> _u(drop)) - _u(_BIAS - form.bias << form.mantissa)
    scaled = math.reinterpret(size, FLOAT32) * const(2.0 ** (form.bias - 1 + form.mantissa), FLOAT32)
    least = _u(_BIAS + 1 - form.bias << _MANTISSA)  # of the normal ones
    code = select(size < least, math.nearbyint(select(size < least, scaled, const(0, FLOAT32))).astype("int32").astype(UINT32),
                  normal)
    code = select(code > _u(form.most), _u(form.most if saturate else form.over), code)
    own = any_of(_equal(code, _u(0)), _equal(code, _u(form.nan)))  # codes that have no other sign
    code = select(own, code, code | sign) if form.one_zero else code | sign
    return _as(select(size > _u(_INFINITE), _u(form.nan) if form.one_zero or kind.bits < 8 else _u(form.nan) | sign, code), kind)


def _power(bits: Expr, saturate: bool, round_mode: str) -> Expr:
    """The exponent of a float32, rounded; its sign is not looked at, NaN and infinity are NaN."""
    exponent, rest = bits >> _u(_MANTISSA) & _u(255), bits & _u((1 << _MANTISSA) - 1)
    half = _u(1 << _MANTISSA - 1)
    if round_mode == "nearest":
        more = all_of(rest >= half, any_of(rest > half, exponent > _u(0)))
    elif round_mode == "up":
        more = rest > _u(0)
    else:
        more = const(False, "bool")
    whole = exponent + select(more, _u(1), _u(0))
    top = select(whole > _u(254), _u(254 if saturate else 255), whole)
    return select(_equal(exponent, _u(255)), _u(255), top)


def _as(code: Expr, kind: DType) -> Expr:
    found: Expr = math.reinterpret(code.astype(f"uint{kind.bits}"), kind)
    return found
