"""Statements and memory: loops, masks, allocations, vectors of every kind, symbolic sizes."""

import numpy as np
import pytest
from codegen_cases import applied, buffer, compiled, elementwise, flat, loop, ramp

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import math_call
from vtakit.compiler.ir.dtypes import FLOAT32, INT64, dtype
from vtakit.compiler.ir.values import cast, const, wrapped
from vtakit.runtime.cpu.packed import numpy_dtype

i, j, k = (ir.Var(name) for name in "ijk")
RNG = np.random.default_rng(0)


def test_vector_add():
    """Statements 1 and 63: a symbolic size, read off the shape."""
    n = ir.Var("n", size=True)
    a, b, c = (buffer(name, n) for name in "ABC")
    f = compiled("add", (a, b, c), loop(i, n, st.Store(c, (i,), a[i] + b[i])))
    for size in (0, 1, 33):
        x, y = RNG.standard_normal((2, size), np.float32)
        z = np.empty(size, np.float32)
        f(x, y, z)
        assert np.array_equal(z, x + y)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16", "int32", "int8"])
def test_gemm(kind):
    """Statement 63."""
    m, n, d = 5, 7, 9
    a, b, c = buffer("A", m, d, kind=kind), buffer("B", d, n, kind=kind), buffer("C", m, n, kind=kind)
    fa, fb, fc = flat(a, m * d), flat(b, d * n), flat(c, m * n)
    f = compiled("gemm", (a, b, c), loop(i, m, loop(j, n, st.Store(fc, (i * n + j,), const(0, kind)), loop(
        k, d, st.Store(fc, (i * n + j,), fc[i * n + j] + fa[i * d + k] * fb[k * n + j])))), target=Target.host(contract=False))
    of = numpy_dtype(dtype(kind))
    x, y = (RNG.integers(-4, 5, shape).astype(of) for shape in ((m, d), (d, n)))
    z = np.empty((m, n), of)
    f(x, y, z)
    assert np.array_equal(z.astype("f8"), x.astype("f8") @ y.astype("f8"))


def test_float16_dot_adds_in_float32():
    """Statement 63: fp16 dot."""
    a, b, c = buffer("A", 64, kind="float16"), buffer("B", 64, kind="float16"), buffer("C", 1)
    zero = ir.IntImm(0)
    f = compiled("dot", (a, b, c), st.Store(c, (zero,), const(0.0, FLOAT32)), loop(
        i, 64, st.Store(c, (zero,), c[0] + cast(a[i], FLOAT32) * cast(b[i], FLOAT32))))
    x, y = RNG.standard_normal((2, 64)).astype(np.float16)
    z = np.empty(1, np.float32)
    f(x, y, z)
    assert z[0] == pytest.approx(np.dot(x.astype("f8"), y.astype("f8")), rel=1e-5)


def test_argmax():
    """Statement 63: two values reduced together."""
    a, at = buffer("A", 100), buffer("at", 1, kind="int32")
    best = buffer("best", 1)
    zero = ir.IntImm(0)
    f = compiled("argmax", (a, at), st.Allocate(best, st.seq(
        st.Store(best, (zero,), const(-np.inf, FLOAT32)), st.Store(at, (zero,), ir.IntImm(-1)),
        loop(i, 100, st.If(ir.LT(best[0], a[i]), st.seq(st.Store(best, (zero,), a[i]), st.Store(at, (zero,), i)))))))
    x, found = RNG.standard_normal(100, np.float32), np.zeros(1, np.int32)
    f(x, found)
    assert found[0] == np.argmax(x)


