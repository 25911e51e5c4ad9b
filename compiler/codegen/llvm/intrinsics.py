"""Instructions that no loop nest says: outer-product micro-kernels and dot products of bytes, chosen by the target's features.

Each is a call by name, with the same meaning on every target:

    gemm_f32(a, b, c, m, n, k, lda, ldb, ldc)       c[i, j] += sum over p of a[i, p] * b[p, j]            float32
    gemm_u8s8s32(a, b, c, m, n, k, lda, ldb, ldc)   c[i, j] += sum over p, q of a[i, 4 p + q] * b[p, j, q]    q < 4
    dot4_u8s8(c, a, b)                              c[j] + sum over q of a[4 j + q] * b[4 j + q]           q < 4

a, b, c of the first two are addresses (`Buffer.access_ptr`), lda, ldb, ldc the elements from one row to the next, m and n
constants: the m x n accumulators stay in registers, so m * ceil(n / lanes) + ceil(n / lanes) + 1 may not exceed their number.
gemm_u8s8s32 takes uint8 a, int8 b with four steps of the reduction side by side (a row of b has 4 n bytes) and int32 c;
k counts groups of four. dot4_u8s8 takes int32xN, uint8x(4N), int8x(4N) and wraps, as AVX-512's VPDPBUSD does.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from vtakit.compiler.codegen.llvm import types as ty
from vtakit.compiler.codegen.llvm.builder import Phi, Value, int_constant
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.floats import suffix
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir import expr as ir

if TYPE_CHECKING:
    from vtakit.compiler.codegen.llvm.expressions import Expressions

Item = TypeVar("Item")


def registers(target: Target) -> int:
    """Vector registers that the target has."""
    return 32 if target.has("avx512f") or target.arch == "aarch64" else 16


class _Tile:
    """The arguments of a micro-kernel: addresses, the tile's constant shape, steps, and row lengths in elements."""

    def __init__(self, x: "Expressions", e: ir.Call, lanes: int) -> None:
        if len(e.args) != 9:
            raise CodegenError(f"{e} has {len(e.args)} arguments: {e.name} takes a, b, c, m, n, k, lda, ldb, ldc")
        self.a, self.b, self.c = (x.value(arg) for arg in e.args[:3])
        shape = [arg.value if isinstance(arg, ir.IntImm) else 0 for arg in e.args[3:5]]
        if min(shape) < 1:
            raise CodegenError(f"{e.name} of a tile of {e.args[3]} x {e.args[4]}: both must be constants of at least 1")
        self.m, self.n = shape
        steps = e.args[5].value if isinstance(e.args[5], ir.IntImm) else 1
        self.unrolled = next(count for count in (4, 2, 1) if steps % count == 0)
        self.k, self.lda, self.ldb, self.ldc = (x.index(arg) for arg in e.args[5:])
        # The last vector of a row may be shorter.
        self.widths = [min(lanes, self.n - first) for first in range(0, self.n, lanes)]
        used, there = self.m * len(self.widths) + len(self.widths) + 1, registers(x.target)
        if used > there:
            raise CodegenError(
                f"{e.name} of a tile of {self.m} x {self.n} needs {used} vector registers and {x.target} has {there}: "
                f"use fewer rows or columns (a vector has {lanes} lanes of 32 bits)"
            )


def _flat(rows: Iterable[Iterable[Item]]) -> Iterable[Item]:
    return itertools.chain.from_iterable(rows)


def _kernel(x: "Expressions", t: _Tile, kind: str, row: Callable[[Value], list[Value]],
            column: Callable[[Value, int], Value], combine: Callable[[Value, Value, Value], Value]) -> Value:
    """Accumulators are loaded, updated k times (a few in each iteration of the loop, where k is a constant), and stored.

    row     : the vectors of b's row at a step
    column  : one element of a, in as many lanes
    combine : (accumulator, element of a, vector of b) -> accumulator
    """
    b, lanes = x.b, max(t.widths)
    places = [
        [b.address(b.address(t.c, "i32", b.op("mul", t.ldc, int_constant("i64", i))), "i32", int_constant("i64", j * lanes))
         for j in range(len(t.widths))] for i in range(t.m)
    ]
    start = [[b.load(ty.vector(kind, width), place, 4) for place, width in zip(line, t.widths, strict=True)] for line in places]
    before, body, after = b.at, b.block("steps"), b.block("stepped")
    b.branch(b.icmp("sgt", t.k, int_constant("i64", 0)), body, after)
    b.place(body)
    p = b.phi("i64")
    phis = [[b.phi(value.type) for value in line] for line in start]
    sums = [[phi.value for phi in line] for line in phis]
    for ahead in range(t.unrolled):
        at = b.op("add", p.value, int_constant("i64", ahead), "nuw nsw") if ahead else p.value
        vectors = row(at)
        for i, line in enumerate(sums):
            element = column(at, i)
            sums[i] = [combine(sum_, element, vector) for sum_, vector in zip(line, vectors, strict=True)]
    following = b.op("add", p.value, int_constant("i64", t.unrolled), "nuw nsw")
    p.add(int_constant("i64", 0), before)
    p.add(following, b.at)
    for sum_, first, last in zip(_flat(phis), _flat(start), _flat(sums), strict=True):
        sum_.add(first, before)
        sum_.add(last, b.at)
    latch = b.at
    b.branch(b.icmp("slt", following, t.k), body, after)
    b.place(after)
    finals: list[tuple[Phi, Value]] = []
    for place, first, last in zip(_flat(places), _flat(start), _flat(sums), strict=True):
        final = b.phi(first.type)
        final.add(first, before)
        final.add(last, latch)
        finals.append((final, place))
    for final, place in finals:
        b.store(final.value, place, 4)
    return int_constant("i32", 0)


