"""Register tiles: the sums of a product or convolution that registers hold, and the cycles of a step of their reduction."""

from functools import cache
from itertools import product
from typing import NamedTuple

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.dtypes import DType

MOST_BLOCKS = 6  # blocks of channels, or vectors of columns, of a tile: bound of the search
HIGHEST = 16  # rows of a tile of a product: bound of the search
REST = 0.03  # share of the time that a loop takes longer if tiles leave a rest, which has code of its own
ALIKE = 1.5  # times the cycles of the best tile that one may take which leaves no rest of columns


class _Choice(NamedTuple):
    cycles: float
    height: int
    width: int


def product_tile(
    machine: Machine, rows: int, columns: int, kind: DType, *, alike: bool = False, whole: bool = False,
) -> tuple[int, int]:
    """Return the rows and columns of the register tile with which a product of a size takes the fewest cycles.

    alike : prefer tiles that are all of one width, up to `ALIKE` times the cycles
    whole : only tiles that are all of one height
    """
    heights = tuple([height for height in range(1, min(HIGHEST, rows) + 1) if not whole or not rows % height])
    free = _tile(machine, rows, columns, machine.lanes(kind), heights, False)
    if alike and columns % free.width:
        same = _tile(machine, rows, columns, machine.lanes(kind), heights, True)
        if same.cycles < ALIKE * free.cycles:
            free = same
    return free.height, free.width


def product_tiles(machine: Machine, rows: int, columns: int, kind: DType, *, whole: bool = False) -> list[tuple[int, int]]:
    """Return all tiles of rows and columns whose sums, one vector of each column and one scalar fit the registers.

    Widths are those of whole registers, and the divisors of all columns. whole : heights divide the rows
    """
    lanes = machine.lanes(kind)
    widths = {lanes * count for count in range(1, MOST_BLOCKS + 1)}
    widths |= {width for width in range(1, MOST_BLOCKS * lanes + 1) if not columns % width}
    return [(height, width) for height in range(1, min(HIGHEST, rows) + 1) if not whole or not rows % height
            for width in sorted(widths) if (height + 1) * pieces(width, lanes) + 1 <= machine.vector_registers]


@cache
def _tile(machine: Machine, rows: int, columns: int, lanes: int, heights: tuple[int, ...], alike: bool) -> _Choice:
    best = _Choice(float("inf"), 1, lanes)
    widths = [lanes * vectors for vectors in range(1, MOST_BLOCKS + 1)]
    if alike:
        widths = [width for width in range(1, MOST_BLOCKS * lanes + 1) if not columns % width]
    for height, width in product(heights, widths):
        vectors = pieces(width, lanes)
        if height * vectors + vectors + 1 > machine.vector_registers:
            continue
        down = [(rows // height, height), (1, rows % height)]
        across = [(columns // width, vectors), (1, pieces(columns % width, lanes))]
        cycles = sum(n * m * step_cycles(machine, h, v) for (n, h), (m, v) in product(down, across))
        cycles *= with_rests(rows % height, columns % width)
        if cycles < best.cycles:
            best = _Choice(cycles, height, width)
    return best


@cache
def pixel_tile(machine: Machine, pixels: int, blocks: int, each: int = 1, more: int = 1) -> tuple[int, int]:
    """Return the pixels and blocks of channels of the register tile that takes the fewest cycles for so many of each.

    The tile's blocks divide all blocks; a last tile may have fewer pixels. A step of the reduction needs a register for each sum,
    `each` for each block's weights, and `more` for a pixel's scalar.
    """
    def cost(height: int, width: int) -> tuple[float, int]:  # of equal cycles the fewest loads
        whole, rest = pixels // height * step_cycles(machine, height, width), step_cycles(machine, pixels % height, width)
        loads = blocks // width * pixels // height * (height + width)
        return blocks // width * (whole + rest) * with_rests(pixels % height), loads
    return min(pixel_tiles(machine, pixels, blocks, each, more), key=lambda tile: cost(*tile))


def pixel_tiles(machine: Machine, pixels: int, blocks: int, each: int = 1, more: int = 1) -> list[tuple[int, int]]:
    """Return all tiles of pixels and blocks of channels whose sums, weights and scalar fit the registers."""
    there = machine.vector_registers - more
    fits = [(height, width) for width in range(1, min(blocks, MOST_BLOCKS) + 1) if not blocks % width
            for height in range(1, min(pixels, there) + 1) if height * width + each * width <= there]
    return fits or [(1, 1)]


def repeated_steps(machine: Machine, pixels: int, blocks: int) -> int:
    """Return the steps of a tile that follow each other without a jump: two where both steps' weights have registers.

    With fewer registers LLVM's scheduler loads the second step's weights early all the same, and spills sums.
    """
    return 2 if pixels * blocks + 2 * blocks + 1 <= machine.vector_registers else 1


def pieces(columns: int, lanes: int) -> int:
    """Return the instructions for a vector of any length: whole registers, then parts whose lengths are powers of two."""
    return columns // lanes + (columns % lanes).bit_count()


def step_cycles(machine: Machine, height: int, vectors: int) -> float:
    """Return the cycles of one step of a reduction: its multiply-adds or its loads, but no sum sooner than its last one."""
    if not height * vectors:
        return 0
    fmas, loads = height * vectors / machine.fmas_per_cycle, (height + vectors) / machine.loads_per_cycle
    return max(fmas, loads, machine.fma_latency_cycles) + machine.step_cycles


def stream_step_cycles(machine: Machine, height: int, vectors: int) -> float:
    """Return the cycles of a step whose scalars are broadcast by instructions of their own, and whose weights stream from L2."""
    if not height * vectors:
        return 0
    return step_cycles(machine, height, vectors) + machine.broadcast_cycles * height + machine.stream_cycles * vectors


def with_rests(*rests: int) -> float:
    """Return the factor of the cycles of loops that leave these rests: each that is not 0 has code of its own."""
    return 1 + REST * sum(rest > 0 for rest in rests)
