"""Functions of values: C's, of floating-point numbers, and those of integers and conditions."""

from collections.abc import Callable
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.base import OPERATORS
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import math_call
from vtakit.compiler.ir.dtypes import DType, dtype
from vtakit.compiler.ir.expr import Call, Expr, StringImm
from vtakit.compiler.ir.ops import binary, select, truncdiv, truncmod
from vtakit.compiler.ir.values import cast, unify, wrap
from vtakit.compiler.ir.values import const as constant
from vtakit.compiler.te.errors import ExpressionError


def const(value: Any, dtype: str | DType | None = None) -> Expr:
    """A constant of a type; without one an integer is an int32 (int64 if it must), another number a float32.

    Raises ExpressionError for a value that the type does not hold, or that is no number.
    """
    try:
        return wrap(value) if dtype is None else constant(value, dtype)
    except (TypeError, ValueError) as error:
        raise ExpressionError(str(error)) from None


def _function(name: str, meaning: str) -> Callable[[Any], Expr]:
    def function(x: Any) -> Expr:
        return math_call(name, x)
    function.__name__, function.__qualname__ = name, name
    function.__doc__ = f"{meaning} Raises TypeError for an integer expression."
    return function


exp = _function("exp", "e to the power of x.")
exp2 = _function("exp2", "2 to the power of x.")
exp10 = _function("exp10", "10 to the power of x.")
expm1 = _function("expm1", "exp(x) - 1, exact for small x.")
log = _function("log", "The natural logarithm.")
log2 = _function("log2", "The logarithm to base 2.")
log10 = _function("log10", "The logarithm to base 10.")
log1p = _function("log1p", "log(1 + x), exact for small x.")
sqrt = _function("sqrt", "The square root.")
rsqrt = _function("rsqrt", "1 / sqrt(x).")
sin = _function("sin", "The sine of an angle in radians.")
cos = _function("cos", "The cosine of an angle in radians.")
tan = _function("tan", "The tangent of an angle in radians.")
asin = _function("asin", "The arc sine.")
acos = _function("acos", "The arc cosine.")
atan = _function("atan", "The arc tangent.")
sinh = _function("sinh", "The hyperbolic sine.")
cosh = _function("cosh", "The hyperbolic cosine.")
tanh = _function("tanh", "The hyperbolic tangent.")
asinh = _function("asinh", "The inverse hyperbolic sine.")
acosh = _function("acosh", "The inverse hyperbolic cosine.")
atanh = _function("atanh", "The inverse hyperbolic tangent.")
erf = _function("erf", "The error function.")
sigmoid = _function("sigmoid", "1 / (1 + exp(-x)).")
floor = _function("floor", "The greatest whole number not above x.")
ceil = _function("ceil", "The least whole number not below x.")
trunc = _function("trunc", "x rounded to zero.")
round = _function("round", "The nearest whole number, halves away from zero.")
nearbyint = _function("nearbyint", "The nearest whole number, halves to even.")
isnan = _function("isnan", "Whether x is not a number.")
isinf = _function("isinf", "Whether x is infinite.")
isfinite = _function("isfinite", "Whether x is neither infinite nor not a number.")


def reinterpret(x: Any, to: str | DType) -> Expr:
    """The bits of x as a value of another type of as many bits. Raises ExpressionError for a type of others, or of addresses."""
    e, kind = wrap(x), dtype(to)
    if e.dtype.bits != kind.bits or "handle" in (e.dtype.code, kind.code) or e.dtype.is_bool or kind.is_bool:
        raise ExpressionError(f"the bits of a value of {e.dtype} are none of {kind}: give types of as many bits")
    return e if e.dtype is kind else Call(kind.with_lanes(e.dtype.lanes), "reinterpret", (e,))


def _pair(name: str, x: Any, y: Any) -> Expr:
    a, b = unify(x, y)
    return math_call(name, a, b)


