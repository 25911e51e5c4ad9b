"""Numbers as integers with a scale and a zero point: ``x = (q - zero) * scale``."""

from collections.abc import Callable, Sequence

from vtakit.compiler.ir.dtypes import FLOAT32, INT32, DType
from vtakit.compiler.ir.expr import EQ, Expr
from vtakit.compiler.ir.ops import binary, maximum, minimum, select
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import axis_of, dims, made, same_dtype, size
from vtakit.compiler.nn.conv.conv import conv
from vtakit.compiler.nn.elements.elementwise import check_float, numeric_type
from vtakit.compiler.nn.elements.small_floats import decoded, encoded
from vtakit.compiler.nn.product.matmul import in_type, matmul_integer
from vtakit.compiler.nn.reduction.reduction import reduce_max, reduce_min
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math
from vtakit.compiler.te.tensor import Tensor

Numbers = Sequence[int] | None
Read = Callable[[Sequence[Expr]], Expr]


def parameter(x: Tensor, of: Tensor, axis: int, block_size: int, what: str) -> Read:
    """Return a function that reads a scale or zero point: one for all, for each index of an axis, or for each block of it.

    Raises OperatorError for a shape that is none of these.
    """
    shape = dims(of)
    if size(of) == 1 and of.ndim <= 1:
        return lambda at: of(*[0] * of.ndim)
    at_axis = axis_of(axis, x.ndim, what)
    extent = dims(x)[at_axis]
    if not block_size:
        if shape != (extent,):
            raise OperatorError(f"{what}: a parameter of {shape} is neither one number nor the {extent} of axis {axis}")
        return lambda at: of(at[at_axis])
    if shape != (*dims(x)[:at_axis], -(-extent // block_size), *dims(x)[at_axis + 1:]):
        raise OperatorError(f"{what}: a parameter of {shape} has not one number for each block of {block_size} along axis {axis} "
                            f"of {dims(x)}")
    return lambda at: of(*at[:at_axis], at[at_axis] // block_size, *at[at_axis + 1:])


def saturated(value: Expr, zero: Expr | None, kind: DType) -> Expr:
    """A floating-point value rounded (halves to even), moved by the zero point, and kept within an integer type."""
    found = math.nearbyint(value)
    if zero is not None:
        found = found + zero.astype(found.dtype)
    kept: Expr = maximum(minimum(found, kind.max), kind.min).astype(INT32).astype(kind)
    return kept


_QUANTIZED_BITS = (2, 4, 8, 16)


def _is_small_float(kind: DType) -> bool:
    """Return whether numbers of the type are rounded to floats, not integers: powers of two alone are no such type."""
    return kind.is_storage and str(kind) != "float8_e8m0fnu"


@operator("quantize_linear", kind=Kind.INJECTIVE)
def quantize_linear(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, block_size: int = 0, dtype: str | DType = "uint8",
    saturate: bool = True, precision: str | DType | None = None,
) -> Tensor:
    """``saturate(round(x / scale) + zero)``, halves to even, in the zero point's type, or `dtype` without one.

    saturate  : of floats in 8 bits, whether what is too great becomes the greatest number; their zero point is 0
    precision : type of the quotient, float32 or wider by default

    Source: ONNX QuantizeLinear. Raises OperatorError for a type of others than 2, 4, 8 or 16 bits, or parameters that do not fit.
    """
    kind = zero.dtype if zero is not None else numeric_type(dtype, "quantize_linear")
    if not ((kind.is_int and kind.bits in _QUANTIZED_BITS) or _is_small_float(kind)):
        raise OperatorError(f"quantize_linear gives integers of 2, 4, 8 or 16 bits and floats of 4 or 8, not {kind}")
    check_float(scale, "quantize_linear: the scale")
    step = parameter(x, scale, axis, block_size, "quantize_linear")
    shift = parameter(x, zero, axis, block_size, "quantize_linear") if zero is not None else None
    real = FLOAT32 if x.dtype.bits < 64 or not x.dtype.is_float else x.dtype
    if precision is not None:
        real = numeric_type(precision, "quantize_linear: the precision")
        if not real.is_float:
            raise OperatorError(f"quantize_linear: a precision is a type of floating-point numbers, not {real}")
    if kind.is_storage:
        return made(dims(x), lambda *at: encoded(
            (x(*at).astype(real) / step(at).astype(real)).astype(FLOAT32), kind, saturate=saturate), "quantize_linear")
    return made(dims(x), lambda *at: saturated(
        x(*at).astype(real) / step(at).astype(real), shift(at) if shift else None, kind), "quantize_linear")


@operator("dequantize_linear", kind=Kind.INJECTIVE)
def dequantize_linear(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, block_size: int = 0, dtype: str | DType | None = None,
) -> Tensor:
    """``(x - zero) * scale`` in the scale's type, or `dtype`; floats of 8 or 4 bits have no zero point but 0.

    A scale is a float, of 8 bits that hold a power of two too. Source: ONNX DequantizeLinear.
    Raises OperatorError for data that is neither integers nor such floats, or parameters that do not fit.
    """
    if not (x.dtype.is_int or x.dtype.is_storage):
        raise OperatorError(f"dequantize_linear takes integers, and floats of 8 or 4 bits, got {x.dtype}")
    if dtype is not None:
        kind = numeric_type(dtype, "dequantize_linear")
        if not kind.is_float:
            raise OperatorError(f"dequantize_linear gives floating-point numbers, not {kind}")
    else:
        kind = scale.dtype
    if not scale.dtype.is_storage or not kind.is_float:
        check_float(scale, "dequantize_linear: the scale")
    step = parameter(x, scale, axis, block_size, "dequantize_linear")
    shift = parameter(x, zero, axis, block_size, "dequantize_linear") if zero is not None else None
    if zero is not None:
        same_dtype("dequantize_linear: data and zero point", x, zero)

    def value(*at: Expr) -> Expr:
        by = decoded(step(at)) if scale.dtype.is_storage else step(at)
        if x.dtype.is_storage:
            small: Expr = (decoded(x(*at)) * by.astype(FLOAT32)).astype(kind)
            return small
        whole = x(*at).astype(INT32)
        if shift is not None:
            whole = whole - shift(at).astype(INT32)
        found: Expr = (whole.astype(by.dtype) * by).astype(kind)
        return found
    return made(dims(x), value, "dequantize_linear")


@operator("dynamic_quantize_linear", kind=Kind.OPAQUE)
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x as uint8 over its own range with 0 in it; then the scale and the zero point. Source: ONNX DynamicQuantizeLinear.

    The scale of zeros alone, which ONNX leaves open, is 1, as in onnxruntime.
    """
    check_float(x, "dynamic_quantize_linear")
    top, low = reduce_max(x, keepdims=False), reduce_min(x, keepdims=False)
    span = made((), lambda: maximum(top(), 0) - minimum(low(), 0), "span")
    step = made((), lambda: select(
        binary(EQ, span(), const(0, x.dtype)), const(1, x.dtype), span() / const(255, x.dtype)), "scale")
    zero = made((), lambda: maximum(minimum(math.nearbyint(-minimum(low(), 0) / step()), 255), 0).astype(INT32).astype("uint8"),
                "zero")
    return quantize_linear(x, step, zero), step, zero


def moved(x: Tensor, zero: Tensor | None, axis: int, what: str) -> Tensor:
    """Quantized numbers less their zero points, in int32."""
    if not x.dtype.is_int:
        raise OperatorError(f"{what} takes integers, got {x.dtype}")
    if zero is None:
        return in_type(x, INT32)
    same_dtype(f"{what}: data and zero point", x, zero)
    shift = parameter(x, zero, axis, 0, what)
    return made(dims(x), lambda *at: x(*at).astype(INT32) - shift(at).astype(INT32), x.op.name)


@operator("conv_integer", kind=Kind.ANCHOR)
def conv_integer(
    x: Tensor, weight: Tensor, x_zero: Tensor | None = None, weight_zero: Tensor | None = None, *, strides: Numbers = None,
    pads: Numbers = None, dilations: Numbers = None, groups: int = 1, fill: int = 0,
) -> Tensor:
    """`conv` of quantized numbers less their zero points, in int32; pads are the zero point. Source: ONNX ConvInteger.

    fill : value of the pads, for data without a zero point here whose zero point is taken off later
    """
    return conv(moved(x, x_zero, 1, "conv_integer"), moved(weight, weight_zero, 0, "conv_integer"), strides=strides, pads=pads,
                dilations=dilations, groups=groups, fill=fill)


@operator("qlinear_conv", kind=Kind.ANCHOR)
def qlinear_conv(
    x: Tensor, x_scale: Tensor, x_zero: Tensor, weight: Tensor, weight_scale: Tensor, weight_zero: Tensor, y_scale: Tensor,
    y_zero: Tensor, bias: Tensor | None = None, *, strides: Numbers = None, pads: Numbers = None, dilations: Numbers = None,
    groups: int = 1,
) -> Tensor:
    """`conv` of quantized numbers, quantized again: sums in int32, bias (int32 [M], of scale x_scale * weight_scale) added.

    Source: ONNX QLinearConv. Raises OperatorError for parameters that do not fit.
    """
    sums = conv_integer(x, weight, x_zero, weight_zero, strides=strides, pads=pads, dilations=dilations, groups=groups)
    step = parameter(weight, weight_scale, 0, 0, "qlinear_conv")
    if bias is not None and (bias.dtype is not INT32 or dims(bias) != dims(weight)[:1]):
        raise OperatorError(f"qlinear_conv: a bias of {bias.dtype}{dims(bias)}: give int32, {dims(weight)[0]} numbers")

    def value(*at: Expr) -> Expr:
        whole = sums(*at) if bias is None else sums(*at) + bias(at[1])
        factor = x_scale(*[0] * x_scale.ndim) * step(at[1:2]) / y_scale(*[0] * y_scale.ndim)
        return saturated(whole.astype(FLOAT32) * factor.astype(FLOAT32), y_zero(*[0] * y_zero.ndim), y_zero.dtype)
    return made(dims(sums), value, "qlinear_conv")


@operator("qlinear_matmul", kind=Kind.ANCHOR)
def qlinear_matmul(
    a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor, y_zero: Tensor,
) -> Tensor:
    """`matmul` of quantized numbers, quantized again. Source: ONNX QLinearMatMul.

    a's parameters : one number, or one for each row     b's : one number, or one for each column
    """
    sums = matmul_integer(a, b, a_zero, b_zero)

    def step(of: Tensor, at: Sequence[Expr], back: int) -> Expr:
        found: Expr = of(*[0] * of.ndim) if size(of) == 1 else of(at[back])
        return found

    def value(*at: Expr) -> Expr:
        factor = step(a_scale, at, -2) * step(b_scale, at, -1) / y_scale(*[0] * y_scale.ndim)
        return saturated(sums(*at).astype(FLOAT32) * factor.astype(FLOAT32), y_zero(*[0] * y_zero.ndim), y_zero.dtype)
    return made(dims(sums), value, "qlinear_matmul")
