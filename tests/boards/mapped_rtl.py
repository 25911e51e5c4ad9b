"""A process that has an accelerator: the RTL behind a socket of register accesses, beside a file that is its memory.

`python mapped_rtl.py JSON` with the descriptors of socket and interrupts, the path of the memory, and its address. It stands in
for FPGA and kernel: what uio_pdrv_genirq does with the interrupt, it does on a pseudo-terminal.
"""

import ctypes
import json
import os
import select
import struct
import sys
from dataclasses import replace
from pathlib import Path

from vtakit.hw.isa.config import NAMED
from vtakit.hw.isa.regs import mask_of, offset_of
from vtakit.hw.params import CoreParams
from vtakit.runtime.vta.rtl import RtlPort
from vtakit.sim.faults import DeviceError
from vtakit.sim.rtl.build import library
from vtakit.sim.rtl.model import Kind, Model, Op
from vtakit.sim.rtl.surroundings import Surroundings

MESSAGE = struct.Struct("III")
WRITE, OKAY, REFUSED = 1, 0, 1
WAIT_CYCLES = 2000
_FOR_EVER = 2**62
_PROT, _PRIVATE, _SHARED, _FIXED, _ANONYMOUS, _NO_RESERVE = 3, 2, 1, 0x10, 0x20, 0x4000


def dram(path: Path, start: int) -> ctypes.Array[ctypes.c_char]:
    """Memory from address 0 to the end of a file that lies at `start`; in front of the file there is nothing."""
    size = path.stat().st_size
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    base = libc.mmap(None, start + size, _PROT, _PRIVATE | _ANONYMOUS | _NO_RESERVE, -1, 0)
    file = os.open(path, os.O_RDWR)
    assert libc.mmap(base + start, size, _PROT, _SHARED | _FIXED, file, 0) == base + start
    os.close(file)
    return (ctypes.c_char * (start + size)).from_address(base)


class Interrupt:
    """The line of an interrupt, and the kernel's driver of it: masked when it comes, until it is unmasked."""

    def __init__(self, file: int, port: RtlPort) -> None:
        self._file, self._port = file, port
        self._masked, self._count = True, 0

    def look(self) -> None:
        """Pass an interrupt on, if there is one and it is not masked."""
        port = self._port
        if not self._masked and port.read_register(offset_of("irq_pending")) and port.read_register(offset_of("irq_enable")):
            self._masked = True
            self._count += 1
            os.write(self._file, self._count.to_bytes(4, "little"))

    def told(self) -> None:
        """Take what was written to the device."""
        self._masked = int.from_bytes(os.read(self._file, 4), "little") == 0


def serve(line: int, interrupts: int, port: RtlPort) -> None:
    """Carry out accesses until the socket is closed."""
    interrupt = Interrupt(interrupts, port)
    busy = False
    while True:
        ready, _, _ = select.select([line, interrupts], [], [], 0 if busy else 0.2)
        if line in ready:
            data = os.read(line, MESSAGE.size)
            if not data:
                return
        if interrupts in ready:
            interrupt.told()
        if line in ready:
            kind, offset, value = MESSAGE.unpack(data)
            answer = OKAY
            try:
                if kind == WRITE:
                    port.write_register(offset, value)
                else:
                    value = port.read_register(offset)
            except DeviceError as error:
                print(error, file=sys.stderr, flush=True)
                answer = REFUSED
            os.write(line, MESSAGE.pack(answer, offset, value))
        elif busy:
            port._access(Op(kind=Kind.WAIT, value=WAIT_CYCLES))
        busy = bool(port.read_register(offset_of("status")) & mask_of("status", "busy"))
        interrupt.look()


def main() -> None:
    given = json.loads(sys.argv[1])
    memory = dram(Path(given["memory"]), given["start"])
    params = CoreParams(cfg=NAMED[given["config"]], **given.get("core", {}))
    around = replace(Surroundings(**given.get("around", {})), max_cycles=_FOR_EVER)
    port = RtlPort(Model(library(params), memory, around), memory, _FOR_EVER)
    os.write(given["line"], b"!")  # ready
    serve(given["line"], given["interrupts"], port)


if __name__ == "__main__":
    main()
