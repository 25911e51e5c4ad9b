"""Products of rows of bytes with int8 matrices that are known when a model is compiled: their columns lie in panels.

Processors multiply unsigned by signed bytes, four at a time, so that data is uint8, and a panel has four rows of the matrix side
by side for each column: a matrix [K, N] in panels of `n` columns is [ceil(N / n), K' / 4, n, 4].
"""

from math import prod

import numpy as np

from vtakit.compiler.ir.dtypes import INT32, dtype
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import all_of, if_then_else
from vtakit.compiler.ir.values import const
from vtakit.compiler.nn.common import dims, flattened, made
from vtakit.compiler.nn.conv.packed_weights import COLUMNS, ZERO
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.language import reduce_axis
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor

INT8, UINT8 = dtype("int8"), dtype("uint8")
TOGETHER = 4  # rows of the matrix that an instruction adds up
MOST_ROWS, MOST_BYTES = 32, 64  # of a tile: two tile registers, and a row of one


def even(count: int, most: int, unit: int = 1) -> int:
    """Return the size of equal parts of at most `most` that hold `count`, as few as there can be; a multiple of `unit`."""
    parts = -(-count // most)
    return -(-count // (parts * unit)) * unit


def byte_panels(weight: np.ndarray) -> np.ndarray:
    """An int8 matrix [K, N] as `dense_bytes` takes it, zeros behind it. A panel has at most N columns, so that one is whole."""
    depth, columns = weight.shape
    n = min(COLUMNS, 1 << columns.bit_length() - 1)
    step = even(depth, MOST_BYTES, TOGETHER)
    full = np.zeros((-(-depth // step) * step, -(-columns // n) * n), weight.dtype)
    full[:depth, :columns] = weight
    parts = full.reshape(len(full) // TOGETHER, TOGETHER, -1, n)
    return np.ascontiguousarray(parts.transpose(2, 0, 3, 1))


@operator("dense_bytes", kind=Kind.ANCHOR)
def dense_bytes(x: Tensor, weight: Tensor, *, columns: int) -> Tensor:
    """Rows of uint8 multiplied by a matrix in panels: the sums; int8 rows are taken as x + 128.

    x       uint8 or int8  [..., K]             of the dimensions before the last, one at most is more than 1
    weight  int8           [N' / n, K' / 4, n, 4]     made by `byte_panels`
    result  int32          [..., N]             N = columns

    Raises OperatorError for shapes or types that do not fit together.
    """
    if x.dtype not in (UINT8, INT8) or weight.dtype is not INT8:
        raise OperatorError(f"dense_bytes of {x.dtype} by {weight.dtype}: give uint8 or int8 rows, and int8 weights")
    panels, steps, n, each = dims(weight) if weight.ndim == 4 else (0,) * 4
    *lead, depth = dims(x) if x.ndim > 1 else (0, 0)
    deep = steps * TOGETHER
    fits = each == TOGETHER and depth <= deep < depth + MOST_BYTES
    if not fits or not n <= columns <= panels * n < columns + n or sum(
            extent != 1 for extent in lead) > 1:
        raise OperatorError(f"dense_bytes: data {dims(x)} and weights {dims(weight)} do not make {columns} columns: data has "
                            "rows of K along one dimension, and weights are panels [ceil(N / n), K' / 4, n, 4]")
    rows = prod(lead)
    along = next((at for at, extent in enumerate(lead) if extent != 1), len(lead) - 1)
    tile = even(rows, MOST_ROWS) if rows else 1
    high = -(-rows // tile) * tile

    def read(r: Expr, k: Expr) -> Expr:
        found: Expr = x(*[r if at == along else 0 for at in range(len(lead))], k)
        if x.dtype is INT8:
            found = (found.astype(INT32) + ZERO).astype(UINT8)
        inside = [r < rows] * (high > rows) + [k < depth] * (deep > depth)
        return if_then_else(all_of(*inside), found, const(0, UINT8)) if inside else found
    data = made((high, deep), read, "rows", tag="dense_rows")
    k = reduce_axis((0, deep), "k")
    sums = made((high, panels, n), lambda r, p, j: sum_of(
        data(r, k).astype(INT32) * weight(p, k // TOGETHER, j, k % TOGETHER).astype(INT32), axis=k),
        "sums", tag="dense_bytes", attrs={"tile": tile})
    return made((*lead, columns), lambda *at: sums(flattened(at[:-1], lead), at[-1] // n, at[-1] % n), "dense_bytes",
                tag="unpanel")
