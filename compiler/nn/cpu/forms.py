"""Which form of a 3 x 3 convolution is the fastest on a processor: direct, or Winograd's with tiles of 2 or 4 pixels a side.

Processor cycles of one core are estimated from three counts: steps of the product's registers, points that are transformed, and bytes
that come from beyond the second-level cache. The constants were measured on one core of a Sapphire Rapids at 3.3 GHz with ResNet's
layers (docs/winograd.md); the estimate decides between forms, so only their ratios matter.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.nn.cpu.machine import MOST_BLOCKS, Machine, step_cycles
from vtakit.compiler.nn.winograd import PAIRS

FIRST_LEVEL = 1 << 15  # bytes of operands that stay in the first-level cache
SECOND_LEVEL = 1 << 21  # bytes of the second-level cache
NEAR_BYTES = 64  # a cycle, from the second-level cache, beside the multiply-adds
FAR_BYTES = 8.5  # a cycle, from beyond it
POINT_CYCLES = 9.5  # to take a vector of a tile to a point, and as many to take it back
BUSY = 0.85  # the part of the steps' time in which multiply-adds run
MARGIN = 0.9  # of the direct form's time, that another must stay below


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


class Columns(NamedTuple):
    """How the products of one point are cut: so many tiles by so many blocks of filters in registers, and the cycles of all."""

    cycles: float
    tiles: int
    blocks: int


class Groups(NamedTuple):
    """How an image is cut: so many rows of tiles at a time, and the bytes that then come from beyond the second-level cache."""

    far_bytes: float
    rows: int


def best_tile(conv: Conv3x3, machine: Machine) -> int:
    """The side of the tiles with which Winograd's form is the fastest, 2 or 4; 0 if the direct form is."""
    found = {tile: winograd_cycles(conv, tile, machine) for tile in PAIRS}
    best = min(found, key=found.__getitem__)
    return best if found[best] < MARGIN * direct_cycles(conv, machine) else 0


def direct_cycles(conv: Conv3x3, machine: Machine) -> float:
    """Of the form that multiplies each pixel by each weight."""
    blocks = -(-conv.filters // machine.lanes(FLOAT32))
    pixels, width = machine.pixels(conv.width, blocks)
    row = conv.width // pixels * step_cycles(pixels, width) + step_cycles(conv.width % pixels, width)
    steps = conv.images * conv.height * blocks // width * row * 9 * conv.channels
    return steps / BUSY + 9 * 4 * conv.channels * conv.filters / FAR_BYTES


def winograd_cycles(conv: Conv3x3, tile: int, machine: Machine) -> float:
    """Of Winograd's form with tiles of so many pixels a side."""
    lanes = machine.lanes(FLOAT32)
    blocks, points = -(-conv.filters // lanes), (tile + 2) ** 2
    down, across = -(-conv.height // tile), -(-conv.width // tile)
    group = groups(down, across, points, conv.channels, blocks, machine)
    steps = points * down // group.rows * columns(group.rows * across, conv.channels, blocks, machine).cycles / BUSY
    moved = POINT_CYCLES * points * down * across * (-(-conv.channels // lanes) + blocks)
    return conv.images * (steps + moved + group.far_bytes / FAR_BYTES)


@cache
def columns(tiles: int, channels: int, blocks: int, machine: Machine) -> Columns:
    """The cut of a product of (tiles x channels) by (channels x filters) that takes the fewest cycles; blocks divide theirs.

    A slice of weights that the first-level cache does not hold is read from the second for each column of tiles, and the data for
    each slice.
    """
    found = []
    for width in range(1, min(blocks, MOST_BLOCKS) + 1):
        if blocks % width:
            continue
        slice_bytes = channels * width * machine.vector_bytes
        for height in range(1, min(tiles, machine.registers) + 1):
            if height * width + width + 1 > machine.registers:
                break
            steps = channels * (tiles // height * step_cycles(height, width) + step_cycles(tiles % height, width))
            again = (-(-tiles // height) - 1) * slice_bytes * (slice_bytes > FIRST_LEVEL)
            near = (again + 4 * tiles * channels) / NEAR_BYTES
            found.append(Columns(blocks // width * (steps + near), height, width))
    return min(found)


@cache
def groups(down: int, across: int, points: int, channels: int, blocks: int, machine: Machine) -> Groups:
    """The cut of an image's `down` rows of tiles, `across` in each, that moves the fewest bytes; of equal ones the smallest groups.

    Weights are read once for each group, unless they stay in the second-level cache beside the group's transformed data; and data
    that does not stay there itself is read once for each slice of weights.
    """
    weights = points * channels * blocks * machine.vector_bytes
    found = []
    for rows in range(1, down + 1):
        if down % rows:
            continue
        data = 4 * points * rows * across * channels
        slices = blocks // columns(rows * across, channels, blocks, machine).blocks
        sums = points * rows * across * blocks // slices * machine.vector_bytes
        times = 1 if weights + data + sums <= SECOND_LEVEL else down // rows
        again = 0 if data + sums <= 3 * SECOND_LEVEL // 4 else down // rows * data * slices
        found.append(Groups(weights * times + again, rows))
    return min(found)
