"""A matrix product scheduled by hand for one core, as docs/matmul.md explains it: built for this machine, and checked."""

import numpy as np

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.kernels.micro_kernels import tile

N = 1024


def product(n=N):
    """``C = A @ B`` of float32 matrices of n x n, as (A, B, C)."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    return A, B, te.compute((n, n), lambda y, x: te.sum(A[y, k] * B[k, x], axis=k), name="C")


def schedule(C, rows=6, columns=64):
    """Tiles of rows x columns in registers, over panels of that many columns of B."""
    s = te.create_schedule(C)
    _, B = s[C].op.input_tensors
    sums = s.cache_write(C, "local")  # C's values are made in a small buffer of their own, then copied

    y, x = s[C].op.axis
    block, x = s[C].split(x, factor=2 * columns)  # two panels at a time, which stay in L2
    y, x, yi, xi = s[C].tile(y, x, rows, columns)
    s[C].reorder(block, y, x, yi, xi)
    s[C].unroll(yi)
    s[C].vectorize(xi)

    s[sums].compute_at(s[C], x)  # one tile at a time
    yi, xi = s[sums].op.axis
    k, ki = s[sums].split(s[sums].op.reduce_axis[0], factor=4)
    s[sums].reorder(k, ki, yi, xi)
    s[sums].unroll(ki)
    s[sums].unroll(yi)
    s[sums].vectorize(xi)

    copy = s.cache_read(B, "global", [sums])
    k, x = s[copy].op.axis
    panel, x = s[copy].split(x, factor=columns)
    s[copy].reorder(panel, k, x)
    panels = s.cache_write(copy, "global")  # its dimensions are these three loops
    s[copy].compute_inline()  # so that panels reads B, and sums reads panels
    s[panels].compute_at(s[C], block)
    panel, k, x = s[panels].op.axis
    s[panels].reorder(k, panel, x)
    s[panels].vectorize(x)
    return s


if __name__ == "__main__":
    A, B, C = product()
    rows, columns = tile()
    matmul = vtakit.build(schedule(C, rows, columns), [A, B, C], name="matmul")
    a, b = (np.random.default_rng(seed).standard_normal((N, N), np.float32) for seed in (1, 2))
    c = np.empty((N, N), np.float32)
    matmul(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-3)
    print(f"{N} x {N} x {N}: as NumPy's")
    print(matmul.time(a, b, c))
