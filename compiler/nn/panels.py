"""Products with matrices that are known when a model is compiled: their columns lie in panels, each a stream of whole vectors.

A matrix of N columns in panels of `v` is [ceil(N / v), K, v], so that one step of a sum reads one vector, and the next step the
vector behind it.
"""

from math import prod

import numpy as np

from vtakit.compiler.ir.dtypes import FLOAT32, DType, dtype
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.nn.common import dims, flattened, made, unflattened
from vtakit.compiler.nn.matmul import accumulator
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor

STORED = (dtype("float16"), dtype("bfloat16"))  # weights of float32 data may be kept so


def panels_of(weight: np.ndarray, panel: int) -> np.ndarray:
    """A matrix [K, N] as `dense_panels` takes it; columns that fill up the last panel are 0."""
    depth, columns = weight.shape
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
    """Rows multiplied by a matrix in panels.

    x       [..., K]
    weight  [ceil(N / v), K, v]      made by `panels_of`; for float32 also of 16 bits, `STORED`
    result  [..., N]                 N = columns

    Raises OperatorError for shapes or types that do not fit together.
    """
    check_stored("dense_panels", weight.dtype, x)
    kind = accumulator(x.dtype)
    panels, depth, panel = dims(weight) if weight.ndim == 3 else (0,) * 3
    if x.ndim < 2 or not panel or dims(x)[-1] != depth or -(-columns // panel) != panels:
        raise OperatorError(f"dense_panels: data {dims(x)} and weights {dims(weight)} do not make {columns} columns: data has "
                            "rows of K, and weights are panels [ceil(N / v), K, v]")
    lead, rows = dims(x)[:-1], prod(dims(x)[:-1])
    k = reduce_axis((0, depth), "k")

    def term(p: Expr, n: Expr, lane: Expr) -> Expr:
        total: Expr = sum_of(x(*unflattened(p, lead), k).astype(kind) * weight(n, k, lane).astype(kind), axis=k)
        return total
    sums = made((rows, panels, panel), term, "sums", tag="dense_panels")
    return made((*lead, columns), lambda *at: sums(flattened(at[:-1], lead), at[-1] // panel, at[-1] % panel).astype(x.dtype),
                "dense_panels", tag="unpanel")
