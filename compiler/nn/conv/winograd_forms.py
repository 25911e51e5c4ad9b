"""Which form of a 3 x 3 convolution is the fastest on a processor: direct, or Winograd's with tiles of 2 or 4 pixels a side.

Cycles of one core are estimated from three counts: steps of the reduction in registers, points that are transformed, and bytes
that come from beyond the second-level cache. The constants were measured on one core of a Sapphire Rapids at 3.3 GHz with
ResNet's layers (docs/winograd.md), and what differs by `Pace` on one of Zen 4; the estimate decides between forms, so only their
ratios matter.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from vtakit.compiler.ir.dtypes import FLOAT32
from vtakit.compiler.nn.conv.winograd import PAIRS
from vtakit.compiler.nn.cpu.machine import MOST_BLOCKS, Machine, step_cycles

NEAR_BYTES = 128  # a cycle, from the second-level cache, beside the multiply-adds
LARGEST = 24 << 20  # bytes of a layer's weights that stay in a third level
MEMORY_BYTES = 4  # a cycle, from beyond that
POINT_CYCLES = 9.5  # to take a vector of a tile to a point, and as many to take it back
BUSY = 0.85  # the part of the steps' time in which multiply-adds run
UNEVEN = 1.03  # of the steps' time, where a last column is narrower and code of its own
MARGIN = 0.95  # of the direct form's time, that another must stay below


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
    """How the products of an image are cut.

    cycles : of one image's products, and of the wait for weights
    rows   : of tiles that are a group: all of their points are there before products begin
    tiles  : of a step of the reduction in registers, by so many `blocks` of filters
    """

    cycles: float
    rows: int
    tiles: int
    blocks: int


def best_tile(conv: Conv3x3, machine: Machine) -> int:
    """The side of the tiles with which Winograd's form is the fastest, 2 or 4; 0 if the direct form is."""
    found = {tile: winograd_cycles(conv, tile, machine) for tile in PAIRS}
    best = min(found, key=found.__getitem__)
    return best if found[best] < MARGIN * direct_cycles(conv, machine) else 0


def pairs_are_faster(conv: Conv3x3, machine: Machine) -> bool:
    """Whether the direct form is faster than Winograd's where instructions on pairs of bfloat16 halve its time."""
    return direct_cycles(conv, machine) / 2 < min(winograd_cycles(conv, tile, machine) for tile in PAIRS)


def direct_cycles(conv: Conv3x3, machine: Machine) -> float:
    """Of the form that multiplies each pixel by each weight."""
    blocks = -(-conv.filters // machine.lanes(FLOAT32))
    pixels, width = machine.pixels(conv.width, blocks)
    row = conv.width // pixels * step_cycles(pixels, width) + step_cycles(conv.width % pixels, width)
    steps = conv.images * conv.height * blocks // width * row * 9 * conv.channels
    return _beside(_cycles(steps, machine), 9 * 4 * conv.channels * conv.filters / machine.pace.far_bytes)


def _cycles(steps: float, machine: Machine) -> float:
    """Of steps whose cycles are counted with two multiply-adds in each."""
    return 2 * steps / machine.pace.multiply_adds / BUSY


def winograd_cycles(conv: Conv3x3, tile: int, machine: Machine) -> float:
    """Of Winograd's form with tiles of so many pixels a side."""
    lanes = machine.lanes(FLOAT32)
    blocks, points = -(-conv.filters // lanes), (tile + 2) ** 2
    down, across = -(-conv.height // tile), -(-conv.width // tile)
    products = cut(down, across, points, conv.channels, blocks, machine).cycles
    moved = POINT_CYCLES * points * down * across * (-(-conv.channels // lanes) + blocks)
    return conv.images * (products + moved)


@cache
def cut(down: int, across: int, points: int, channels: int, blocks: int, machine: Machine) -> Cut:
    """The cut with the fewest cycles for an image of `down` rows of tiles, `across` in each; of equal ones the smallest groups.

    Weights are read once for each group, unless they stay in the second-level cache beside the group's transformed data; data
    that does not stay there is read once for each slice of weights.
    """
    weights = points * channels * blocks * machine.vector_bytes
    pace = machine.pace.far_bytes if weights <= LARGEST else MEMORY_BYTES
    found = []
    for rows in range(1, down + 1):
        if down % rows:
            continue
        count, times = rows * across, down // rows
        far = weights > machine.caches.second
        cycles, tiles, width = _columns(count, channels, blocks, far, machine)
        data, sums = 4 * points * count * channels, points * count * width * machine.vector_bytes
        stays = weights + data + sums <= machine.caches.second
        again = 0 if data + sums <= 3 * machine.caches.second // 4 else times * data * blocks // width
        waits = (weights * (1 if stays else times) + again) / pace
        found.append(Cut(_beside(_cycles(times * points * cycles, machine), waits), rows, tiles, width))
    return min(found)


def _beside(steps: float, waits: float) -> float:
    """Cycles of steps and of waits for memory, of which each hides half of the shorter."""
    return max(steps, waits) + min(steps, waits) / 2


def _columns(tiles: int, channels: int, blocks: int, far: bool, machine: Machine) -> tuple[float, int, int]:
    """Cycles, tiles and blocks of the best cut of a product of (tiles x channels) by (channels x filters); blocks divide theirs.

    A slice of weights that the first-level cache does not hold is read from the second for each column of tiles, and the data for
    each slice. Weights from afar take part in a step by two vectors, which is as fast as they come.
    """
    found = []
    for width in [2] if far and not blocks % 2 else range(1, min(blocks, MOST_BLOCKS) + 1):
        if blocks % width:
            continue
        slice_bytes = channels * width * machine.vector_bytes
        most = min(tiles, (machine.registers - 1 - width) // width)
        for height in range(most if far else 1, most + 1):
            steps = channels * (tiles // height * step_cycles(height, width) + step_cycles(tiles % height, width))
            again = (-(-tiles // height) - 1) * slice_bytes * (slice_bytes > 2 * machine.caches.first // 3)
            near = (again + 4 * tiles * channels) / NEAR_BYTES
            ends = UNEVEN if tiles % height else 1
            found.append((blocks // width * (steps * ends + near), height, width))
    return min(found)
