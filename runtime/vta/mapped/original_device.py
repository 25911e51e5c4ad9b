"""Device "original:PLACE": one of the original's bitstreams, behind UIO or PYNQ's package."""

from contextlib import ExitStack

import numpy as np

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.published import Isa
from vtakit.runtime.vta.device import Device
from vtakit.runtime.vta.mapped.dma import Memory
from vtakit.runtime.vta.mapped.original import PAGE_BYTES, OriginalDevice, pages_of, shell_of
from vtakit.runtime.vta.mapped.page import Registers
from vtakit.runtime.vta.mapped.port import require_bytes
from vtakit.runtime.vta.mapped.pynq_device import PynqBuffer, PynqRegisters, allocated, package
from vtakit.runtime.vta.mapped.uio import find_uio
from vtakit.runtime.vta.mapped.uio_device import open_mapped
from vtakit.sim.api import integer, keywords
from vtakit.sim.faults import DeviceError

PLACE = "/dev/uio0"
_BITSTREAM = ".bit"
_FIRST_BLOCK = 0x43C00000  # of the original's PYNQ; its Ultra96 and ZCU104 have 0xa0000000
_USUAL_BYTES = 1 << 25


def open_device(
    config: VTAConfig, name: str, place: str, *, isa: str = "original", registers: str = "hls", address: int = _FIRST_BLOCK,
    memory: str | None = None, memory_bytes: int | None = None, checks: bool = True,
) -> Device:
    """The original with this configuration, which it cannot be asked for; its options are those after `place`.

    place          a UIO device whose first map begins with the registers, or a bitstream (FILE.bit), which PYNQ's package loads
    isa            its instructions: "original", with abilities such as "original+mul"
    registers      "hls": four blocks of a page each; "vcr": the Chisel design's page; "vcr64": that with addresses of 64 bits
    address        of the first block, with a bitstream
    memory         with UIO: the buffer of u-dma-buf; udmabuf0 beside it if None
    memory_bytes   that programs need; with a bitstream, the size of the buffer
    checks         check each program against the rules that its implementations need, when it is loaded
    """
    instructions, size = Isa.parse(isa), pages_of(registers) * PAGE_BYTES
    if not instructions.published:
        raise DeviceError(f"device {name!r} has the published instruction set: isa is 'original', or such as 'original+mul', "
                          f"not {isa!r:.40}")
    if not isinstance(checks, bool):
        raise DeviceError(f"checks must be True or False, not {checks!r:.40}")
    needed = None if memory_bytes is None else integer("memory_bytes", memory_bytes)
    with ExitStack() as stack:
        found: Registers
        shared: Memory
        if place.endswith(_BITSTREAM):
            pynq = package(name)
            try:
                pynq.Bitstream(place).download()
            except (OSError, RuntimeError, ValueError) as error:
                raise DeviceError(f"device {name!r} cannot be opened: pynq cannot load {place}: {error}") from None
            shared = PynqBuffer(allocated(name, pynq, _USUAL_BYTES if needed is None else needed, np.uint8))
            stack.callback(shared.close)
            found = PynqRegisters(pynq.MMIO(integer("address", address), size))
        else:
            found, buffer = open_mapped(stack, name, place, memory, size)
            require_bytes(name, buffer, str(buffer.path), needed, "load u-dma-buf with a larger size")
            shared = buffer
        device = OriginalDevice(name, found, shell_of(registers, found), shared, config, instructions, checks=checks)
        stack.pop_all()
    return device


def check_place(name: str, place: str) -> None:
    """Raise `DeviceError` if there is no such UIO device, or no package `pynq` for a bitstream."""
    if place.endswith(_BITSTREAM):
        package(name)
    else:
        find_uio(name, place)


OPTIONS = keywords(open_device)
