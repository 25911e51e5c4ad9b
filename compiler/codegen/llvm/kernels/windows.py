"""Sums of products over windows of an image whose channels lie side by side: convolutions, a tile of sums at a time.

    window_u8s8s32(a, b, c, rows, columns, n, k0, k1, k2, k, lda0, lda1, a0, a1, a2, b0, b1, b2, ldb, ldc0, ldc1)

    c[y, x, j] = sum over i0 < k0, i1 < k1, i2 < k2, p < k, q < 4 of a[y, x, i0, i1, i2, 4 p + q] * b[i0, i1, i2, p, j, q]

window_bf16 is the same of bfloat16 in pairs, q < 2, into float32. a, b, c are addresses; the counts are constants; the others say
how many elements lie from one index to the next: of a along y, x, i0, i1, i2 (those of channels are neighbours), of b along i0,
i1, i2, p (j and q are neighbours), of c along y, x. window_words is window_u8s8s32 of bytes that lie four to a uint32, the first
in the lowest bits; a's strides count bytes. Sums stay in registers over the whole reduction, of some pixels of a row at
a time: in tile registers where the target has them (`amx`), else in vectors as those of `gemm`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import amx, gemm, gemm_tile
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.ir import expr as ir

_GEMMS = {  # the outer products that make the sums
    "window_u8s8s32": "gemm_u8s8s32", "window_words": "gemm_u8s8s32", "window_bf16": "gemm_bf16",
}
_TOGETHER = 2  # rows and columns of tile registers with sums
_VECTORS = 2  # of a row of sums in vector registers


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring pixels of a row of sums: `count` from (y, x) on."""

    y: int
    x: int
    count: int


