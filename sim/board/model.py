"""A simulated board that runs: cycles, and bytes of its serial line."""

import ctypes
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vtakit.sim.board.library import CSettings, CUsb, Datasheet, Library, c_sdram, period_of
from vtakit.sim.faults import DeviceError

SLICE_CYCLES = 20_000  # after which Ctrl-C is seen
_GARBLED = -2


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts since the reset: cycles, and commands of the memory."""

    cycles: int
    activates: int
    reads: int
    writes: int
    refreshes: int


class BoardModel:
    """A board from its power-up on. `memory` is the content of its chip, which the host may also change directly.

    mhz           clock of all but the memory, in which time is counted
    memory_mhz    clock of the memory, for a board that has two; None: the same
    usb           faults on the way of a link over USB, by the names of `CUsb`

    A model is closed by `close`, or when nothing refers to it. Raises `DeviceError` where the chip finds an error.
    """

    def __init__(self, library: Library, chip: Datasheet, mhz: float, memory: bytearray, divisor: int = 1,
                 memory_mhz: float | None = None, usb: Mapping[str, int] | None = None) -> None:
        self.mhz = mhz
        self._functions = library.functions
        self._kept = (ctypes.c_char * len(memory)).from_buffer(memory)
        chip_at = c_sdram(chip, mhz if memory_mhz is None else memory_mhz)
        settings = CSettings(chip_at, ctypes.cast(self._kept, ctypes.c_void_p), divisor, period_of(mhz),
                             CUsb(**(usb or {})))
        self._model = self._functions.board_open(ctypes.byref(settings))
        self._close = weakref.finalize(self, self._functions.board_close, self._model)

    def advance(self, cycles: int) -> None:
        """Simulate so many cycles."""
        def some(cycles: int) -> bool:
            if not self._functions.board_advance(self._model, cycles):
                self._broken()
            return False

        self._sliced(cycles, some)

    def send(self, data: bytes) -> None:
        """Give bytes to the serial line."""
        self._functions.board_send(self._model, data, len(data))

    def receive(self, most: int, cycles: int) -> bytes:
        """Return the bytes that have come on the serial line, at most so many; simulate at most `cycles` until one has."""
        buffer = ctypes.create_string_buffer(most)
        found = 0

        def some(cycles: int) -> bool:
            nonlocal found
            found = self._functions.board_receive(self._model, buffer, most, cycles)
            if found < 0:
                self._broken("the board's serial output is garbled: a byte has no stop bit" if found == _GARBLED else "")
            return bool(found)

        self._sliced(cycles, some)
        return buffer.raw[:found]

    def counts(self) -> Counts:
        """Cycles and commands."""
        counts = (ctypes.c_uint64 * 5)()
        self._functions.board_counts(self._model, counts)
        return Counts(*counts)

    def close(self) -> None:
        """End the simulation."""
        self._close()

    def _sliced(self, cycles: int, some: Callable[[int], Any]) -> bool:
        """Simulate in slices, so that Ctrl-C is seen, until `some` returns true. Returns whether it did."""
        while True:
            now = min(cycles, SLICE_CYCLES)
            if some(now):
                return True
            self._broken()
            cycles -= now
            if cycles <= 0:
                return False

    def _broken(self, also: str = "") -> None:
        """Raise what the chip found, or `also`."""
        told = self._functions.board_error(self._model).decode() or also
        if told:
            raise DeviceError(f"simulation of the board: {told}")
