"""Products on tensor cores for tests: schedules of small ones, the interpreter's results beside NumPy's, planted errors."""

import ml_dtypes
import numpy as np

from vtakit import te
from vtakit.compiler.intrin.tensor_cores import KINDS
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.walk import map_stmt
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.nn.gpu.tensor_cores import Tile, operands_of, run_product
from vtakit.compiler.passes import lower_late

SMALL = {False: Tile(16, 16, 16, 1, 1, 3), True: Tile(64, 16, 64, 1, 1, 3)}  # by whether a warpgroup computes


def numpy_type(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def product(m, n, k, dtype="bfloat16", *, turned=True, result=None, batch=0, relu=False, groups=False, tile=None):
    """A schedule of a product, its tensors, and what makes its operands and the wanted result."""
    kind, lead = KINDS[dtype], (batch,) if batch else ()
    a = te.placeholder((*lead, m, k), dtype, name="A")
    b = te.placeholder((*lead, *((n, k) if turned else (k, n))), dtype, name="B")
    r = te.reduce_axis((0, k), name="r")

    def term(*at):
        x, y = a[(*at[:-1], r)], b[(*at[:-2], *((at[-1], r) if turned else (r, at[-1])))]
        return te.sum(x * y if kind.a == kind.c else x.astype(kind.c) * y.astype(kind.c), axis=r)
    c = te.compute((*lead, m, n), term, name="C")
    followers = []
    if relu:
        followers.append(te.compute(c.shape, lambda *at: te.max(c[at], te.const(0, kind.c)), name="R"))
    if result:
        last = followers[-1] if relu else c
        followers.append(te.compute(c.shape, lambda *at: last[at].astype(result), name="O"))
    out = followers[-1] if followers else c
    s = te.create_schedule(out.op)
    found = operands_of(c.op)
    assert found is not None
    run_product(s, c.op, [f.op for f in followers], found, tile or SMALL[groups], warpgroup=groups)

    def arrays(seed=0):
        rng = np.random.default_rng(seed)
        x, y = (rng.integers(-4, 5, [int(e.value) for e in t.shape]).astype(numpy_type(dtype)) for t in (a, b))
        want = x.astype("float64") @ (np.swapaxes(y, -1, -2) if turned else y).astype("float64")
        return x, y, (np.maximum(want, 0) if relu else want).astype(numpy_type(result or kind.c))
    return s, [a, b, out], arrays


def run(function, x, y, want):
    """The interpreter's result, which must be `want`."""
    got = np.full_like(want, 77)
    interpret(function, [x, y, got])
    np.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))


def check(s, args, arrays):
    """Both forms make the product; the low form is returned."""
    function = lower(s, args)
    low = lower_late(function, "gpu")
    for form in (function, low):
        run(form, *arrays())
    return low


def without(function, name, number):
    """The function without the `number`-th call of that name, and whether there was one."""
    seen = 0

    def on_stmt(s):
        nonlocal seen
        if isinstance(s, st.Evaluate) and getattr(s.value, "name", "") == name:
            seen += 1
            return st.NOTHING if seen == number + 1 else s
        return s
    body = map_stmt(function.body, on_stmt)
    return function._replace(body=body), seen > number
