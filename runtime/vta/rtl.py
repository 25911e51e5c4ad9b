"""Device "rtl": the hardware in Verilator, driven through its registers as a board is."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.params import CoreParams
from vtakit.hw.system import REFERENCE, SystemLike
from vtakit.runtime.vta.device import Device, Ending
from vtakit.runtime.vta.registers import RegisterDevice
from vtakit.runtime.vta.simulated import memory_of, simulated_memory
from vtakit.sim.api import keywords
from vtakit.sim.faults import DeviceError
from vtakit.sim.rtl import surroundings
from vtakit.sim.rtl.build import library
from vtakit.sim.rtl.model import SLICE_CYCLES, Kind, Model, Op
from vtakit.sim.rtl.surroundings import Surroundings, surrounded
from vtakit.sim.trace import Trace

_FOR_EVER = 2**62  # cycles: waits have bounds of their own
_ACCESS_CYCLES = 20_000_000  # that an access may take; with channels that stall most of the time one takes thousands
_POLL_CYCLES = 40  # that one read of a poll takes, about
_OKAY = 0


class RtlPort:
    """The registers and the memory of a simulated accelerator, which lives from one access to the next.

    Time passes during an access and while `wait_clear` waits, for which `max_cycles` is a bound too.
    """

    def __init__(self, model: Model, dram: bytearray, max_cycles: int) -> None:
        self.memory = range(len(dram))
        self.model, self._dram, self._max_cycles = model, dram, max_cycles
        self._pending = False  # an interrupt came while the host worked off its list

    def read_register(self, address: int) -> int:
        """A register."""
        return self._access(Op(kind=Kind.READ, address=address))

    def write_register(self, address: int, value: int) -> None:
        """Write a register."""
        self._access(Op(kind=Kind.WRITE, address=address, value=value))

    def wait_clear(self, address: int, mask: int, timeout_s: float) -> str | None:
        """Simulate until no bit of the mask is set."""
        deadline, first = time.monotonic() + timeout_s, self.model.counts().cycles
        while True:
            left = first + self._max_cycles - self.model.counts().cycles
            polls = min(max(left // _POLL_CYCLES, 1), SLICE_CYCLES // _POLL_CYCLES)
            if not self._access(Op(kind=Kind.POLL, address=address, value=mask, limit=polls)) & mask:
                return None
            if self.model.counts().cycles - first >= self._max_cycles:
                return f"{self._max_cycles} cycles"
            if time.monotonic() >= deadline:
                return f"{timeout_s:g} s"

    def read_memory(self, address: int, size: int) -> bytes:
        """Bytes of memory."""
        return bytes(memoryview(self._dram)[address : address + size])

    def write_memory(self, address: int, data: bytes) -> None:
        """Write memory."""
        self._dram[address : address + len(data)] = data

    def close(self) -> None:
        """End the simulation."""
        self.model.close()

    def _access(self, op: Op) -> int:
        if self._pending:
            self._finish()
        self._work([op])
        answer = self.model.answers()[0]
        if answer.response != _OKAY:
            what = f"write of 0x{op.value:x} to" if op.kind is Kind.WRITE else "read of"
            raise DeviceError(f"device 'rtl' refuses the {what} its register at 0x{op.address:03x}")
        return answer.value

    def _work(self, ops: Iterable[Op]) -> None:
        self._pending = True
        self.model.give(ops)
        self._finish()

    def _finish(self) -> None:
        end = self.model.counts().cycles + _ACCESS_CYCLES
        while not self.model.advance():
            if self.model.counts().cycles >= end:
                raise DeviceError(f"device 'rtl' does not answer at its registers within {_ACCESS_CYCLES} cycles")
        self._pending = False


class Rtl(RegisterDevice):
    """A `Device`; its counters also hold the beats that the bus moved. Scratchpads keep what a program leaves in them."""

    port: RtlPort

    def __init__(self, port: RtlPort, config: VTAConfig, around: Surroundings) -> None:
        super().__init__("rtl", port, config)
        assert self.bus_bytes is not None
        self.bus_bytes = around.peak_bytes(int(self.bus_bytes))
        self._trace = around.trace
        self._before = port.model.counts()

    def start(self, insn_addr: int, insn_count: int) -> None:
        """Start the program at a byte address."""
        self.port.model.forget()
        self._before = self.port.model.counts()
        super().start(insn_addr, insn_count)

    def wait(self, timeout_s: float) -> Ending:
        """Wait until the program has ended."""
        try:
            ending = super().wait(timeout_s)
        except DeviceError as error:
            error.trace = self._recorded()
            raise
        now = self.port.model.counts()
        beats = {name: getattr(now, name) - getattr(self._before, name) for name in ("read_beats", "write_beats")}
        return replace(ending, counters={**ending.counters, **beats}, trace=self._recorded())

    def _recorded(self) -> Trace | None:
        return self.port.model.trace() if self._trace else None


def open_device(
    config: VTAConfig, *, memory_bytes: int | None = None, system: SystemLike = REFERENCE, bus_bits: int | None = None,
    core: Mapping[str, Any] | None = None, **around: Any,
) -> Device:
    """The RTL of a configuration; its options are those after `config`.

    memory_bytes   of its DRAM; 64 MiB if None, or what the chip of the memory system has, if that is less
    system         its memory: a `vtakit.hw.system.System`, a name, a mapping of fields, or the path of a JSON file
    bus_bits       width of the AXI4 bus: 64, 128, 256 or 512; that of the system if None
    core           fields of `vtakit.hw.params.CoreParams`: {"mul_passes": 4, "windows": False}; the defaults if absent
    around         the fields of `vtakit.sim.rtl.surroundings.Surroundings` but `wave`, on top of the system;
                   a trace is that of the last program
    """
    found, bits = surrounded(system, bus_bits, around)
    dram = simulated_memory(memory_of(found.chip, memory_bytes))
    model = Model(library(CoreParams.of(config, bits, core)), dram, replace(found, max_cycles=_FOR_EVER))
    return Rtl(RtlPort(model, dram, found.max_cycles), config, found)


OPTIONS = (*keywords(open_device), *(name for name in surroundings.OPTIONS if name != "wave"))
