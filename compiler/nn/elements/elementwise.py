"""Operators on each element of one tensor."""

import math as numbers
from collections.abc import Callable
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import FLOAT32, DType
from vtakit.compiler.ir.dtypes import dtype as dtype_of
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import binary, invert, maximum, minimum, negate, select
from vtakit.compiler.ir.values import FALSE, const
from vtakit.compiler.nn.common import dims, made
from vtakit.compiler.nn.elements.complement import complement
from vtakit.compiler.nn.elements.small_floats import ROUND_MODES, decoded, encoded
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math
from vtakit.compiler.te.tensor import Tensor

Value = Callable[[Expr], Expr]


def each(x: Tensor, value: Value, name: str) -> Tensor:
    """A tensor of the same shape with a function of each element."""
    return made(dims(x), lambda *at: value(x(*at)), name)


def check_float(x: Tensor, what: str) -> None:
    """Raise OperatorError unless the elements are floating-point numbers."""
    if not x.dtype.is_float:
        raise OperatorError(f"{what} takes floating-point numbers, got {x.dtype}: convert them with cast")


def _of_floats(name: str, meaning: str, value: Value) -> Callable[[Tensor], Tensor]:
    """Define and register an operator on floating-point numbers that has no attributes."""
    def define(x: Tensor) -> Tensor:
        check_float(x, name)
        return each(x, value, name)
    define.__name__ = define.__qualname__ = name
    define.__doc__ = f"{meaning} Raises OperatorError for other types than floating-point."
    return operator(name, kind=Kind.INJECTIVE)(define)


acos = _of_floats("acos", "The arc cosine.", math.acos)
acosh = _of_floats("acosh", "The inverse hyperbolic cosine.", math.acosh)
asin = _of_floats("asin", "The arc sine.", math.asin)
asinh = _of_floats("asinh", "The inverse hyperbolic sine.", math.asinh)
atan = _of_floats("atan", "The arc tangent.", math.atan)
atanh = _of_floats("atanh", "The inverse hyperbolic tangent.", math.atanh)
ceil = _of_floats("ceil", "The least whole number not below x.", math.ceil)
cos = _of_floats("cos", "The cosine of an angle in radians.", math.cos)
cosh = _of_floats("cosh", "The hyperbolic cosine.", math.cosh)
erf = _of_floats("erf", "The error function.", math.erf)
erfc = _of_floats("erfc", "1 - erf(x), to a few units in the last place also where that is tiny.", complement)
exp = _of_floats("exp", "e to the power of x.", math.exp)
exp2 = _of_floats("exp2", "2 to the power of x.", math.exp2)
expm1 = _of_floats("expm1", "exp(x) - 1, exact for small x.", math.expm1)
floor = _of_floats("floor", "The greatest whole number not above x.", math.floor)
is_nan = _of_floats("is_nan", "Whether x is not a number.", math.isnan)
log = _of_floats("log", "The natural logarithm.", math.log)
log1p = _of_floats("log1p", "log(1 + x), exact for small x.", math.log1p)
log2 = _of_floats("log2", "The logarithm to base 2.", math.log2)
log10 = _of_floats("log10", "The logarithm to base 10.", math.log10)
nearest = _of_floats("round", "The nearest whole number, halves to even.", math.nearbyint)
reciprocal = _of_floats("reciprocal", "1 / x.", lambda x: const(1, x.dtype) / x)
sigmoid = _of_floats("sigmoid", "1 / (1 + exp(-x)).", math.sigmoid)
sin = _of_floats("sin", "The sine of an angle in radians.", math.sin)
sinh = _of_floats("sinh", "The hyperbolic sine.", math.sinh)
softplus = _of_floats("softplus", "log(1 + exp(x)), without overflow.",
                      lambda x: maximum(x, 0) + math.log1p(math.exp(-math.abs(x))))
softsign = _of_floats("softsign", "x / (1 + |x|).", lambda x: x / (math.abs(x) + 1))
sqrt = _of_floats("sqrt", "The square root.", math.sqrt)
tan = _of_floats("tan", "The tangent of an angle in radians.", math.tan)
tanh = _of_floats("tanh", "The hyperbolic tangent.", math.tanh)
hard_swish = _of_floats("hard_swish", "x * clip(x / 6 + 1/2, 0, 1).", lambda x: x * clipped(x * (1 / 6) + 0.5, 0, 1))
mish = _of_floats("mish", "x * tanh(softplus(x)).", lambda x: x * math.tanh(
    maximum(x, 0) + math.log1p(math.exp(-math.abs(x)))))


