"""AMX: sums in tile registers of every shape, permission that the system refuses, setting up before loops, threads, rounding."""

import re
import subprocess
import sys
import textwrap
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from codegen_cases import HERE, LEVELS, buffer, loop
from hypothesis import given, settings
from hypothesis import strategies as some

from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.codegen.llvm.kernels import micro_kernels as mk
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import INT32
from vtakit.runtime.cpu import openmp
from vtakit.runtime.cpu.function import build

AMX = LEVELS["amx"]
RUNS = [name for name in ("avx512", "avx512-bf16", "amx") if name in HERE]
KINDS = {  # types of a, b and c, and elements that a step takes
    "gemm_bf16": ("bfloat16", "bfloat16", "float32", 2), "gemm_u8s8s32": ("uint8", "int8", "int32", 4),
    "gemm_s8s8s32": ("int8", "int8", "int32", 4),
}


def kernel(kind, m, n, k, lda, ldb, ldc, *, repeat=(), fresh=0):
    """A function of one call, in so many loops of (extent, kind) around it."""
    sizes = (m * lda, k * ldb, m * ldc)
    a, b, c = (buffer(name, size, kind=each) for name, size, each in zip("ABC", sizes, KINDS[kind], strict=False))
    pointers = a.access_ptr("r"), b.access_ptr("r"), c.access_ptr("rw")
    body = st.Evaluate(effect(kind, *pointers, m, n, k, lda, ldb, ldc, fresh))
    for depth, (extent, how) in enumerate(repeat):
        body = loop(ir.Var(f"i{depth}"), extent, body, kind=how)
    return st.Function("tile", (a, b, c), body)


def numbers(rng, kind, size):
    """Of a's, b's or c's type; few bits, so that float sums are exact and the same in any order."""
    if kind == "float32":
        return rng.integers(-50, 50, size).astype(np.float32)
    if kind == "bfloat16":
        return (rng.integers(-100, 100, size) / 8).astype(ml_dtypes.bfloat16)
    bounds = np.iinfo(kind)
    found = rng.integers(bounds.min, bounds.max, size, kind, endpoint=True)
    found[rng.random(size) < 0.2] = rng.choice([bounds.min, bounds.max])
    return found


def by_numpy(kind, args, m, n, k, lda, ldb, ldc):
    """What the call makes of c, wrapped or exact."""
    group = KINDS[kind][3]
    wide = np.float64 if kind == "gemm_bf16" else np.int64
    a, b, c = args[0].reshape(m, lda).astype(wide), args[1].reshape(k, ldb).astype(wide), args[2].reshape(m, ldc).copy()
    products = np.einsum("mkq,knq->mn", a[:, :k * group].reshape(m, k, group), b[:, :n * group].reshape(k, n, group))
    c[:, :n] = (c[:, :n].astype(wide) + products).astype(c.dtype)  # NumPy wraps int64 to int32
    return c.ravel()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", RUNS)
def test_any_shape_and_stride(target, kind):
    """Tiles of up to 2 x 2, 1 x 3 and 3 x 1 registers, steps in one product of tiles, in several alike, and with a rest."""
    group = KINDS[kind][3]
    shapes = [(32, 32, 16), (16, 48, 1), (17, 31, 37), (48, 16, 33), (5, 7, 24), (32, 16, 48), (1, 1, 17)]
    for number, (m, n, k) in enumerate(shapes):
        if target != "amx":
            m = min(m, 5)
        rng = np.random.default_rng(number)
        lda, ldb, ldc = k * group + int(rng.integers(9)), n * group + int(rng.integers(9)), n + int(rng.integers(9))
        args = [numbers(rng, each, size) for each, size in zip(KINDS[kind], (m * lda, k * ldb, m * ldc), strict=False)]
        wanted = by_numpy(kind, args, m, n, k, lda, ldb, ldc)
        build(kernel(kind, m, n, k, lda, ldb, ldc), LEVELS[target])(*args)
        np.testing.assert_array_equal(args[2], wanted, err_msg=f"{m} x {n} x {k}")


