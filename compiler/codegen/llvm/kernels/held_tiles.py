"""Sums that stay in tile registers from call to call: those of a few runs of pixels, over all loops of a schedule around them.

    tiles_zero(c, runs, m, n, steps)                          c[x, j] = 0 for x < m, j < n
    tiles_u8s8s32(a, b, c, runs, m, n, steps, lda, ldb)       c[x, j] += sum over p < steps, q < 4 of a[x, 4 p + q] * b[p, j, q]
    tiles_words(…)                                            the same; a is of uint32, the first byte in the lowest bits
    tiles_bf16(…)                                             the same of bfloat16 in pairs, q < 2, into float32
    tiles_store(c, d, runs, m, n, steps, ldd)                 d[x, j] = c[x, j]

a, b, c, d are addresses; the counts are constants; lda, ldb, ldd are the elements from one row to the next. c is one of `runs`
runs in a compact buffer in the scope `SCOPE`, at a constant place. tiles_zero of all runs comes first, and sets the registers up.
Eight tile registers hold the sums of all runs and the operands of one product. A call reuses the weights that the call before it
loaded, if only addresses were computed between the two.

Where the system refuses tile registers, the same calls keep the sums in the buffer's memory and use vectors.
"""

from collections.abc import Callable

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import amx, gemm, gemm_tile
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.base import same
from vtakit.compiler.ir.calls import is_address

SCOPE = "amx.tile"
_GEMMS = {"tiles_u8s8s32": "gemm_u8s8s32", "tiles_words": "gemm_u8s8s32", "tiles_bf16": "gemm_bf16"}
_OF_WORDS = 4  # bytes of an element of a of tiles_words


class _Run:
    """The run of neighbouring pixels that a call is about, and the registers of all runs.

    at   : which of the runs it is       m, n    : pixels, columns      steps : of a product
    rows : of each tile of a run         columns : of each tile
    """

    def __init__(self, x: Context, e: ir.Call, pointers: int, arguments: str) -> None:
        if len(e.args) != arguments.count(",") + 1:
            raise CodegenError(f"{e} has {len(e.args)} arguments: {e.name} takes {arguments}")
        counts = [arg.value if isinstance(arg, ir.IntImm) else 0 for arg in e.args[pointers:pointers + 4]]
        if min(counts) < 1:
            raise CodegenError(f"{e}: the counts of {e.name} must be constants of at least 1")
        self.x, self.name = x, e.name
        self.runs, self.m, self.n, self.steps = counts
        self.at = self._position(e.args[arguments.split(", ").index("c")])
        self.rows, self.columns = cut(self.m), amx.cut(self.n)
        self.sums, self.of_a, self.of_b = amx.registers(self.runs * len(self.rows), len(self.columns))
        if not fits(self.runs, self.m, self.n) or self.steps > amx.ROWS:
            raise CodegenError(f"{e}: {self.runs} runs of {self.m} x {self.n} sums by {self.steps} steps do not fit the "
                               "tile registers: use fewer runs, pixels, columns or steps")

    def _position(self, address: ir.Expr) -> int:
        load = address.args[0] if isinstance(address, ir.Call) and is_address(address) else None
        if not isinstance(load, ir.Load) or load.buffer.scope != SCOPE:
            raise CodegenError(f"{self.name}: its sums {address} must be in a buffer of the scope {SCOPE}")
        assert isinstance(address, ir.Call)
        first = [part.value if isinstance(part, ir.IntImm) else -1 for part in (*load.indices, address.args[1])]
        at, rest = divmod(sum(first), self.m * self.n)
        if min(first) < 0 or rest or at >= self.runs:
            raise CodegenError(f"{self.name}: its sums {address} must be a run at a constant place: unroll the loop over runs")
        return at

    def parts(self) -> list[tuple[int, int]]:
        """Return the row of registers and the first pixel of each of the run's tiles."""
        return [(self.at * len(self.rows) + part, sum(self.rows[:part])) for part in range(len(self.rows))]

    def places(self) -> list[tuple[int, int, int]]:
        """Return the register, the first pixel and the first column of each of the run's tiles of sums."""
        return [(self.sums[row, column], first, amx.ROWS * column)
                for row, first in self.parts() for column in range(len(self.columns))]

    def vectors(self, c: Value, make: Callable[[Value, Value, int, int], None]) -> None:
        """Loop over the pixels: `make` gets a pixel, its row in c, and the first column and the lanes of each of its vectors."""
        b = self.x.b
        lanes, widths = gemm_tile.vectors_of(self.x, self.n)

        def pixel(p: Value, none: list[Value]) -> list[Value]:
            row = b.address(c, "i32", b.op("mul", p, int_constant("i64", self.n), "nsw"))
            for at, width in enumerate(widths):
                make(p, row, lanes * at, width)
            return none
        b.repeat("pixels", int_constant("i64", 0), int_constant("i64", self.m), 1, [], pixel)


