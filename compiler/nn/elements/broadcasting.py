"""Operators on the elements of several tensors, which are broadcast by NumPy's rule."""

from collections.abc import Callable
from functools import reduce
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import binary, maximum, minimum, select, truncdiv, truncmod
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import broadcast_read, broadcast_shape, dims, made, same_dtype
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math
from vtakit.compiler.te.tensor import Tensor

_TYPES: dict[str, Callable[[Tensor], bool]] = {
    "numbers": lambda x: x.dtype.is_float or x.dtype.is_int,
    "floating-point numbers": lambda x: x.dtype.is_float,
    "integers": lambda x: x.dtype.is_int,
    "bool": lambda x: x.dtype.is_bool,
    "any type": lambda x: True,
}


def across(tensors: tuple[Tensor, ...], value: Callable[..., Any], name: str) -> Tensor:
    """A function of the elements of tensors that are broadcast."""
    shape = broadcast_shape(name, *map(dims, tensors))
    return made(shape, lambda *at: value(*[broadcast_read(x, at) for x in tensors]), name)


def _two(name: str, meaning: str, types: str, value: Callable[[Expr, Expr], Expr]) -> Callable[[Tensor, Tensor], Tensor]:
    """Define and register an operator on two tensors of one type."""
    def define(a: Tensor, b: Tensor) -> Tensor:
        same_dtype(name, a, b)
        if not _TYPES[types](a):
            raise OperatorError(f"{name} takes {types}, got {a.dtype}")
        return across((a, b), value, name)
    define.__name__ = define.__qualname__ = name
    define.__doc__ = f"{meaning} Broadcast. Raises OperatorError for operands of two types, or that are not {types}."
    return operator(name, kind=Kind.INJECTIVE)(define)


def _quotient(a: Expr, b: Expr) -> Expr:
    return a / b if a.dtype.is_float else truncdiv(a, b)


add = _two("add", "``a + b``; integers wrap.", "numbers", lambda a, b: a + b)
sub = _two("sub", "``a - b``; integers wrap.", "numbers", lambda a, b: a - b)
mul = _two("mul", "``a * b``; integers wrap.", "numbers", lambda a, b: a * b)
div = _two("div", "``a / b``; of integers rounded to zero.", "numbers", _quotient)
floor_div = _two("floor_div", "``a / b``, rounded down; the least integer by -1 is itself.", "integers", math.floordiv)
hypot = _two("hypot", "``sqrt(a² + b²)`` without overflow on the way.", "floating-point numbers", math.hypot)
copysign = _two("copysign", "``a`` with the sign of ``b``.", "floating-point numbers", math.copysign)
equal = _two("equal", "Whether ``a == b``.", "any type", lambda a, b: binary(ir.EQ, a, b))
less = _two("less", "Whether ``a < b``.", "numbers", lambda a, b: a < b)
less_or_equal = _two("less_or_equal", "Whether ``a <= b``.", "numbers", lambda a, b: a <= b)
greater = _two("greater", "Whether ``a > b``.", "numbers", lambda a, b: b < a)
greater_or_equal = _two("greater_or_equal", "Whether ``a >= b``.", "numbers", lambda a, b: b <= a)
# Of bool the bitwise operations: they evaluate both sides, so that they can be vectors.
logical_and = _two("and", "Whether both hold.", "bool", lambda a, b: binary(ir.BitAnd, a, b))
logical_or = _two("or", "Whether any holds.", "bool", lambda a, b: binary(ir.BitOr, a, b))
logical_xor = _two("xor", "Whether exactly one holds.", "bool", lambda a, b: binary(ir.BitXor, a, b))
bitwise_and = _two("bitwise_and", "``a & b``.", "integers", lambda a, b: a & b)
bitwise_or = _two("bitwise_or", "``a | b``.", "integers", lambda a, b: a | b)
bitwise_xor = _two("bitwise_xor", "``a ^ b``.", "integers", lambda a, b: a ^ b)


def _many(name: str, meaning: str, value: Callable[..., Expr]) -> Callable[..., Tensor]:
    """Define and register an operator on one or more tensors of one type."""
    def define(*tensors: Tensor) -> Tensor:
        if not tensors:
            raise OperatorError(f"{name}: give at least one tensor")
        same_dtype(name, *tensors)
        return across(tensors, value, name)
    define.__name__ = define.__qualname__ = name
    define.__doc__ = f"{meaning} Broadcast. Raises OperatorError for operands of several types, or for none."
    return operator(name, kind=Kind.INJECTIVE)(define)


