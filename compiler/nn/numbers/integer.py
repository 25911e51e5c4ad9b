"""The operators of a network in integers: what a device computes bit for bit, defined once for every target.

Activations are int8 with one scale and one zero point, accumulators int32. A layer is a chain: `conv_integer`,
`conv_transpose_integer`, `matmul_integer`, `sum_pool`, `scaled_sum` or `scaled_product`, then `scaled_add` for a residual, then
`requantize`. Sums are of the data as it is, pads being the zero point (`fill`): what the zero points add to a channel's sums is
a constant, which `requantize` takes off with the bias.
"""

from collections.abc import Sequence

from vtakit.compiler.ir.dtypes import INT32, dtype
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import maximum, minimum, select
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import broadcast_read, dims, made
from vtakit.compiler.nn.conv.transposed import conv_transpose
from vtakit.compiler.nn.product.matmul import in_type
from vtakit.compiler.nn.reduction.pool import Window
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import reduce
from vtakit.compiler.te.tensor import Tensor

INT8, UINT8 = dtype("int8"), dtype("uint8")
Numbers = Sequence[int] | None


def _check(what: str, kind: object, *tensors: Tensor) -> None:
    """Raise OperatorError unless all tensors have one integer type."""
    for tensor in tensors:
        if tensor.dtype is not kind:
            raise OperatorError(f"{what}: the type is {kind}, got {tensor.dtype}")


def _check_vectors(what: str, x: Tensor, *vectors: Tensor) -> None:
    """Raise OperatorError unless vectors have one int32 for each channel of x."""
    _check(f"{what}: what each channel has of its own", INT32, *vectors)
    if x.ndim < 2:
        raise OperatorError(f"{what} takes data [N, C, D...], got shape {dims(x)}")
    for vector in vectors:
        if dims(vector) != dims(x)[1:2]:
            raise OperatorError(f"{what}: {dims(vector)} numbers for the {dims(x)[1]} channels of {dims(x)}")


def _check_same_shape(what: str, a: Tensor, b: Tensor) -> None:
    if dims(a) != dims(b):
        raise OperatorError(f"{what}: shapes {dims(a)} and {dims(b)} differ")


@operator("conv_transpose_integer", kind=Kind.ANCHOR)
def conv_transpose_integer(
    x: Tensor, weight: Tensor, *, strides: Numbers = None, pads: Numbers = None, dilations: Numbers = None, groups: int = 1,
    output_padding: Numbers = None, zero: int = 0,
) -> Tensor:
    """`conv_transpose` of int8 data, less its zero point, and weights [C, M / groups, K...], in int32."""
    _check("conv_transpose_integer", INT8, x, weight)
    data = made(dims(x), lambda *at: x(*at).astype(INT32) - zero, x.op.name) if zero else in_type(x, INT32)
    return conv_transpose(data, in_type(weight, INT32), strides=strides, pads=pads, dilations=dilations, groups=groups,
                          output_padding=output_padding)


@operator("sum_pool", kind=Kind.REDUCTION)
def sum_pool(
    x: Tensor, *, kernel_shape: Sequence[int], strides: Numbers = None, pads: Numbers = None, fill: int = 0,
) -> Tensor:
    """The int32 sum of each window of int8 data [N, C, D...], pads being `fill`; a window of one element gives the data itself.

    Raises OperatorError for a window that does not fit.
    """
    _check("sum_pool", INT8, x)
    w = Window("sum_pool", x, kernel_shape, strides, pads, None, False)
    if max(w.kernel, default=1) == max(w.strides, default=1) == 1 and not any(w.pads):
        return in_type(x, INT32)
    source = w.padded(fill)
    return made(w.shape, lambda n, c, *at: reduce.sum(source(n, c, *w.places(at)).astype(INT32), axis=w.axes), "sum_pool",
                tag="pool")


@operator("scaled_add", kind=Kind.INJECTIVE)
def scaled_add(acc: Tensor, skip: Tensor, scale: Tensor) -> Tensor:
    """``acc + skip * scale[c]``: a residual added to accumulators, in int32.

    acc    int32 [N, C, D...]       skip  int8 [N, C, D...]       scale  int32 [C]
    """
    _check("scaled_add: accumulators", INT32, acc)
    _check("scaled_add: the residual", INT8, skip)
    _check_same_shape("scaled_add", acc, skip)
    _check_vectors("scaled_add", acc, scale)
    return made(dims(acc), lambda *at: acc(*at) + skip(*at).astype(INT32) * scale(at[1]), "scaled_add")


