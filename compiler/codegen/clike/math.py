"""Formulas for math functions of float32 that a language lacks, of those that it has.

Errors are against double precision, where the language's own functions are within 4 ulp; tests/compiler/clike/test_math.py has
them. The polynomials are those of `vtakit.compiler.codegen.llvm.lowering.math`.
"""

import math
from collections.abc import Callable, Sequence

from vtakit.compiler.codegen.llvm.lowering.math import ERF, ERFC, TANH
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.calls import math_call
from vtakit.compiler.ir.dtypes import FLOAT32, DType, dtype
from vtakit.compiler.ir.expr import Call, Expr
from vtakit.compiler.ir.ops import all_of, any_of, select
from vtakit.compiler.ir.values import const

UINT32 = dtype("uint32")
_INFINITY = 0x7F800000  # the bits of a float32
_LOG10_2_HIGH, _LOG10_2_LOW = 0.30102539, 4.605039e-06  # the product of the first with a small integer is exact


def reinterpret(e: Expr, to: DType) -> Expr:
    """Return the bits of a value as another type of as many bits."""
    return Call(to, "reinterpret", (e,))


def bits(value: int) -> Expr:
    """Return a constant of 32 bits."""
    return const(value, UINT32)


def _f(value: float) -> Expr:
    return const(value, FLOAT32)


def _absolute(x: Expr) -> Expr:
    return Call(x.dtype, "abs", (x,))


def _size(x: Expr) -> Expr:
    """The bits without the sign."""
    return reinterpret(x, UINT32) & bits(0x7FFFFFFF)


def _polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    found = _f(coefficients[0])
    for c in coefficients[1:]:
        found = math_call("fma", found, x, _f(c))
    return found


def _copysign(x: Expr, sign: Expr) -> Expr:
    return reinterpret(_size(x) | (reinterpret(sign, UINT32) & bits(0x80000000)), FLOAT32)


def _exp10(x: Expr) -> Expr:
    """x = n log10(2) + r: 2**n exp(r ln 10)."""
    near = select(x < _f(-46.0), _f(-46.0), select(_f(39.0) < x, _f(39.0), x))
    n = math_call("nearbyint", near * _f(1 / math.log10(2)))
    r = math_call("fma", n, _f(-_LOG10_2_LOW), math_call("fma", n, _f(-_LOG10_2_HIGH), near))
    half = math_call("floor", n * _f(0.5))  # 2**n may be no number where the product is one
    return math_call("exp", r * _f(math.log(10))) * math_call("exp2", half) * math_call("exp2", n - half)


def _log1p(x: Expr) -> Expr:
    """W. Kahan's: the rounding of 1 + x is divided out."""
    u = x + _f(1.0)
    rest = math_call("log", u) * (ir.Div(x, u - _f(1.0)))
    return select(any_of(ir.EQ(u, _f(1.0)), ir.EQ(u, x)), select(ir.EQ(u, x), math_call("log", u), x), rest)


def _expm1(x: Expr) -> Expr:
    """W. Kahan's, and the exponential itself where 1 is nothing beside it."""
    u = math_call("exp", x)
    rest = (u - _f(1.0)) * ir.Div(x, math_call("log", u))
    found = select(ir.EQ(u, _f(1.0)), x, select(_f(30.0) < x, u, rest))
    return select(x < _f(-30.0), _f(-1.0), found)


def _tanh(x: Expr) -> Expr:
    size, z = _absolute(x), x * x
    small = math_call("fma", z * x, _polynomial(z, TANH), x)
    near = select(_f(20.0) < size, _f(20.0), size)
    large = _f(1.0) - ir.Div(_f(2.0), math_call("exp", near + near) + _f(1.0))
    return math_call("copysign", select(_f(0.625) < size, large, small), x)


def _erf(x: Expr) -> Expr:
    size, z = _absolute(x), x * x
    small = math_call("fma", _polynomial(z, ERF), x, x)
    t = select(_f(4.0) < size, _f(4.0), size)
    large = _f(1.0) - math_call("exp", _f(0.0) - math_call("fma", _polynomial(t, ERFC), t, t))
    return select(_f(0.927) < size, math_call("copysign", large, x), small)


def _hypot(x: Expr, y: Expr) -> Expr:
    a, b = _absolute(x), _absolute(y)
    most, least = select(a < b, b, a), select(a < b, a, b)
    ratio = ir.Div(least, most)
    found = most * math_call("sqrt", math_call("fma", ratio, ratio, _f(1.0)))
    endless = any_of(ir.EQ(_size(x), bits(_INFINITY)), ir.EQ(_size(y), bits(_INFINITY)))
    nothing = ir.EQ(most, _f(0.0))
    return select(endless, reinterpret(bits(_INFINITY), FLOAT32), select(nothing, a + b, found))


def _round(x: Expr) -> Expr:
    """To the nearest integer, halves away from 0."""
    size = _absolute(x)
    whole = math_call("trunc", size)
    return math_call("copysign", select(size - whole < _f(0.5), whole, whole + _f(1.0)), x)


def _nextafter(x: Expr, y: Expr) -> Expr:
    raw = reinterpret(x, UINT32)
    stepped = select(ir.NE(x < y, x < _f(0.0)), raw + bits(1), raw - bits(1))
    least = (reinterpret(y, UINT32) & bits(0x80000000)) | bits(1)
    stepped = select(ir.EQ(_size(x), bits(0)), least, stepped)
    none = any_of(bits(_INFINITY) < _size(x), bits(_INFINITY) < _size(y))
    equal = any_of(ir.EQ(raw, reinterpret(y, UINT32)), all_of(ir.EQ(_size(x), bits(0)), ir.EQ(_size(y), bits(0))))
    return select(none, x + y, select(equal, y, reinterpret(stepped, FLOAT32)))


# By the IR's names, beside "fmod". `fmod` by the language's % is as exact as that.
FORMULAS: dict[str, Callable[..., Expr]] = {
    "exp10": _exp10, "log10": lambda x: math_call("log2", x) * _f(math.log10(2)), "log1p": _log1p, "expm1": _expm1, "tanh": _tanh,
    "erf": _erf, "hypot": _hypot, "round": _round, "copysign": _copysign, "nextafter": _nextafter,
    "fmod": lambda x, y: Call(x.dtype, "remainder", (x, y)),
    "isnan": lambda x: bits(_INFINITY) < _size(x), "isinf": lambda x: ir.EQ(_size(x), bits(_INFINITY)),
    "isfinite": lambda x: _size(x) < bits(_INFINITY),
}
