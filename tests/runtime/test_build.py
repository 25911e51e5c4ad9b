"""`vtakit.build`: tensor expressions with a schedule, run as machine code."""

import numpy as np
import pytest
from support import raises

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.depth import MOST_CALLS
from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.ir.expr import IntImm, Var
from vtakit.compiler.ir.stmt import LoopKind
from vtakit.compiler.ir.values import const
from vtakit.compiler.lower import LowerError
from vtakit.compiler.passes import PassError
from vtakit.compiler.passes.pragmas import KNOWN
from vtakit.runtime.cpu import openmp
from vtakit.runtime.cpu.function import build
from vtakit.runtime.target import TargetError

RNG = np.random.default_rng(0)


def test_vector_add_of_symbolic_size():
    """Statements 1 and 63, with a vector of 8 and a tail."""
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(s[c].op.axis[0], factor=8)
    s[c].vectorize(inner)
    s[c].parallel(outer)
    f = vtakit.build(s, [a, b, c])
    for size in (1, 8, 29):
        x, y = RNG.standard_normal((2, size), np.float32)
        z = np.zeros(size, np.float32)
        f(x, y, z)
        assert np.array_equal(z, x + y)


def test_a_full_reduction_to_rank_0():
    """Statement 2."""
    a = te.placeholder((10, 20), name="A")
    i, j = te.reduce_axis((0, 10), name="i"), te.reduce_axis((0, 20), name="j")
    total = te.compute((), lambda: te.sum(a[i, j], axis=[i, j]), name="total")
    f = vtakit.build(te.create_schedule(total.op), [a, total])
    x, found = RNG.integers(0, 10, (10, 20)).astype(np.float32), np.zeros((), np.float32)
    f(x, found)
    assert found == x.sum()


def test_an_extern_calls_python():
    """Statement 8: buffers of several dimensions, two outputs, run as machine code."""
    a = te.placeholder((3, 4), name="A")

    def body(inputs, outputs):
        return te.call_packed("tests.build.rows", inputs[0].access_ptr("r"), *(out.access_ptr("w") for out in outputs))

    low, high = te.extern([(3,), (3,)], [a], body, dtype=["float32", "float32"], name="rows")
    f = vtakit.build(te.create_schedule(low.op), [a, low, high], packed={
        "tests.build.rows": lambda x, first, second: [np.min(x, 1, out=first), np.max(x, 1, out=second)].clear(),
    })
    x, least, most = RNG.standard_normal((3, 4), np.float32), np.zeros(3, np.float32), np.zeros(3, np.float32)
    f(x, least, most)
    assert np.array_equal(least, x.min(1))
    assert np.array_equal(most, x.max(1))


@pytest.mark.parametrize("factor", [8, 7])
def test_a_tiled_matmul(factor):
    """Statement 63: gemm, with factors that divide the extents and that do not."""
    n = 40
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda y, x: te.sum(a[y, k] * b[k, x], axis=k), name="C")
    s = te.create_schedule(c.op)
    s[c].tile(*s[c].op.axis, k, factor, factor, 4)
    f = vtakit.build(s, [a, b, c], Target.host(contract=False), "matmul")
    x, y = RNG.integers(-4, 5, (2, n, n)).astype(np.float32)
    z = np.zeros((n, n), np.float32)
    f(x, y, z)
    assert np.array_equal(z, x @ y)
    assert f.name == "matmul"


def test_a_target_that_is_none():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i], name="B")
    for target in ("gpu", 3, None):
        with raises(TargetError, f"unknown target {target!r}; known: cuda, llvm, opencl, vta"):
            vtakit.build(te.create_schedule(b.op), [a, b], target)


