"""The boards by name. Nothing here needs Amaranth."""

from dataclasses import dataclass

from vtakit.base.errors import VtakitError, one_of
from vtakit.boards.memory.chips import Chip, find_chip


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board.

    part          FPGA
    chip          SDRAM
    oscillator_mhz, mhz   its oscillator, and the clock that core, memory and link get
    baud          of the serial line
    """

    name: str
    part: str
    chip: Chip
    oscillator_mhz: float
    mhz: float
    baud: int


BOARDS = {board.name: board for board in (
    Board(name="ulx3s", part="Lattice ECP5 LFE5U-85F", chip=find_chip("MT48LC16M16A2-75"), oscillator_mhz=25, mhz=80,
          baud=3_000_000),
)}


def find_board(name: str) -> Board:
    """Return the board of that name."""
    if name not in BOARDS:
        raise VtakitError(f"unknown board {name!r:.40}; {one_of(BOARDS, name)}")
    return BOARDS[name]