def clipped(x: Expr, low: Any, high: Any) -> Expr:
    """A value within bounds."""
    return minimum(maximum(x, low), high)


@operator("identity", kind=Kind.INJECTIVE)
def identity(x: Tensor) -> Tensor:
    """A copy."""
    return each(x, lambda value: value, "identity")


@operator("abs", kind=Kind.INJECTIVE)
def absolute(x: Tensor) -> Tensor:
    """The absolute value; of the least integer of a type it is that integer."""
    return each(x, math.abs, "abs")


@operator("neg", kind=Kind.INJECTIVE)
def neg(x: Tensor) -> Tensor:
    """``-x``."""
    return each(x, lambda value: -value, "neg")


@operator("sign", kind=Kind.INJECTIVE)
def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1; of what is not a number, that."""
    def value(e: Expr) -> Expr:
        one, zero = const(1, e.dtype), const(0, e.dtype)
        below = zero if e.dtype.code == "uint" else select(e < 0, const(-1, e.dtype), zero)
        found = select(e > 0, one, below)
        return select(math.isnan(e), e, found) if e.dtype.is_float else found
    return each(x, value, "sign")


@operator("relu", kind=Kind.INJECTIVE)
def relu(x: Tensor) -> Tensor:
    """``max(x, 0)``."""
    return each(x, lambda value: maximum(value, 0), "relu")


@operator("not", kind=Kind.INJECTIVE)
def logical_not(x: Tensor) -> Tensor:
    """The other truth value. Raises OperatorError for a tensor that is not bool."""
    if not x.dtype.is_bool:
        raise OperatorError(f"not takes bool, got {x.dtype}: compare with something first")
    return each(x, negate, "logical_not")


@operator("bitwise_not", kind=Kind.INJECTIVE)
def bitwise_not(x: Tensor) -> Tensor:
    """All bits of an integer the other way. Raises OperatorError for other types."""
    if not x.dtype.is_int:
        raise OperatorError(f"bitwise_not takes integers, got {x.dtype}")
    return each(x, lambda value: invert(value, None), "bitwise_not")


def numeric_type(to: str | DType, what: str) -> DType:
    """The type of elements that a name means. Raises OperatorError for an unknown one, a vector, or an address."""
    try:
        kind = dtype_of(to)
    except ValueError as error:
        raise OperatorError(f"{what}: {error}") from None
    if kind.lanes > 1 or kind.code == "handle":
        raise OperatorError(f"{what}: {kind} is no type of a tensor's elements")
    return kind


def converted(value: Expr, kind: DType, *, saturate: bool = True, round_mode: str = "up") -> Expr:
    """A value in another type: floats to integers are cut, wider integers wrap, anything but 0 is true.

    saturate, round_mode : of a result in 8 or 4 bits of floating point, as `encoded` has them
    """
    if value.dtype.is_storage:
        value = decoded(value)
    if kind.is_storage:
        return encoded(value.astype(FLOAT32), kind, saturate=saturate, round_mode=round_mode)
    if kind.is_bool and not value.dtype.is_bool:
        return binary(ir.NE, value, const(0, value.dtype))
    found: Expr = value.astype(kind)
    return found


@operator("cast", kind=Kind.INJECTIVE)
def cast(x: Tensor, *, to: str | DType, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """The elements in another type, as `converted` does it. Source: ONNX Cast. Raises OperatorError for an unknown rounding."""
    kind = numeric_type(to, "cast")
    if round_mode not in ROUND_MODES:
        raise OperatorError(f"cast: round_mode={round_mode!r}: give one of {', '.join(ROUND_MODES)}")
    if kind is x.dtype:
        return each(x, lambda value: value, "cast")
    return each(x, lambda value: converted(value, kind, saturate=saturate, round_mode=round_mode), "cast")


@operator("bit_cast", kind=Kind.INJECTIVE)
def bit_cast(x: Tensor, *, to: str | DType) -> Tensor:
    """The bits of each element as another type of as many. Source: ONNX BitCast. Raises OperatorError for a type of others."""
    kind = numeric_type(to, "bit_cast")
    bits = {of: 8 if of.is_bool else of.bits for of in (x.dtype, kind)}
    if bits[x.dtype] != bits[kind]:
        raise OperatorError(f"bit_cast: {x.dtype} has not as many bits as {kind}")

    def value(e: Expr) -> Expr:
        plain = e.astype("uint8") if e.dtype.is_bool else e
        return binary(ir.NE, math.reinterpret(plain, "uint8"), const(0, "uint8")) if kind.is_bool else math.reinterpret(plain,
                                                                                                                        kind)
    return each(x, value, "bit_cast")


@operator("is_inf", kind=Kind.INJECTIVE)
def is_inf(x: Tensor, *, detect_negative: bool = True, detect_positive: bool = True) -> Tensor:
    """Return whether x is infinite, of the signs that are asked for."""
    check_float(x, "is_inf")

    def value(e: Expr) -> Expr:
        if detect_negative and detect_positive:
            return math.isinf(e)
        if not (detect_negative or detect_positive):
            return FALSE
        return binary(ir.EQ, e, const(numbers.inf if detect_positive else -numbers.inf, e.dtype))
    return each(x, value, "is_inf")


@operator("elu", kind=Kind.INJECTIVE)
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``."""
    check_float(x, "elu")
    return each(x, lambda e: select(e > 0, e, math.expm1(minimum(e, 0)) * alpha), "elu")


