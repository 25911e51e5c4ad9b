"""Tiles of a product on a GPU: what a block and a thread of it compute, by an estimate over the machine's record."""

from functools import cache
from math import ceil
from typing import NamedTuple

from vtakit.compiler.nn.gpu.machine import WARP, GpuMachine

BLOCK_SIDES = (16, 32, 64, 128)  # rows and columns of a block's tile
THREAD_SIDES = (1, 2, 4, 8)  # and of a thread's
MOST_THREADS = 512  # of a block: with more, each has fewer results than shared memory gives operands for
REST = 1.25  # times that a product takes longer if its last tiles are not whole: each step asks
OTHER_REGISTERS = 40  # of a thread, for operands and addresses
ACROSS = 1.1  # and if a tile ends within a line: where each column lies takes divisions
VECTOR = 4  # columns of a thread that follow each other in shared memory, so that no two threads want one bank
DEPTHS = (4, 8, 16, 32)  # steps of the reduction whose operands are in shared memory


class Tile(NamedTuple):
    """Rows and columns of a block's tile, and of the part of it that a thread computes."""

    rows: int
    columns: int
    thread_rows: int
    thread_columns: int

    @property
    def threads(self) -> tuple[int, int]:
        """Threads of the block, along columns and rows."""
        return self.columns // self.thread_columns, self.rows // self.thread_rows


class Product(NamedTuple):
    """The extents of products of matrices: their number, rows, columns, terms of a sum, and the size of an operand's element.

    whole : whether tiles of rows must divide the rows
    line  : columns of a line of an image, of which tiles best hold a whole number, or which holds a whole number of them
    """

    matrices: int
    rows: int
    columns: int
    depth: int
    element_bytes: int
    whole: bool = False
    line: int = 1


@cache
def product_tiles(machine: GpuMachine, product: Product) -> tuple[Tile, ...]:
    """Return the tiles that are legal and of use: with 32 threads at least, and no more than twice as large as the product."""
    found = []
    heights = [rows for rows in _sides(product.rows) if not product.whole or not product.rows % rows]
    for rows, columns in ((rows, columns) for rows in heights for columns in _sides(product.columns)):
        for height, width in ((height, width) for height in THREAD_SIDES for width in THREAD_SIDES):
            tile = Tile(rows, columns, height, width)
            threads = tile.threads[0] * tile.threads[1]
            if not rows % height and not columns % width and WARP <= threads <= min(machine.threads_per_block, MOST_THREADS):
                found.append(tile)
    return tuple(found)


def _sides(extent: int) -> list[int]:
    """Return the sides of tiles along an extent: powers of two less than twice as long, and divisors, which leave no rest."""
    least, most = BLOCK_SIDES[0], BLOCK_SIDES[-1]
    sides = {side for side in BLOCK_SIDES if side == least or side < 2 * extent}
    return sorted(sides | {side for side in range(least, min(most, extent) + 1) if not extent % side})


def depths(machine: GpuMachine, product: Product, tile: Tile, buffers: int = 1) -> list[int]:
    """Return the steps of the reduction for which both operands of a tile fit shared memory in so many buffers."""
    step = (tile.rows + tile.columns) * product.element_bytes * buffers
    return [depth for depth in DEPTHS if depth * step <= machine.shared_bytes] or [DEPTHS[0]]


def best_tile(machine: GpuMachine, product: Product) -> Tile:
    """Return the tile with which the product takes the least time by the estimate."""
    return min(product_tiles(machine, product), key=lambda tile: (tile_cycles(machine, product, tile), -tile.rows * tile.columns))


@cache
def tile_cycles(machine: GpuMachine, product: Product, tile: Tile, parts: int = 1) -> float:
    """Return the cycles of a product by blocks of a tile, its sums in so many parts.

    In a step of its reduction a block multiplies, reads shared memory, and fetches operands from L2; the longest counts, for all
    blocks that an SM holds together. Few warps do not hide the latency of either.
    """
    threads = tile.threads[0] * tile.threads[1]
    blocks = product.matrices * ceil(product.rows / tile.rows) * ceil(product.columns / tile.columns) * parts
    shared = (tile.rows + tile.columns) * product.element_bytes * DEPTHS[1] * 2
    held = machine.blocks_at_once(threads, shared, tile.thread_rows * tile.thread_columns + OTHER_REGISTERS)
    busy = min(held, max(blocks / machine.sms, 1))
    multiply = tile.rows * tile.columns / machine.fma_lanes
    wide = tile.thread_columns * min(tile.threads[0], WARP) * product.element_bytes / machine.shared_bytes_per_cycle
    loads = tile.thread_rows + max(wide, ceil(tile.thread_columns / VECTOR))  # a cycle each, or what all lanes of a warp read
    read = ceil(threads / WARP) * loads
    fetch = (tile.rows + tile.columns) * product.element_bytes / machine.l2_bytes_per_cycle
    steps = ceil(product.depth / parts)
    waits = steps / DEPTHS[1] * (machine.latency_cycles / 2 + machine.barrier_cycles)  # fetched one tile ahead: half is hidden
    one = max(steps * max(multiply, read, fetch) * busy, steps * max(multiply, read, fetch) + waits)
    if product.rows % tile.rows or product.columns % tile.columns:
        one *= REST
    if tile.columns % product.line and product.line % tile.columns:
        one *= ACROSS
    # Each column of tiles reads all rows again: from memory, as far as L2 does not hold them.
    rows, columns = product.rows * product.depth * product.element_bytes, product.columns * product.depth * product.element_bytes
    again = ceil(product.columns / tile.columns) if rows + columns > machine.l2_bytes else 1
    memory = product.matrices * (rows * again + columns) / machine.memory_bytes_per_cycle
    waves = ceil(blocks / (machine.sms * held)) if busy >= held else 1
    return max(waves * one, memory) + machine.latency_cycles


def best_parts(machine: GpuMachine, product: Product, options: list[int]) -> int:
    """Return into how many parts the sums of a product are cut: more than one only where the second kernel pays."""
    def cycles(parts: int) -> float:
        own = tile_cycles(machine, product, best_tile(machine, product), parts)
        if parts == 1:
            return own
        moved = product.matrices * product.rows * product.columns * 4 * (parts + 1)
        launch = machine.launch_us * machine.clock_ghz * 1000
        return own + launch + moved / (machine.l2_bytes_per_cycle * machine.sms) + machine.latency_cycles
    return min(options, key=cycles)