def test_the_tail_of_a_vector_loop_is_masked():
    """Statement 63: predicates at edges. Bytes behind the arrays are neither read into the result nor written."""
    n = ir.Var("n", size=True)
    a, b = buffer("A", n), buffer("B", n)
    index = ramp(i * 8, 8)
    inside = ir.LT(index, ir.Broadcast(n, 8))
    body = st.If(inside, st.Store(b, (index,), ir.Load(a, (index,)) * ir.Broadcast(const(2.0, FLOAT32), 8)))
    f = compiled("twice", (a, b), loop(i, (n + 7) // 8, body))
    for size in range(20):
        x, y = np.arange(32, dtype=np.float32), np.full(32, -1, np.float32)
        f(x[:size], y[:size])
        assert np.array_equal(y, np.r_[2 * x[:size], np.full(32 - size, -1)])


def test_a_masked_load_at_the_end_of_memory_does_not_fault():
    """The next page may not be read."""
    import mmap

    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    whole = np.frombuffer(pages, np.float32)
    protect(whole.ctypes.data + mmap.PAGESIZE, mmap.PAGESIZE)
    n = ir.Var("n", size=True)
    a, b = buffer("A", n), buffer("B", n)
    index = ramp(i * 16, 16)
    guarded = ir.IfThenElse(ir.LT(index, ir.Broadcast(n, 16)), ir.Load(a, (index,)), ir.Broadcast(const(0.0, FLOAT32), 16))
    f = compiled("copy", (a, b), loop(i, n // 16 + 1, st.If(ir.LT(index, ir.Broadcast(n, 16)), st.Store(b, (index,), guarded))))
    last = whole[mmap.PAGESIZE // 4 - 21:mmap.PAGESIZE // 4]
    last[:] = np.arange(21)
    out = np.zeros(21, np.float32)
    f(last, out)
    assert np.array_equal(out, np.arange(21))


@pytest.mark.parametrize("kind", ["float32", "int8", "float64"])
@pytest.mark.parametrize("count", [2, 3, 7, 8, 9, 14, 16, 28, 33])
def test_every_second_element_is_read_in_runs(kind, count):
    """From the first to the last: the pages around may not be read."""
    import mmap

    pages = mmap.mmap(-1, 3 * mmap.PAGESIZE)
    of = numpy_dtype(dtype(kind))
    whole = np.frombuffer(pages, of)
    middle = whole[len(whole) // 3:2 * len(whole) // 3]
    middle[:] = RNG.integers(-100, 100, len(middle))
    for address in (whole.ctypes.data, whole.ctypes.data + 2 * mmap.PAGESIZE):
        protect(address, mmap.PAGESIZE)
    a, b = buffer("A", 2 * count - 1, kind=kind), buffer("B", count, kind=kind)
    f = compiled("second", (a, b), st.Store(b, (ramp(0, count),), ir.Load(a, (ramp(0, count, 2),))))
    for x in (middle[:2 * count - 1], middle[1 - 2 * count:]):
        y = np.empty(count, of)
        f(x, y)
        assert np.array_equal(y, x[::2])
    assert "gather" not in f.compiled.optimized


def protect(address, size):
    import ctypes

    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), 0) == 0


def test_a_masked_division_by_zero_does_not_trap():
    a = buffer("A", 8, kind="int32")
    index = ramp(0, 8)
    value = ir.Load(a, (index,))
    zero, hundred = (ir.Broadcast(ir.IntImm(number), 8) for number in (0, 100))
    body = st.If(ir.NE(value, zero), st.Store(a, (index,), ir.FloorDiv(hundred, value)))
    x = np.array([0, 1, -3, 7, 0, 100, -100, 2], np.int32)
    wanted = np.array([0, 100, -34, 14, 0, 1, -1, 50])
    compiled("divide", (a,), body)(x)
    assert np.array_equal(x, wanted)


@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "uint8", "uint64"])
def test_division_never_traps(kind):
    """Statement 63: floordiv and mod of all signs; division by 0 gives some number, and the least integer by -1 wraps."""
    info = np.iinfo(kind)
    x, y = (a.ravel() for a in np.meshgrid(*[np.array([info.min, info.max, 0, 1, 7, 8, info.max - 1], kind)] * 2))
    if info.min:
        x, y = np.r_[x, x, -x], np.r_[y, -y, y]
    for node, exact in (
        (ir.FloorDiv, lambda p, q: p // q), (ir.FloorMod, lambda p, q: p % q), (ir.TruncDiv, _truncated),
        (ir.TruncMod, lambda p, q: p - q * _truncated(p, q)),
    ):
        n = len(x)
        a, b, c = (buffer(name, n, kind=kind) for name in "ABC")
        out = np.empty_like(x)
        compiled("divide", (a, b, c), loop(i, n, st.Store(c, (i,), node(a[i], b[i]))))(x, y, out)
        cases = zip(x.tolist(), y.tolist(), out.tolist(), strict=True)
        wrong = [(p, q, got) for p, q, got in cases if q and got != wrapped(exact(p, q), dtype(kind))]
        assert wrong == [], node.__name__


def _truncated(p, q):
    return abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("make", ["left", "right", "infinity", "nan"])
def test_what_has_no_meaning_is_some_number(make, kind):
    """Shifts by more than the type's bits, numbers beyond a type: one number wherever it is used, and nothing goes astray."""
    a, b = buffer("A", 4, kind=kind), buffer("B", 4, kind=kind)
    if make in ("left", "right"):
        value = (ir.ShiftLeft if make == "left" else ir.ShiftRight)(a[i], const(100, kind))
    else:
        value = cast(const(float(make), FLOAT32) + const(0.0, FLOAT32), kind)
    same = ir.Select(ir.EQ(value, value), const(3, kind), const(4, kind))
    x, found = np.ones(4, kind), np.full(4, 7, kind)
    compiled("odd", (a, b), loop(i, 4, st.Store(b, (i,), value - value + same)))(x, found)
    assert found.tolist() == [3] * 4


def test_bools_take_a_byte():
    """Statement 63: bool storage; any byte but 0 is true."""
    got = applied(elementwise(lambda a: ir.Not(a), "bool", lanes=8), np.array([2, 0, 1, 255, 0, 0, 3, 1], np.uint8).view(bool))
    assert np.array_equal(got.view(np.uint8), [0, 1, 0, 0, 1, 1, 0, 0])


def test_while_let_and_an_attribute():
    a = buffer("A", 1, kind="int32")
    x = ir.Var("x")
    zero = ir.IntImm(0)
    body = st.While(ir.LT(a[0], ir.IntImm(100)), st.LetStmt(x, a[0] * 2, st.Attr("note", None, 1, st.Store(a, (zero,), x + 1))))
    found = np.zeros(1, np.int32)
    compiled("grow", (a,), body)(found)
    assert found[0] == 127


@pytest.mark.parametrize("size", [16, 1 << 20])
def test_allocations_on_the_stack_and_the_heap_are_aligned(size):
    a, t = buffer("A", size), buffer("T", size)
    f = compiled("through", (a,), st.Allocate(t, st.seq(
        loop(i, size // 16, st.Store(t, (ramp(i * 16, 16),), ir.Load(a, (ramp(i * 16, 16),)))),
        loop(i, size, st.Store(a, (i,), t[size - 1 - i])))))
    x = np.arange(size, dtype=np.float32)
    f(x)
    assert np.array_equal(x, np.arange(size)[::-1])
    assert ("malloc" in f.compiled.outside) == (size > 16)


def test_an_allocation_of_symbolic_size():
    n = ir.Var("n", size=True)
    a, t = buffer("A", n), buffer("T", n * 2)
    f = compiled("twice", (a,), st.Allocate(t, st.seq(
        loop(i, n * 2, st.Store(t, (i,), cast(i, FLOAT32))), loop(i, n, st.Store(a, (i,), t[i * 2])))))
    x = np.zeros(1000, np.float32)
    f(x)
    assert np.array_equal(x, 2 * np.arange(1000))


def test_memory_that_runs_out_is_an_error():
    n = ir.Var("n", INT64, size=True)
    a, t = buffer("A", 1), buffer("T", n)
    f = compiled("huge", (n, a), st.Allocate(t, st.seq(
        loop(i, n, st.Store(t, (i,), a[0])), loop(i, n, st.Store(a, (ir.IntImm(0),), a[0] + t[n - 1 - i])))))
    f(10, np.zeros(1, np.float32))
    for size in (1 << 60, 1 << 62, (1 << 62) + 1, (1 << 63) - 1):  # the bytes of the second wrap to none
        with pytest.raises(MemoryError, match=r"^huge could not allocate a buffer$"):
            f(size, np.zeros(1, np.float32))


def test_indices_beyond_32_bits_do_not_wrap():
    """Pitfall 4: loop variables of 32 bits, an index beyond them."""
    n = ir.Var("n", size=True)
    a = buffer("A", n)
    f = compiled("address", (a, ir.Var("unused")), loop(i, n, st.Store(a, (i,), const(1.0, FLOAT32))))
    assert "sext" not in f.compiled.text
    far = compiled("far", (buf := buffer("B", 1, kind="int64"),), loop(i, 3, st.Store(
        buf, (ir.IntImm(0),), cast(i, INT64) * const(1 << 31, INT64))))
    found = np.zeros(1, np.int64)
    far(found)
    assert found[0] == 2 << 31


def test_a_parallel_loop_gives_what_a_serial_one_does():
    """Statement 63: parallel loops, with captured sizes, scalars, vectors and buffers, and a parallel loop within."""
    n, scale = ir.Var("n", size=True), ir.Var("scale", FLOAT32)
    a, b, t = buffer("A", n), buffer("B", n), buffer("T", 4)
    v = ir.Var("v", FLOAT32.with_lanes(4))
    at = ramp(i * 4, 4)
    par = st.LoopKind.PARALLEL
    body = st.LetStmt(v, ir.Broadcast(scale, 4), loop(i, n // 4, st.Allocate(t, st.seq(
        st.Store(t, (ramp(0, 4),), ir.Load(a, (at,)) * v),
        loop(j, 4, st.Store(b, (i * 4 + j,), t[j]), kind=par))), kind=par))
    f = compiled("scaled", (a, b, scale), body)
    assert f.compiled.parallel
    x, y = RNG.standard_normal(1000, np.float32), np.empty(1000, np.float32)
    f(x, y, 3.0)
    assert np.array_equal(y, x * np.float32(3))


def test_vectors_of_a_buffer_of_vectors():
    a, b = buffer("A", 6, kind="float32x4"), buffer("B", 6, kind="float32x4")
    whole = compiled("copy", (a, b), loop(i, 6, st.Store(b, (i,), ir.Load(a, (5 - i,)))))
    x, y = RNG.standard_normal((6, 4), np.float32), np.empty((6, 4), np.float32)
    whole(x, y)
    assert np.array_equal(y, x[::-1])


def test_the_code_for_a_schedule_is_what_the_schedule_says():
    """Vectors of 512 bits stay that wide, and a sum over k stays in a register."""
    target = Target("x86_64-unknown-linux-gnu", "x86-64-v4", ("-prefer-256-bit",))
    f = elementwise(lambda a: math_call("sqrt", a), lanes=16, target=target)
    assert "vsqrtps" in f.compiled.assembly
    assert "%zmm" in f.compiled.assembly
    assert "fsqrt" not in f.compiled.optimized
    assert "llvm.sqrt.v16f32" in f.compiled.optimized


@pytest.mark.parametrize(("copies", "fixed"), [(100, 0), (4000, 2)])
def test_llvm_moves_nothing_out_of_loops_of_thousands_of_values(copies, fixed):
    """The long loop and the one around it; LLVM took 20 s for those of 4,000 copies of a matmul's body."""
    a, b = buffer("A", copies + 64), buffer("B", 64)
    body = [st.Store(b, (i,), b[i] + a[i + number] * 0.5) for number in range(copies)]
    f = compiled("f", (a, b), loop(j, 1, loop(i, 64, *body)))
    assert f.compiled.text.count(", !llvm.loop !") == f.compiled.text.count("= distinct !{!") == fixed
    x, y = np.arange(copies + 64, dtype=np.float32), np.zeros(64, np.float32)
    f(x, y)
    assert np.array_equal(y, [x[first:first + copies].sum() * 0.5 for first in range(64)])