@operator("scaled_sum", kind=Kind.INJECTIVE)
def scaled_sum(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    """``a * a_scale[c] + b * b_scale[c]``: the sum of two activations of different scales, in int32.

    a, b  int8 [N, C, D...]         a_scale, b_scale  int32 [C]
    """
    _check("scaled_sum", INT8, a, b)
    _check_same_shape("scaled_sum", a, b)
    _check_vectors("scaled_sum", a, a_scale, b_scale)
    return made(dims(a), lambda *at: a(*at).astype(INT32) * a_scale(at[1]) + b(*at).astype(INT32) * b_scale(at[1]), "scaled_sum")


@operator("requantize", kind=Kind.INJECTIVE)
def requantize(
    acc: Tensor, bias: Tensor, multiplier: Tensor, shift: Tensor, *, zero_point: int = 0, low: int = -128, high: int = 127,
) -> Tensor:
    """``clip(((acc + bias) * multiplier + half >> shift) + zero_point, low, high)`` in int8, each step exact.

    acc   int32 [N, C, D...]        bias, multiplier, shift  int32 [C]

    half is ``2**shift / 2`` rounded down: what lies in the middle goes up. A multiplier is 0 to 65535, a shift 0 to 63.
    Source: the ISA's REQUANT; `vtakit.compiler.nn.vta.requantize.Requantize.reference` has the same values.
    Raises OperatorError for types, shapes or bounds that do not fit.
    """
    _check("requantize: accumulators", INT32, acc)
    _check_vectors("requantize", acc, bias, multiplier, shift)
    if not -128 <= low <= high <= 127:
        raise OperatorError(f"requantize: a clip from {low} to {high}: give bounds from -128 to 127, the lower first")
    one, nothing = const(1, "int64"), const(0, "int64")

    def value(*at: Expr) -> Expr:
        by = shift(at[1]).astype("int64")
        rounding = select(by > nothing, one << maximum(by - one, nothing), nothing)
        product = (acc(*at).astype("int64") + bias(at[1]).astype("int64")) * multiplier(at[1]).astype("int64")
        found = (product + rounding >> by) + const(zero_point, "int64")
        kept: Expr = maximum(minimum(found, high), low).astype(INT8)
        return kept
    return made(dims(acc), value, "requantize")


@operator("mul_integer", kind=Kind.INJECTIVE)
def mul_integer(a: Tensor, b: Tensor, *, a_zero: int = 0, b_zero: int = 0) -> Tensor:
    """``(a - a_zero) * (b - b_zero)`` in int32.

    a  int8 [N, C, D...]            b  int8 of the same shape, or [N, C, 1...]
    """
    _check("mul_integer", INT8, a, b)
    if dims(b) not in (dims(a), (*dims(a)[:2], *[1] * (a.ndim - 2))):
        raise OperatorError(f"mul_integer: shapes {dims(a)} and {dims(b)}: the second is the first, or 1 behind the channels")
    return made(dims(a), lambda *at: (a(*at).astype(INT32) - a_zero) * (broadcast_read(b, at).astype(INT32) - b_zero),
                "mul_integer")


@operator("lookup", kind=Kind.INJECTIVE)
def lookup(x: Tensor, table: Tensor) -> Tensor:
    """``table[x + 128]`` of int8 data and the 256 results for -128 to 127."""
    _check("lookup", INT8, x)
    if dims(table) != (256,):
        raise OperatorError(f"lookup: a table of shape {dims(table)} has not 256 entries")
    return made(dims(x), lambda *at: table(x(*at).astype(INT32) + 128), "lookup")


@operator("to_int8", kind=Kind.INJECTIVE)
def to_int8(x: Tensor) -> Tensor:
    """``x - 128`` of uint8: the same numbers, where the zero point is 128 less too."""
    if x.dtype is not UINT8:
        raise OperatorError(f"to_int8 takes uint8, got {x.dtype}")
    return made(dims(x), lambda *at: (x(*at).astype(INT32) - 128).astype(INT8), "to_int8")


@operator("to_uint8", kind=Kind.INJECTIVE)
def to_uint8(x: Tensor) -> Tensor:
    """``x + 128`` of int8: the same numbers, where the zero point is 128 more too."""
    _check("to_uint8", INT8, x)
    return made(dims(x), lambda *at: (x(*at).astype(INT32) + 128).astype(UINT8), "to_uint8")
