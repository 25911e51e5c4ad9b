"""Memory of the emulated device: buffers with red zones in one arena, and what of it is defined."""

from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.base.errors import VtakitError
from vtakit.sim.ptx.execute import codes
from vtakit.sim.ptx.execute.codes import DEFINED, GLOBAL_BASE, VALID

ALIGNMENT = 256  # bytes, of every buffer; the red zone between two is at least as large
UNKNOWN = 0xCD  # what bytes hold that nothing has written
_FIRST_BYTES = 1 << 24


class DeviceMemory:
    """Global memory of a device. Addresses are numbers; data goes in and out by copies.

    The memory remembers who touched what in the launch before only as far as to say that it was another launch.
    """

    def __init__(self) -> None:
        self._top = GLOBAL_BASE
        self._buffers: dict[int, int] = {}
        self._free: dict[int, list[int]] = {}  # addresses by rounded size
        self._arena: npt.NDArray[Any] = np.zeros(0, np.uint8)
        self._state: npt.NDArray[Any] = np.zeros(0, np.uint8)
        self._shadow: npt.NDArray[Any] = np.zeros(0, np.int64)
        self.clock = 1
        self._grow(GLOBAL_BASE + _FIRST_BYTES)

    def _grow(self, size: int) -> None:
        for name in ("_arena", "_state"):
            old = getattr(self, name)
            new = np.zeros(size, np.uint8)
            new[GLOBAL_BASE : len(old)] = old[GLOBAL_BASE:]
            setattr(self, name, new)

    @property
    def top(self) -> int:
        """End of the memory in use."""
        return self._top

    def allocate(self, size: int) -> int:
        """Return the address of a new buffer of `size` bytes; nothing in it is defined yet."""
        room = -(-(size + ALIGNMENT) // ALIGNMENT) * ALIGNMENT
        if self._free.get(room):
            address = self._free[room].pop()
        else:
            address = self._top
            self._top += room
            if self._top > len(self._arena):
                self._grow(max(self._top, GLOBAL_BASE + 2 * (len(self._arena) - GLOBAL_BASE)))
        self._buffers[address] = size
        self._arena[address : address + room] = UNKNOWN
        self._state[address : address + size] = VALID
        return address

    def release(self, address: int) -> None:
        """Give a buffer back: an access to it then is out of bounds."""
        size = self._size(address)
        del self._buffers[address]
        self._state[address : address + size] = 0
        self._free.setdefault(-(-(size + ALIGNMENT) // ALIGNMENT) * ALIGNMENT, []).append(address)

    def put(self, array: npt.NDArray[Any]) -> int:
        """Return the address of a new buffer that holds an array."""
        address = self.allocate(array.nbytes)
        self.write(address, array)
        return address

    def write(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy an array into a buffer, from an address on."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._within(address, len(data))
        self._arena[address : address + len(data)] = data
        self._state[address : address + len(data)] = VALID | DEFINED

    def read(self, address: int, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Copy bytes of a buffer as an array."""
        found = np.empty(shape, dtype)
        self._within(address, found.nbytes)
        found.reshape(-1).view(np.uint8)[:] = self._arena[address : address + found.nbytes]
        return found

    def undefined(self, address: int, size: int) -> int:
        """Return the number of bytes, from an address on, that nothing has written."""
        return int(np.count_nonzero(self._state[address : address + size] & DEFINED == 0))

    def buffer_near(self, address: int) -> tuple[int, int] | None:
        """Base and bytes of the buffer that is nearest to an address."""
        found = min(self._buffers, key=lambda base: max(base - address, address - base - self._buffers[base], 0), default=None)
        return None if found is None else (found, self._buffers[found])

    def _size(self, address: int) -> int:
        if address not in self._buffers:
            raise VtakitError(f"no buffer of the emulated device begins at {address:#x}")
        return self._buffers[address]

    def _within(self, address: int, size: int) -> None:
        if size and not (address >= GLOBAL_BASE and address + size <= self._top
                         and (self._state[address : address + size] & VALID).all()):
            near = self.buffer_near(address)
            where = "there is no buffer" if near is None else f"the nearest buffer is {near[0]:#x} with {near[1]} bytes"
            raise VtakitError(f"a copy of {size} bytes at {address:#x} leaves the buffers of the emulated device: {where}")

    def arrays(self, granule: int) -> codes.Memory:
        """The arena as the executor takes it. `granule` is the log2 of the bytes that an entry of the shadow stands for."""
        need = 3 * ((len(self._arena) >> granule) + 1)
        if len(self._shadow) < need:
            self._shadow = np.zeros(need, np.int64)
        self.granule = granule
        a, s = self._arena, self._state
        return codes.Memory(a, a.view(np.uint16), a.view(np.uint32), a.view(np.int64), s, s.view(np.uint32), self._shadow)
