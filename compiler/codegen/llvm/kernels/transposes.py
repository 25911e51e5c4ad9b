"""Transpositions of 32-bit elements in vector registers.

    transpose_32(a, b, rows, columns, lda, ldb)    b[j * ldb + i] = a[i * lda + j]    i < rows, j < columns

a and b are addresses of memory that does not overlap, of one type of 32 bits; rows and columns are constants. A square as wide
as a vector is as many loads, shuffles of two registers at a time, and as many stores. What is left at an edge is done by a square
that lies over the one before or, where the whole is narrower than a vector, by one of which some lanes are left out.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.lowering.context import Context
from vtakit.compiler.codegen.llvm.text import types as ty
from vtakit.compiler.codegen.llvm.text.operands import Value, int_constant, lane_constants
from vtakit.compiler.ir import expr as ir

T = TypeVar("T")
Shuffle = Callable[[T, T, Sequence[int]], T]
_PART = 4  # lanes of 128 bits, within which the shuffles of single elements stay


class _Transpose:
    """The arguments of a call.

    side : of a square, in lanes of a vector
    """

    def __init__(self, x: Context, e: ir.Call) -> None:
        if len(e.args) != 6:
            raise CodegenError(f"{e} has {len(e.args)} arguments: transpose_32 takes a, b, rows, columns, lda, ldb")
        sizes = [arg.value if isinstance(arg, ir.IntImm) else 0 for arg in e.args[2:4]]
        if min(sizes) < 1:
            raise CodegenError(f"transpose_32 of {e.args[2]} x {e.args[3]}: both must be constants of at least 1")
        self.b, self.sizes = x.b, sizes
        self.source, self.result = (x.value(arg) for arg in e.args[:2])
        self.lda, self.ldb = (x.index(arg) for arg in e.args[4:])
        self.side = max(x.target.vector_bytes // 4, _PART)

    def squares(self) -> None:
        """Transpose all, square by square."""
        rows, columns = self.sizes
        self._along(rows, lambda row: self._along(columns, lambda column: self._square(row, column)))

    def _along(self, size: int, make: Callable[[Value], None]) -> None:
        """Make squares from one edge to the other: whole ones in a loop, then one that ends at the edge."""
        def step(at: Value, none: list[Value]) -> list[Value]:
            make(at)
            return none
        zero, whole = int_constant("i64", 0), size - size % self.side
        if whole > self.side:
            self.b.repeat("squares", zero, int_constant("i64", whole), self.side, [], step)
        elif whole:
            make(zero)
        if whole < size:
            make(int_constant("i64", max(size - self.side, 0)))

    def _square(self, row: Value, column: Value) -> None:
        height, width = (min(size, self.side) for size in self.sizes)
        first = self._at(self.source, row, self.lda, column)
        nothing = Value("poison", ty.vector("i32", self.side))
        lines = [self._load(self._line(first, self.lda, i), width) if i < height else nothing for i in range(self.side)]
        first = self._at(self.result, column, self.ldb, row)
        for j, line in enumerate(transposed(lines, self.b.shuffle)[:width]):
            self._store(line, self._line(first, self.ldb, j), height)

    def _at(self, base: Value, line: Value, step: Value, place: Value) -> Value:
        index = self.b.op("add", self.b.op("mul", line, step, "nsw"), place, "nsw")
        return self.b.address(base, "i32", index)

    def _line(self, first: Value, step: Value, count: int) -> Value:
        return self.b.address(first, "i32", self.b.op("mul", step, int_constant("i64", count), "nsw"))

    def _load(self, address: Value, count: int) -> Value:
        kind = ty.vector("i32", self.side)
        if count == self.side:
            return self.b.load(kind, address, 4)
        rest = Value("poison", kind)
        return self.b.intrinsic(
            f"masked.load.v{self.side}i32.p0", kind, address, int_constant("i32", 4), self._first(count), rest)

    def _store(self, value: Value, address: Value, count: int) -> None:
        if count == self.side:
            self.b.store(value, address, 4)
        else:
            name = f"masked.store.v{self.side}i32.p0"
            self.b.intrinsic(name, "void", value, address, int_constant("i32", 4), self._first(count))

    def _first(self, count: int) -> Value:
        """Return a mask of the first lanes."""
        return lane_constants("i1", [int(lane < count) for lane in range(self.side)])


def transposed(lines: Sequence[T], shuffle: Shuffle[T]) -> list[T]:
    """Return the columns of a square of 2**n lines, at least four, of as many lanes.

    shuffle : of two lines and so many numbers of lanes, those of the second line counted on from those of the first

    Two shuffles within parts of 128 bits put four elements of a column together, the others move whole parts: each is one
    instruction of x86 and most are of NEON.
    """
    side = len(lines)
    parts = range(0, side, _PART)

    def within(one: T, other: T, lanes: Sequence[int]) -> T:  # of each part, where those of the second line follow
        return shuffle(one, other, [part + lane + (side - _PART) * (lane >= _PART) for part in parts for lane in lanes])
    columns: list[list[T]] = [[], [], [], []]  # the first, second ... column of every part, four rows in an item
    for row in parts:
        a, b, c, d = lines[row:row + _PART]
        for at, lanes in enumerate(((0, 4, 1, 5), (2, 6, 3, 7))):
            upper, lower = within(a, b, lanes), within(c, d, lanes)
            columns[2 * at].append(within(upper, lower, (0, 1, 4, 5)))
            columns[2 * at + 1].append(within(upper, lower, (2, 3, 6, 7)))
    found = [_by_parts(column, shuffle, side) for column in columns]
    return [found[at % _PART][at // _PART] for at in range(side)]


def _by_parts(lines: Sequence[T], shuffle: Shuffle[T], side: int) -> list[T]:
    """Return the columns of a square of parts of lines."""
    if len(lines) == 1:
        return [*lines]
    every = [[part + lane for part in range(first, 2 * side, 2 * _PART) for lane in range(_PART)] for first in (0, _PART)]
    halves = [_by_parts([shuffle(a, b, lanes) for a, b in zip(lines[::2], lines[1::2], strict=True)], shuffle, side)
              for lanes in every]
    return [line for pair in zip(*halves, strict=True) for line in pair]


def _transpose(x: Context, e: ir.Call) -> Value:
    _Transpose(x, e).squares()
    return int_constant("i32", 0)


BY_NAME = {"transpose_32": _transpose}
