"""Products with matrices that are known when a model is compiled: their columns lie in panels, each a stream of whole vectors.

A matrix of N columns in panels of `v` is [ceil(N / v), K, v], so that one step of a sum reads one vector, and the next step the
vector behind it.
"""

from math import prod

import numpy as np

from vtakit.compiler.ir.dtypes import FLOAT32, DType, dtype
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.nn.common import dims, flattened, made, unflattened
from vtakit.compiler.nn.product.matmul import accumulator
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor

STORED = (dtype("float16"), dtype("bfloat16"))  # weights of float32 data may be kept so


def panels_of(weight: np.ndarray, panel: int) -> np.ndarray:
    """A matrix [K, N], or matrices [..., K, N], as `dense_panels` takes them; columns that fill up the last panel are 0."""
    *lead, depth, columns = weight.shape
    if lead:
        return np.stack([panels_of(each, panel) for each in weight.reshape(-1, depth, columns)]).reshape(
            *lead, -1, depth, panel)
    full = np.zeros((-(-columns // panel), depth, panel), weight.dtype)
    whole = columns // panel
    full[:whole] = weight[:, :whole * panel].reshape(depth, whole, panel).transpose(1, 0, 2)
    if columns % panel:
        full[whole, :, :columns % panel] = weight[:, whole * panel:]
    return full


def check_stored(name: str, weight: DType, x: Tensor) -> None:
    """Raise OperatorError for weights of neither the data's type nor, where that is float32, one of `STORED`."""
    if weight != x.dtype and not (x.dtype is FLOAT32 and weight in STORED):
        raise OperatorError(f"{name}: data of {x.dtype} and weights of {weight}: weights are of the data's type or, for float32, "
                            "float16 or bfloat16")


@operator("dense_panels", kind=Kind.ANCHOR)
def dense_panels(x: Tensor, weight: Tensor, *, columns: int) -> Tensor:
    """Rows multiplied by a matrix in panels, or the rows of each of several matrices by one of their own.

    x       [..., K]
    weight  [ceil(N / v), K, v]      made by `panels_of`; for float32 also of 16 bits, `STORED`. Dimensions before these are those
                                     of x before its last two
    result  [..., N]                 N = columns

    Raises OperatorError for shapes or types that do not fit together.
    """
    check_stored("dense_panels", weight.dtype, x)
    kind = accumulator(x.dtype)
    batch, (panels, depth, panel) = dims(weight)[:-3], dims(weight)[-3:] if weight.ndim >= 3 else (0,) * 3
    if x.ndim < 2 or not panel or dims(x)[-1] != depth or -(-columns // panel) != panels or (
            batch and batch != dims(x)[:-2]):
        raise OperatorError(f"dense_panels: data {dims(x)} and weights {dims(weight)} do not make {columns} columns: data has "
                            "rows of K, and weights are panels [ceil(N / v), K, v], or such for each matrix of the data")
    lead = dims(x)[len(batch):-1]
    k = reduce_axis((0, depth), "k")

    def term(*at: Expr) -> Expr:
        *matrix, p, n, lane = at
        total: Expr = sum_of(
            x(*matrix, *unflattened(p, lead), k).astype(kind) * weight(*matrix, n, k, lane).astype(kind), axis=k)
        return total
    sums = made((*batch, prod(lead), panels, panel), term, "sums", tag="dense_panels")

    def value(*at: Expr) -> Expr:
        matrix, row, column = at[:len(batch)], at[len(batch):-1], at[-1]
        found: Expr = sums(*matrix, flattened(row, lead), column // panel, column % panel).astype(x.dtype)
        return found
    return made((*dims(x)[:-1], columns), value, "dense_panels", tag="unpanel")
