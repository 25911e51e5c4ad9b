"""Calls that have a meaning in the IR, by name.

A call of kind "extern" names a C function instead, and one of kind "pure" or "effect" with another name is an intrinsic
that a target or a `decl_tensor_intrin` defines.
"""

from vtakit.compiler.ir.dtypes import HANDLE, INT32, DType, dtype
from vtakit.compiler.ir.expr import Call, Expr, StringImm
from vtakit.compiler.ir.values import const, wrap

# Functions of one floating-point value (an integer argument is a TypeError), in C's meaning.
FLOAT_MATH = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "floor", "ceil", "trunc", "round", "nearbyint",
)
FLOAT_PAIRS = ("pow", "atan2", "hypot", "copysign", "nextafter")
FLOAT_TESTS = ("isnan", "isinf", "isfinite")  # float -> bool
OTHER_MATH = ("abs", "fma", "popcount", "clz")  # abs of any number; fma(a, b, c) = a * b + c rounded once

# `reinterpret(x)` has the bits of x, a value of as many bits of another type.
# `address_of(load, offset, mask)` is Buffer.access_ptr. The other calls are statements (kind "effect"):
# sync: all threads of the scope arg 0 ('shared': a block; 'warp') arrive before any goes on
# call_packed: calls the Python function registered by the name arg 0 with the other arguments (buffers as access_ptr)
# assert_that: raises arg 1, a message, unless the condition arg 0 holds
# prefetch: the line of the address arg 0, or so many bytes (arg 1) behind it, will be read
# allreduce: combines values over a reduction's threads: (number, values…, condition, results' addresses…, threads…)


def math_call(name: str, *args: object) -> Expr:
    """A math function of floating-point values; a Python number becomes float32.

    Raises TypeError for an integer argument (convert it with astype).
    """
    values = [const(arg, "float32") if isinstance(arg, int) and not isinstance(arg, bool) else wrap(arg) for arg in args]
    for value in values:
        if not value.dtype.is_float:
            raise TypeError(f"{name} takes floating-point values, got {value} of {value.dtype}: use .astype('float32')")
    kind = values[0].dtype
    if name in FLOAT_TESTS:
        kind = dtype("bool").with_lanes(kind.lanes)
    return Call(kind, name, tuple(values))


def effect(name: str, *args: object, returns: DType = INT32) -> Call:
    """A call for its effect; strings become string constants."""
    return Call(returns, name, tuple(StringImm(arg) if isinstance(arg, str) else wrap(arg) for arg in args), "effect")


def is_address(e: Expr) -> bool:
    """Return whether an expression is the address of a buffer's element."""
    return isinstance(e, Call) and e.name == "address_of" and e.dtype is HANDLE
