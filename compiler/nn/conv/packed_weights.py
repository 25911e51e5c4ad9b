"""Weights and numbers of channels as the operators of `packed_bytes` take them, made by NumPy when a network is compiled."""

from math import lcm

import numpy as np

ZERO = 128  # the zero point of uint8 activations
FEW = 4  # channels of an image that lie in one word
MOST_WASTE = 2  # groups of which a filter reads the channels of its own only
COLUMNS = 32  # filters whose weights lie together: two tile registers, or two vectors


def block_of(channels: int) -> int:
    """Return the channels of a block: as many as a register has lanes, unless that would pad more than an eighth."""
    return next((block for block in (64, 32) if 8 * (-channels % block) <= channels), 16)


def packed_weight(weight: np.ndarray, u: int, v: int, together: int) -> np.ndarray:
    """Weights [K, C, R, S] as `conv_packed` takes them: [K' / n, C' / u, R, S, u / g, n, g], filled up with zeros.

    u, v     : of a block of the data's channels, and of the result's; n is at most 32 of v
    together : g, the channels that an instruction adds up
    """
    filters, depth, *kernel = weight.shape
    n = min(v, COLUMNS)
    full = np.zeros((-(-filters // v) * v, -(-depth // u) * u, *kernel), weight.dtype)
    full[:filters, :depth] = weight
    parts = full.reshape(-1, n, full.shape[1] // u, u // together, together, *kernel)
    return np.ascontiguousarray(parts.transpose(0, 2, 5, 6, 3, 1, 4))


def reach_of(channels: int, groups: int) -> int:
    """Return the channels that the filters whose weights lie together read, in a convolution of as many filters as channels.

    A whole number of groups, or a group that is a whole number of such filters; 0 where neither is, or blocks do not fit.
    """
    width, block = channels // groups, block_of(channels)
    least = min(block, COLUMNS)
    reach = max(width, least)
    return reach if not (reach % width or reach % least or max(reach, block) % min(reach, block)) else 0


def wide_reach(channels: int, groups: int) -> tuple[int, int]:
    """Return a block, and the channels that as many filters read, where `reach_of` finds none: the least whole number of both.

    (0, 0) where that would be more than `MOST_WASTE` groups, or the same as no groups.
    """
    width = channels // groups
    for block in (COLUMNS, COLUMNS // 2):
        reach = lcm(width, block)
        if reach <= min(MOST_WASTE * width, channels):
            return block, reach
    return 0, 0


def packed_groups(weight: np.ndarray, groups: int, u: int, reach: int, together: int) -> np.ndarray:
    """Weights [C, C / groups, R, S] as `conv_packed` takes them with `reach`: what filters of other groups read is times 0."""
    filters, width, *kernel = weight.shape
    n, row = min(u, COLUMNS), min(reach, u)
    full = np.zeros((-(-filters // max(u, reach)) * max(u, reach), reach, *kernel), weight.dtype)
    for at in range(filters):
        first = at // width * width % reach  # of its group, among the channels that are read
        full[at, first:first + width] = weight[at]
    parts = full.reshape(-1, n, reach // row, row // together, together, *kernel)
    return np.ascontiguousarray(parts.transpose(0, 2, 5, 6, 3, 1, 4))


def packed_words(weight: np.ndarray, v: int) -> np.ndarray:
    """Weights [K, C, R, S] of at most four channels as `conv_words` takes them: [K' / n, R, S, n, 4]."""
    filters, depth, height, width = weight.shape
    n = min(v, COLUMNS)
    full = np.zeros((-(-filters // v) * v, height, width, FEW), weight.dtype)
    full[:filters, :, :, :depth] = weight.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(full.reshape(-1, n, height, width, FEW).transpose(0, 2, 3, 1, 4))


def packed_vector(vector: np.ndarray, v: int, blocks: int = 0) -> np.ndarray:
    """Numbers of channels [C] as [ceil(C / v), v], or so many blocks, filled up with zeros."""
    size = max(blocks, -(-len(vector) // v)) * v
    return np.ascontiguousarray(np.pad(vector, (0, size - len(vector))).reshape(-1, v))
