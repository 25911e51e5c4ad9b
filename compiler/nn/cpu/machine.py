"""What a schedule asks of a processor, and the tile of a product that keeps it busy."""

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

from vtakit.compiler.codegen.llvm.kernels.channel_dots import has_dots, has_shared_sums
from vtakit.compiler.codegen.llvm.kernels.dot_kernels import KINDS
from vtakit.compiler.codegen.llvm.kernels.intrinsics import registers
from vtakit.compiler.codegen.llvm.kernels.tile_kernels import has_tiles
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.nn.cpu.caches import SMALLEST, Caches, caches

MOST_BLOCKS = 6  # of channels in a tile
HIGHEST = 16  # rows of a tile of a product
SMALL = 1 << 14  # elements that are not worth waking threads for
TASKS = 4  # parts that threads share: work that has fewer is cut further
LATENCY = 4  # cycles of a multiply-add, two of which begin in each cycle
TILE_PRODUCT, TILE_LOAD = 16, 32  # cycles of a product of full tile registers; of an operand from the L2 cache, 32 bytes in each
SHARING_STEPS = 4  # in a call whose pixels share a sum of the weights
LOADS = 1.8  # in a cycle, of the two that there are: some wait for a line or a bank that another takes


class Pace(NamedTuple):
    """What a core does in a cycle.

    multiply_adds : of whole registers     far_bytes : from beyond the second-level cache
    """

    multiply_adds: int
    far_bytes: float


