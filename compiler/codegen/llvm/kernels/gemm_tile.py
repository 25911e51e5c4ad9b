"""The tile of sums of an outer product: its operands, and how vectors of the target cut it."""

from dataclasses import dataclass

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.kernels import amx
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.text.operands import Value
from vtakit.compiler.ir import expr as ir


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tile:
    """The arguments of a micro-kernel: addresses, the tile's constant shape, steps, and row lengths in elements.

    steps    : k where it is a constant, else None
    fresh    : whether sums begin at 0
    by_tiles : whether tile registers take it where the system permits them
    lanes    : of a vector of sums     widths : of the vectors of a row, of which the last may be shorter
    blocks   : (first row, end) of the parts whose sums vector registers hold
    """

    a: Value
    b: Value
    c: Value
    m: int
    n: int
    steps: int | None
    k: Value
    lda: Value
    ldb: Value
    ldc: Value
    fresh: bool
    by_tiles: bool
    lanes: int
    widths: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, x: Context, e: ir.Call) -> "Tile":
        """Return the tile of a call. Raises CodegenError for one that the registers do not hold."""
        if len(e.args) not in (9, 10):
            raise CodegenError(f"{e} has {len(e.args)} arguments: {e.name} takes a, b, c, m, n, k, lda, ldb, ldc")
        a, b, c = (x.value(arg) for arg in e.args[:3])
        shape = [arg.value if isinstance(arg, ir.IntImm) else 0 for arg in e.args[3:5]]
        if min(shape) < 1:
            raise CodegenError(f"{e.name} of a tile of {e.args[3]} x {e.args[4]}: both must be constants of at least 1")
        m, n = shape
        steps = e.args[5].value if isinstance(e.args[5], ir.IntImm) else None
        k, lda, ldb, ldc = (x.index(arg) for arg in e.args[5:9])
        fresh = len(e.args) == 10 and isinstance(e.args[9], ir.IntImm) and e.args[9].value == 1
        by_tiles = amx.takes(x.target, e.name, m, n, steps)
        lanes, widths = vectors_of(x, n)
        vectors, there = len(widths), x.target.vector_registers
        most = rows_of_sums(x, vectors)
        if m > most and not by_tiles:
            raise CodegenError(
                f"{e.name} of a tile of {m} x {n} needs {m * vectors + vectors + 1} vector registers and "
                f"{x.target} has {there}: use fewer rows or columns (a vector has {lanes} lanes of 32 bits)"
            )
        return cls(a=a, b=b, c=c, m=m, n=n, steps=steps, k=k, lda=lda, ldb=ldb, ldc=ldc, fresh=fresh, by_tiles=by_tiles,
                   lanes=lanes, widths=widths, blocks=blocks_of(x, m, vectors))


def vectors_of(x: Context, n: int) -> tuple[int, tuple[int, ...]]:
    """Return the lanes of a vector of 32 bits, and the widths of the vectors of a row of n; the last may be shorter."""
    lanes = x.target.vector_bytes // 4
    return lanes, tuple([min(lanes, n - first) for first in range(0, n, lanes)])


def rows_of_sums(x: Context, vectors: int) -> int:
    """Return how many rows of sums the registers hold, beside a row of b and an element of a."""
    return (x.target.vector_registers - vectors - 1) // vectors


def blocks_of(x: Context, m: int, vectors: int) -> tuple[tuple[int, int], ...]:
    """(first row, end) of parts of m rows, about the same of each, whose sums the registers hold."""
    parts = -(-m // rows_of_sums(x, vectors))
    return tuple([(m * part // parts, m * (part + 1) // parts) for part in range(parts)])
