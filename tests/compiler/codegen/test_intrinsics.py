"""Micro-kernels and dot products of bytes: every way that a processor has them, against NumPy."""

import numpy as np
import pytest
from codegen_cases import buffer, compiled, ramp
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

X86 = "x86_64-unknown-linux-gnu"
TARGETS = {
    "plain": Target(X86, "x86-64"),
    "avx2": Target(X86, "x86-64-v3"),
    "avx2-vnni": Target(X86, "x86-64-v3", ("+avxvnni",)),
    "avx512": Target(X86, "x86-64-v4", ("-prefer-256-bit",)),
    "avx512-vnni": Target(X86, "x86-64-v4", ("+avx512vnni", "-prefer-256-bit")),
}
INSTRUCTION = {"avx2": "vfmadd", "avx2-vnni": "vpdpbusd", "avx512": "%zmm", "avx512-vnni": "vpdpbusd"}


def gemm(kind, m, n, k):
    """A function of one micro-kernel: (A, B, C) of the given tile."""
    wide = 4 if kind == "gemm_u8s8s32" else 1
    types = ("uint8", "int8", "int32") if wide == 4 else ("float32",) * 3
    a = buffer("A", m * k * wide, kind=types[0])
    b = buffer("B", k * n * wide, kind=types[1])
    c = buffer("C", m * n, kind=types[2])
    call = effect(kind, a.access_ptr("r"), b.access_ptr("r"), c.access_ptr("rw"), m, n, k, k * wide, n * wide, n)
    return st.Function("tile", (a, b, c), st.Evaluate(call))


def gemm_case(kind, m, n, k):
    """(arguments, the result by NumPy)."""
    rng = np.random.default_rng(m * n + k)
    if kind == "gemm_f32":
        a, b, c = (rng.standard_normal(shape, np.float32) for shape in ((m, k), (k, n), (m, n)))
        return [a.ravel(), b.ravel(), c.ravel().copy()], (c + a @ b).ravel()
    a = rng.integers(0, 256, (m, k, 4), np.uint8)
    b = rng.integers(-128, 128, (k, n, 4), np.int8)
    c = rng.integers(-1000, 1000, (m, n), np.int32)
    wanted = c + np.einsum("mkq,knq->mn", a.astype(np.int32), b.astype(np.int32))
    return [a.ravel(), b.ravel(), c.ravel().copy()], wanted.ravel()


def close(kind, got, wanted):
    return np.allclose(got, wanted, rtol=1e-5, atol=1e-5) if kind == "gemm_f32" else np.array_equal(got, wanted)


@pytest.mark.parametrize("shape", [(4, 8, 17), (1, 16, 1), (2, 19, 5), (3, 3, 0)])
@pytest.mark.parametrize("kind", ["gemm_f32", "gemm_u8s8s32"])
@pytest.mark.parametrize("target", TARGETS)
def test_micro_kernels_on_every_level_of_x86(target, kind, shape):
    args, wanted = gemm_case(kind, *shape)
    build(gemm(kind, *shape), TARGETS[target])(*args)
    assert close(kind, args[2], wanted)


@pytest.mark.parametrize("target", INSTRUCTION)
def test_micro_kernels_are_the_instructions_meant_for_them(target):
    kind = "gemm_u8s8s32" if "vnni" in target else "gemm_f32"
    text = compile_for(gemm(kind, 4, 16, 8), TARGETS[target]).assembly
    assert INSTRUCTION[target] in text
    assert "vpdpbusd" in text or "vnni" not in target


@pytest.mark.parametrize("kind", ["gemm_f32", "gemm_u8s8s32"])
@pytest.mark.parametrize("features", [(), ("+i8mm", "+dotprod")], ids=["plain", "i8mm"])
def test_micro_kernels_on_aarch64(kind, features, tmp_path):
    args, wanted = gemm_case(kind, 4, 8, 9)
    in_c(Target("aarch64-linux-gnu", features=features, threads=False), AARCH64, tmp_path)(gemm(kind, 4, 8, 9), args)
    assert close(kind, args[2], wanted)


def test_aarch64_uses_its_dot_product():
    target = Target("aarch64-linux-gnu", features=("+i8mm",), threads=False)
    assert "usdot" in compile_for(gemm("gemm_u8s8s32", 2, 8, 4), target).assembly


@pytest.mark.parametrize("kind", ["gemm_f32", "gemm_u8s8s32"])
def test_micro_kernels_in_webassembly(kind, tmp_path):
    args, wanted = gemm_case(kind, 2, 8, 9)
    in_wasm(Target("wasm32-unknown-unknown", features=("+simd128",), threads=False), tmp_path)(gemm(kind, 2, 8, 9), args)
    assert close(kind, args[2], wanted)


@pytest.mark.parametrize("lanes", [1, 4, 8, 16, 5])
@pytest.mark.parametrize("target", TARGETS)
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