def test_what_tile_registers_take():
    """Four, or three in a row, with those of the operands; larger tiles are vectors' and must fit them."""
    for m, n, by in ((32, 32, "tdpbssd"), (48, 16, "tdpbssd"), (16, 48, "tdpbssd"), (6, 64, "vpdpbusd")):
        text = compile_for(kernel("gemm_s8s8s32", m, n, 16, 64, 4 * n, n), AMX).assembly
        assert ("tdpbssd" in text) is (by == "tdpbssd")
    for off in ("-amx-tile", "-amx-int8"):
        plain = Target(AMX.triple, AMX.cpu, (*AMX.features, off))
        assert mk.tile(plain, "gemm_s8s8s32") == (6, 64)
        assert "tdpbssd" not in compile_for(kernel("gemm_s8s8s32", 4, 16, 16, 64, 64, 16), plain).assembly
    other = Target("x86_64-unknown-freebsd", AMX.cpu, AMX.features)
    assert "tdpbssd" not in compile_for(kernel("gemm_s8s8s32", 4, 16, 16, 64, 64, 16), other).assembly


SERIAL, PARALLEL = st.LoopKind.SERIAL, st.LoopKind.PARALLEL


def order_of(text, function="tile"):
    """In a function's text: where registers are set up, products, loops' ends, and releases."""
    (body,) = re.findall(rf"define [^@]*@{re.escape(function)}\(.*?^}}", text, flags=re.DOTALL | re.MULTILINE)
    names = {"tiles.set": "set", "llvm.x86.tdp": "product", "tiles.release": "release", "GOMP_parallel": "fork", "@abs": "call"}
    return [what for line in body.splitlines() for name, what in names.items() if name in line and "call" in line], body


def test_registers_are_set_up_once_before_the_loops():
    text = compile_for(kernel("gemm_s8s8s32", 16, 16, 32, 128, 64, 16, repeat=[(7, SERIAL), (9, SERIAL)]), AMX).text
    found, body = order_of(text)
    assert found == ["set", "product", "release"]
    assert body.index("tiles.set") < body.index("for.")


def test_steps_with_a_rest_set_up_twice_for_each():
    text = compile_for(kernel("gemm_s8s8s32", 16, 16, 37, 148, 64, 16, repeat=[(7, SERIAL)]), AMX).text
    found, body = order_of(text)
    assert found == ["set", "product", "set", "product", "release"]
    assert body.index("for.") < body.index("tiles.set")


def test_a_call_of_another_function_ends_what_was_set_up():
    inner = kernel("gemm_s8s8s32", 16, 16, 16, 64, 64, 16, repeat=[(7, SERIAL)])
    called = st.Evaluate(ir.Call(INT32, "abs", (ir.IntImm(-1),), "extern"))
    around = loop(ir.Var("o"), 5, inner.body, called)
    found, body = order_of(compile_for(st.Function("tile", inner.params, around), AMX).text)
    assert found == ["set", "product", "call", "release"]
    assert body.index("for.o") < body.index("tiles.set") < body.index("for.i0")


def test_two_shapes_in_a_loop_are_set_up_each():
    one, two = (kernel("gemm_s8s8s32", m, 16, 16, 64, 64, 16) for m in (16, 8))
    second = st.Evaluate(effect("gemm_s8s8s32", *[p.access_ptr("rw") for p in one.params], 8, 16, 16, 64, 64, 16))
    assert two.body != one.body
    found, _ = order_of(compile_for(st.Function("tile", one.params, loop(ir.Var("i"), 3, one.body, second)), AMX).text)
    assert found == ["set", "product", "set", "product", "release"]


@pytest.mark.parametrize("target", [name for name in RUNS if name == "amx"])
def test_several_threads_each_set_up_their_own(target):
    """A thread whose registers are not set up would end the process."""
    m, n, k, count = 16, 16, 37, 64
    a, b, c = (buffer(name, size, kind=kind) for name, size, kind in (
        ("A", count * m * 4 * k, "int8"), ("B", 4 * k * n, "int8"), ("C", count * m * n, "int32")))
    i = ir.Var("i")
    pointers = a.access_ptr("r", offset=i * (4 * k * m)), b.access_ptr("r"), c.access_ptr("rw", offset=i * (m * n))
    body = st.Evaluate(effect("gemm_s8s8s32", *pointers, m, n, k, 4 * k, 4 * n, n, 1))
    run = build(st.Function("tile", (a, b, c), loop(i, count, body, kind=PARALLEL)), LEVELS[target])
    rng = np.random.default_rng(0)
    x, y = rng.integers(-128, 128, (count, m, 4 * k), np.int8), rng.integers(-128, 128, (k, n, 4), np.int8)
    z = np.zeros((count, m, n), np.int32)
    before = openmp.threads()
    try:
        openmp.set_threads(4)
        for _ in range(20):
            z[...] = 77
            run(x.reshape(-1), y.reshape(-1), z.reshape(-1))
            wanted = np.einsum("cmkq,knq->cmn", x.reshape(count, m, k, 4).astype(np.int32), y.astype(np.int32))
            np.testing.assert_array_equal(z, wanted)
    finally:
        openmp.set_threads(before)


