"""Micro-kernels and dot products of bytes: every way that a processor has them, against NumPy."""

import re

import ml_dtypes
import numpy as np
import pytest
from codegen_cases import HERE, buffer, compiled, ramp
from codegen_cases import LEVELS as TARGETS
from codegen_machines import AARCH64, in_c, in_wasm
from support import raises

from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.dtypes import dtype
from vtakit.runtime.cpu.function import build

INSTRUCTION = {"avx2": "vfmadd", "avx2-vnni": "vpdpbusd", "avx512": "%zmm", "avx512-vnni": "vpdpbusd"}
BYTES = ["gemm_u8s8s32", "gemm_s8s8s32"]
KINDS = ["gemm_f32", "gemm_bf16", *BYTES]


def gemm(kind, m, n, k, *more):
    """A function of one micro-kernel: (A, B, C) of the given tile; `more` are the elements between rows, and whether C is 0."""
    types, wide = {"gemm_f32": (("float32",) * 3, 1), "gemm_bf16": (("bfloat16", "bfloat16", "float32"), 2)}.get(
        kind, (("uint8" if kind == "gemm_u8s8s32" else "int8", "int8", "int32"), 4))
    apart = more or (k * wide, n * wide, n)
    sizes = m * apart[0], k * apart[1], m * apart[2]
    a, b, c = (buffer(name, size, kind=each) for name, size, each in zip("ABC", sizes, types, strict=True))
    call = effect(kind, a.access_ptr("r"), b.access_ptr("r"), c.access_ptr("rw"), m, n, k, *apart)
    return st.Function("tile", (a, b, c), st.Evaluate(call))


def gemm_case(kind, m, n, k):
    """(arguments, the result by NumPy)."""
    rng = np.random.default_rng(m * n + k)
    if kind == "gemm_f32":
        a, b, c = (rng.standard_normal(shape, np.float32) for shape in ((m, k), (k, n), (m, n)))
        return [a.ravel(), b.ravel(), c.ravel().copy()], (c + a @ b).ravel()
    if kind == "gemm_bf16":
        a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k, 2), (k, n, 2)))
        c = rng.standard_normal((m, n), np.float32)
        wanted = c + np.einsum("mkq,knq->mn", a.astype(np.float32), b.astype(np.float32))
        return [a.ravel(), b.ravel(), c.ravel().copy()], wanted.ravel()
    first = 0 if kind == "gemm_u8s8s32" else -128
    a = rng.integers(first, first + 256, (m, k, 4)).astype(np.int8 if first else np.uint8)
    b = rng.integers(-128, 128, (k, n, 4), np.int8)
    c = rng.integers(-1000, 1000, (m, n), np.int32)
    wanted = c + np.einsum("mkq,knq->mn", a.astype(np.int32), b.astype(np.int32))
    return [a.ravel(), b.ravel(), c.ravel().copy()], wanted.ravel()


def close(kind, got, wanted):
    return np.array_equal(got, wanted) if kind in BYTES else np.allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 8, 17), (1, 16, 1), (2, 19, 5), (3, 3, 0)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", HERE)
