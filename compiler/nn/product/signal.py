"""Fourier transforms. Source: ONNX DFT."""

import math as numbers
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import any_of, binary, select
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import axis_of, dims, made
from vtakit.compiler.nn.elements.elementwise import check_float
from vtakit.compiler.nn.product.matmul import in_type
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor

REAL = "float64"  # of angles and sums, so that what cancels out does


@operator("dft", kind=Kind.OPAQUE)
def dft(x: Tensor, *, axis: int, length: int | None = None, inverse: bool = False, onesided: bool = False) -> Tensor:
    """The discrete Fourier transform along an axis, from its definition.

    x [..., 1] real or [..., 2] complex; the result is complex, or real if it is inverse and onesided
    length   : of the whole signal; x is cut, or filled with zeros
    onesided : the first half and the middle of the frequencies stand for all, as they do for real signals
    Raises OperatorError for other shapes, or the last axis.
    """
    check_float(x, "dft")
    at_axis = axis_of(axis, x.ndim, "dft")
    parts = dims(x)[-1] if x.ndim else 0
    if x.ndim < 2 or parts not in (1, 2) or at_axis == x.ndim - 1:
        raise OperatorError(f"dft along axis {axis} of {dims(x)}: give [..., 1] or [..., 2], and an axis before the last")
    there = dims(x)[at_axis]
    half = inverse and onesided
    count = length if length is not None else 2 * (there - 1) if half else there
    if count < 1:
        raise OperatorError(f"dft of length {count}: give at least 1")
    k = reduce_axis((0, min(count // 2 + 1 if half else count, there)), "k")

    def value(*at: Expr) -> Any:
        # The angle is that of the product's remainder, so that it stays small.
        turn = at[at_axis].astype("int64") * k.as_expr().astype("int64") % count
        angle = turn.astype(REAL) * ((2 if inverse else -2) * numbers.pi / count)
        lead = (*at[:at_axis], k, *at[at_axis + 1:-1])
        real = x(*lead, 0).astype(REAL)
        imaginary = x(*lead, 1).astype(REAL) if parts == 2 else const(0, REAL)
        c, s = math.cos(angle), math.sin(angle)
        term = real * c - imaginary * s
        if half:  # each frequency but the first, and the middle one of an even number, stands for two
            alone = any_of(binary(ir.EQ, k.as_expr(), 0), binary(ir.EQ, k * 2, count))
            term = select(alone, term, term * 2)
        else:
            term = select(at[-1] < 1, term, real * s + imaginary * c)
        return sum_of(term * (1 / count if inverse else 1.0), axis=k)
    shape = [*dims(x)[:-1], 1 if half else 2]
    shape[at_axis] = count // 2 + 1 if onesided and not inverse else count
    return in_type(made(shape, value, "dft"), x.dtype)
