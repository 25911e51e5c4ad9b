"""Arithmetic of the interpreter: what the generated Python calls for operations that Python has not.

Integers are Python's, kept within their type by the generated code; floats are NumPy's scalars (bfloat16 from ml_dtypes), whose
+ - * / round once to the type.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.lower.interpreter.errors import UndefinedValueError

_FLOATS: dict[str, Any] = {
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64,
}


def numpy_type(of: DType) -> "np.dtype[Any]":
    """The NumPy type of one lane, int8 or uint8 for narrower integers, uint8 for storage types; handles have none."""
    name = str(of.scalar)
    if of.is_storage or (of.is_int and of.bits < 8):
        name = "int8" if of.code == "int" else "uint8"
    found: np.dtype[Any] = np.dtype(_FLOATS.get(name, name))
    return found


def reinterpret(value: Any, of: str, to: str, whole: bool) -> Any:
    """The bits of a value of a NumPy type as one of another; an integer is Python's."""
    found = np.array(value, of).view(to)[()]
    return int(found) if whole else found


def wrapped_bits(value: int, bits: int, signed: bool) -> int:
    """The low bits of an integer."""
    low = value & (1 << bits) - 1
    return low - (1 << bits) if signed and low >> bits - 1 else low


def float_type(of: DType) -> Callable[[Any], Any]:
    """The scalar class of a float type."""
    found: Callable[[Any], Any] = _FLOATS[str(of.scalar)]
    return found


def select(condition: Any, true: Any, false: Any) -> Any:
    """Both are evaluated, as arguments are."""
    return true if condition else false


def float_min(a: Any, b: Any) -> Any:
    return a if a <= b or a != a else b


def float_max(a: Any, b: Any) -> Any:
    return a if a >= b or a != a else b


def trunc_div(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def trunc_mod(a: int, b: int) -> int:
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def shift_count(count: int, bits: int) -> int:
    """The count of a shift; raises UndefinedValueError outside 0 .. bits - 1."""
    if not 0 <= count < bits:
        raise UndefinedValueError(f"a shift of {bits} bits by {count}: the count is within 0 to {bits - 1}")
    return count


def to_integer(value: Any, least: int, most: int) -> int:
    """A float rounded to zero; raises UndefinedValueError where the type cannot hold it."""
    number = float(value)
    if math.isfinite(number) and least <= (whole := int(number)) <= most:
        return whole
    raise UndefinedValueError(f"{number} becomes an integer of a type that holds {least} to {most}")


def wide_to_float(value: int, kind: Any) -> Any:
    """An integer of more bits than a double holds, rounded once."""
    return kind(np.uint64(value) if value >= 0 else np.int64(value))


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c rounded once."""
    kind, values = type(a), (float(a), float(b), float(c))
    if not all(map(math.isfinite, values)):
        return c if math.isinf(values[2]) and math.isfinite(values[0]) and math.isfinite(values[1]) else a * b + c
    exact = Fraction(values[0]) * Fraction(values[1]) + Fraction(values[2])
    if exact == 0:
        return a * b + c  # the sign of zero
    return kind(float(exact) if kind is np.float64 else _to_odd(exact))


def _to_odd(exact: Fraction) -> float:
    """A double from which rounding to a narrower type gives what rounding the exact value would."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    rest = exact - Fraction(near) if math.isfinite(near) else Fraction(0)
    if rest and not int(np.float64(near).view(np.int64)) & 1 and abs(math.frexp(near)[1]) < 500:
        beside = math.nextafter(near, math.inf if rest > 0 else -math.inf)
        return beside
    return near


def popcount(value: int, bits: int) -> int:
    return (value & (1 << bits) - 1).bit_count()


def leading_zeros(value: int, bits: int) -> int:
    return bits - (value & (1 << bits) - 1).bit_length()


def _through_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of doubles as one of any float type, rounded to it at the end."""
    def call(first: Any, *rest: Any) -> Any:
        return type(first)(function(np.float64(first), *[np.float64(value) for value in rest]))
    return call


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


_NUMPY_MATH = {
    **{name: getattr(np, name) for name in (
        "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
        "floor", "ceil", "trunc", "hypot", "copysign",
    )},
    "exp10": lambda x: np.power(10.0, x), "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": _sigmoid, "erf": math.erf,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "atan2": np.arctan2, "pow": np.power, "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5) if np.abs(x) < 2**52 else np.abs(x), x),
}
MATH: dict[str, Callable[..., Any]] = {
    **{name: _through_double(function) for name, function in _NUMPY_MATH.items()},
    "nextafter": np.nextafter, "fma": fma,
    "isnan": lambda x: bool(np.isnan(x)), "isinf": lambda x: bool(np.isinf(x)), "isfinite": lambda x: bool(np.isfinite(x)),
}


def fmod(a: Any, b: Any) -> Any:
    return type(a)(math.fmod(float(a), float(b))) if b and math.isfinite(a) else type(a)(math.nan)


# What generated code calls by these names.
HELPERS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (
        select, float_min, float_max, trunc_div, trunc_mod, shift_count, to_integer, wide_to_float, popcount, leading_zeros, fmod,
        reinterpret, wrapped_bits,
    )
}
