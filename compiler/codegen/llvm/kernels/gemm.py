"""Outer products that add to a tile of sums in registers: by vectors here, by tile registers in `gemm_amx`.

    gemm_f32(a, b, c, m, n, k, lda, ldb, ldc)    c[i, j] += sum over p of a[i, p] * b[p, j]                float32
    gemm_bf16(…)                                 c[i, j] += sum over p, q of a[i, 2 p + q] * b[p, j, q]    q < 2
    gemm_u8s8s32(…), gemm_s8s8s32(…)             c[i, j] += sum over p, q of a[i, 4 p + q] * b[p, j, q]    q < 4

a, b, c are addresses (`Buffer.access_ptr`), lda, ldb, ldc the elements from one row to the next, m and n constants: the m x n
sums stay in registers. Where no tile registers take them, m * ceil(n / lanes) + ceil(n / lanes) + 1 may not exceed the number
of vector registers. k counts the steps, each of which takes one element, two or four of a row of a. A last argument of 1, after
ldc, says that the sums begin at 0, whatever c holds.
"""

from functools import partial

from vtakit.compiler.codegen.llvm.kernels import bfloat_dots, dots, gemm_amx
from vtakit.compiler.codegen.llvm.kernels.gemm_tile import Tile
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.builder import Builder
from vtakit.compiler.codegen.llvm.text.operands import Value, float_constant, int_constant
from vtakit.compiler.ir import expr as ir