def test_micro_kernels_on_every_level_of_x86(target, kind, shape):
    args, wanted = gemm_case(kind, *shape)
    build(gemm(kind, *shape), TARGETS[target])(*args)
    assert close(kind, args[2], wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", HERE)
def test_extremes_and_sums_that_wrap(target, kind):
    """Bytes for which an instruction that saturates would; more steps than int32 has room for products of them."""
    m, n, k = 2, 16, 35
    args, _ = gemm_case(kind, m, n, k)
    if kind in BYTES:
        a, b, c = args
        a[...], b[...], c[...] = np.iinfo(a.dtype).max, -128, -2**31 + 5
        a.reshape(m, -1)[1] = np.iinfo(a.dtype).min
        b.reshape(k, n, 4)[:, ::3] = 127
        exact = np.einsum("mkq,knq->mn", a.reshape(m, k, 4).astype(object), b.reshape(k, n, 4).astype(object)) + (-2**31 + 5)
        wanted = np.array([(int(value) + 2**31) % 2**32 - 2**31 for value in exact.ravel()], np.int32)
        build(gemm(kind, m, n, k), TARGETS[target])(*args)
        assert np.array_equal(c, wanted)
    else:
        args[0][3] = np.nan
        args[1].reshape(k, n, -1)[4, 5] = np.inf
        build(gemm(kind, m, n, k), TARGETS[target])(*args)
        found = args[2].reshape(m, n)
        assert np.isnan(found[0]).all()
        assert not np.isfinite(found[1, 5])
        assert np.isfinite(np.delete(found[1], 5)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", HERE)
def test_sums_that_begin_at_0_do_not_read_the_result(target, kind):
    args, wanted = gemm_case(kind, 2, 16, 6)
    wanted = wanted - args[2]
    args[2][...] = np.nan if args[2].dtype == np.float32 else 2**31 - 1
    wide = {"gemm_f32": 1, "gemm_bf16": 2}.get(kind, 4)
    build(gemm(kind, 2, 16, 6, 6 * wide, 16 * wide, 16, 1), TARGETS[target])(*args)
    assert close(kind, args[2], wanted)


@pytest.mark.parametrize("target", INSTRUCTION)
def test_micro_kernels_are_the_instructions_meant_for_them(target):
    kind = "gemm_u8s8s32" if "vnni" in target else "gemm_f32"
    text = compile_for(gemm(kind, 4, 16, 8), TARGETS[target]).assembly
    assert INSTRUCTION[target] in text
    assert "vpdpbusd" in text or "vnni" not in target


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("features", [(), ("+dotprod",), ("+i8mm", "+dotprod")], ids=["plain", "dotprod", "i8mm"])
def test_micro_kernels_on_aarch64(kind, features, tmp_path):
    args, wanted = gemm_case(kind, 4, 8, 9)
    in_c(Target("aarch64-linux-gnu", features=features, threads=False), AARCH64, tmp_path)(gemm(kind, 4, 8, 9), args)
    assert close(kind, args[2], wanted)


@pytest.mark.parametrize(("features", "kind", "wanted"), [
    (("+i8mm",), "gemm_u8s8s32", {"usdot"}), (("+dotprod",), "gemm_u8s8s32", {"udot"}), (("+dotprod",), "gemm_s8s8s32", {"sdot"}),
    (("+i8mm", "+dotprod"), "gemm_s8s8s32", {"sdot"}), ((), "gemm_s8s8s32", set()),
])
def test_aarch64_uses_its_dot_products(features, kind, wanted):
    target = Target("aarch64-linux-gnu", features=features, threads=False)
    text = compile_for(gemm(kind, 2, 8, 4), target).assembly
    assert {word for word in re.findall(r"\w+", text) if word in ("usdot", "udot", "sdot")} == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_micro_kernels_in_webassembly(kind, tmp_path):
    args, wanted = gemm_case(kind, 2, 8, 9)
    in_wasm(Target("wasm32-unknown-unknown", features=("+simd128",), threads=False), tmp_path)(gemm(kind, 2, 8, 9), args)
    assert close(kind, args[2], wanted)


@pytest.mark.parametrize("lanes", [1, 4, 8, 16, 5])
@pytest.mark.parametrize("target", HERE)
def test_dot_products_of_bytes_do_not_saturate(target, lanes):
    """Statement 63: int8 dot."""
    a, b, c = buffer("A", 4 * lanes, kind="uint8"), buffer("B", 4 * lanes, kind="int8"), buffer("C", lanes, kind="int32")
    at: ir.Expr = ramp(0, lanes) if lanes > 1 else ir.IntImm(0)
    bytes_at = ramp(0, 4 * lanes)
    value = ir.Call(dtype("int32").with_lanes(lanes), "dot4_u8s8",
                    (ir.Load(c, (at,)), ir.Load(a, (bytes_at,)), ir.Load(b, (bytes_at,))))
    f = compiled("dot", (a, b, c), st.Store(c, (at,), value), target=TARGETS[target])
    x, y, z = np.full(4 * lanes, 255, np.uint8), np.full(4 * lanes, -128, np.int8), np.arange(lanes, dtype=np.int32)
    y[::3] = 127
    wanted = z + (x.astype(np.int32) * y).reshape(lanes, 4).sum(1)
    f(x, y, z)
    assert np.array_equal(z, wanted)


def test_a_tile_larger_than_the_registers_is_refused():
    with raises(CodegenError, "gemm_f32 of a tile of 14 x 48 needs 46 vector registers and x86_64-unknown-linux-gnu x86-64-v4 "
                              "has 32: use fewer rows or columns (a vector has 16 lanes of 32 bits)"):
        compile_for(gemm("gemm_f32", 14, 48, 4), TARGETS["avx512"])


def test_a_tile_of_unknown_size_is_refused():
    n = ir.Var("n", size=True)
    a = buffer("A", n)
    call = effect("gemm_f32", *[a.access_ptr("rw")] * 3, n, 4, 4, 4, 4, 4)
    with raises(CodegenError, "gemm_f32 of a tile of n x 4: both must be constants of at least 1"):
        compile_for(st.Function("f", (a,), st.Evaluate(call)))


def test_wrong_arguments_of_intrinsics_are_refused():
    a = buffer("A", 4, kind="int8")
    bytes_ = ir.Load(a, (ramp(0, 4),))
    with raises(CodegenError, "dot4_u8s8(0, A[ramp(0, 1, 4)], A[ramp(0, 1, 4)]) has int32, int8x4, int8x4: dot4_u8s8 takes an "
                              "int32xN, a uint8x(4N) and an int8x(4N)"):
        compile_for(st.Function("f", (a,), st.Evaluate(ir.Call(dtype("int32"), "dot4_u8s8", (ir.IntImm(0), bytes_, bytes_)))))
    with raises(CodegenError, "gemm_f32(address_of(A[0], 0, 'r')) has 1 arguments: gemm_f32 takes a, b, c, m, n, k, "
                              "lda, ldb, ldc"):
        compile_for(st.Function("f", (a,), st.Evaluate(effect("gemm_f32", a.access_ptr("r")))))
