"""Device "pynq:FILE.bit": an accelerator on a board with the PYNQ image, through its package `pynq`."""

from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.regs import ADDRESS_BITS
from vtakit.runtime.vta.device import Device
from vtakit.runtime.vta.mapped.dma import Order
from vtakit.runtime.vta.mapped.port import MappedDevice, MappedPort
from vtakit.sim.api import integer, keywords
from vtakit.sim.faults import DeviceError

PLACE = "vta.bit"
TYPE = "vtakit:user:vta:1.0"  # of the IP that `vtakit vivado` packages
_USUAL_BYTES = 1 << 25
_LEAST_BYTES = 4096


class PynqRegisters:
    """`Registers` of an `MMIO` of pynq. It accesses whole words of a mapped array, each by one load or store."""

    def __init__(self, mmio: Any) -> None:
        self._words = mmio.array

    def read(self, address: int) -> int:
        """The 32 bits of a register."""
        return int(self._words[address >> 2])

    def write(self, address: int, value: int) -> None:
        """Write the 32 bits of a register."""
        self._words[address >> 2] = value

    def close(self) -> None:
        """Let go of them: pynq unmaps them with the array."""
        self._words = None


class PynqBuffer:
    """A `Memory`: one buffer of `pynq.allocate`, whose slices can be flushed and invalidated by themselves."""

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        start = getattr(buffer, "device_address", None)
        start = int(buffer.physical_address if start is None else start)
        self.addresses = range(start, start + buffer.nbytes)
        self.coherent = False  # that no port must snoop; pynq's word says whether caches are maintained by hand
        self._manual = not getattr(buffer, "coherent", False)
        self._order = Order()
        self._buffer.flush()  # a line that is dirty from before could go over what the accelerator writes

    def read(self, address: int, size: int) -> bytes:
        """Bytes, as the accelerator left them."""
        piece = self._piece(address, size)
        self._order()
        if self._manual and size:
            piece.invalidate()
        return bytes(np.asarray(piece))

    def write(self, address: int, data: bytes) -> None:
        """Write bytes, so that the accelerator sees them."""
        piece = self._piece(address, len(data))
        piece[:] = np.frombuffer(data, np.uint8)
        if self._manual and data:
            piece.flush()
        self._order()

    def close(self) -> None:
        """Give the buffer back."""
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            buffer.freebuffer()

    def _piece(self, address: int, size: int) -> Any:
        at = address - self.addresses.start
        return self._buffer[at : at + size]


def open_device(
    config: VTAConfig, name: str, place: str, *, ip: str | None = None, download: bool = True, memory_bytes: int = _USUAL_BYTES,
) -> Device:
    """The accelerator in a bitstream, with this configuration; its options are those after `place`.

    place          the bitstream; its .hwh file lies beside it
    ip             name of the accelerator in the block design; None: the only one of its kind
    download       load the bitstream; False: it is loaded already
    memory_bytes   of the buffer that is allocated for it
    """
    size = integer("memory_bytes", memory_bytes)
    pynq = package(name)
    try:
        overlay = pynq.Overlay(place, download=download)
    except (OSError, RuntimeError, ValueError) as error:
        raise DeviceError(f"device {name!r} cannot be opened: pynq cannot load {place}: {error}") from None
    found = _find(name, overlay.ip_dict, ip)
    with ExitStack() as stack:
        buffer = PynqBuffer(allocated(name, pynq, size, np.uint8))
        stack.callback(buffer.close)
        registers = PynqRegisters(pynq.MMIO(found["phys_addr"], 1 << ADDRESS_BITS))
        device = MappedDevice(name, MappedPort(registers, buffer), config)
        stack.pop_all()
    return device


def check_place(name: str, place: str) -> None:
    """Raise `DeviceError` if there is no such bitstream, or no package `pynq`."""
    package(name)
    if not Path(place).is_file():
        raise DeviceError(f"device {name!r} cannot be opened: there is no file {place}: name the bitstream that "
                          "`vtakit vivado` builds")
    if not Path(place).with_suffix(".hwh").is_file():
        raise DeviceError(f"device {name!r} cannot be opened: {place} has no {Path(place).with_suffix('.hwh').name} beside it, "
                          "which tells pynq its addresses")


def package(name: str) -> Any:
    """Return PYNQ's package. Raises DeviceError if it is not installed."""
    try:
        return import_module("pynq")
    except ImportError:
        raise DeviceError(f"device {name!r} needs the package pynq, which the PYNQ image of a board has; on other systems take "
                          "uio:/dev/uio0") from None


def allocated(name: str, pynq: Any, size: int, dtype: Any) -> Any:
    """Return a buffer of PYNQ's. Raises DeviceError if there is no memory for it, or it is too small to be of use."""
    if size < _LEAST_BYTES:
        raise DeviceError(f"memory_bytes must be at least {_LEAST_BYTES}, not {size}")
    try:
        return pynq.allocate(shape=(size,), dtype=dtype)
    except (MemoryError, RuntimeError, OSError) as error:
        raise DeviceError(f"device {name!r} cannot be opened: pynq has no {size:,} bytes of memory in one piece: {error}; free "
                          "its buffers, or give the kernel a larger CMA area") from None


def _find(name: str, ip_dict: Mapping[str, Mapping[str, Any]], ip: str | None) -> Mapping[str, Any]:
    """The entry of the accelerator among the parts of an overlay."""
    if ip is not None:
        if ip not in ip_dict:
            raise DeviceError(f"device {name!r} has no part {ip!r:.40}; it has {', '.join(sorted(ip_dict)) or 'none'}")
        return ip_dict[ip]
    found = [key for key, entry in ip_dict.items() if entry.get("type") == TYPE]
    if len(found) != 1:
        parts = ", ".join(sorted(found or ip_dict)) or "none"
        raise DeviceError(f"device {name!r} has {'several accelerators' if found else f'no part of type {TYPE}'}: name one with "
                          f"the option ip; it has {parts}")
    return ip_dict[found[0]]


OPTIONS = keywords(open_device)