class _Window:
    """The arguments of a call."""

    def __init__(self, x: Context, e: ir.Call) -> None:
        if len(e.args) != 21:
            raise CodegenError(f"{e} has {len(e.args)} arguments: {e.name} takes a, b, c, seven counts and eleven strides")
        self.x, self.kernel = x, _GEMMS[e.name]
        self.a, self.b, self.c = (x.value(arg) for arg in e.args[:3])
        counts = [arg.value if isinstance(arg, ir.IntImm) else 0 for arg in e.args[3:10]]
        if min(counts) < 1:
            raise CodegenError(f"{e.name} of {', '.join(map(str, e.args[3:10]))}: all counts must be constants of at least 1")
        self.rows, self.columns, self.n, self.outer, self.steps = *counts[:3], tuple(counts[3:6]), counts[6]
        strides = [x.index(arg) for arg in e.args[10:]]
        self.along_pixels, self.of_a, self.of_b = strides[:2], strides[2:5], strides[5:8]
        self.ldb, self.of_c = strides[8], strides[9:]
        self.size = amx.INSTRUCTIONS[self.kernel][2]  # bytes of an element of a and b
        self.together = 4 // self.size  # elements of a that a step takes

    @property
    def by_tiles(self) -> bool:
        """Whether tile registers take it where the system permits them."""
        return amx.has(self.x.target, self.kernel) and self.steps <= amx.ROWS

    def runs(self, most: int) -> list[_Run]:
        """Return the pixels as runs of at most `most`, of about one length."""
        parts = -(-self.columns // most)
        cuts = [self.columns * part // parts for part in range(parts + 1)]
        return [_Run(y, first, end - first) for y in range(self.rows) for first, end in pairwise(cuts)]

    def at(self, base: Value, size: int, indices: Sequence[Value | int], strides: Sequence[Value]) -> Value:
        """Return the address of an element of so many bytes."""
        b = self.x.b
        for index, stride in zip(indices, strides, strict=True):
            if index == 0:
                continue
            by = int_constant("i64", index) if isinstance(index, int) else index
            steps = b.op("mul", stride, by, "nsw")
            base = b.address(base, "i8", b.op("mul", steps, int_constant("i64", size), "nsw"))
        return base

    def start(self, run: _Run) -> Value:
        """Return the address of a run's first pixel in a."""
        return self.at(self.a, self.size, (run.y, run.x), self.along_pixels)

    def sums(self, run: _Run, first: int) -> Value:
        """Return the address of the sums of a run's first pixel, from a column on."""
        found = self.at(self.c, 4, (run.y, run.x), self.of_c)
        return self.x.b.address(found, "i32", int_constant("i64", first)) if first else found


def _window(x: Context, e: ir.Call) -> Value:
    w = _Window(x, e)
    if w.by_tiles:
        groups = _tiles(w)
        shapes = list(dict.fromkeys(_shape(*group) for group in groups))
        amx.set_up(x, *shapes[0], w.steps)
        amx.if_permitted(x, lambda: _by_tiles(w, groups), partial(_by_vectors, w))
    else:
        _by_vectors(w)
    return int_constant("i32", 0)


# Tile registers.

_Group = tuple[list[_Run], list[tuple[int, int]]]


def _tiles(w: _Window) -> list[_Group]:
    """Return runs and columns, (first, count), whose sums are in tile registers together."""
    runs = w.runs(amx.ROWS)
    columns = [(first, min(amx.ROWS, w.n - first)) for first in range(0, w.n, amx.ROWS)]
    down, across = (range(0, len(parts), _TOGETHER) for parts in (runs, columns))
    return [(runs[i:i + _TOGETHER], columns[j:j + _TOGETHER]) for j in across for i in down]


def _shape(runs: list[_Run], columns: list[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the rows and columns of the registers with a group's sums, all as if there were four; fewer use some of them."""
    heights, widths = [run.count for run in runs], [count for _, count in columns]
    return tuple((heights * _TOGETHER)[:_TOGETHER]), tuple((widths * _TOGETHER)[:_TOGETHER])


def _by_tiles(w: _Window, groups: list[_Group]) -> None:
    ready = _shape(*groups[0])
    for runs, columns in groups:
        shape = _shape(runs, columns)
        if shape != ready:
            amx.set_up(w.x, *shape, w.steps)
            ready = shape
        _one_group(w, runs, columns)


def _one_group(w: _Window, runs: list[_Run], columns: list[tuple[int, int]]) -> None:
    """Write the whole reduction of a group, whose sums stay in tile registers."""
    b = w.x.b
    names, of_a, of_b = amx.registers(_TOGETHER, _TOGETHER)
    sums = {(i, j): register for (i, j), register in names.items() if i < len(runs) and j < len(columns)}
    lda, ldb, ldc = (b.op("mul", stride, int_constant("i64", size), "nsw") for stride, size in (
        (w.along_pixels[1], w.size), (w.ldb, w.size), (w.of_c[1], 4)))

    def number(register: int) -> Value:
        return int_constant("i8", register)
    for register in sums.values():
        b.intrinsic("x86.tilezero", "void", number(register))
    starts = [w.start(run) for run in runs]

    def products(*place: Value | int) -> None:
        waiting = {of_b[j]: (w.at(b.address(w.b, "i8", int_constant("i64", 4 * first)), w.size, place, w.of_b), ldb)
                   for j, (first, _) in enumerate(columns)}
        waiting |= {of_a[i]: (w.at(start, w.size, place, w.of_a), lda) for i, start in enumerate(starts)}
        for (i, j), register in sums.items():
            for operand in (of_b[j], of_a[i]):
                if operand in waiting:
                    b.intrinsic("x86.tileloadd64", "void", number(operand), *waiting.pop(operand))
            instruction = amx.INSTRUCTIONS[w.kernel][1]
            b.intrinsic(f"x86.{instruction}", "void", number(register), number(of_a[i]), number(of_b[j]))

    def step(i0: Value, i1: Value, none: list[Value]) -> list[Value]:
        for i2 in range(w.outer[2]):
            products(i0, i1, i2)
        return none
    _nest(w, [], step)
    for (i, j), register in sums.items():
        b.intrinsic("x86.tilestored64", "void", number(register), w.sums(runs[i], columns[j][0]), ldc)


# Vectors.


def _by_vectors(w: _Window) -> None:
    lanes, _ = gemm_tile.vectors_of(w.x, w.n)
    width = min(w.n, _VECTORS * lanes)
    for first in range(0, w.n, width):
        n = min(width, w.n - first)
        _, widths = gemm_tile.vectors_of(w.x, n)
        for run in w.runs(gemm_tile.rows_of_sums(w.x, len(widths))):
            _one_run(w, run, first, n)


def _one_run(w: _Window, run: _Run, first: int, n: int) -> None:
    """Write the whole reduction of a run, whose sums stay in vector registers."""
    x, b = w.x, w.x.b
    lanes, widths = gemm_tile.vectors_of(x, n)
    column = b.address(w.b, "i8", int_constant("i64", 4 * first)) if first else w.b
    tile = gemm_tile.Tile(
        a=w.start(run), b=column, c=w.sums(run, first), m=run.count, n=n, steps=w.steps, k=int_constant("i64", w.steps),
        lda=w.along_pixels[1], ldb=w.ldb, ldc=w.of_c[1], fresh=True, by_tiles=w.by_tiles, lanes=lanes, widths=widths,
        blocks=((0, run.count),))
    kind = gemm.vectors(x, w.kernel, tile).kind

    def at_place(i0: Value, i1: Value, i2: Value, carried: list[Value]) -> list[Value]:
        part = replace(tile, a=w.at(tile.a, w.size, (i0, i1, i2), w.of_a), b=w.at(tile.b, w.size, (i0, i1, i2), w.of_b))
        lines = [carried[at:at + len(widths)] for at in range(0, len(carried), len(widths))]
        return [sum_ for line in gemm.accumulated(part, gemm.vectors(x, w.kernel, part), 0, lines) for sum_ in line]

    def step(i0: Value, i1: Value, carried: list[Value]) -> list[Value]:
        end = int_constant("i64", w.outer[2])
        return b.repeat("columns", int_constant("i64", 0), end, 1, carried, lambda i2, sums: at_place(i0, i1, i2, sums))
    start = [sum_ for line in gemm.zeros_of(tile, kind, run.count) for sum_ in line]
    found = _nest(w, start, step)
    lines = [found[at:at + len(widths)] for at in range(0, len(found), len(widths))]
    gemm.store_sums(b, lines, gemm.places_of(b, tile, 0, run.count))


def _nest(
    w: _Window, carried: list[Value], step: Callable[[Value, Value, list[Value]], list[Value]],
) -> list[Value]:
    """Write the loops over channels and rows of a window, and return the values that they carry."""
    b, zero = w.x.b, int_constant("i64", 0)
    ends = [int_constant("i64", count) for count in w.outer[:2]]

    def channels(i0: Value, carried: list[Value]) -> list[Value]:
        return b.repeat("lines", zero, ends[1], 1, carried, lambda i1, inner: step(i0, i1, inner))
    return b.repeat("channels", zero, ends[0], 1, carried, channels)


BY_NAME = dict.fromkeys(_GEMMS, _window)