class Vectors:
    """The loads and multiplications of a kernel by vectors; the sums are of the type `kind`.

    phases : the parts of a step; all steps are gone through for each
    """

    kind = "float"
    phases: tuple[int, ...] = (0,)

    def __init__(self, x: Context, t: Tile) -> None:
        self.x, self.b, self.t = x, x.b, t
        # Code for machines that refuse tile registers is kept short.
        self.unrolled = 1 if t.by_tiles else next(count for count in (4, 2, 1) if (t.steps or 1) % count == 0)

    def row(self, p: Value, phase: int) -> list[Value]:
        """Return the vectors of b's row of a step."""
        raise NotImplementedError

    def element(self, p: Value, i: int, phase: int) -> Value:
        """Return what a step takes of a's row i."""
        raise NotImplementedError

    def add(self, sum_: Value, element: Value, vector: Value, phase: int) -> Value:
        raise NotImplementedError

    def begin(self, first: int, sums: list[list[Value]]) -> list[list[Value]]:
        """Return the first values of the sums of the rows from `first` on, where `sums` has what c holds, or 0."""
        return sums

    def _row(self, p: Value, each: str, count: int) -> list[Value]:
        line = self.b.address(self.t.b, each, self.b.op("mul", p, self.t.ldb, "nsw"))
        return [
            self.b.load(ty.vector(each, count * width), self.b.address(line, each, int_constant("i64", count * j * self.t.lanes)),
                        ty.bits(each) // 8) for j, width in enumerate(self.t.widths)
        ]

    def _element(self, p: Value, i: int, each: str, count: int) -> Value:
        """Return 32 bits: `count` elements side by side."""
        along = self.b.op("mul", p, int_constant("i64", count), "nsw") if count > 1 else p
        at = self.b.op("add", self.b.op("mul", self.t.lda, int_constant("i64", i), "nsw"), along, "nsw")
        return self.b.load(each if count == 1 else "i32", self.b.address(self.t.a, each, at), ty.bits(each) // 8)


class _Float32(Vectors):
    def row(self, p: Value, phase: int) -> list[Value]:
        return self._row(p, "float", 1)

    def element(self, p: Value, i: int, phase: int) -> Value:
        return self._element(p, i, "float", 1)

    def add(self, sum_: Value, element: Value, vector: Value, phase: int) -> Value:
        return bfloat_dots.multiply_add(self.x, sum_, self.b.splat(element, ty.split(vector.type)[1]), vector)


class _Bfloat16(Vectors):
    """Products as float32: of the first element of each step, then, in a loop of their own, of the second ones.

    In one loop LLVM loads both at once, for which there are not enough registers beside the sums.
    """

    phases = (0, 1)

    def row(self, p: Value, phase: int) -> list[Value]:
        return [self._part(pairs, phase) for pairs in self._row(p, "i16", 2)]

    def element(self, p: Value, i: int, phase: int) -> Value:
        return self._element(p, i, "i16", 2)

    def add(self, sum_: Value, element: Value, vector: Value, phase: int) -> Value:
        pairs = self.b.splat(element, ty.split(sum_.type)[1])
        return bfloat_dots.multiply_add(self.x, sum_, bfloat_dots.element(self.x, pairs, phase), vector)

    def _part(self, pairs: Value, phase: int) -> Value:
        lanes = ty.bits(pairs.type) * ty.split(pairs.type)[1] // 32
        return bfloat_dots.element(self.x, self.b.bitcast(pairs, ty.vector("i32", lanes)), phase)


class _PairsOfBfloat16(Vectors):
    """By VDPBF16PS, but not on Intel's processors with AMX, which take twice as long for it as for two multiply-adds."""

    @staticmethod
    def suits(x: Context, t: Tile) -> bool:
        """Return whether the target has the instruction for vectors of all the lengths."""
        return all(bfloat_dots.has_pairs(x.target, width) for width in t.widths)

    def row(self, p: Value, phase: int) -> list[Value]:
        return self._row(p, "i16", 2)

    def element(self, p: Value, i: int, phase: int) -> Value:
        return self._element(p, i, "i16", 2)

    def add(self, sum_: Value, element: Value, vector: Value, phase: int) -> Value:
        return bfloat_dots.add_pairs(self.x, sum_, self.b.splat(element, ty.split(sum_.type)[1]), vector)


class _Bytes(Vectors):
    """Signed or unsigned bytes of a by signed bytes of b."""

    kind = "i32"

    def __init__(self, x: Context, t: Tile, *, signed: bool) -> None:
        super().__init__(x, t)
        self.signed = signed
        self.flips = [dots.flips(x.target, width, signed) for width in t.widths]

    def row(self, p: Value, phase: int) -> list[Value]:
        found = self._row(p, "i8", 4)
        return [self.b.op("xor", vector, int_constant(vector.type, dots.FLIP)) if flip else vector
                for vector, flip in zip(found, self.flips, strict=True)]

    def element(self, p: Value, i: int, phase: int) -> Value:
        return self._element(p, i, "i8", 4)

    def add(self, sum_: Value, element: Value, vector: Value, phase: int) -> Value:
        width = ty.split(sum_.type)[1]
        flip = dots.flips(self.x.target, width, self.signed)
        four = self.b.bitcast(self.b.splat(element, width), vector.type)
        return dots.dot4(self.x, sum_, four, vector, signed=(self.signed, not flip))

    def begin(self, first: int, sums: list[list[Value]]) -> list[list[Value]]:
        """Return the sums less what flipping bits of b adds: 128 times the sum of a's row."""
        if not any(self.flips):
            return sums
        b = self.b
        start = b.address(self.t.a, "i8", b.op("mul", self.t.lda, int_constant("i64", first), "nsw"))
        rows = dots.sums_of_rows(self.x, start, self.t.lda, len(sums), self.t.k, signed=self.signed)
        extra = [b.op("shl", row, int_constant("i32", 7)) for row in rows]
        return [[b.op("sub", sum_, b.splat(more, ty.split(sum_.type)[1])) if flip else sum_
                 for sum_, flip in zip(line, self.flips, strict=True)] for line, more in zip(sums, extra, strict=True)]


class _HalvesOfBytes(Vectors):
    """By products of int16: of the first and third byte of each step, then, in a loop of their own, of the second and fourth."""

    kind = "i32"
    phases = (0, 1)

    def __init__(self, x: Context, t: Tile, *, signed: bool) -> None:
        super().__init__(x, t)
        self.signed = signed
        self.unrolled = 1  # the registers are full, and LLVM would load for the next step too early

    @staticmethod
    def suits(x: Context, t: Tile, *, signed: bool) -> bool:
        """Return whether the target has these, and no products of four bytes, for vectors of all the lengths."""
        return all(dots.pairs(x.target, width) and not dots.instruction(x.target, width, (signed, True))
                   and not dots.flips(x.target, width, signed) for width in t.widths)

    def row(self, p: Value, phase: int) -> list[Value]:
        return [dots.half(self.x, vector, phase, signed=True) for vector in self._row(p, "i8", 4)]

    def element(self, p: Value, i: int, phase: int) -> Value:
        return self._element(p, i, "i8", 4)

    def add(self, sum_: Value, element: Value, vector: Value, phase: int) -> Value:
        width = ty.split(sum_.type)[1]
        four = self.b.bitcast(self.b.splat(element, width), ty.vector("i8", 4 * width))
        return dots.add_pairs(self.x, sum_, dots.half(self.x, four, phase, signed=self.signed), vector)


def by_vectors(t: Tile, v: Vectors) -> None:
    """The kernel by vectors, a block of rows after another."""
    for first, end in t.blocks:
        _block(t, v, first, end)


def _block(t: Tile, v: Vectors, first: int, end: int) -> None:
    """Load the sums of some rows, update them k times and store them."""
    places = places_of(v.b, t, first, end)
    start = zeros_of(t, v.kind, end - first) if t.fresh else [
        [v.b.load(ty.vector(v.kind, width), place, 4) for width, place in zip(t.widths, line, strict=True)] for line in places]
    sums = accumulated(t, v, first, start)
    store_sums(v.b, sums, places)


def places_of(b: Builder, t: Tile, first: int, end: int) -> list[list[Value]]:
    """Return the addresses of the vectors of sums of some rows."""
    return [
        [b.address(b.address(t.c, "i32", b.op("mul", t.ldc, int_constant("i64", i))), "i32", int_constant("i64", j * t.lanes))
         for j in range(len(t.widths))] for i in range(first, end)
    ]


def zeros_of(t: Tile, kind: str, rows: int) -> list[list[Value]]:
    """Return vectors of zeros for sums of so many rows."""
    types = [ty.vector(kind, width) for width in t.widths]
    zeros = [float_constant(each, 0.0) if kind == "float" else int_constant(each, 0) for each in types]
    return [list(zeros) for _ in range(rows)]


def store_sums(b: Builder, sums: list[list[Value]], places: list[list[Value]]) -> None:
    """Store vectors of sums at their addresses."""
    for line, where in zip(sums, places, strict=True):
        for sum_, place in zip(line, where, strict=True):
            b.store(sum_, place, 4)


def accumulated(t: Tile, v: Vectors, first: int, start: list[list[Value]]) -> list[list[Value]]:
    """Return the sums of the rows from `first` on, updated k times: a few in each iteration where k is a constant."""
    b, across, rows = v.b, len(t.widths), len(start)

    def steps(p: Value, sums: list[Value], phase: int) -> list[Value]:
        for ahead in range(v.unrolled):
            at = b.op("add", p, int_constant("i64", ahead), "nuw nsw") if ahead else p
            vectors = v.row(at, phase)
            for i in range(rows):
                element, line = v.element(at, first + i, phase), slice(i * across, (i + 1) * across)
                sums[line] = [v.add(sum_, element, vector, phase) for sum_, vector in zip(sums[line], vectors, strict=True)]
        return sums
    sums = [sum_ for line in v.begin(first, start) for sum_ in line]
    for phase in v.phases:
        sums = b.repeat("steps", int_constant("i64", 0), t.k, v.unrolled, sums, partial(steps, phase=phase))
    return [sums[at:at + across] for at in range(0, len(sums), across)]


def vectors(x: Context, kernel: str, t: Tile) -> Vectors:
    """Return how the target's vectors compute a kernel."""
    match kernel:
        case "gemm_f32":
            return _Float32(x, t)
        case "gemm_bf16":
            return _PairsOfBfloat16(x, t) if _PairsOfBfloat16.suits(x, t) else _Bfloat16(x, t)
        case _:
            signed = kernel == "gemm_s8s8s32"
            return (_HalvesOfBytes if _HalvesOfBytes.suits(x, t, signed=signed) else _Bytes)(x, t, signed=signed)


def _gemm(x: Context, e: ir.Call) -> Value:
    t = Tile.of(x, e)
    v = vectors(x, e.name, t)
    if t.by_tiles:
        gemm_amx.otherwise(x, e.name, t, lambda: by_vectors(t, v))
    else:
        by_vectors(t, v)
    return int_constant("i32", 0)


BY_NAME = dict.fromkeys(("gemm_f32", "gemm_bf16", "gemm_u8s8s32", "gemm_s8s8s32"), _gemm)
