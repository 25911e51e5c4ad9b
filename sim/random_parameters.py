"""Random parameters of REQUANTs, for random programs and benches."""

import numpy as np

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import REQUANT_PARAMS, REQUANT_WORDS
from vtakit.hw.values import Ints


def random_parameters(cfg: VTAConfig, sets: int, seed: int) -> bytes:
    """Parameters of `sets` REQUANTs as they lie in DRAM, three accumulator elements each: many that leave something of a value.

    Bits that belong to no parameter are random too.
    """
    numbers = np.random.default_rng(seed)
    lanes = (sets, cfg.batch * cfg.block)

    def some(*ranges: tuple[int, int]) -> Ints:
        """A number of one of the ranges, both ends included, for each lane."""
        found: Ints = np.choose(numbers.integers(0, len(ranges), lanes), [numbers.integers(a, b + 1, lanes) for a, b in ranges])
        return found

    values = {
        "bias": some((-9, 9), (-(2**31), 2**31 - 1), (-(2**31), -(2**31)), (2**31 - 1, 2**31 - 1), (-1000, 1000)),
        "multiplier": some((0, 65535), (1, 3), (65535, 65535), (32768, 65535)),
        "shift": some((0, 3), (12, 24), (12, 24), (40, 50), (0, 63)),
        "zero_point": some((0, 0), (-128, 127)),
        "low": some((-128, -128), (-128, -128), (0, 0), (-128, 127)), "high": some((127, 127), (127, 127), (-128, 127)),
    }
    words: Ints = numbers.integers(0, 1 << 32, (sets, REQUANT_WORDS, lanes[1]))
    for place in REQUANT_PARAMS.place(cfg):
        word, at = divmod(place.offset, 32)
        mask = (1 << place.width) - 1
        words[:, word] = words[:, word] & ~(mask << at) | (values[place.field.name] & mask) << at
    return words.astype("<u4").tobytes()
