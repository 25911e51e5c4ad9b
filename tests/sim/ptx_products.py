"""Products of matrices on tensor cores, small enough to be emulated, with operands whose products are exact."""

import ml_dtypes
import numpy as np

from vtakit import te
from vtakit.compiler.intrin.tensor_cores import KINDS
from vtakit.compiler.nn.gpu.tensor_cores import Tile, operands_of, run_product


def numpy_type(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def product(m: int, n: int, k: int, dtype: str, tile: Tile, *, turned: bool = True, result: str = "", relu: bool = False,
            batch: int = 0, groups: bool = False):
    """Return a schedule, its tensors, and a function that draws two operands and their product.

    turned : whether B is [n, k]; result : type that the sums are cast to; groups : whether a warpgroup computes
    """
    kind, lead = KINDS[dtype], (batch,) if batch else ()
    a = te.placeholder((*lead, m, k), dtype, name="A")
    b = te.placeholder((*lead, *((n, k) if turned else (k, n))), dtype, name="B")
    r = te.reduce_axis((0, k), name="r")

    def sums(*at):
        x, y = a[(*at[:-1], r)], b[(*at[:-2], at[-1], r)] if turned else b[(*at[:-2], r, at[-1])]
        return te.sum(x * y if kind.a == kind.c else x.astype(kind.c) * y.astype(kind.c), axis=r)

    c = te.compute((*lead, m, n), sums, name="C")
    stages = [c]
    if relu:
        stages.append(te.compute(c.shape, lambda *at: te.max(c[at], te.const(0, kind.c)), name="R"))
    if result:
        before = stages[-1]
        stages.append(te.compute(c.shape, lambda *at: before[at].astype(result), name="O"))
    s = te.create_schedule(stages[-1].op)
    found = operands_of(c.op)
    assert found is not None
    run_product(s, c.op, [each.op for each in stages[1:]], found, tile, warpgroup=groups)

    def arrays(seed: int = 0):
        rng = np.random.default_rng(seed)
        x = rng.integers(-4, 5, (*lead, m, k)).astype(numpy_type(dtype))
        y = rng.integers(-4, 5, b_shape).astype(numpy_type(dtype))
        want = x.astype("float64") @ (np.swapaxes(y, -1, -2) if turned else y).astype("float64")
        return x, y, (np.maximum(want, 0) if relu else want).astype(numpy_type(result or kind.c))

    b_shape = (*lead, *((n, k) if turned else (k, n)))
    return s, [a, b, stages[-1]], arrays
