"""A product of matrices tuned on this machine: first the decisions of a template, then a schedule that is generated."""

import numpy as np

from vtakit import te, tune

N = 256


def product(n):
    """``C = A @ B`` of float32 matrices of n x n, as (A, B, C)."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    return A, B, te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


@tune.template
def matmul(cfg, n):
    """Tiles of sums in registers; their sizes and the order of the loops around them are decisions."""
    A, B, C = product(n)
    s = te.create_schedule(C.op)
    sums = s.cache_write(C, "local")
    i, j = C.op.axis
    cfg.define_split("rows", i, num_outputs=2, filter=lambda e: e.size[1] <= 16)
    cfg.define_split("columns", j, num_outputs=2, filter=lambda e: 8 <= e.size[1] <= 64)
    cfg.require(cfg["rows"].size[1] * cfg["columns"].size[1] <= 512, "a tile is at most 512 sums")
    io, ii = cfg["rows"].apply(s, C, i)
    jo, ji = cfg["columns"].apply(s, C, j)
    cfg.define_reorder("order", [io, jo])
    order = cfg["order"].apply(s, C, [io, jo])
    s[C].reorder(*order, ii, ji)
    s[C].vectorize(ji)
    s[sums].compute_at(s[C], order[-1])
    y, x = s[sums].op.axis
    s[sums].reorder(*s[sums].op.reduce_axis, y, x)
    cfg.define_annotate("rows_run", [y], "try_unroll")
    cfg["rows_run"].apply(s, sums, [y])
    s[sums].vectorize(x)
    return s, [A, B, C]


def main():
    """Tune both, and compare with NumPy."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((N, N), np.float32) for _ in range(2))
    template = matmul.task(N)
    A, B, C = product(N)
    print(f"{len(template.config)} candidates of the template, before constraints")
    for task in (template, tune.expression(C, [A, B, C], name="generated")):
        found = tune.run(task, trials=20, search="random")
        c = np.empty((N, N), np.float32)
        found.build()(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-3)
        print(f"{found}, {2e-9 * N**3 / found.cost:.0f} GFLOP/s, {found.decisions}")


if __name__ == "__main__":
    main()