REFUSED = """
    import ctypes, sys
    import numpy as np

    class Stack(ctypes.Structure):
        _fields_ = [("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

    # The kernel permits tile registers only if a thread's stack for signals has room for them.
    memory = ctypes.create_string_buffer(6000)
    libc = ctypes.CDLL(None, use_errno=True)
    if len(sys.argv) > 2:
        assert libc.sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory), 0, 6000)), None) == 0
    tile = ctypes.CDLL(sys.argv[1]).tile
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (32, 37, 4), np.int8), rng.integers(-128, 128, (37, 32, 4), np.int8)
    c = np.zeros((32, 32), np.int32)
    assert tile(*(ctypes.c_void_p(array.ctypes.data) for array in (a, b, c))) == 0
    assert np.array_equal(c, np.einsum("mkq,knq->mn", a.astype(np.int32), b.astype(np.int32)))
    granted = ctypes.c_uint64()
    assert libc.syscall(158, 0x1022, ctypes.byref(granted)) == 0  # ARCH_GET_XCOMP_PERM
    print("permitted" if granted.value >> 18 & 1 else "refused")
"""


@pytest.mark.parametrize("target", [name for name in RUNS if name == "amx"])
@pytest.mark.parametrize("answer", ["permitted", "refused"])
def test_a_library_asks_for_permission_and_does_without(answer, target, tmp_path):
    """In a process that knows nothing of this package."""
    made = compile_for(kernel("gemm_s8s8s32", 32, 32, 37, 148, 128, 32), LEVELS[target])
    made.save_library(tmp_path / "tile.so")
    given = [str(tmp_path / "tile.so"), *(["small"] if answer == "refused" else [])]
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(REFUSED), *given], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{answer}\n", "")


# Rounding.


def rounded(value: Fraction) -> np.float32:
    """To nearest even, and to 0 below the normal numbers."""
    if value == 0:
        return np.float32(0)
    size, exponent = abs(value), -126
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - 23)
    found = float(round(size / unit) * unit)  # Python rounds halves to even
    return np.float32(0 if found < 2.0**-126 else found if value > 0 else -found)


def flushed(values):
    found = values.astype(np.float32)
    return np.where(np.abs(found) < np.float32(2.0**-126), np.float32(0), found)