@pytest.mark.parametrize(("count", "stages"), [(MOST_CALLS, False), (MOST_CALLS // 5, True)])
def test_what_is_nested_too_deeply_is_refused(count, stages):
    a = last = te.placeholder((4,), name="A")
    if stages:
        for _ in range(count):
            last = te.compute((4,), lambda i, before=last: before[i], name="step")
    else:
        value = a[0]
        for _ in range(count):
            value = value + a[1]
        last = te.compute((4,), lambda i: value, name="B")
    with pytest.raises(LowerError, match=r"^depth: an expression of 'main', or its stages one within another, are nested deeper"):
        vtakit.build(te.create_schedule(last.op), [a, last])


@pytest.fixture(params=[1, 3])
def threads(request):
    before = openmp.threads()
    openmp.set_threads(request.param)
    yield request.param
    openmp.set_threads(before)


@pytest.mark.parametrize("tiles", [1, 4])
@pytest.mark.parametrize("strided", [False, True], ids=["a run each", "in turn"])
def test_parallel_loops_within_one_launch(strided, tiles, threads):
    """Statement 63: persistent parallel. The threads start once and wait for each other behind each loop."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: te.sqrt(b[i]) * 2.0 + 2.0, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(s[c].op.axis[0], factor=8)
    launch, outer = s[c].split(outer, nparts=tiles)
    s[b].compute_at(s[c], launch)
    s[b].parallel(s[b].op.axis[0])
    s[b].pragma(s[b].op.axis[0], "parallel_barrier_when_finish")
    s[c].parallel(outer)
    s[c].pragma(launch, "parallel_launch_point")
    if strided:
        s[c].pragma(outer, "parallel_stride_pattern")
    f = vtakit.build(s, [a, c])
    assert f.compiled.text.count("call void @GOMP_parallel(") == 1
    assert f.compiled.text.count("call void @GOMP_barrier(") >= 2
    for size in (0, 1, 7, 100, 1000):
        x, y = RNG.random(size, np.float32), np.full(size, -1, np.float32)
        f(x, y)
        assert np.allclose(y, np.sqrt(x + 1) * 2 + 2, rtol=1e-6)


@pytest.mark.parametrize("unrolled", [False, True])
def test_a_producer_at_a_part_of_fused_symbolic_axes(unrolled):
    """Its buffer's size changes with the loop, which partition parts into copies."""
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] * 2, name="B")
    c = te.compute((m, n), lambda i, j: b[i, j] + 1, name="C")
    s = te.create_schedule(c)
    outer, _ = s[c].split(s[c].fuse(*c.op.axis), **({"nparts": 4} if unrolled else {"factor": 16}))
    s[b].compute_at(s[c], outer)
    if unrolled:
        s[c].unroll(outer)
    f = vtakit.build(s, [a, c])
    for shape in ((1, 1), (7, 9), (33, 5), (16, 16), (0, 3)):
        x, y = RNG.random(shape, np.float32), np.empty(shape, np.float32)
        f(x, y)
        assert np.array_equal(y, x * 2 + 1)


def test_a_failure_within_a_launch_is_told(threads):
    """The threads finish what follows, and the caller hears of it."""
    a, (once, i, j) = Buffer("A", (64,), FLOAT32), map(Var, ("once", "i", "j"))
    checks = st.For(i, IntImm(64), st.Evaluate(effect("assert_that", i < 40, "there are 40")), LoopKind.PARALLEL)
    fills = st.For(j, IntImm(64), st.Store(a, (j,), const(1.0, FLOAT32)), LoopKind.PARALLEL)
    body = st.For(once, IntImm(1), st.seq(checks, fills), notes={"parallel_launch_point": 1})
    f = build(st.Function("main", (a,), body))
    x = np.zeros(64, np.float32)
    with pytest.raises(Exception, match="there are 40"):
        f(x)
    assert np.array_equal(x, np.ones(64))


def test_a_launch_that_does_more_than_parallel_loops_starts_threads_for_each():
    """Every thread would do the rest."""
    a, (once, i) = Buffer("A", (64,), FLOAT32), map(Var, ("once", "i"))
    adds = st.Store(a, (IntImm(0),), a[0] + const(1.0, FLOAT32))
    fills = st.For(i, IntImm(64), st.Store(a, (i,), const(1.0, FLOAT32)), LoopKind.PARALLEL)
    f = build(st.Function("main", (a,), st.For(once, IntImm(1), st.seq(fills, adds), notes={"parallel_launch_point": 1})))
    x = np.zeros(64, np.float32)
    f(x)
    assert (x[0], x[1]) == (2, 1)
    assert "GOMP_barrier" not in f.compiled.text


def test_a_buffer_whose_size_is_that_of_a_loop_of_one_iteration():
    """Simplification takes such loops out, and puts what their variable is into sizes too."""
    m = te.var("m")
    a = te.placeholder((m,), "int32", name="A")
    t = te.compute((m,), lambda i: a[i] * 2, name="T")

    def sum_before(i):
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(t[k], axis=k)
    p = te.compute((m,), sum_before, name="P")
    d = te.compute((m + 3,), lambda i: te.if_then_else(te.all(i >= 2, i < m + 2), p[i - 2], -3), name="D")
    w = te.compute((m + 3,), lambda i: te.if_then_else(i > 0, d[i - 1], 5) + d[i], name="W")
    s = te.create_schedule(w.op)
    outer, _ = s[d].split(d.op.axis[0], 4)
    s[t].compute_at(s[p], p.op.axis[0])
    s[p].compute_at(s[d], outer)
    s[d].compute_at(s[w], w.op.axis[0])
    f = vtakit.build(s, [a, w])
    for n in (0, 1, 2, 7):
        x, got = np.arange(3, n + 3, dtype="int32"), np.zeros(n + 3, "int32")
        f(x, got)
        want = np.full(n + 3, -3, "int32")
        want[2:n + 2] = np.cumsum(2 * x)
        assert got.tolist() == (want + np.concatenate([[5], want[:-1]])).tolist()


@pytest.mark.parametrize("target", ["llvm", "vta"])
def test_a_result_that_is_no_argument_is_refused(target):
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.compute((8,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    with raises(LowerError, "arguments: C, a result of the schedule, is no argument of 'main': nobody could see it\n\n"
                            "hint: give it: vtakit.build(s, [..., C])"):
        vtakit.build(s, [a, b], target)


def test_of_several_values_one_is_enough_and_a_copy_is_the_result_too():
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    most = te.comm_reducer(
        lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)), name="argmax")
    at, _ = te.compute((4,), lambda i: most((k.var, a[i, k]), axis=k), name="M")
    x, found = RNG.standard_normal((4, 8), np.float32), np.zeros(4, np.int32)
    vtakit.build(te.create_schedule(at.op), [a, at])(x, found)
    assert np.array_equal(found, x.argmax(1))
    c = te.compute((4, 8), lambda i, j: a[i, j] + 1, name="C")
    s = te.create_schedule(c.op)
    s.cache_write(c, "local")
    y = np.zeros_like(x)
    vtakit.build(s, [a, c])(x, y)
    assert np.array_equal(y, x + 1)


@pytest.mark.parametrize("target", ["llvm", "vta"])
def test_a_pragma_that_nothing_knows_is_refused(target):
    a = te.placeholder((8,), name="A")
    c = te.compute((8,), lambda i: a[i] * 2, name="C")
    s = te.create_schedule(c.op)
    s[c].pragma(c.op.axis[0], "auto_unroll_maxstep", 4)
    with pytest.raises(PassError) as raised:
        vtakit.build(s, [a, c], target)
    assert str(raised.value).partition("\n")[0] == (
        "loop 'i' has the pragma 'auto_unroll_maxstep', which nothing here acts upon: did you mean 'auto_unroll_max_step'? "
        "Known: " + ", ".join(sorted(KNOWN)))
    assert "-->       for i in range(8):  # auto_unroll_maxstep=4" in str(raised.value)
