"""Device "uio:PLACE": an accelerator behind Linux's UIO, with its memory in a u-dma-buf."""

from contextlib import ExitStack
from pathlib import Path

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.regs import ADDRESS_BITS
from vtakit.runtime.vta.device import Device
from vtakit.runtime.vta.mapped.dma import UDmaBuf
from vtakit.runtime.vta.mapped.port import MappedDevice, MappedPort, require_bytes
from vtakit.runtime.vta.mapped.uio import Uio, find_uio
from vtakit.sim.api import integer, keywords
from vtakit.sim.faults import DeviceError

PLACE = "/dev/uio0"
BUFFER = "udmabuf0"


def open_device(
    config: VTAConfig, name: str, place: str, *, memory: str | None = None, interrupts: bool = True,
    memory_bytes: int | None = None,
) -> Device:
    """The accelerator behind a UIO device, with this configuration; its options are those after `place`.

    place         such as /dev/uio0, or what the UIO device is called: vta
    memory        such as /dev/udmabuf1; udmabuf0 beside the UIO device if None
    interrupts    wait for interrupts, where the device has one; else its status is polled
    memory_bytes  that programs need: a smaller buffer is refused; None: any
    """
    if not isinstance(interrupts, bool):
        raise DeviceError(f"interrupts must be True or False, not {interrupts!r:.40}")
    needed = None if memory_bytes is None else integer("memory_bytes", memory_bytes)
    with ExitStack() as stack:
        uio, buffer = open_mapped(stack, name, place, memory, 1 << ADDRESS_BITS)
        require_bytes(name, buffer, str(buffer.path), needed,
                      f"insmod u-dma-buf.ko {buffer.path.name}={needed}, or a larger size in the device tree")
        events = uio.events() if interrupts else None
        if events is not None:
            stack.callback(events.close)
        device = MappedDevice(name, MappedPort(uio, buffer, events), config)
        stack.pop_all()
    return device


def open_mapped(stack: ExitStack, name: str, place: str, memory: str | None, size: int) -> tuple[Uio, UDmaBuf]:
    """Return the UIO device with so many bytes of registers, and its buffer, which `stack` closes."""
    uio = Uio(name, find_uio(name, place), size)
    stack.callback(uio.close)
    path = uio.path.with_name(BUFFER) if memory is None else Path(str(memory))
    buffer = UDmaBuf(name, path, uio.root)
    stack.callback(buffer.close)
    return uio, buffer


def check_place(name: str, place: str) -> None:
    """Raise `DeviceError` if there is no such UIO device."""
    find_uio(name, place)


OPTIONS = keywords(open_device)