def fma(a, b, c):
    return rounded(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


def tdpbf16ps(a, b, c):
    """As Intel's reference has it: sums of the first elements and of the second, added, then added to c; subnormals are 0."""
    found, a, b = flushed(c), flushed(a), flushed(b)
    for first in range(0, a.shape[1], 16):
        for i, j in np.ndindex(found.shape):
            sums = [np.float32(0), np.float32(0)]
            for p in range(first, min(first + 16, a.shape[1])):
                sums = [fma(a[i, p, q], b[p, j, q], sums[q]) for q in range(2)]
            found[i, j] = fma(1, fma(1, *sums), found[i, j])
    return found


def vdpbf16ps(a, b, c):
    """As Intel's reference has it: of each pair the second product first; subnormals are 0."""
    found, a, b = flushed(c), flushed(a), flushed(b)
    for p in range(a.shape[1]):
        for i, j in np.ndindex(found.shape):
            for q in (1, 0):
                found[i, j] = fma(a[i, p, q], b[p, j, q], found[i, j])
    return found


def wild(rng, shape, kind):
    """Of all sizes, subnormal ones among them; no infinities."""
    bits = 32 if kind == np.float32 else 16
    whole = rng.integers(0, 2**bits, shape, np.uint64)
    exponents = rng.choice([0, 0, 1, 40, 64, 90, 120, 127, 130, 160], shape).astype(np.uint64)
    kept = (whole & np.uint64((1 << (bits - 1)) | ((1 << (bits - 9)) - 1))) | exponents << np.uint64(bits - 9)
    return kept.astype(f"uint{bits}").view(kind)


@pytest.mark.parametrize(("target", "model"), [
    (name, model) for name, model in (("amx", tdpbf16ps), ("avx512-bf16", vdpbf16ps)) if name in RUNS])
def test_bfloat16_is_rounded_as_the_instruction_is_documented(target, model):
    rng = np.random.default_rng(3)
    m, n, k = 3, 16, 32
    a, b, c = wild(rng, (m, k, 2), ml_dtypes.bfloat16), wild(rng, (k, n, 2), ml_dtypes.bfloat16), wild(rng, (m, n), np.float32)
    wanted = model(a, b, c)
    build(kernel("gemm_bf16", m, n, k, 2 * k, 2 * n, n), LEVELS[target])(a.ravel(), b.ravel(), c.reshape(-1))
    np.testing.assert_array_equal(c.view(np.uint32) & np.uint32(0x7FFFFFFF), wanted.view(np.uint32) & np.uint32(0x7FFFFFFF))
    np.testing.assert_array_equal(c, wanted)


def within(found, a, b, c):
    """Whether each result is within the bound that `gemm_bf16` states."""
    steps = 2 * a.shape[1]
    u = Fraction(steps + 1, 2**24)
    exact = [[[Fraction(float(value)) for value in line] for line in array.reshape(array.shape[0], -1)] for array in (a, b, c)]
    for i, j in np.ndindex(found.shape):
        x = exact[0][i]
        y = [exact[1][p // 2][2 * j + p % 2] for p in range(steps)]
        size = abs(exact[2][i][j]) + sum(abs(s * t) for s, t in zip(x, y, strict=True))
        allowed = u / (1 - u) * size + Fraction(2)**-126 * (3 * steps + 2 + sum(map(abs, x + y)))
        wanted = exact[2][i][j] + sum(s * t for s, t in zip(x, y, strict=True))
        if abs(Fraction(float(found[i, j])) - wanted) > allowed:
            return False
    return True


@pytest.mark.parametrize("target", ["portable", *HERE])
@settings(max_examples=8, deadline=None)
@given(seed=some.integers(0, 2**32 - 1), k=some.integers(1, 40))
def test_bfloat16_is_within_the_bound_stated(target, seed, k):
    """On every level, and by the interpreter's meaning."""
    rng = np.random.default_rng(seed)
    m, n = 2, 4
    a, b, c = wild(rng, (m, k, 2), ml_dtypes.bfloat16), wild(rng, (k, n, 2), ml_dtypes.bfloat16), wild(rng, (m, n), np.float32)
    found = c.copy()
    args = a.ravel(), b.ravel(), found.reshape(-1)
    if target == "portable":
        mk.MEANING["gemm_bf16"](*args, m, n, k, 2 * k, 2 * n, n)
    else:
        build(kernel("gemm_bf16", m, n, k, 2 * k, 2 * n, n), LEVELS[target])(*args)
    assert within(found, a, b, c)


def test_the_bound_is_not_wide():
    """One bit of bfloat16, as where a sum were kept in it, is too much."""
    rng = np.random.default_rng(5)
    a, b, c = wild(rng, (2, 9, 2), ml_dtypes.bfloat16), wild(rng, (9, 4, 2), ml_dtypes.bfloat16), np.zeros((2, 4), np.float32)
    exact = np.einsum("mkq,knq->mn", a.astype(np.float64), b.astype(np.float64))
    assert within(exact, a, b, c)
    assert not within(exact * (1 + 2**-8), a, b, c)


@pytest.mark.parametrize("target", ["portable", *HERE])
def test_infinities_and_nan(target):
    inf, nan = np.inf, np.nan
    a = np.array([[1, inf], [0, inf], [inf, inf], [1, nan], [-1, 1]], ml_dtypes.bfloat16)
    b = np.tile(np.array([1, 1], ml_dtypes.bfloat16), (1, 16, 1)).reshape(1, 16, 2)
    b[0, 1], b[0, 2] = [1, 0], [1, -inf]
    c = np.zeros((5, 16), np.float32)
    c[:, 3] = -inf
    with np.errstate(all="ignore"):
        wanted = c + np.einsum("mq,nq->mn", a.astype(np.float32), b[0].astype(np.float32))
    args = a.ravel(), b.ravel(), c.reshape(-1)
    if target == "portable":
        mk.MEANING["gemm_bf16"](*args, 5, 16, 1, 2, 32, 16)
    else:
        for first in range(5):  # a row at a time: five rows of 16 do not fit every level's registers
            build(kernel("gemm_bf16", 1, 16, 1, 2, 32, 16), LEVELS[target])(a[first], args[1], c[first])
    np.testing.assert_array_equal(c, wanted)
