"""SDRAM chips as their datasheets give them, and their times in clocks of a frequency."""

from dataclasses import dataclass
from math import ceil, floor

from vtakit.base.errors import VtakitError, one_of
from vtakit.hw.dram import Dram

LEAST_CLOCKS = 2  # between commands to a bank: the controller learns a clock late what a bank needs
MODE_CLOCKS = 2  # tMRD, from LOAD MODE REGISTER to the next command
TURN_CLOCKS = 1  # between a read's data and a write's: nobody drives the bus


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """Single-data-rate SDRAM. Times are in ns.

    latencies      CAS latency in clocks, and the shortest clock period at which it holds
    trcd, …        as in `vtakit.hw.dram.Dram`; tras_most is the longest time that a row may stay open
    refresh        time in which each row is to be refreshed
    power_up       time between a stable clock and the first command
    refreshes      REFRESH commands that initialisation needs at least
    trrd_clocks, twr_clocks   least clocks of trrd and twr, whatever the frequency
    """

    name: str
    width: int
    banks: int
    rows: int
    columns: int
    latencies: tuple[tuple[int, float], ...]
    trcd: float
    trp: float
    tras: float
    tras_most: float
    trc: float
    trrd: float
    twr: float
    trfc: float
    refresh: float
    power_up: float
    refreshes: int
    trrd_clocks: int = 1
    twr_clocks: int = 1

    def clocks(self, ns: float, mhz: float) -> int:
        """Return the clocks that a time takes at least."""
        return ceil(round(ns * mhz / 1000, 6))

    def latency(self, mhz: float) -> int:
        """Return the smallest CAS latency at a frequency. Raises VtakitError where the chip is too slow."""
        found = [clocks for clocks, period in self.latencies if period * mhz <= 1000]
        if not found:
            most = 1000 / min(period for _, period in self.latencies)
            raise VtakitError(f"the SDRAM {self.name} cannot have a clock of {mhz:g} MHz: it runs at {most:.0f} MHz at most")
        return min(found)

    def timing(self, mhz: float, burst: int = 8) -> Dram:
        """Return the chip behind the controller with a clock of `mhz`, which is the core's too.

        PRECHARGE waits for the last word of a read, so that it cuts none off. Refreshes are due a clock earlier than on average
        they must be: of `rows` in a row, the last may be late by so many clocks.
        """
        def clocks(name: str, least: int = 1) -> int:
            return max(least, self.clocks(getattr(self, name), mhz))

        return Dram(
            kind="sdram", clock=1.0, width=self.width, banks=self.banks, rows=self.rows, columns=self.columns, burst=burst,
            tcas=self.latency(mhz), tcwl=0, trcd=clocks("trcd", LEAST_CLOCKS), trp=clocks("trp", LEAST_CLOCKS),
            tras=clocks("tras"), trc=clocks("trc"), trrd=clocks("trrd", self.trrd_clocks), tfaw=0,
            twr=clocks("twr", self.twr_clocks), twtr=0, trtp=burst, trtw=TURN_CLOCKS, trfc=clocks("trfc"),
            trefi=floor(round(self.refresh / self.rows * mhz / 1000, 6)) - 1,
        )


CHIPS = {chip.name: chip for chip in (
    # Micron, 256 Mb SDR SDRAM, speed grades -75 and -7E.
    Chip(name="MT48LC16M16A2-75", width=16, banks=4, rows=8192, columns=512, latencies=((2, 10.0), (3, 7.5)),
         trcd=20, trp=20, tras=44, tras_most=120_000, trc=66, trrd=15, twr=15, trfc=66, refresh=64e6, power_up=100_000,
         refreshes=2),
    Chip(name="MT48LC16M16A2-7E", width=16, banks=4, rows=8192, columns=512, latencies=((2, 7.5), (3, 7.0)),
         trcd=15, trp=15, tras=37, tras_most=120_000, trc=60, trrd=14, twr=14, trfc=66, refresh=64e6, power_up=100_000,
         refreshes=2),
    # ISSI, 256 Mb, speed grade -7. To be compared with its datasheet before a board is made: these are the slowest of its kind.
    Chip(name="IS42S16160B-7", width=16, banks=4, rows=8192, columns=512, latencies=((2, 10.0), (3, 7.0)),
         trcd=20, trp=20, tras=45, tras_most=120_000, trc=70, trrd=14, twr=14, trfc=70, refresh=64e6, power_up=200_000,
         refreshes=8, twr_clocks=2),
    # Winbond, 256 Mb, speed grade -6: those of its predecessor W9825G6JH, revision A04, section 9.5.
    Chip(name="W9825G6KH-6", width=16, banks=4, rows=8192, columns=512, latencies=((2, 7.5), (3, 6.0)),
         trcd=15, trp=15, tras=42, tras_most=100_000, trc=60, trrd=12, twr=12, trfc=60, refresh=64e6, power_up=200_000,
         refreshes=8, trrd_clocks=2, twr_clocks=2),
)}


def find_chip(name: str) -> Chip:
    """Return the chip of that name."""
    if name not in CHIPS:
        raise VtakitError(f"unknown SDRAM {name!r:.40}; {one_of(CHIPS, name)}")
    return CHIPS[name]
