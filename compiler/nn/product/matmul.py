"""Products of matrices."""

from typing import Any

from vtakit.compiler.ir.dtypes import FLOAT32, INT32, DType
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.nn.common import broadcast_read, broadcast_shape, dims, made, same_dtype
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor


def accumulator(kind: DType) -> DType:
    """The type in which products of a type are summed: float32 for the floats of 16 bits, else the type itself."""
    return FLOAT32 if kind.is_float and kind.bits < 32 else kind


def in_type(x: Tensor, kind: DType) -> Tensor:
    """The elements in a type; x itself if they have it."""
    return x if x.dtype is kind else made(dims(x), lambda *at: x(*at).astype(kind), x.op.name)


def product(a: Tensor, b: Tensor, kind: DType, *, trans_a: bool = False, trans_b: bool = False) -> Tensor:
    """Matrices in the last two dimensions multiplied, summed in a type; the dimensions before are broadcast.

    a  [..., M, K]   b  [..., K, N]   result  [..., M, N]; transposed, an operand has its last two dimensions in the other order
    Raises OperatorError for shapes that do not fit.
    """
    (m, depth), (other, n) = (dims(a)[-2:][::-1 if trans_a else 1], dims(b)[-2:][::-1 if trans_b else 1])
    if depth != other:
        raise OperatorError(f"matmul: rows of {depth} in {dims(a)} and columns of {other} in {dims(b)} do not match")
    batch = broadcast_shape("matmul", dims(a)[:-2], dims(b)[:-2])
    k = reduce_axis((0, depth), "k")

    def value(*at: Expr) -> Any:
        *lead, y, x = at
        left = broadcast_matrix(a, lead, (k, y) if trans_a else (y, k))
        right = broadcast_matrix(b, lead, (x, k) if trans_b else (k, x))
        return sum_of(left.astype(kind) * right.astype(kind), axis=k)
    return made((*batch, m, n), value, "products", tag="matmul")


def broadcast_matrix(x: Tensor, lead: list[Expr], at: tuple[Any, Any]) -> Expr:
    """An element of the matrix that stands at an index of the dimensions before, to which they are broadcast."""
    last = lead[len(lead) - (x.ndim - 2):]
    found: Expr = x(*[0 if extent == 1 else index for index, extent in zip(last, dims(x), strict=False)], *at)
    return found


@operator("matmul", kind=Kind.ANCHOR)
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Matrices in the last two dimensions multiplied, the dimensions before broadcast; vectors as NumPy's matmul has them.

    Raises OperatorError for scalars, two types, or shapes that do not fit.
    """
    same_dtype("matmul", a, b)
    return in_type(vectors_too(a, b, accumulator(a.dtype)), a.dtype)


def vectors_too(a: Tensor, b: Tensor, kind: DType) -> Tensor:
    """`product`, with one-dimensional operands as NumPy's matmul has them."""
    if not a.ndim or not b.ndim:
        raise OperatorError(f"matmul: shapes {dims(a)} and {dims(b)}: a product of matrices takes no scalar, use mul")
    left = made((1, *dims(a)), lambda i, k: a(k), "row") if a.ndim == 1 else a
    right = made((*dims(b), 1), lambda k, j: b(k), "column") if b.ndim == 1 else b
    found = product(left, right, kind)
    if a.ndim > 1 and b.ndim > 1:
        return found
    shape = [*dims(found)[:-2], *dims(found)[-2:][a.ndim == 1:2 - (b.ndim == 1)]]

    def read(*at: Expr) -> Expr:
        lead = [*at[:len(shape) - (a.ndim > 1) - (b.ndim > 1)]]
        rest = [*at[len(lead):]]
        value: Expr = found(*lead, rest[0] if a.ndim > 1 else 0, rest[-1] if b.ndim > 1 else 0)
        return value
    return made(shape, read, "matmul")


@operator("gemm", kind=Kind.ANCHOR)
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0, trans_a: bool = False,
    trans_b: bool = False,
) -> Tensor:
    """``alpha * a @ b + beta * c`` of two matrices; c is broadcast. Source: ONNX Gemm.

    Raises OperatorError for other than two dimensions, types that differ, or shapes that do not fit.
    """
    same_dtype("gemm", a, b, *([] if c is None else [c]))
    if a.ndim != 2 or b.ndim != 2:
        raise OperatorError(f"gemm: shapes {dims(a)} and {dims(b)}: give two matrices")
    kind = accumulator(a.dtype)
    products = product(a, b, kind, trans_a=trans_a, trans_b=trans_b)
    shape = dims(products)
    if c is not None and broadcast_shape("gemm", shape, dims(c)) != shape:
        raise OperatorError(f"gemm: c of {dims(c)} does not broadcast to {shape}")

    def times(e: Expr, factor: float) -> Expr:
        return e if factor == 1 else e * factor if kind.is_float else e * int(factor)

    def value(*at: Expr) -> Expr:
        found = times(products(*at), alpha)
        if c is not None and beta:
            found = found + times(broadcast_read(c, at).astype(kind), beta)
        cut: Expr = found.astype(a.dtype)
        return cut
    return made(shape, value, "gemm")


@operator("matmul_integer", kind=Kind.ANCHOR)
def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    """``(a - a_zero) @ (b - b_zero)`` of 8-bit integers, in int32. Source: ONNX MatMulInteger.

    a_zero : a number, or one for each row of a       b_zero : a number, or one for each column of b
    Raises OperatorError for other types, or shapes that do not fit.
    """
    return vectors_too(without_zero(a, a_zero, rows=True), without_zero(b, b_zero, rows=False), INT32)


def without_zero(x: Tensor, zero: Tensor | None, *, rows: bool) -> Tensor:
    """Quantized numbers less their zero point, in int32."""
    if not (x.dtype.is_int and x.dtype.bits <= 16):
        raise OperatorError(f"matmul of integers takes int8, uint8, int16 or uint16, got {x.dtype}")
    if zero is None:
        return in_type(x, INT32)
    same_dtype("matmul of integers: a tensor and its zero point", x, zero)
    if zero.ndim == 1 and dims(zero) != (1,):
        if x.ndim < 2 or dims(zero)[0] != dims(x)[-2 if rows else -1]:
            raise OperatorError(f"matmul of integers: zero points {dims(zero)} are not one for each "
                                f"{'row' if rows else 'column'} of {dims(x)}")
        return made(dims(x), lambda *at: x(*at).astype(INT32) - zero(at[-2 if rows else -1]).astype(INT32), x.op.name)
    broadcast_shape("matmul of integers: a tensor and its zero point", dims(x), dims(zero))
    return made(dims(x), lambda *at: x(*at).astype(INT32) - broadcast_read(zero, at).astype(INT32), x.op.name)
