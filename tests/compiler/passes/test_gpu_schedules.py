"""Statement 63 on threads: schedules for a GPU, by the interpreter before and after the passes that lower them."""

import numpy as np
import pytest
from lower_support import ints

from vtakit import te
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.passes import lower_late

BX, BY, TX, TY = (te.thread_axis(tag) for tag in ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"))


def check(s, args, given, wanted):
    """Both forms of the program make `wanted`, the last arguments."""
    function = lower(s, args)
    for form in (function, lower_late(function, "gpu")):
        found = [np.full(w.shape, 77, w.dtype) for w in wanted]
        interpret(form, [*given, *found])
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, want)
    return function


@pytest.mark.parametrize("size", [0, 1, 16, 50])
def test_a_vector_add_of_symbolic_size_with_a_predicate_at_the_edge(size):
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 16)
    s[c].bind(outer, BX)
    s[c].bind(inner, TX)
    x, y = np.random.default_rng(0).standard_normal((2, size)).astype("float32")
    check(s, [a, b, c], [x, y], [x + y])


def test_reads_behind_a_barrier_of_an_inner_loop_end_before_the_next_tile():
    """The inner loop may have no iteration, so its barrier does not order the next iteration of the outer one."""
    a = te.placeholder((6, 6), "int32", name="A")
    b = te.compute((6, 6), lambda i, j: a[i, j] * 2, name="B")

    def right(i):
        k = te.reduce_axis((0, 6 - i), name="k")
        return te.sum(b[i, i + k], axis=k)

    c = te.compute((6,), right, name="C")
    s = te.create_schedule(c.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.y"))
    outer, _ = s[c].split(c.op.axis[0], factor=2)
    s[b].compute_at(s[c], outer)
    x = np.arange(36, dtype="int32").reshape(6, 6)
    check(s, [a, c], [x], [2 * np.triu(x).sum(1, dtype="int32")])


@pytest.mark.parametrize("size", [16, 13])
def test_a_gemm_with_shared_tiles_and_virtual_threads(size):
    a, b = (te.placeholder((size, size), "int32", name=name) for name in "AB")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    caches = [s.cache_read(tensor, "shared", [local]) for tensor in (a, b)]
    by, bx, yi, xi = s[c].tile(*c.op.axis, 8, 8)
    vy, yi = s[c].split(yi, nparts=2)
    ty, yi = s[c].split(yi, nparts=2)
    tx, xi = s[c].split(xi, nparts=4)
    s[c].reorder(by, bx, vy, ty, tx, yi, xi)
    for axis, thread in ((by, BY), (bx, BX), (vy, te.thread_axis("vthread")), (ty, TY), (tx, TX)):
        s[c].bind(axis, thread)
    s[local].compute_at(s[c], tx)
    ko, _ = s[local].split(s[local].op.reduce_axis[0], 4)
    s[local].reorder(ko, *s[local].op.axis)
    for cache in caches:
        s[cache].compute_at(s[local], ko)
        fused = s[cache].fuse(*s[cache].op.axis)
        rest, inner = s[cache].split(fused, 4)
        _, outer = s[cache].split(rest, 2)
        s[cache].bind(outer, TY)
        s[cache].bind(inner, TX)
    x, y = ints(size, size), ints(size, size, seed=1)
    check(s, [a, b, c], [x, y], [x @ y])


@pytest.mark.parametrize("threads", [8, 5])
def test_argmax_of_rows_where_a_condition_holds(threads):
    """Statements 4, 44 and 63: two values reduced across threads, with `where`."""
    a, k = te.placeholder((3, 20), "int32", name="A"), te.reduce_axis((0, 20), name="k")
    pick = te.comm_reducer(
        lambda x, y: (te.select(te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0])), x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.max_value(t0), te.min_value(t1)), name="argmax")
    at, most = te.compute((3,), lambda i: pick((k.var, a[i, k]), axis=k, where=a[i, k] < 5), name="C")
    s = te.create_schedule(at.op)
    inner = s[at].split(k, threads)[1]
    s[at].bind(at.op.axis[0], BX)
    s[at].bind(inner, TX)
    x = ints(3, 20)
    below = np.where(x < 5, x, -100)
    check(s, [a, at, most], [x], [below.argmax(1).astype("int32"), below.max(1)])


@pytest.mark.parametrize(("kind", "into"), [("float16", "float32"), ("int8", "int32"), ("uint8", "int32")])
def test_dot_products_of_narrow_types(kind, into):
    """fp16 and int8 dot, of rows, across the threads of a block; numbers whose sums are exact."""
    a, b = (te.placeholder((4, 32), kind, name=name) for name in "AB")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((4,), lambda i: te.sum(a[i, k].astype(into) * b[i, k].astype(into), axis=k), name="C")
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], BX)
    s[c].bind(k, TX)
    x, y = (np.abs(ints(4, 32, seed=seed)).astype(kind) for seed in (0, 1))
    check(s, [a, b, c], [x, y], [(x.astype(into) * y.astype(into)).sum(1, dtype=into)])


def test_signs_of_division_and_odd_floats():
    a, f = te.placeholder((12,), "int32", name="A"), te.placeholder((12,), name="F")
    q, r = te.compute((12,), lambda i: (a[i] // -5, a[i] % -5), name="Q")
    m = te.compute((12,), lambda i: te.max(te.min(f[i], te.infinity("float32")), f[11 - i]), name="M")
    s = te.create_schedule([q.op, m.op])
    for tensor in (q, m):
        outer, inner = s[tensor].split(tensor.op.axis[0], 8)
        s[tensor].bind(outer, BX)
        s[tensor].bind(inner, TX)
    x = np.arange(-6, 6, dtype="int32") * 3
    z = np.array([np.nan, np.inf, -np.inf, 0, 1, -1, 2, np.inf, 3, -np.inf, np.nan, 5], "float32")
    check(s, [a, f, q, r, m], [x, z], [x // -5, x % -5, np.maximum(z, z[::-1])])
