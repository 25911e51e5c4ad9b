"""`hw.compute.acc_memory.AccMemory`: who writes which bank."""

from typing import Any

from vtakit.hw.timing import BANK_STRIDE


def bank_of(index: Any) -> Any:
    """Return the bank of an element; an index has at most 12 bits (`hw.isa.config.MAX_ALU_ACC_DEPTH_LOG2`)."""
    return (index ^ index >> BANK_STRIDE ^ index >> 2 * BANK_STRIDE ^ index >> 3 * BANK_STRIDE) & 1
