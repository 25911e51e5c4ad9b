"""The C interface of a simulated board."""

import ctypes
from typing import Protocol


class Datasheet(Protocol):
    """A chip as `vtakit.boards.memory.chips.Chip` describes it: geometry, and times in ns."""

    @property
    def latencies(self) -> tuple[tuple[int, float], ...]:
        """CAS latencies with the shortest clock periods."""


class CSdram(ctypes.Structure):
    """`struct sdram_chip` of sdram.h."""

    _fields_ = [(name, ctypes.c_int64) for name in (
        "period", "width", "banks", "rows", "columns", "cas2", "cas3", "trcd", "trp", "tras", "tras_most", "trc", "trrd", "twr",
        "trfc", "refresh", "power_up", "refreshes", "tmrd_clocks")]


_COUNTS = ("width", "banks", "rows", "columns", "refreshes")
_TIMES = ("trcd", "trp", "tras", "tras_most", "trc", "trrd", "twr", "trfc", "refresh", "power_up")
_MODE_CLOCKS = 2  # tMRD of every SDR SDRAM


def c_sdram(chip: Datasheet, mhz: float) -> CSdram:
    """Return a chip with a clock of `mhz` for the model that checks it; its times in picoseconds."""
    latencies = dict(chip.latencies)
    return CSdram(
        period=round(1e6 / mhz), tmrd_clocks=_MODE_CLOCKS,
        **{f"cas{clocks}": round(1000 * latencies.get(clocks, 0)) for clocks in (2, 3)},
        **{name: int(getattr(chip, name)) for name in _COUNTS},
        **{name: round(1000 * getattr(chip, name)) for name in _TIMES},
    )