@operator("celu", kind=Kind.INJECTIVE)
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    check_float(x, "celu")
    return each(x, lambda e: maximum(e, 0) + minimum(math.expm1(e / const(alpha, e.dtype)) * alpha, 0), "celu")


@operator("selu", kind=Kind.INJECTIVE)
def selu(x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Tensor:
    """`elu` times gamma."""
    check_float(x, "selu")
    return each(x, lambda e: select(e > 0, e, math.expm1(minimum(e, 0)) * alpha) * gamma, "selu")


@operator("leaky_relu", kind=Kind.INJECTIVE)
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """``x`` where it is not negative, else ``alpha * x``."""
    check_float(x, "leaky_relu")
    return each(x, lambda e: select(e < 0, e * alpha, e), "leaky_relu")


@operator("thresholded_relu", kind=Kind.INJECTIVE)
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """``x`` where it is more than alpha, else 0."""
    check_float(x, "thresholded_relu")
    return each(x, lambda e: select(e > alpha, e, const(0, e.dtype)), "thresholded_relu")


@operator("hard_sigmoid", kind=Kind.INJECTIVE)
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """``clip(alpha * x + beta, 0, 1)``."""
    check_float(x, "hard_sigmoid")
    return each(x, lambda e: clipped(e * alpha + beta, 0, 1), "hard_sigmoid")


@operator("shrink", kind=Kind.INJECTIVE)
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """``x + bias`` below -lambd, ``x - bias`` above lambd, else 0; in x's type."""
    def value(e: Expr) -> Expr:
        f = e if e.dtype.is_float else e.astype("float32")
        return select(f < -lambd, f + bias, select(f > lambd, f - bias, const(0, f.dtype))).astype(e.dtype)
    return each(x, value, "shrink")


@operator("swish", kind=Kind.INJECTIVE)
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """``x * sigmoid(alpha * x)``."""
    check_float(x, "swish")
    return each(x, lambda e: e * math.sigmoid(e * alpha), "swish")


@operator("gelu", kind=Kind.INJECTIVE)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """``x * P(X <= x)`` of a normal X; with approximate="tanh" by a hyperbolic tangent. Source: arXiv 1606.08415."""
    check_float(x, "gelu")
    if approximate not in ("none", "tanh"):
        raise OperatorError(f"gelu: approximate={approximate!r}: give 'none' or 'tanh'")

    def value(e: Expr) -> Expr:
        if approximate == "none":
            return e * 0.5 * (math.erf(e * numbers.sqrt(0.5)) + 1)
        return e * 0.5 * (math.tanh((e + e * e * e * 0.044715) * numbers.sqrt(2 / numbers.pi)) + 1)
    return each(x, value, "gelu")
