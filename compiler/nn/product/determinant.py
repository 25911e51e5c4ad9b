"""Determinants."""

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import FLOAT32, INT32, dtype
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.ops import binary, select
from vtakit.compiler.ir.stmt import Allocate, For, If, Stmt, Store, seq
from vtakit.compiler.ir.values import const, wrap
from vtakit.compiler.nn.common import dims, made
from vtakit.compiler.nn.elements.elementwise import check_float
from vtakit.compiler.nn.moves.indexing import loops
from vtakit.compiler.nn.product.matmul import in_type
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te import math
from vtakit.compiler.te.compose import extern
from vtakit.compiler.te.tensor import Tensor

FLOAT64 = dtype("float64")


@operator("det", kind=Kind.OPAQUE)
def det(x: Tensor) -> Tensor:
    """The determinant of matrices [..., M, M], by elimination with the greatest of a column as the pivot. Source: ONNX Det.

    Raises OperatorError for what is no square matrix of floating-point numbers.
    """
    check_float(x, "det")
    if x.ndim < 2 or dims(x)[-1] != dims(x)[-2]:
        raise OperatorError(f"det of {dims(x)}: give square matrices [..., M, M]")
    *lead, size, _ = dims(x)
    if not size:
        return made(lead, lambda *at: const(1, x.dtype), "det")
    kind = FLOAT64 if x.dtype.bits == 64 else FLOAT32

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        return loops(lead, lambda *at: _one(ins[0], outs[0], size, at))
    found: Tensor = extern(tuple(lead), [in_type(x, kind)], body, name="det", dtype=kind)
    return in_type(found, x.dtype)


def _one(x: Buffer, out: Buffer, size: int, at: tuple[Expr, ...]) -> Stmt:
    """Eliminate a copy of a matrix."""
    kind = x.dtype
    rows, pivot = Buffer("rows", (wrap(size), wrap(size)), kind), Buffer("pivot", (wrap(1),), INT32)
    kept, zero = Buffer("kept", (wrap(2),), kind), wrap(0)
    k, below, i, j, col, swapped = (Var(name) for name in ("k", "below", "i", "j", "col", "swapped"))
    total, factor = Load(kept, (zero,)), Load(kept, (wrap(1),))
    best = Load(pivot, (zero,))

    def row(r: Expr, c: Expr) -> Expr:
        return Load(rows, (r, c))
    first = k + 1 + below
    find = For(below, size - 1 - k, If(math.abs(row(first, k)) > math.abs(row(best, k)), Store(pivot, (zero,), first)))
    swap = For(swapped, wrap(size), seq(
        Store(kept, (wrap(1),), row(k, swapped)), Store(rows, (k, swapped), row(best, swapped)),
        Store(rows, (best, swapped), factor),
    ))
    turn = If(binary(ir.NE, best, k), seq(swap, Store(kept, (zero,), -total)))
    under = k + 1 + i
    top = row(k, k)
    flat = binary(ir.EQ, top, const(0, kind))  # the whole column is: so is the determinant
    ratio = Store(kept, (wrap(1),), select(flat, const(0, kind), row(under, k) / select(flat, const(1, kind), top)))
    clear = For(i, size - 1 - k, seq(ratio, For(j, wrap(size), Store(
        rows, (under, j), row(under, j) - factor * row(k, j)))))
    step = seq(Store(pivot, (zero,), k), find, turn, Store(kept, (zero,), total * top), clear)
    r = Var("r")
    copy = For(r, wrap(size), For(col, wrap(size), Store(rows, (r, col), Load(x, (*at, r, col)))))
    whole = seq(copy, Store(kept, (zero,), const(1, kind)), For(k, wrap(size), step), Store(out, at, total))
    return Allocate(rows, Allocate(pivot, Allocate(kept, whole)))