def cut(pixels: int) -> list[int]:
    """Return the rows of the tile registers that hold so many pixels of a row, about the same of each."""
    count = -(-pixels // amx.ROWS)
    return [pixels * (at + 1) // count - pixels * at // count for at in range(count)]


def fits(runs: int, pixels: int, columns: int) -> bool:
    """Return whether eight tile registers hold the sums of `runs` runs and the operands of their products."""
    down, across = runs * len(cut(pixels)), len(amx.cut(columns))
    return down * across + down + across <= amx.REGISTERS


def _zero(x: Context, e: ir.Call) -> Value:
    run = _Run(x, e, 1, "c, runs, m, n, steps")
    c, b = x.value(e.args[0]), x.b
    # Only here: it clears all registers. Those of other runs hold zeros too.
    amx.set_up(x, run.rows * run.runs, run.columns, run.steps)

    def by_tiles() -> None:
        for register, _, _ in run.places():
            b.intrinsic("x86.tilezero", "void", _number(register))

    def clear(_: Value, row: Value, first: int, width: int) -> None:
        kind = ty.vector("i32", width)
        b.store(int_constant(kind, 0), b.address(row, "i32", int_constant("i64", first)), 4)
    amx.if_permitted(x, by_tiles, lambda: run.vectors(c, clear))
    return int_constant("i32", 0)


def _add(x: Context, e: ir.Call) -> Value:
    run = _Run(x, e, 3, "a, b, c, runs, m, n, steps, lda, ldb")
    a, b, c = (x.value(arg) for arg in e.args[:3])
    lda, ldb = (x.index(arg) for arg in e.args[7:])
    kernel = _GEMMS[e.name]
    if e.name == "tiles_words":
        lda = x.b.op("mul", lda, int_constant("i64", _OF_WORDS), "nsw")

    def by_vectors() -> None:
        lanes, widths = gemm_tile.vectors_of(x, run.n)
        steps = int_constant("i64", run.steps)
        t = gemm_tile.Tile(
            a=a, b=b, c=c, m=run.m, n=run.n, steps=run.steps, k=steps, lda=lda, ldb=ldb, ldc=int_constant("i64", run.n),
            fresh=False, by_tiles=True, lanes=lanes, widths=widths, blocks=gemm_tile.blocks_of(x, run.m, len(widths)))
        gemm.by_vectors(t, gemm.vectors(x, kernel, t))
    there = x.held[1] if x.held is not None and x.b.undisturbed(x.held[0]) else {}
    amx.if_permitted(x, lambda: _products(run, kernel, (a, b), (lda, ldb), there, (e.args[1], e.args[8])), by_vectors)
    x.held = x.b.here(), there
    return int_constant("i32", 0)


def _products(
    run: _Run, kernel: str, operands: tuple[Value, Value], strides: tuple[Value, Value], there: dict[int, tuple[ir.Expr, ...]],
    row: tuple[ir.Expr, ...],
) -> None:
    """One product of each of the run's tiles of sums. `there`: the row of b that registers hold, by where it is in memory."""
    b = run.x.b
    _, instruction, size = amx.INSTRUCTIONS[kernel]
    lda, ldb = (b.op("mul", stride, int_constant("i64", size), "nsw") for stride in strides)

    def load(register: int, base: Value, offset: Value, stride: Value) -> None:
        b.intrinsic("x86.tileloadd64", "void", _number(register), b.address(base, "i8", offset), stride)
    for at, (line, first) in enumerate(run.parts()):
        for column, register in enumerate(run.of_b):
            if not at and not (register in there and all(map(same, there[register], row))):
                load(register, operands[1], int_constant("i64", 4 * amx.ROWS * column), ldb)
                there[register] = row
            if not column:
                load(run.of_a[line], operands[0], b.op("mul", lda, int_constant("i64", first), "nsw"), lda)
            b.intrinsic(f"x86.{instruction}", "void", *map(_number, (run.sums[line, column], run.of_a[line], register)))


def _store(x: Context, e: ir.Call) -> Value:
    run = _Run(x, e, 2, "c, d, runs, m, n, steps, ldd")
    (c, d), ldd, b = (x.value(arg) for arg in e.args[:2]), x.index(e.args[6]), x.b

    def place(pixel: Value, column: int) -> Value:
        return b.address(b.address(d, "i32", b.op("mul", pixel, ldd, "nsw")), "i32", int_constant("i64", column))

    def by_tiles() -> None:
        stride = b.op("mul", ldd, int_constant("i64", 4), "nsw")
        for register, pixel, column in run.places():
            b.intrinsic("x86.tilestored64", "void", _number(register), place(int_constant("i64", pixel), column), stride)

    def copy(p: Value, row: Value, first: int, width: int) -> None:
        found = b.load(ty.vector("i32", width), b.address(row, "i32", int_constant("i64", first)), 4)
        b.store(found, place(p, first), 4)
    amx.if_permitted(x, by_tiles, lambda: run.vectors(c, copy))
    return int_constant("i32", 0)


def _number(register: int) -> Value:
    return int_constant("i8", register)


BY_NAME = {"tiles_zero": _zero, "tiles_store": _store, **dict.fromkeys(_GEMMS, _add)}