def _gemm_f32(x: "Expressions", e: ir.Call) -> Value:
    b, lanes = x.b, x.target.vector_bytes // 4
    t = _Tile(x, e, lanes)

    def row(p: Value) -> list[Value]:
        line = b.address(t.b, "float", b.op("mul", p, t.ldb, "nsw"))
        return [
            b.load(ty.vector("float", width), b.address(line, "float", int_constant("i64", j * lanes)), 4)
            for j, width in enumerate(t.widths)
        ]

    def column(p: Value, i: int) -> Value:
        at = b.op("add", b.op("mul", t.lda, int_constant("i64", i), "nsw"), p, "nsw")
        return b.load("float", b.address(t.a, "float", at), 4)

    def combine(sum_: Value, element: Value, vector: Value) -> Value:
        spread = b.splat(element, ty.split(vector.type)[1])
        if x.target.has_fma:
            return b.intrinsic(f"fma.{suffix(sum_.type)}", sum_.type, spread, vector, sum_)
        return b.op("fadd", b.op("fmul", spread, vector), sum_)

    return _kernel(x, t, "float", row, column, combine)


def _gemm_u8s8s32(x: "Expressions", e: ir.Call) -> Value:
    b, lanes = x.b, x.target.vector_bytes // 4
    t = _Tile(x, e, lanes)

    def row(p: Value) -> list[Value]:
        line = b.address(t.b, "i8", b.op("mul", p, t.ldb, "nsw"))
        return [
            b.load(ty.vector("i8", 4 * width), b.address(line, "i8", int_constant("i64", 4 * j * lanes)), 1)
            for j, width in enumerate(t.widths)
        ]

    def column(p: Value, i: int) -> Value:
        steps = b.op("mul", p, int_constant("i64", 4), "nsw")
        at = b.op("add", b.op("mul", t.lda, int_constant("i64", i), "nsw"), steps, "nsw")
        return b.load("i32", b.address(t.a, "i8", at), 1)

    def combine(sum_: Value, element: Value, vector: Value) -> Value:
        width = ty.split(sum_.type)[1]
        return _dot4(x, sum_, b.bitcast(b.splat(element, width), vector.type), vector)

    return _kernel(x, t, "i32", row, column, combine)


def _dot4_u8s8(x: "Expressions", e: ir.Call) -> Value:
    if len(e.args) != 3 or e.dtype.scalar.bits != 32:
        raise CodegenError(f"{e}: dot4_u8s8 takes an int32xN, a uint8x(4N) and an int8x(4N), and gives an int32xN")
    c, a, b = (x.value(arg) for arg in e.args)
    signs = [arg.dtype.code for arg in e.args]
    bytes_ = ty.vector("i8", 4 * e.dtype.lanes)
    if signs != ["int", "uint", "int"] or (a.type, b.type) != (bytes_, bytes_) or c.type != ty.value_type(e.dtype):
        types = ", ".join(str(arg.dtype) for arg in e.args)
        raise CodegenError(f"{e} has {types}: dot4_u8s8 takes an int32xN, a uint8x(4N) and an int8x(4N)")
    if not ty.split(c.type)[1]:
        return x.b.extract(_dot4(x, x.b.splat(c, 1), a, b), 0)
    return _dot4(x, c, a, b)


def _dot4(x: "Expressions", c: Value, a: Value, b: Value) -> Value:
    """Products of unsigned a and signed b, four at a time added to c."""
    lanes = ty.split(c.type)[1]
    name = _dot_instruction(x.target, lanes)
    if name is not None:
        # x86's take vectors of i32 up to LLVM 21; later versions read that form too.
        operands = [x.b.bitcast(value, c.type) if name.startswith("x86") else value for value in (a, b)]
        return x.b.intrinsic(name, c.type, c, *operands)
    wide = ty.vector("i32", 4 * lanes)
    products = x.b.op("mul", x.b.convert("zext", a, wide), x.b.convert("sext", b, wide))
    for quarter in range(4):
        part = x.b.shuffle(products, products, range(quarter, 4 * lanes, 4))
        c = x.b.op("add", c, part)
    return c


def _dot_instruction(target: Target, lanes: int) -> str | None:
    if lanes == 16 and target.has("avx512vnni"):
        return "x86.avx512.vpdpbusd.512"
    if lanes in (4, 8) and (target.has("avxvnni") or (target.has("avx512vnni") and target.has("avx512vl"))):
        return f"x86.avx512.vpdpbusd.{32 * lanes}"
    if lanes == 4 and target.arch == "aarch64" and target.has("i8mm"):
        return "aarch64.neon.usdot.v4i32.v16i8"
    return None


BY_NAME: dict[str, Callable[["Expressions", ir.Call], Value]] = {
    "gemm_f32": _gemm_f32, "gemm_u8s8s32": _gemm_u8s8s32, "dot4_u8s8": _dot4_u8s8,
}
