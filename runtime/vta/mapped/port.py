"""A `Port` and a `Device` over registers and memory that are mapped into this process."""

import time
from contextlib import suppress

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.regs import IDENTITY, fields_of, mask_of, offset_of
from vtakit.runtime.vta.device import Ending
from vtakit.runtime.vta.errors import DeviceTimeout
from vtakit.runtime.vta.mapped.dma import Memory
from vtakit.runtime.vta.mapped.page import Registers
from vtakit.runtime.vta.mapped.uio import Events
from vtakit.runtime.vta.registers import RegisterDevice
from vtakit.sim.faults import DeviceError

_LONGEST_S = 0.1  # between looks at a register, so that an interrupt that never comes is no hang
_FIRST_PAUSE_S, _LAST_PAUSE_S = 20e-6, 2e-3  # between looks at a register, without interrupts
_SNOOPED = 0b1100  # bits of AxCACHE by which a coherent port looks into caches


class MappedPort:
    """A `Port`.

    events   the device's interrupts; None: registers are polled
    """

    def __init__(self, registers: Registers, memory: Memory, events: Events | None = None) -> None:
        self.memory = memory.addresses
        self.shared = memory
        self.interrupts = 0  # that have come
        self._registers, self._events = registers, events
        self.read_register, self.write_register = registers.read, registers.write
        self.read_memory, self.write_memory = memory.read, memory.write

    def listen(self) -> None:
        """Let the device give interrupts, if they can be waited for. No program runs."""
        self.write_register(offset_of("irq_enable"), int(self._events is not None))
        self._acknowledge()

    def wait_clear(self, address: int, mask: int, timeout_s: float) -> str | None:
        """Wait for interrupts, or poll, first often and then every few milliseconds."""
        deadline, pause = time.monotonic() + timeout_s, _FIRST_PAUSE_S
        while self.read_register(address) & mask:
            left = deadline - time.monotonic()
            if left <= 0:
                return f"{timeout_s:g} s"
            if self._events is None or not self._events.enable():
                time.sleep(min(pause, left))
                pause = min(2 * pause, _LAST_PAUSE_S)
            elif self._events.wait(min(left, _LONGEST_S)):
                self.interrupts += 1
                self._acknowledge()
        self._acknowledge()
        return None

    def close(self) -> None:
        """Let go of registers, memory and interrupts."""
        if self._events is not None:
            self._events.close()
        self.shared.close()
        self._registers.close()

    def _acknowledge(self) -> None:
        self.write_register(offset_of("control"), mask_of("control", "acknowledge"))


class MappedDevice(RegisterDevice):
    """A `Device` behind a `MappedPort`.

    Raises what `RegisterDevice` raises, and DeviceError if the core cannot address the memory, or its bursts do not look into the
    caches that the memory needs.
    """

    port: MappedPort

    def __init__(self, name: str, port: MappedPort, config: VTAConfig | None) -> None:
        super().__init__(name, port, config)
        if self._read("status") & mask_of("status", "busy"):  # of a program that has ended meanwhile
            self.reset()
        bits = fields_of("bus", self._read("bus"))["address_bits"]
        if port.memory.stop > 1 << bits:
            raise DeviceError(f"device {name!r} has addresses of {bits} bits, and its memory ends at 0x{port.memory.stop:x}: "
                              "build it with more --address-bits, or give it lower memory")
        cache = fields_of("attributes", self._read("attributes"))["cache"]
        if port.shared.coherent and not cache & _SNOOPED:
            raise DeviceError(f"device {name!r} has AxCACHE 0b{cache:04b}, with which not every port looks into the caches, and "
                              "its memory is said to be coherent: build it with --coherent, or take dma-coherent out of the "
                              "device tree")
        port.listen()

    def wait(self, timeout_s: float) -> Ending:
        """Wait until the program has ended."""
        try:
            return super().wait(timeout_s)
        except DeviceTimeout:
            if self._read("identity") != IDENTITY:
                raise DeviceError(f"device {self.name!r} is gone: its registers are no longer those of an accelerator; was "
                                  "another bitstream loaded?") from None
            raise

    def close(self) -> None:
        """Let go of the device."""
        with suppress(DeviceError):
            if not self._read("status") & mask_of("status", "busy"):
                self._write("irq_enable", 0)
        super().close()


def require_bytes(name: str, memory: Memory, what: str, needed: int | None, cure: str) -> None:
    """Refuse memory that is smaller than what programs need."""
    if needed is not None and len(memory.addresses) < needed:
        has = f"{len(memory.addresses):,} bytes of memory in {what}"
        raise DeviceError(f"device {name!r} has {has}, and {needed:,} are needed: {cure}")
