"""Fields of instructions as columns of a table, for a whole program to be decoded at once."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import FORMATS, Opcode

Ints = npt.NDArray[np.int64]

# Column numbers of the table: every field name of every format once, in the order of `hw.isa.insns`.
COLUMNS: dict[str, int] = {
    name: at for at, name in enumerate(dict.fromkeys(f.name for fmt in FORMATS.values() for f in fmt.fields))
}


class Fields(NamedTuple):
    """Fields of a format as columns: which half of a word has each, from which bit on, and its mask and least value."""

    column: Ints
    half: Ints
    shift: npt.NDArray[np.uint64]
    mask: npt.NDArray[np.uint64]
    least: Ints
    reserved: npt.NDArray[np.uint64]  # bits of each half that belong to no field


@lru_cache(maxsize=256)
def fields_of(cfg: VTAConfig) -> dict[Opcode, Fields]:
    """Return the fields of each instruction's format."""
    found = {}
    for opcode, fmt in FORMATS.items():
        places, reserved = fmt.place(cfg), fmt.reserved_bits(cfg)
        found[opcode] = Fields(
            np.array([COLUMNS[p.field.name] for p in places]), np.array([p.offset // 64 for p in places]),
            np.array([p.offset % 64 for p in places], np.uint64), np.array([(1 << p.width) - 1 for p in places], np.uint64),
            np.array([p.low for p in places]),
            np.array([reserved & (2**64 - 1), reserved >> 64], np.uint64),
        )
    return found