PACE = Pace(2, 8.5)  # measured on a Sapphire Rapids
# By LLVM's name of the processor: those with one multiply-add of 512 bits in a cycle. Measured on a Zen 4; Intel's clients by the
# company's optimization reference manual (248966).
PACES = {"znver4": Pace(1, 20), **dict.fromkeys(("icelake-client", "tigerlake", "rocketlake"), Pace(1, 8.5))}


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor's vectors, the caches of a core, and its pace.

    vector_bytes  : of a register     registers : how many
    tile_kinds    : types of data that tile registers multiply
    dot_kinds     : types of data of which one instruction adds dot products, 32 bits in each lane, to a whole vector
    sharing_kinds : types of data whose dot products need a sum of weights, once for all pixels and steps of a call
    """

    vector_bytes: int
    registers: int
    caches: Caches = SMALLEST
    pace: Pace = PACE
    tile_kinds: frozenset[str] = frozenset()
    dot_kinds: frozenset[str] = frozenset()
    sharing_kinds: frozenset[str] = frozenset()

    @classmethod
    def of(cls, target: Target | None) -> "Machine":
        """Of a target, or of this machine."""
        chosen = target or Target.host()
        pace = PACES.get(chosen.cpu, PACE)
        if chosen.vector_bytes < 64:  # such registers are not halved
            pace = pace._replace(multiply_adds=PACE.multiply_adds)
        kinds = [frozenset([kind for kind in KINDS if has(chosen, kind)]) for has in (has_tiles, has_dots, has_shared_sums)]
        return cls(chosen.vector_bytes, registers(chosen), caches(chosen), pace, *kinds)

    def lanes(self, kind: DType) -> int:
        """Elements of a type in a register."""
        return max(1, self.vector_bytes // kind.bytes)

    def tile(self, rows: int, columns: int, kind: DType, *, alike: bool = False, whole: bool = False) -> tuple[int, int]:
        """Rows and columns of the tile of sums, held in registers, with which a product of that size takes the fewest cycles.

        alike : rather tiles that are all of one width, if these take at most half as long again
        whole : only tiles that are all of one height
        """
        lanes = self.lanes(kind)
        heights = tuple([height for height in range(1, min(HIGHEST, rows) + 1) if not whole or not rows % height])
        free = _tile(rows, columns, lanes, self.registers, heights, False)
        if alike and columns % free.width:
            same = _tile(rows, columns, lanes, self.registers, heights, True)
            if same.cycles < 1.5 * free.cycles:
                free = same
        return free.height, free.width

    def tiles(self, rows: int, columns: int, kind: DType, *, whole: bool = False) -> list[tuple[int, int]]:
        """Return all tiles of rows and columns whose sums, a vector of each column and a number fit the registers.

        Widths are those of whole registers, and the divisors of all columns. whole : heights divide the rows
        """
        lanes = self.lanes(kind)
        widths = {lanes * count for count in range(1, MOST_BLOCKS + 1)}
        widths |= {width for width in range(1, MOST_BLOCKS * lanes + 1) if not columns % width}
        return [(height, width) for height in range(1, min(HIGHEST, rows) + 1) if not whole or not rows % height
                for width in sorted(widths) if (height + 1) * pieces(width, lanes) + 1 <= self.registers]

    def pixels(self, pixels: int, blocks: int, each: int = 1, more: int = 1) -> tuple[int, int]:
        """Pixels and blocks of channels of the tile of sums, held in registers, that takes the fewest cycles for so many of each.

        The blocks are a divisor of theirs; a last tile may have fewer pixels. A step of the reduction needs a register for each
        sum, `each` for each block's weights, and `more` for a pixel's number.
        """
        return _pixels(pixels, blocks, self.registers - more, each)

    def pixel_tiles(self, pixels: int, blocks: int, each: int = 1, more: int = 1) -> list[tuple[int, int]]:
        """Return all tiles of pixels and blocks of channels whose sums, weights and number fit the registers."""
        return _pixel_tiles(pixels, blocks, self.registers - more, each)

    def dot_steps(self, kind: str) -> int:
        """Return how many steps of dot products are best in one call."""
        return SHARING_STEPS if kind in self.sharing_kinds else 1

    def dot_registers(self, kind: str) -> tuple[int, int]:
        """Return the registers that a call of dot products needs for a vector of weights, and for a pixel's number.

        Both halves of a pair of bfloat16 become float32 where no instruction multiplies pairs. Halves of bytes are not counted:
        smaller tiles, which leave room for them, were no faster (AVX2 and AVX-512 without VNNI on a Zen 5, November 2026).
        """
        if kind in self.sharing_kinds:
            return SHARING_STEPS + 1, 2
        return (2, 2) if kind == "bfloat16" and kind not in self.dot_kinds else (1, 1)

    def repeated(self, pixels: int, blocks: int) -> int:
        """Steps of such a tile that follow each other without a jump: two where there are registers for the weights of both.

        With fewer, LLVM's scheduler loads the second step's weights early all the same, and puts sums on the stack.
        """
        return 2 if pixels * blocks + 2 * blocks + 1 <= self.registers else 1


class _Choice(NamedTuple):
    cycles: float
    height: int
    width: int


@cache
def _tile(rows: int, columns: int, lanes: int, registers: int, heights: tuple[int, ...], alike: bool) -> _Choice:
    best = _Choice(float("inf"), 1, lanes)
    widths = [lanes * vectors for vectors in range(1, MOST_BLOCKS + 1)]
    if alike:
        widths = [width for width in range(1, MOST_BLOCKS * lanes + 1) if not columns % width]
    for height, width in product(heights, widths):
        vectors = pieces(width, lanes)
        if height * vectors + vectors + 1 > registers:
            continue
        down = [(rows // height, height), (1, rows % height)]
        across = [(columns // width, vectors), (1, pieces(columns % width, lanes))]
        cycles = sum(n * m * step_cycles(h, v) for (n, h), (m, v) in product(down, across))
        cycles *= 1 + 0.03 * (bool(rows % height) + bool(columns % width))  # what is left over is code of its own
        if cycles < best.cycles:
            best = _Choice(cycles, height, width)
    return best


@cache
def _pixels(pixels: int, blocks: int, registers: int, each: int) -> tuple[int, int]:
    def step(height: int, width: int) -> float:  # with just enough sums or loads, any that is late is waited for
        return max(step_cycles(height, width), (height + width) / LOADS + 0.5, LATENCY + 1.5) if height else 0

    def cycles(height: int, width: int) -> float:
        found = blocks // width * (pixels // height * step(height, width) + step(pixels % height, width))
        return found * (1.03 if pixels % height else 1)  # what is left over is code of its own
    return min(_pixel_tiles(pixels, blocks, registers, each), key=lambda tile: cycles(*tile))


def _pixel_tiles(pixels: int, blocks: int, registers: int, each: int) -> list[tuple[int, int]]:
    fits = [(height, width) for width in range(1, min(blocks, MOST_BLOCKS) + 1) if not blocks % width
            for height in range(1, min(pixels, registers) + 1) if height * width + each * width <= registers]
    return fits or [(1, 1)]


def pieces(columns: int, lanes: int) -> int:
    """Instructions for a vector of any length: whole registers, then parts whose lengths are powers of two."""
    return columns // lanes + (columns % lanes).bit_count()


def step_cycles(height: int, vectors: int) -> float:
    """Cycles for one step of a reduction: two multiply-adds or two loads in each, but no sum sooner than its last one."""
    if not height * vectors:
        return 0
    return max(height * vectors / 2, (height + vectors) / 2, LATENCY) + 0.5
