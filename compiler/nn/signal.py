"""Fourier transforms. Source: ONNX DFT."""

import math as numbers
from typing import Any

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import select
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import axis_of, dims, made
from vtakit.compiler.nn.elementwise import check_float
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor


@operator("dft", kind=Kind.OPAQUE)
def dft(x: Tensor, *, axis: int, length: int | None = None, inverse: bool = False, onesided: bool = False) -> Tensor:
    """The discrete Fourier transform along an axis, from its definition.

    x [..., 1] real or [..., 2] complex; the result is complex. With onesided its first half and the middle.
    length : of the signal, which is cut, or filled with zeros
    Raises OperatorError for other shapes, the last axis, or onesided with inverse.
    """
    check_float(x, "dft")
    at_axis = axis_of(axis, x.ndim, "dft")
    if x.ndim < 2 or dims(x)[-1] not in (1, 2) or at_axis == x.ndim - 1 or (inverse and onesided):
        raise OperatorError(f"dft along axis {axis} of {dims(x)}, inverse={inverse}, onesided={onesided}: give [..., 1] or "
                            "[..., 2], an axis before the last, and not both")
    there = dims(x)[at_axis]
    count = there if length is None else length
    if count < 1:
        raise OperatorError(f"dft of length {count}: give at least 1")
    terms = min(count, there)
    k = reduce_axis((0, terms), "k")
    is_complex = dims(x)[-1] == 2

    def value(*at: Expr) -> Any:
        # The angle is that of the product's remainder, so that it stays small and exact.
        turn = (at[at_axis].astype("int64") * k.as_expr().astype("int64") % count).astype(x.dtype)
        angle = turn * ((2 if inverse else -2) * numbers.pi / count)
        scale = 1 / count if inverse else 1.0
        lead = (*at[:at_axis], k, *at[at_axis + 1:-1])
        real, part = x(*lead, 0), x(*lead, 1) if is_complex else const(0, x.dtype)
        c, s = math.cos(angle), math.sin(angle)
        return sum_of(select(at[-1] < 1, real * c - part * s, real * s + part * c) * scale, axis=k)
    shape = [*dims(x)[:-1], 2]
    shape[at_axis] = count // 2 + 1 if onesided else count
    return made(shape, value, "dft")