largest = _many("max", "The greatest operand; not a number if one is not.", lambda *values: reduce(maximum, values))
least = _many("min", "The least operand; not a number if one is not.", lambda *values: reduce(minimum, values))
total = _many("sum", "The sum of the operands.", lambda *values: reduce(lambda a, b: a + b, values))
mean = _many("mean", "The mean of the operands.", lambda *values: _quotient(
    reduce(lambda a, b: a + b, values), const(len(values), values[0].dtype)))


@operator("pow", kind=Kind.INJECTIVE)
def power(a: Tensor, b: Tensor) -> Tensor:
    """``a`` to the power of ``b``, in a's type; the types may differ. Of integers exact up to 2**53.

    Raises OperatorError for bool.
    """
    if a.dtype.is_bool or b.dtype.is_bool:
        raise OperatorError(f"pow takes numbers, got {a.dtype} and {b.dtype}")

    def value(x: Expr, y: Expr) -> Expr:
        if x.dtype.is_float and (y.dtype.is_int or y.dtype.bits <= x.dtype.bits):
            return math.power(x, y.astype(x.dtype))
        found = math.power(x.astype("float64"), y.astype("float64"))
        return found.astype(x.dtype) if x.dtype.is_float else math.nearbyint(found).astype(x.dtype)
    return across((a, b), value, "pow")


@operator("mod", kind=Kind.INJECTIVE)
def mod(a: Tensor, b: Tensor, *, fmod: bool = False) -> Tensor:
    """The remainder of ``a / b`` with b's sign, or with fmod with a's, as C's fmod.

    Raises OperatorError for two types.
    """
    same_dtype("mod", a, b)
    return across((a, b), truncmod if fmod else math.floormod, "mod")


@operator("bit_shift", kind=Kind.INJECTIVE)
def bit_shift(a: Tensor, b: Tensor, *, direction: str) -> Tensor:
    """``a`` shifted by ``b`` bits; direction is LEFT, or RIGHT, which keeps the sign.

    A count that is negative or not less than the type's bits leaves 0, and RIGHT of a negative number -1. Source: ONNX.
    Raises OperatorError for other types than integers, and another direction.
    """
    same_dtype("bit_shift", a, b)
    if not a.dtype.is_int or direction not in ("LEFT", "RIGHT"):
        raise OperatorError(f"bit_shift of {a.dtype} by direction {direction!r}: give integers, and LEFT or RIGHT")
    most = a.dtype.bits - 1

    def value(x: Expr, y: Expr) -> Expr:
        far = y > most if a.dtype.code == "uint" else binary(ir.BitOr, y < 0, y > most)
        if direction == "RIGHT" and a.dtype.code == "int":
            return x >> select(far, const(most, a.dtype), y)
        count = select(far, const(0, a.dtype), y)
        return select(far, const(0, a.dtype), x << count if direction == "LEFT" else x >> count)
    return across((a, b), value, "bit_shift")


@operator("where", kind=Kind.INJECTIVE)
def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``a`` where the condition holds, else ``b``. Broadcast.

    Raises OperatorError for a condition that is not bool, or operands of two types.
    """
    same_dtype("where", a, b)
    if not condition.dtype.is_bool:
        raise OperatorError(f"where takes a condition of bool, got {condition.dtype}")
    return across((condition, a, b), select, "where")


@operator("prelu", kind=Kind.INJECTIVE)
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """``x`` where it is not negative, else ``slope * x``. Broadcast to x's shape; raises OperatorError for another."""
    same_dtype("prelu", x, slope)
    if broadcast_shape("prelu", dims(x), dims(slope)) != dims(x):
        raise OperatorError(f"prelu: a slope of {dims(slope)} does not broadcast to data of {dims(x)}")
    return across((x, slope), lambda value, by: select(value < 0, value * by, value), "prelu")


@operator("clip", kind=Kind.INJECTIVE)
def clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """``min(max(x, low), high)``; a bound is a tensor of one element and x's type, or None.

    Where low is more than high, all is high. Raises OperatorError for bounds of another shape or type.
    """
    bounds = [bound for bound in (low, high) if bound is not None]
    same_dtype("clip", x, *bounds)
    for bound in bounds:
        if broadcast_shape("clip", dims(bound)) not in ((), (1,)):
            raise OperatorError(f"clip: a bound has shape {dims(bound)}: give one number")

    def value(*at: Expr) -> Expr:
        found: Expr = x(*at)
        if low is not None:
            found = maximum(found, low(*[0] * low.ndim))
        if high is not None:
            found = minimum(found, high(*[0] * high.ndim))
        return found
    return made(dims(x), value, "clip")
