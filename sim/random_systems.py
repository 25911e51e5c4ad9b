"""Random memory systems of every kind, and how slow a memory system is beside them."""

import random
from math import ceil
from typing import Any

from vtakit.hw.dram import MOST_AHEAD, POLICIES, Dram, MemorySystemError
from vtakit.hw.system import System

USUAL_LATENCY = 200  # cycles, at most, of the memories that the fuzzer's seeds choose
CYCLES_A_BYTE = 50  # more than a byte takes that these memories move

_CLOCKS = (0.37, 0.5, 1.0, 1.0, 1.33, 2.67, 5.25, 7.0)  # of the memory, in a cycle of the core


def random_dram(seed: int) -> Dram:
    """Return the chip and controller that a seed stands for: few short rows, so that programs meet every case."""
    numbers = random.Random(seed)
    while True:
        tras, tcas = numbers.randint(1, 20), numbers.randint(1, 12)
        values: dict[str, Any] = {
            "kind": numbers.choice(("sdram", "ddr")), "clock": numbers.choice(_CLOCKS), "width": numbers.choice((8, 16, 32, 64)),
            "banks": numbers.choice((1, 2, 4, 8)), "rows": 1 << 20, "columns": 1 << numbers.randint(4, 10),
            "burst": 1 << numbers.randint(0, 4),
            "tcas": tcas, "tcwl": numbers.choice((0, numbers.randint(0, tcas))), "trcd": numbers.randint(1, 10),
            "trp": numbers.randint(1, 10), "tras": tras, "trc": tras + numbers.randint(0, 10), "trrd": numbers.randint(1, 8),
            "tfaw": numbers.choice((0, numbers.randint(1, 40))), "twr": numbers.randint(1, 10), "twtr": numbers.randint(0, 8),
            "trtp": numbers.randint(1, 10), "trtw": numbers.randint(0, 3), "trfc": numbers.randint(1, 60),
            "trefi": numbers.choice((0, numbers.randint(100, 1000))), "tcmd": numbers.choice((1, 1, 2, 4)),
            "policy": numbers.choice(POLICIES), "ahead": numbers.randint(0, MOST_AHEAD), "batch": numbers.choice((1, 2, 8, 16)),
        }
        try:
            return Dram(**values)
        except MemorySystemError:
            continue


def slowness(system: System) -> int:
    """Return how many times as long as the fuzzer's own memories one may take: at worst a row of its chip for each burst."""
    longest = max(1, system.latency // USUAL_LATENCY)
    if system.dram is None:
        return longest
    chip = system.dram
    cycles = (chip.trc + chip.tcas + chip.burst) / chip.clock
    return longest + ceil(cycles / (CYCLES_A_BYTE * max(1, chip.burst * chip.width // 8)))
