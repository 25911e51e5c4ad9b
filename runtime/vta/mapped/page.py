"""Registers that are mapped into this process."""

import mmap
import sys
from typing import Protocol

from vtakit.hw.isa.regs import REGISTER_BYTES
from vtakit.sim.faults import DeviceError

assert sys.byteorder == "little", "the registers are little-endian words"


class Registers(Protocol):
    """Registers of 32 bits at byte addresses, accessed in the program's order."""

    def read(self, address: int) -> int:
        """The 32 bits of a register."""

    def write(self, address: int, value: int) -> None:
        """Write the 32 bits of a register."""

    def close(self) -> None:
        """Let go of them."""


class Page:
    """Registers behind an open file: each access is one load or one store of 32 bits, in the program's order.

    A slice of a mapping would be copied by as many accesses as the C library likes, and registers may act on each.

    name     of the device, in messages
    offset   of the first register in the file, a multiple of the page's size
    """

    def __init__(self, name: str, file: int, size: int, offset: int = 0) -> None:
        self._name = name
        self._map = mmap.mmap(file, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset)
        self._words = memoryview(self._map).cast("I")

    def read(self, address: int) -> int:
        """The 32 bits of the register at a byte address."""
        return int(self._words[self._at(address)])

    def write(self, address: int, value: int) -> None:
        """Write the 32 bits of a register."""
        self._words[self._at(address)] = value

    def close(self) -> None:
        """Unmap the registers."""
        self._words.release()
        self._map.close()

    def _at(self, address: int) -> int:
        at, odd = divmod(address, REGISTER_BYTES)
        if odd or not 0 <= at < len(self._words):
            raise DeviceError(f"device {self._name!r} has no register at 0x{address:x}: 0x{len(self._words) * REGISTER_BYTES:x} "
                              "bytes of registers are mapped")
        return at
