"""The micro-kernels of a CPU as tensor intrinsics, for `Stage.tensorize`, and their meaning for the interpreter.

A record holds for every target: its code is a call that `intrinsics` makes instructions of, by the target's features, and
portable code where there are none. What the target decides here is the size of the tile, that its sums fill the registers.
`MEANING` is what the calls do, in Python: ``interpret(function, args, packed=MEANING)``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import amx
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.intrin.tensor_intrin import TensorIntrin, decl_tensor_intrin, hardware_intrin
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Broadcast, Call, Expr, Load, Ramp, Var
from vtakit.compiler.ir.stmt import Evaluate, For, Stmt, Store
from vtakit.compiler.ir.values import const, wrap
from vtakit.compiler.te.compose import decl_buffer
from vtakit.compiler.te.language import compute, placeholder, reduce_axis, var
from vtakit.compiler.te.reduce import sum as sum_of
from vtakit.compiler.te.tensor import Tensor


def tile(target: Target | None = None, kernel: str = "gemm_f32") -> tuple[int, int]:
    """Rows and columns of 32-bit sums that fill a target's registers for a kernel; this machine's by default.

    Of vectors, a step takes a load for each row and for each vector of columns, and room for those vectors and one element. Six
    rows of four vectors are 10 loads for 24 multiply-adds in 32 registers, six of two are 8 for 12 in 16; tiles with fewer loads
    (5 x 5 and 4 x 3 vectors) have numbers of columns that divide few sizes. Of eight tile registers of 16 x 16, four have sums,
    and each operand is loaded once for two products.
    """
    chosen = target or Target.host()
    if amx.has(chosen, kernel):
        return 2 * amx.ROWS, 2 * amx.ROWS
    there, lanes = chosen.vector_registers, chosen.vector_bytes // 4
    vectors = 4 if there == 32 else 2
    return (there - vectors - 1) // vectors, vectors * lanes


def gemm_f32(
    steps: int, target: Target | None = None, *, rows: int | None = None, columns: int | None = None
) -> TensorIntrin:
    """``c[i, j] += a[i, p] * b[p, j]`` over `steps` values of p; a product and its sum are rounded once where the target can.

    a  float32  [rows, steps]      c  float32  [rows, columns]      rows of all three are any number of elements apart
    b  float32  [steps, columns]   by default `tile` says how many rows and columns

    Raises CodegenError for sizes below 1; a tile that the registers do not hold is refused when code is made.
    """
    m, n = _sizes("gemm_f32", target, rows, columns, steps)
    a, b = placeholder((m, steps), name="a"), placeholder((steps, n), name="b")
    p = reduce_axis((0, steps), "p")
    c = compute((m, n), lambda i, j: sum_of(a[i, p] * b[p, j], axis=p), name="c")
    strides = {a: [var("lda"), 1], b: [var("ldb"), 1], c: [var("ldc"), 1]}
    return _gemm("gemm_f32", c, strides, (m, n, steps), steps)


def gemm_bf16(
    steps: int, target: Target | None = None, *, rows: int | None = None, columns: int | None = None
) -> TensorIntrin:
    """``c[i, j] += a[i, p] * b[p // 2, j, p % 2]`` over `steps` values of p, an even number: bfloat16 into float32.

    a  bfloat16  [rows, steps]                c  float32  [rows, columns]    rows of all three are any number of elements apart
    b  bfloat16  [steps / 2, columns, 2]      by default `tile` says how many rows and columns

    A product of two bfloat16 is exact in float32; each sum is rounded to nearest even. In which order there are sums is not said,
    and subnormal numbers, given or found, may count as 0: TDPBF16PS (amx-bf16) and VDPBF16PS (avx512bf16 alone) do that, portable
    code does not. With M the sum of the sizes of c and of all products, and no overflow, a result is off by at most ::

        (steps + 1) * 2**-24 / (1 - (steps + 1) * 2**-24) * M  +  2**-126 * (3 * steps + 2 + sum over p of |a[i, p]| + |b[p, j]|)

    Raises CodegenError for sizes that do not fit.
    """
    m, n = _sizes("gemm_bf16", target, rows, columns, steps)
    _whole("gemm_bf16", steps, 2, "two")
    a, b = placeholder((m, steps), "bfloat16", name="a"), placeholder((steps // 2, n, 2), "bfloat16", name="b")
    p = reduce_axis((0, steps), "p")
    c = compute((m, n), lambda i, j: sum_of(a[i, p].astype("float32") * b[p // 2, j, p % 2].astype("float32"), axis=p), name="c")
    return _gemm("gemm_bf16", c, _packed_strides(a, b, c, 2), (m, n, steps // 2), steps)


def gemm_u8s8s32(
    steps: int, target: Target | None = None, *, rows: int | None = None, columns: int | None = None
) -> TensorIntrin:
    """``c[i, j] += a[i, r] * b[r // 4, j, r % 4]`` over `steps` values of r, a multiple of 4; sums wrap.

    a  uint8  [rows, steps]            c  int32  [rows, columns]      rows of all three are any number of elements apart
    b  int8   [steps / 4, columns, 4]  by default `tile` says how many rows and columns

    The instruction is TDPBUSD with amx-int8, VPDPBUSD with avx512vnni or avxvnni, USDOT with i8mm; with dotprod alone it is UDOT
    of b + 128, less 128 times the sum of a's row. Raises CodegenError for sizes that do not fit.
    """
    return _bytes("gemm_u8s8s32", "uint8", steps, target, rows, columns)


def gemm_s8s8s32(
    steps: int, target: Target | None = None, *, rows: int | None = None, columns: int | None = None
) -> TensorIntrin:
    """As `gemm_u8s8s32`, of int8 a.

    The instruction is TDPBSSD with amx-int8, VPDPBSSD with avxvnniint8, SDOT with dotprod; with avx512vnni or avxvnni it is
    VPDPBUSD of b + 128, less 128 times the sum of a's row.
    """
    return _bytes("gemm_s8s8s32", "int8", steps, target, rows, columns)


def _bytes(name: str, kind: str, steps: int, target: Target | None, rows: int | None, columns: int | None) -> TensorIntrin:
    m, n = _sizes(name, target, rows, columns, steps)
    _whole(name, steps, 4, "four")
    a, b = placeholder((m, steps), kind, name="a"), placeholder((steps // 4, n, 4), "int8", name="b")
    r = reduce_axis((0, steps), "r")
    c = compute((m, n), lambda i, j: sum_of(_wide(a[i, r]) * _wide(b[r // 4, j, r % 4]), axis=r), name="c")
    return _gemm(name, c, _packed_strides(a, b, c, 4), (m, n, steps // 4), steps)


def _packed_strides(a: Tensor, b: Tensor, c: Tensor, together: int) -> dict[Tensor, list[Any]]:
    return {a: [var("lda"), 1], b: [var("ldb"), together, 1], c: [var("ldc"), 1]}


def _whole(name: str, steps: int, together: int, word: str) -> None:
    if steps % together:
        raise CodegenError(f"{name} of {steps} steps: it takes {word} at a time, so give a multiple of {together}")


def dot4_u8s8(target: Target | None = None, *, lanes: int | None = None) -> TensorIntrin:
    """``c[j] += a[4 * j + q] * b[4 * j + q]`` over q < 4; sums wrap.

    a  uint8  [4 * lanes]    b  int8  [4 * lanes]    c  int32  [lanes]    by default as many lanes as a vector has

    Raises CodegenError for less than one lane.
    """
    n = (target or Target.host()).vector_bytes // 4 if lanes is None else lanes
    _at_least_one("dot4_u8s8", lanes=n)
    a, b = placeholder((4 * n,), "uint8", name="a"), placeholder((4 * n,), "int8", name="b")
    q = reduce_axis((0, 4), "q")
    c = compute((n,), lambda j: sum_of(_wide(a[4 * j + q]) * _wide(b[4 * j + q]), axis=q), name="c")

    def code(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        def add(before: Expr) -> Stmt:
            products = [Load(source, (run_of(4 * n),)) for source in ins]
            return Store(outs[0], (run_of(n),), Call(before.dtype, "dot4_u8s8", (before, *products)))
        zero = spread(const(0, INT32), n)
        return add(zero), Store(outs[0], (run_of(n),), zero), add(Load(outs[0], (run_of(n),)))
    return decl_tensor_intrin(c.op, code, f"dot4_u8s8_{n}")


def _gemm(call: str, c: Tensor, strides: Mapping[Tensor, list[Any]], sizes: tuple[int, int, int], steps: int) -> TensorIntrin:
    binds = {
        tensor: decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=apart, data_alignment=0)
        for tensor, apart in strides.items()
    }
    between = [apart[0] for apart in strides.values()]
    m, n, _ = sizes

    def code(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        def zero() -> Stmt:
            row = Var("row", INT32)
            return For(row, wrap(m), Store(outs[0], (row, run_of(n)), spread(const(0, outs[0].dtype), n)))
        pointers = *(source.access_ptr("r") for source in ins), outs[0].access_ptr("rw")
        whole, add = (Evaluate(hardware_intrin(call, *pointers, *sizes, *between, *fresh)) for fresh in ((1,), ()))
        return whole, zero(), add
    return decl_tensor_intrin(c.op, code, f"{call}_{m}x{n}x{steps}", binds)


def _sizes(name: str, target: Target | None, rows: int | None, columns: int | None, steps: int) -> tuple[int, int]:
    m, n = tile(target, name) if rows is None or columns is None else (rows, columns)
    m, n = m if rows is None else rows, n if columns is None else columns
    _at_least_one(name, rows=m, columns=n, steps=steps)
    return m, n


def _at_least_one(name: str, **sizes: int) -> None:
    for what, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise CodegenError(f"{name} of {size!r} {what}: give at least 1")


def _wide(e: Expr) -> Expr:
    return e.astype("int32")


def run_of(lanes: int) -> Expr:
    """The first indices of a dimension, as a vector."""
    return Ramp(wrap(0), wrap(1), lanes) if lanes > 1 else wrap(0)


def spread(value: Expr, lanes: int) -> Expr:
    """The scalar in each lane of a vector."""
    return Broadcast(value, lanes) if lanes > 1 else value


# What the calls do, element by element.


def _gemm_f32(a: Any, b: Any, c: Any, m: int, n: int, k: int, lda: int, ldb: int, ldc: int, fresh: int = 0) -> int:
    for i, j in np.ndindex(m, n):
        found = np.float32(0) if fresh else c[i * ldc + j]
        for p in range(k):
            found = found + a[i * lda + p] * b[p * ldb + j]
        c[i * ldc + j] = found
    return 0


def _gemm_bf16(a: Any, b: Any, c: Any, m: int, n: int, k: int, lda: int, ldb: int, ldc: int, fresh: int = 0) -> int:
    with np.errstate(all="ignore"):
        for i, j in np.ndindex(m, n):
            found = np.float32(0) if fresh else c[i * ldc + j]
            for p in range(2 * k):
                found = found + np.float32(a[i * lda + p]) * np.float32(b[p // 2 * ldb + 2 * j + p % 2])
            c[i * ldc + j] = found
    return 0


def _gemm_bytes(a: Any, b: Any, c: Any, m: int, n: int, k: int, lda: int, ldb: int, ldc: int, fresh: int = 0) -> int:
    for i, j in np.ndindex(m, n):
        products = (int(a[i * lda + r]) * int(b[r // 4 * ldb + 4 * j + r % 4]) for r in range(4 * k))
        c[i * ldc + j] = _wrapped(sum(products, 0 if fresh else int(c[i * ldc + j])))
    return 0


def _dot4_u8s8(c: Any, a: list[int], b: list[int]) -> Any:
    before = c if isinstance(c, list) else [c]
    found = [_wrapped(sum((a[4 * j + q] * b[4 * j + q] for q in range(4)), x)) for j, x in enumerate(before)]
    return found if isinstance(c, list) else found[0]


def _wrapped(value: int) -> int:
    return int(np.array(value & 0xFFFFFFFF, np.uint32).view(np.int32))


MEANING: Mapping[str, Callable[..., Any]] = {
    "gemm_f32": _gemm_f32, "gemm_bf16": _gemm_bf16, "gemm_u8s8s32": _gemm_bytes, "gemm_s8s8s32": _gemm_bytes,
    "dot4_u8s8": _dot4_u8s8,
}
