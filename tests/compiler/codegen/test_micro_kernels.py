"""Micro-kernels through tensorize: on each level of x86 against NumPy and the interpreter, with strides, edges, refused."""

import re

import ml_dtypes
import numpy as np
import pytest
from codegen_cases import HERE
from codegen_cases import LEVELS as TARGETS
from support import raises

import vtakit
from vtakit import te
from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import micro_kernels as mk
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.lower import LowerError, lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.passes import lower_late

INSTRUCTIONS = {  # a kernel -> the instruction that multiplies on each level, and its registers
    "gemm_f32": {
        "plain": "mulps xmm", **dict.fromkeys(("avx2", "avx2-vnni"), "vfmadd ymm"),
        **dict.fromkeys(("avx512", "avx512-vnni", "avx512-bf16", "amx"), "vfmadd zmm"),
    },
    "gemm_bf16": {
        "plain": "mulps xmm", **dict.fromkeys(("avx2", "avx2-vnni"), "vfmadd ymm"),
        **dict.fromkeys(("avx512", "avx512-vnni"), "vfmadd zmm"), "avx512-bf16": "vdpbf16ps zmm", "amx": "tdpbf16ps tmm",
    },
    "gemm_u8s8s32": {
        "plain": "pmaddwd xmm", "avx2": "vpmaddwd ymm", "avx2-vnni": "vpdpbusd ymm",
        **dict.fromkeys(("avx512", "avx512-bf16"), "vpmaddwd zmm"), "avx512-vnni": "vpdpbusd zmm", "amx": "tdpbusd tmm",
    },
}
INSTRUCTIONS["gemm_s8s8s32"] = {**INSTRUCTIONS["gemm_u8s8s32"], "amx": "tdpbssd tmm"}
ORDERS = {"sums in registers": (0, 1, 2), "reduction outermost": (2, 0, 1)}


