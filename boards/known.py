"""The boards by name. Nothing here needs Amaranth."""

from dataclasses import dataclass, replace
from typing import Self

from vtakit.base.errors import VtakitError, one_of
from vtakit.boards.memory.chips import Chip, find_chip
from vtakit.hw.system import System

BAUD = 3_000_000  # of the serial line of most boards
LINKS = ("uart", "usb")  # ways of a link's bytes: a serial line, and full-speed USB
_LATENCY = 6  # cycles, of the port: registers at the pins and to the port
_OUTSTANDING = 8  # bursts of each direction, as `vtakit.boards.memory.controller` has them
# Latency with two clocks: cycles of the core, and of the memory. Fitted to the simulated board at 75/100, 100/80 and 50/100 MHz
# (docs/boards.md, "Two clocks"); `python benchmarks/board_cycles.py --config tiny --mhz 75 --memory-mhz 100` compares the two.
_CROSSED = (2.4, 10.6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board.

    part          FPGA
    chip          SDRAM
    oscillator_mhz, mhz   its oscillator, and the clock that all but the memory gets
    memory_mhz    the clock of the memory; None: that of all else
    links         ways to its host, of `LINKS`
    baud          of the serial line
    port          place of that line on a host with Linux, as an example
    """

    name: str
    part: str
    chip: Chip
    oscillator_mhz: float
    mhz: float
    baud: int
    memory_mhz: float | None = None
    links: tuple[str, ...] = ("uart",)
    port: str = "/dev/ttyUSB0"

    def clocked(self, mhz: float | None, memory_mhz: float | None) -> Self:
        """Return the board with other clocks; None leaves one as it is, and a memory's that is that of all else is none."""
        mhz = self.mhz if mhz is None else mhz
        memory_mhz = self.memory_mhz if memory_mhz is None else memory_mhz
        return replace(self, mhz=mhz, memory_mhz=None if memory_mhz == mhz else memory_mhz)

    def check_link(self, link: str) -> None:
        """Raise `VtakitError` if the board has no such way to its host."""
        if link not in self.links:
            raise VtakitError(f"board {self.name!r} has no link {link!r:.40}; {one_of(self.links, link)}")

    def system(self) -> System:
        """Return the memory system that stands for the board: `latency` counts cycles of the core."""
        if self.memory_mhz is None:
            return System(latency=_LATENCY, outstanding=_OUTSTANDING, dram=self.chip.timing(self.mhz))
        share = self.memory_mhz / self.mhz
        return System(
            latency=round(_CROSSED[0] + _CROSSED[1] / share), outstanding=_OUTSTANDING,
            dram=replace(self.chip.timing(self.memory_mhz), clock=share))


BOARDS = {board.name: board for board in (
    Board(name="ulx3s", part="Lattice ECP5 LFE5U-85F", chip=find_chip("MT48LC16M16A2-75"), oscillator_mhz=25, mhz=80,
          baud=BAUD, links=LINKS),
    Board(name="icepi-zero", part="Lattice ECP5 LFE5U-25F", chip=find_chip("W9825G6KH-6"), oscillator_mhz=50, mhz=60,
          baud=BAUD),
    # The serial line ends in a microcontroller, of which no faster rate is documented.
    Board(name="icesugar-pro", part="Lattice ECP5 LFE5U-25F", chip=find_chip("IS42S16160B-7"), oscillator_mhz=25, mhz=60,
          baud=115_200, port="/dev/ttyACM0"),
)}


def find_board(name: str) -> Board:
    """Return the board of that name."""
    if name not in BOARDS:
        raise VtakitError(f"unknown board {name!r:.40}; {one_of(BOARDS, name)}")
    return BOARDS[name]
