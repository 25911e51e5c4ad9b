"""Candidates of the sizes of tiles and blocks in sketches, and the estimate of a tile's cycles that prefers one."""

from functools import cache
from itertools import product
from math import prod
from typing import NamedTuple

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.nn.cpu.flow import Reads, divisors, extents
from vtakit.compiler.nn.cpu.tiles import pieces, with_rests
from vtakit.compiler.te.operation import ComputeOp
from vtakit.compiler.tune.sketch_reads import CONTIGUOUS, STILL, moves

WIDEST = 4  # vectors side by side in a tile
HIGHEST = 16  # elements of a tile along an axis other than that of its vectors
UNEVEN = (2, 4, 6, 8)  # sizes that may leave a rest, for an extent with few divisors


class Shape(NamedTuple):
    """Facts of a stage for the estimate of a tile: extents, the axis of vectors, lanes, and how each read moves.

    reads : of each read, how it moves along the vectors (`sketch_reads.moves`), and the numbers of the other axes it moves with
    """

    machine: Machine
    sizes: tuple[int, ...]
    vector: int
    lanes: int
    reads: tuple[tuple[int, frozenset[int]], ...]


def shape_of(op: ComputeOp, vector: int, machine: Machine, kind: DType, reads: Reads) -> Shape:
    """Return the shape of an operation whose vectors run along an axis."""
    found = []
    for load in reads.of(op):
        ways = [moves(load, axis) for axis in op.axis]
        found.append((ways[vector], frozenset(at for at, way in enumerate(ways) if way != STILL and at != vector)))
    return Shape(machine, extents(op), vector, machine.lanes(kind), tuple(found))


def widths(extent: int, lanes: int) -> list[int]:
    """Return the widths of a tile along its vectors: whole vectors, and divisors of the extent."""
    whole = {lanes * count for count in range(1, WIDEST + 1) if lanes * count <= extent}
    small = {size for size in divisors(extent) if lanes // 2 <= size <= WIDEST * lanes}
    return sorted(whole | small | ({extent} if extent < lanes else set()))


def heights(extent: int, most: int) -> list[int]:
    """Return the sizes of a tile along another axis: divisors of the extent, or some sizes that leave a rest if it has few."""
    found = [size for size in divisors(extent) if size <= min(most, HIGHEST)]
    if found[-1] < min(4, most) < extent:
        found = sorted({*found, *[size for size in UNEVEN if size <= min(most, extent)]})
    return found


def blocks(tiles: int) -> list[int]:
    """Return the numbers of tiles of one block: powers of two; 1 stands for no blocks."""
    return [1 << at for at in range(max(tiles, 1).bit_length()) if at == 0 or 1 << at < tiles]


def room(machine: Machine, width: int, lanes: int) -> int:
    """Return the rows of a tile of some width whose sums, one row's vectors and one scalar fit the registers; at least 1."""
    vectors = max(pieces(width, lanes), 1)
    return max((machine.vector_registers - 1) // vectors - 1, 1)


def cycles(shape: Shape, tile: tuple[int, ...]) -> float:
    """Estimate the cycles that one element takes in one step of a reduction, in a tile of some extents."""
    machine, width = shape.machine, tile[shape.vector]
    vectors = max(pieces(width, shape.lanes), 1)
    rows = prod(tile) // width
    loads = 0.0
    for way, others in shape.reads:
        each = 1 if way == STILL else vectors if way == CONTIGUOUS else 2 * width
        loads += each * prod([tile[at] for at in others])
    adds = vectors * rows
    spent = max(adds / machine.fmas_per_cycle, loads / machine.loads_per_cycle, machine.fma_latency_cycles) + machine.step_cycles
    return spent * with_rests(*[size % count for size, count in zip(shape.sizes, tile, strict=True)]) / prod(tile)


@cache
def best_tile(shape: Shape, chosen: tuple[tuple[int, int], ...], left: tuple[int, ...]) -> tuple[int, ...]:
    """Return the tile with the fewest cycles for each element; of equal ones the smallest.

    chosen : extents that are decided, by axis; left : the axes that are not; others have extent 1
    """
    fixed = dict(chosen)
    lists = [widths(shape.sizes[at], shape.lanes) if at == shape.vector else heights(shape.sizes[at], HIGHEST) for at in left]
    best: tuple[float, int] | None = None
    found: tuple[int, ...] = tuple([1] * len(shape.sizes))
    for sizes in product(*lists):
        tile = tuple([fixed.get(at, 1) for at in range(len(shape.sizes))])
        tile = tuple([sizes[left.index(at)] if at in left else size for at, size in enumerate(tile)])
        width = tile[shape.vector]
        if prod(tile) // width > room(shape.machine, width, shape.lanes):
            continue
        cost = cycles(shape, tile), prod(tile)
        if best is None or cost < best:
            best, found = cost, tile
    return found