def power(x: Any, y: Any) -> Expr:
    """x to the power of y, of floating-point values."""
    return _pair("pow", x, y)


def atan2(y: Any, x: Any) -> Expr:
    """The angle of the point (x, y), of floating-point values."""
    return _pair("atan2", y, x)


def hypot(x: Any, y: Any) -> Expr:
    """sqrt(x² + y²) without overflow on the way."""
    return _pair("hypot", x, y)


def copysign(x: Any, y: Any) -> Expr:
    """x with the sign of y."""
    return _pair("copysign", x, y)


def nextafter(x: Any, y: Any) -> Expr:
    """The number of the type that comes after x towards y."""
    return _pair("nextafter", x, y)


def fmod(x: Any, y: Any) -> Expr:
    """The remainder of x / y with the sign of x, as C's fmod; of floating-point values."""
    a, b = unify(x, y)
    if not a.dtype.is_float:
        raise TypeError(f"fmod takes floating-point values, got {a} and {b}: use te.truncmod for integers")
    return truncmod(a, b)


def abs(x: Any) -> Expr:
    """The absolute value of a number."""
    e = wrap(x)
    return e if e.dtype.code in ("uint", "bool") else Call(e.dtype, "abs", (e,))


def fma(a: Any, b: Any, c: Any) -> Expr:
    """a * b + c, rounded once."""
    x, y = unify(a, b)
    x, z = unify(x, c)
    return math_call("fma", x, cast(y, z.dtype), z)


def _bits(name: str, x: Any) -> Expr:
    e = wrap(x)
    if not e.dtype.is_int:
        raise TypeError(f"{name} takes an integer, got {e} of {e.dtype}")
    return Call(e.dtype, name, (e,))


def popcount(x: Any) -> Expr:
    """Return the number of bits of an integer that are 1."""
    return _bits("popcount", x)


def clz(x: Any) -> Expr:
    """Return the number of leading bits of an integer that are 0."""
    return _bits("clz", x)


def floordiv(a: Any, b: Any) -> Expr:
    """Integer division rounded down, as Python's ``//``."""
    return binary(ir.FloorDiv, a, b)


def floormod(a: Any, b: Any) -> Expr:
    """The remainder of `floordiv`, with the divisor's sign."""
    return binary(ir.FloorMod, a, b)


def div(a: Any, b: Any) -> Expr:
    """``a / b`` of floating-point values; of integers rounded to zero, as in C."""
    x, y = unify(a, b)
    return OPERATORS["/"](x, y) if x.dtype.is_float else truncdiv(x, y)


def Select(condition: Any, true_value: Any, false_value: Any) -> Expr:  # the name of the paper's snippets
    """`true_value` where the condition holds, else `false_value`; both are evaluated."""
    return select(condition, true_value, false_value)


def _call_args(name: Any, args: tuple[Any, ...]) -> tuple[Expr, ...]:
    if not isinstance(name, str):
        raise ExpressionError(f"a call names its function by a string, got {name!r}")
    return tuple([StringImm(arg) if isinstance(arg, str) else wrap(arg) for arg in args])


def call_packed(name: str, *args: Any) -> Expr:
    """Calls the Python function registered under a name; a buffer, or its access_ptr, arrives as an array. For `extern`'s body.

    A buffer given whole is one that the function may write to, unless it is an input of `extern`.
    """
    values = tuple([arg.access_ptr() if isinstance(arg, Buffer) else arg for arg in args])
    return Call(dtype("int32"), "call_packed", (StringImm(name), *_call_args(name, values)), "effect")


def call_extern(result: str | DType, name: str, *args: Any) -> Expr:
    """Calls a C function that may have effects."""
    return Call(dtype(result), name, _call_args(name, args), "extern")


call_pure_extern = call_extern


def call_intrin(result: str | DType, name: str, *args: Any) -> Expr:
    """A target's intrinsic without effects."""
    return Call(dtype(result), name, _call_args(name, args))
