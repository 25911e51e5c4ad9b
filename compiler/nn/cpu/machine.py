"""What a schedule asks of a processor, and the tile of a product that keeps it busy."""

from dataclasses import dataclass
from functools import cache
from itertools import product

from vtakit.compiler.codegen.llvm.intrinsics import registers
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.dtypes import DType

LATENCY = 4  # cycles of a multiply-add, two of which begin in each cycle


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor's vectors.

    vector_bytes : of a register     registers : how many
    """

    vector_bytes: int
    registers: int

    @classmethod
    def of(cls, target: Target | None) -> "Machine":
        """Of a target, or of this machine."""
        chosen = target or Target.host()
        return cls(chosen.vector_bytes, registers(chosen))

    def lanes(self, kind: DType) -> int:
        """Elements of a type in a register."""
        return max(1, self.vector_bytes // kind.bytes)

    def tile(self, rows: int, columns: int, kind: DType) -> tuple[int, int]:
        """Rows and columns of the tile of sums, held in registers, with which a product of that size takes the fewest cycles."""
        return _tile(rows, columns, self.lanes(kind), self.registers)


@cache
def _tile(rows: int, columns: int, lanes: int, registers: int) -> tuple[int, int]:
    best, least = (1, lanes), float("inf")
    for height, vectors in product(range(1, 17), range(1, 7)):
        if height * vectors + vectors + 1 > registers or height > rows:
            continue
        width = vectors * lanes
        down = [(rows // height, height), (1, rows % height)]
        across = [(columns // width, vectors), (1, pieces(columns % width, lanes))]
        cycles = sum(n * m * step_cycles(h, v) for (n, h), (m, v) in product(down, across))
        tails = 1 + 0.03 * (bool(rows % height) + bool(columns % width))  # each is code of its own
        if cycles * tails < least:
            best, least = (height, width), cycles * tails
    return best


def pieces(columns: int, lanes: int) -> int:
    """Instructions for a vector of any length: whole registers, then parts whose lengths are powers of two."""
    return columns // lanes + (columns % lanes).bit_count()


def step_cycles(height: int, vectors: int) -> float:
    """Cycles for one step of a reduction: two multiply-adds or two loads in each, but no sum sooner than its last one."""
    if not height * vectors:
        return 0
    return max(height * vectors / 2, (height + vectors) / 2, LATENCY) + 0.5
