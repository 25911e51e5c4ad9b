"""Memory that accelerator and processor share: physically contiguous, mapped, and kept coherent with the processor's caches."""

import mmap
import os
import threading
from enum import IntEnum
from pathlib import Path
from typing import Protocol

from vtakit.runtime.vta.mapped.kernel import attribute, listed, number, open_file
from vtakit.sim.faults import DeviceError

LINE_BYTES = 64  # of a cache line; the ARM cores of a Zynq-7000 have lines of 32
_CLASSES = ("u-dma-buf", "udmabuf")  # under /sys/class, of new and old versions


class Memory(Protocol):
    """Memory for an accelerator.

    addresses   its bytes, as the accelerator addresses them
    coherent    the accelerator's port looks into the processor's caches
    """

    addresses: range
    coherent: bool

    def read(self, address: int, size: int) -> bytes:
        """Bytes, as the accelerator left them."""

    def write(self, address: int, data: bytes) -> None:
        """Write bytes, so that the accelerator sees them."""

    def close(self) -> None:
        """Let go of it."""


class Direction(IntEnum):
    """Direction of a transfer, as u-dma-buf's attribute `sync_direction` counts them."""

    BOTH = 0
    TO_DEVICE = 1
    FROM_DEVICE = 2


class Order:
    """A barrier between accesses to memory and those to registers.

    Where the kernel writes back or drops cache lines, it orders these itself. Elsewhere two turns of a lock do: each is an atomic
    operation that acquires and releases, and ARM orders a release before the next acquire.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self) -> None:
        for _ in range(2):
            with self._lock:
                pass


class UDmaBuf:
    """A `Memory`: a buffer of the kernel module u-dma-buf.

    name      of the device, in messages
    path      such as /dev/udmabuf0; its attributes are under `root`

    Raises DeviceError if it cannot be opened.
    """

    def __init__(self, name: str, path: Path, root: Path) -> None:
        self.path = path
        self._name = name
        self._files: dict[str, int] = {}
        self._order = Order()
        cure = (f"load u-dma-buf, as the overlay of `vtakit vivado` or insmod u-dma-buf.ko {path.name}=67108864 does; this "
                f"machine has: {listed(root / 'sys' / 'class' / _CLASSES[0])}")
        file = open_file(name, path, os.O_RDWR, cure)
        try:
            self._folder = self._find(root, path.name)
            start, size = number(name, self._folder / "phys_addr"), number(name, self._folder / "size")
            self.addresses = range(start, start + size)
            self.coherent = attribute(self._folder / "dma_coherent") == "1"
            try:
                self._map = mmap.mmap(file, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
            except (OSError, ValueError) as error:
                raise DeviceError(f"device {name!r} cannot be opened: {size} bytes of {path} cannot be mapped: {error}") from None
        finally:
            os.close(file)
        if not self.coherent:
            try:
                for each in ("sync_offset", "sync_size", "sync_direction", "sync_for_cpu", "sync_for_device"):
                    self._files[each] = open_file(name, self._folder / each, os.O_WRONLY, "it is an attribute of u-dma-buf")
                # A line that is dirty from before could go over what the accelerator writes.
                self._sync("sync_for_device", start, size, Direction.BOTH)
            except BaseException:
                self.close()
                raise

    def read(self, address: int, size: int) -> bytes:
        """Bytes, as the accelerator left them."""
        at = address - self.addresses.start
        if self.coherent:
            self._order()
        elif size:
            self._sync("sync_for_cpu", address, size, Direction.FROM_DEVICE)
        return self._map[at : at + size]

    def write(self, address: int, data: bytes) -> None:
        """Write bytes, so that the accelerator sees them."""
        at = address - self.addresses.start
        self._map[at : at + len(data)] = data
        if self.coherent:
            self._order()
        elif data:
            self._sync("sync_for_device", address, len(data), Direction.TO_DEVICE)

    def close(self) -> None:
        """Unmap the buffer."""
        for file in self._files.values():
            os.close(file)
        self._files = {}
        self._map.close()

    def _find(self, root: Path, name: str) -> Path:
        """The folder of the attributes."""
        folders = [root / "sys" / "class" / each / name for each in _CLASSES]
        for folder in folders:
            if folder.is_dir():
                return folder
        raise DeviceError(f"device {self._name!r} cannot be opened: {self.path} is no u-dma-buf, there is no {folders[0]}")

    def _sync(self, act: str, address: int, size: int, direction: Direction) -> None:
        """Have the kernel write back or drop the cache lines of some bytes."""
        first = (address - self.addresses.start) // LINE_BYTES * LINE_BYTES
        end = min(-(-(address - self.addresses.start + size) // LINE_BYTES) * LINE_BYTES, len(self.addresses))
        for name, value in (("sync_offset", first), ("sync_size", end - first), ("sync_direction", int(direction)), (act, 1)):
            self._set(name, value)

    def _set(self, name: str, value: int) -> None:
        """Write an attribute."""
        try:
            os.pwrite(self._files[name], str(value).encode(), 0)
        except OSError as error:
            raise DeviceError(f"device {self._name!r} cannot keep its memory coherent: {self._folder / name}: "
                              f"{os.strerror(error.errno or 0)}; is the module u-dma-buf still loaded?") from None
