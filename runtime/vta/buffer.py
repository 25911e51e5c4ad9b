"""Bytes in a device's memory."""

import weakref
from operator import index
from typing import Any, Self, SupportsBytes

import numpy.typing as npt

from vtakit.runtime.vta.connection import Connection
from vtakit.runtime.vta.errors import DeviceMemoryError
from vtakit.sim.api import as_bytes, integer


class DeviceBuffer:
    """A piece of a device's memory, with what programs leave in it; how values lie in it is the caller's business.

    Freed by `free`, at the end of a `with` block, which stops a program that still uses it, or when nothing refers to it.

    size_bytes   its size
    address      byte address of its first byte
    """

    def __init__(self, connection: Connection, size_bytes: int, align: int) -> None:
        connection.require_open()
        self._connection = connection
        self.address = connection.allocator.allocate(size_bytes, align)
        self.size_bytes = index(size_bytes)
        self._dropped = weakref.finalize(self, connection.allocator.drop, self.address)
        self._dropped.atexit = False  # the memory is gone then anyway

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.alive:
            if self._connection.uses(self):
                self._connection.halt()
            self.free()

    def __repr__(self) -> str:
        state = "" if self.alive else ", freed"
        return f"<{self.size_bytes} bytes at {self.address:#x} of {self._connection.name}{state}>"

    @property
    def alive(self) -> bool:
        """Return whether the buffer has not been freed."""
        return self._dropped.alive

    def of(self, connection: Connection) -> bool:
        """Return whether the buffer lies in that device's memory."""
        return self._connection is connection

    def read(self, size: int | None = None, offset: int = 0) -> bytes:
        """`size` bytes from `offset` on; all to the end if no size is given.

        Raises `DeviceMemoryError` beyond its ends or after `free`, `DeviceError` while a program runs.
        """
        first = integer("offset", offset)
        count = self.size_bytes - first if size is None else integer("size", size)
        self.require(count, first)
        return self._connection.read(self.address + first, count)

    def write(self, data: SupportsBytes | bytes | npt.NDArray[Any], offset: int = 0) -> None:
        """Write bytes, or an array's in C order, from `offset` on; what is behind them stays.

        Raises as `read`.
        """
        given = as_bytes("what is written to a device's buffer", data)
        first = integer("offset", offset)
        self.require(len(given), first)
        self._connection.write(self.address + first, given)

    def free(self) -> None:
        """Give the memory back.

        Raises `DeviceMemoryError` if it has been given back, or the program that runs uses it.
        """
        self.require()
        if self._connection.uses(self):
            raise DeviceMemoryError(f"{self!r} cannot be freed: the program that runs uses it")
        self._dropped.detach()
        self._connection.allocator.free(self.address)

    def require(self, count: int = 0, offset: int = 0) -> None:
        """Refuse a use after it was freed, or of bytes that it does not have."""
        if not self.alive:
            raise DeviceMemoryError(f"{self!r} is used after it was freed")
        if count < 0 or offset < 0 or offset + count > self.size_bytes:
            raise DeviceMemoryError(f"{count} bytes from byte {offset} on do not lie in {self!r}")
