"""Choice of the fastest form of a 3 x 3 convolution on a processor: direct, or Winograd's with tiles of 2 or 4 pixels a side.

The estimate counts steps of the reduction in registers, points of the transforms, and bytes from beyond L2. The processor's
record gives their cycles. Only ratios matter, since the estimate decides between forms (docs/winograd.md).
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.nn.conv.winograd import PAIRS
from vtakit.compiler.nn.cpu.tiles import MOST_BLOCKS, pixel_tile, step_cycles, with_rests

MARGIN = 0.95  # share of the direct form's cycles below which Winograd's form is taken: its results are less exact


@dataclass(frozen=True, slots=True)
class Conv3x3:
    """A convolution of 3 x 3, stride 1, float32.

    height, width : of the result
    """

    images: int
    channels: int
    filters: int
    height: int
    width: int


class Cut(NamedTuple):
    """Tiling of the products of an image.

    cycles : cycles of one image's products, with the wait for weights
    rows   : rows of tiles in a group: all of their points are there before products begin
    tiles  : Winograd tiles of a register tile, by so many `blocks` of filters
    """

    cycles: float
    rows: int
    tiles: int
    blocks: int


def best_tile(conv: Conv3x3, machine: Machine) -> int:
    """Return the side of the tiles with which Winograd's form is the fastest, 2 or 4; 0 if the direct form is."""
    found = {tile: winograd_cycles(conv, tile, machine) for tile in PAIRS}
    best = min(found, key=found.__getitem__)
    return best if found[best] < MARGIN * direct_cycles(conv, machine) else 0


def pairs_are_faster(conv: Conv3x3, machine: Machine) -> bool:
    """Return whether the direct form in pairs of bfloat16 is faster than Winograd's in float32."""
    return direct_cycles(conv, machine) / machine.bf16_speedup < min(winograd_cycles(conv, tile, machine) for tile in PAIRS)


def direct_cycles(conv: Conv3x3, machine: Machine) -> float:
    """Return the cycles of the form that multiplies each pixel by each weight."""
    blocks = -(-conv.filters // machine.lanes(FLOAT32))
    pixels, width = pixel_tile(machine, conv.width, blocks)
    row = conv.width // pixels * step_cycles(machine, pixels, width) + step_cycles(machine, conv.width % pixels, width)
    steps = conv.images * conv.height * blocks // width * row * 9 * conv.channels
    return machine.beside(steps / machine.fma_busy, 9 * 4 * conv.channels * conv.filters / machine.l3_bytes_per_cycle)


def winograd_cycles(conv: Conv3x3, tile: int, machine: Machine) -> float:
    """Return the cycles of Winograd's form with tiles of so many pixels a side."""
    lanes = machine.lanes(FLOAT32)
    blocks, points = -(-conv.filters // lanes), (tile + 2) ** 2
    down, across = -(-conv.height // tile), -(-conv.width // tile)
    products = cut(down, across, points, conv.channels, blocks, machine).cycles
    moved = machine.transform_cycles * points * down * across * (-(-conv.channels // lanes) + blocks)
    return conv.images * (products + moved)


@cache
def cut(down: int, across: int, points: int, channels: int, blocks: int, machine: Machine) -> Cut:
    """Return the tiling with the fewest cycles for an image of `down` rows of tiles, `across` in each.

    Of equal ones it has the smallest groups. Weights are read once for each group, unless they stay in L2 beside the group's
    transformed data. Data that does not stay there is read once for each slice of weights.
    """
    weights = points * channels * blocks * machine.vector_bytes
    found = []
    for rows in range(1, down + 1):
        if down % rows:
            continue
        count, times = rows * across, down // rows
        far = weights > machine.l2_bytes
        cycles, tiles, width = _columns(count, channels, blocks, far, machine)
        data, sums = 4 * points * count * channels, points * count * width * machine.vector_bytes
        stays = weights + data + sums <= machine.l2_bytes
        again = 0 if data + sums <= 3 * machine.l2_bytes // 4 else times * data * blocks // width
        waits = (weights * (1 if stays else times) + again) / machine.far_bytes_per_cycle(weights)
        found.append(Cut(machine.beside(times * points * cycles / machine.fma_busy, waits), rows, tiles, width))
    return min(found)


def _columns(tiles: int, channels: int, blocks: int, far: bool, machine: Machine) -> tuple[float, int, int]:
    """Return cycles, tiles and blocks of the best register tile of a (tiles x channels) by (channels x filters) product.

    Blocks divide all blocks. A slice of weights that L1 does not hold is read from L2 for each column of tiles, and the data for
    each slice. Weights from beyond L2 take part in a step by two vectors, which is as fast as they come.
    """
    found = []
    for width in [2] if far and not blocks % 2 else range(1, min(blocks, MOST_BLOCKS) + 1):
        if blocks % width:
            continue
        slice_bytes = channels * width * machine.vector_bytes
        most = min(tiles, (machine.vector_registers - 1 - width) // width)
        for height in range(most if far else 1, most + 1):
            whole, rest = tiles // height * step_cycles(machine, height, width), step_cycles(machine, tiles % height, width)
            again = (-(-tiles // height) - 1) * slice_bytes * (slice_bytes > 2 * machine.l1_bytes // 3)
            sums = channels * (whole + rest) * with_rests(tiles % height)
            near = (again + 4 * tiles * channels) / machine.l2_bytes_per_cycle
            found.append((blocks // width * machine.beside(sums, near), height, width))
    return min(found)