def matmul_f32(m, n, depth):
    A, B = te.placeholder((m, depth), name="A"), te.placeholder((depth, n), name="B")
    k = te.reduce_axis((0, depth), "k")
    return A, B, te.compute((m, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


def packed(of_a, of_b, of_c, group):
    def matmul(m, n, depth):
        A, B = te.placeholder((m, depth), of_a, name="A"), te.placeholder((depth // group, n, group), of_b, name="B")
        k = te.reduce_axis((0, depth), "k")
        return A, B, te.compute((m, n), lambda i, j: te.sum(
            A[i, k].astype(of_c) * B[k // group, j, k % group].astype(of_c), axis=k), name="C")
    return matmul


MATMULS = {
    "gemm_f32": matmul_f32, "gemm_bf16": packed("bfloat16", "bfloat16", "float32", 2),
    "gemm_u8s8s32": packed("uint8", "int8", "int32", 4), "gemm_s8s8s32": packed("int8", "int8", "int32", 4),
}


def data(kind, m, n, depth):
    """(A, B, A @ B)."""
    rng = np.random.default_rng(m * n + depth)
    if kind == "gemm_f32":
        a, b = rng.standard_normal((m, depth), np.float32), rng.standard_normal((depth, n), np.float32)
        return a, b, a @ b
    if kind == "gemm_bf16":
        a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, depth), (depth // 2, n, 2)))
        return a, b, np.einsum("mkq,knq->mn", a.reshape(m, depth // 2, 2).astype(np.float32), b.astype(np.float32))
    first = 0 if kind == "gemm_u8s8s32" else -128
    a = rng.integers(first, first + 256, (m, depth)).astype(np.int8 if first else np.uint8)
    b = rng.integers(-128, 128, (depth // 4, n, 4), np.int8)
    return a, b, np.einsum("mkq,knq->mn", a.reshape(m, depth // 4, 4).astype(np.int32), b.astype(np.int32))


def assert_same(got, wanted):
    if wanted.dtype == np.float32:
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(got, wanted)


def tiled(kind, target, tiles=(2, 2, 3), steps=8, order=(0, 1, 2)):
    """(shape, arguments, schedule) of a matmul of so many tiles, computed by the micro-kernel for the target."""
    rows, columns = mk.tile(target, kind)
    shape = tiles[0] * rows, tiles[1] * columns, tiles[2] * steps
    A, B, C = MATMULS[kind](*shape)
    s = te.create_schedule(C)
    made = s[C].tile("i", "j", "k", rows, columns, steps)
    s[C].reorder(*[made[at] for at in order])
    s[C].tensorize(made[3], getattr(mk, kind)(steps, target))
    return shape, [A, B, C], s


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("kind", MATMULS)
def test_a_matmul_of_tiles(kind, target, order):
    """Statement 63: micro-kernels. The machine code on each level equals NumPy, and so does the interpreter."""
    shape, args, s = tiled(kind, TARGETS[target], order=order)
    a, b, wanted = data(kind, *shape)
    got = np.full_like(wanted, 77)
    vtakit.build(s, args, TARGETS[target])(a, b, got)
    assert_same(got, wanted)
    got = np.full_like(wanted, 77)
    interpret(lower(s, args), [a, b, got], packed=mk.MEANING)
    assert_same(got, wanted)


@pytest.mark.parametrize("kind", MATMULS)
def test_a_reduction_of_one_tile_needs_no_loop_around(kind):
    shape, args, s = tiled(kind, Target.host(), (1, 2, 1))
    a, b, wanted = data(kind, *shape)
    got = np.full_like(wanted, 77)
    vtakit.build(s, args)(a, b, got)
    assert_same(got, wanted)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", MATMULS)
def test_the_instruction_is_chosen_by_feature(kind, target):
    """An older processor of the same architecture gets portable code from the same record."""
    _, args, s = tiled(kind, TARGETS[target])
    text = compile_for(lower_late(lower(s, args)), TARGETS[target]).assembly
    wanted, registers = INSTRUCTIONS[kind][target].split()
    known = {line.split()[0] for level in INSTRUCTIONS.values() for line in level.values()}
    made = {name for line in text.splitlines() if f"%{registers}" in line
            for name in known if re.match(rf"\t(?:{{vex}}\s)?{name}(\d*ps)?\t", line)}
    assert made == {wanted}


def test_a_tile_fills_the_registers():
    """Sums, the vectors of a row and one element: 24 + 4 + 1 of 32, 12 + 2 + 1 of 16."""
    shapes = {name: mk.tile(target) for name, target in TARGETS.items()}
    wide = dict.fromkeys(("avx512", "avx512-vnni", "avx512-bf16", "amx"), (6, 64))
    assert shapes == {"plain": (6, 8), "avx2": (6, 16), "avx2-vnni": (6, 16), **wide}
    amx = [name for kernel in MATMULS for name, target in TARGETS.items() if mk.tile(target, kernel) != shapes[name]]
    assert amx == ["amx"] * 3  # all but gemm_f32
    assert mk.tile(TARGETS["amx"], "gemm_bf16") == (32, 32)
    assert mk.tile(Target("aarch64-linux-gnu")) == (6, 16)
    assert mk.tile() == mk.tile(Target.host())


@pytest.mark.parametrize("kind", MATMULS)
def test_operands_may_be_parts_of_larger_arrays(kind):
    """Rows any number of elements apart: the strides come with the arguments."""
    shape, (A, B, C), s = tiled(kind, Target.host())
    a, b, wanted = data(kind, *shape)
    binds = {}
    for tensor in (A, B, C):
        inner = [tensor.shape[-1], 1] if tensor.ndim == 3 else [1]
        binds[tensor] = te.decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=[te.var("row"), *inner], data_alignment=0)
    wide = [np.full((array.shape[0], array.shape[1] + 5, *array.shape[2:]), 77, array.dtype) for array in (a, b, wanted)]
    views = [array[:, 3:-2] for array in wide]
    views[0][...], views[1][...] = a, b
    vtakit.build(s, [A, B, C], binds=binds)(*views)
    assert_same(views[2], wanted)
    assert np.all(wide[2][:, :3] == 77)
    assert np.all(wide[2][:, -2:] == 77)


@pytest.mark.parametrize("target", HERE)
def test_edges_are_computed_in_padded_tiles(target):
    """Sizes that no tile divides: whole tiles of operands that are 0 beyond their edges, and a copy of the part that is there."""
    rows, columns = mk.tile(TARGETS[target])
    m, n, depth, steps = 2 * rows - 1, columns + 3, 13, 4

    def up(size, to):
        return -(-size // to) * to
    A, B = te.placeholder((m, depth), name="A"), te.placeholder((depth, n), name="B")
    k = te.reduce_axis((0, up(depth, steps)), "k")

    def padded(tensor, height, width, name):
        inside = tensor.shape
        return te.compute((height, width), lambda i, j: te.if_then_else(
            te.all(i < inside[0], j < inside[1]), tensor[i, j], 0.0), name=name)
    PA = padded(A, up(m, rows), up(depth, steps), "PA")
    PB = padded(B, up(depth, steps), up(n, columns), "PB")
    PC = te.compute((up(m, rows), up(n, columns)), lambda i, j: te.sum(PA[i, k] * PB[k, j], axis=k), name="PC")
    C = te.compute((m, n), lambda i, j: PC[i, j], name="C")
    s = te.create_schedule(C)
    made = s[PC].tile("i", "j", "k", rows, columns, steps)
    s[PC].tensorize(made[3], mk.gemm_f32(steps, TARGETS[target]))
    a, b, wanted = data("gemm_f32", m, n, depth)
    got = np.full_like(wanted, 77)
    vtakit.build(s, [A, B, C], TARGETS[target])(a, b, got)
    assert_same(got, wanted)
    got = np.full_like(wanted, 77)
    interpret(lower(s, [A, B, C]), [a, b, got], packed=mk.MEANING)
    assert_same(got, wanted)


def test_a_condition_around_whole_tiles_stays():
    """24 rows in blocks of four tiles of six hang over in tiles, never within one."""
    target = Target.host()
    rows, columns = mk.tile(target)
    A, B, C = matmul_f32(6 * rows, columns, 8)
    s = te.create_schedule(C)
    outer, inner = s[C].split("i", 4 * rows)
    inner, row = s[C].split(inner, rows)
    s[C].reorder(outer, inner, row, C.op.axis[1], C.op.reduce_axis[0])
    s[C].tensorize(row, mk.gemm_f32(8, target))
    a, b, wanted = data("gemm_f32", 6 * rows, columns, 8)
    got = np.full_like(wanted, 77)
    vtakit.build(s, [A, B, C])(a, b, got)
    assert_same(got, wanted)


@pytest.mark.parametrize("target", HERE)
def test_dot_products_of_four(target):
    """Statement 63: int8 dot. Extreme bytes, which saturate where an instruction is taken that saturates."""
    intrin = mk.dot4_u8s8(TARGETS[target])
    n = 3 * TARGETS[target].vector_bytes // 4
    A, B = te.placeholder((4 * n,), "uint8", name="A"), te.placeholder((4 * n,), "int8", name="B")
    q = te.reduce_axis((0, 4), "q")
    C = te.compute((n,), lambda j: te.sum(A[j * 4 + q].astype("int32") * B[j * 4 + q].astype("int32"), axis=q), name="C")
    s = te.create_schedule(C)
    _, inner = s[C].split(C.op.axis[0], n // 3)
    s[C].tensorize(inner, intrin)
    a, b = np.full(4 * n, 255, np.uint8), np.full(4 * n, -128, np.int8)
    b[::3] = 127
    wanted = (a.astype(np.int32) * b).reshape(n, 4).sum(1, dtype=np.int32)
    function = vtakit.build(s, [A, B, C], TARGETS[target])
    assert ("vpdpbusd" in function.compiled.assembly) is any(TARGETS[target].has(name) for name in ("avxvnni", "avx512vnni"))
    for run in (function, lambda *args: interpret(lower(s, [A, B, C]), args, packed=mk.MEANING)):
        got = np.full_like(wanted, 77)
        run(a, b, got)
        np.testing.assert_array_equal(got, wanted)


def test_columns_that_lie_apart_are_refused():
    target = Target.host()
    rows, columns = mk.tile(target)
    A, B = te.placeholder((rows, 8), name="A"), te.placeholder((8, columns, 2), name="B")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((rows, columns), lambda i, j: te.sum(A[i, k] * B[k, j, 0], axis=k), name="C")
    s = te.create_schedule(C)
    s[C].tensorize(C.op.axis[0], mk.gemm_f32(8, target))
    with pytest.raises(LowerError) as caught:
        lower(s, [A, B, C])
    first, *_, last = str(caught.value).splitlines()
    assert first == (f"tensorize: C's loop i by gemm_f32_{rows}x{columns}x8: the operand b has a stride of 1 in dimension 1, "
                     "but B one of 2")
    assert last == ("hint: declare the operand's buffer with strides that are variables, or keep the tile compact in a cache")


def test_a_tile_that_the_registers_do_not_hold_is_refused():
    A, B, C = matmul_f32(16, 64, 8)
    s = te.create_schedule(C)
    s[C].tensorize(C.op.axis[0], mk.gemm_f32(8, rows=16, columns=64))
    with raises(CodegenError, "gemm_f32 of a tile of 16 x 64 needs 69 vector registers and x86_64-unknown-linux-gnu x86-64-v4 "
                              "has 32: use fewer rows or columns (a vector has 16 lanes of 32 bits)"):
        compile_for(lower_late(lower(s, [A, B, C])), TARGETS["avx512"])


REFUSED = {
    "steps that are no number": (lambda: mk.gemm_f32("x"), "gemm_f32 of 'x' steps: give at least 1"),
    "no steps": (lambda: mk.gemm_f32(0), "gemm_f32 of 0 steps: give at least 1"),
    "no rows": (lambda: mk.gemm_f32(8, rows=0), "gemm_f32 of 0 rows: give at least 1"),
    "no columns": (lambda: mk.gemm_u8s8s32(8, columns=-1), "gemm_u8s8s32 of -1 columns: give at least 1"),
    "steps of a half group": (
        lambda: mk.gemm_u8s8s32(6), "gemm_u8s8s32 of 6 steps: it takes four at a time, so give a multiple of 4"),
    "steps of half a pair": (lambda: mk.gemm_bf16(3), "gemm_bf16 of 3 steps: it takes two at a time, so give a multiple of 2"),
    "no lanes": (lambda: mk.dot4_u8s8(lanes=0), "dot4_u8s8 of 0 lanes: give at least 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sizes_that_do_not_fit_are_refused(name):
    make, message = REFUSED[name]
    with raises(CodegenError, message):
        make()
