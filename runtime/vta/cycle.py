"""Device "cycle": results of the functional simulator with the cycles of the hardware, from the cycle model."""

from collections.abc import Mapping
from typing import Any

from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.insns import ISA_VERSION, MEMORIES
from vtakit.hw.params import CoreParams
from vtakit.hw.system import REFERENCE, SystemLike
from vtakit.runtime.vta.device import Device, Ending
from vtakit.runtime.vta.fsim import simulated_memory
from vtakit.sim.api import keywords
from vtakit.sim.cycle import AROUND, check_options, run_timed
from vtakit.sim.decode import Memories
from vtakit.sim.faults import ProgramFault
from vtakit.sim.program import decoded_program
from vtakit.sim.rtl.surroundings import Surroundings, surrounded


class Cycle:
    """A `Device` that works out what a program does and how long it takes, when it is waited for.

    Scratchpads are zero when a program starts, and no burst is under way.
    """

    name = "cycle"
    version = ISA_VERSION

    def __init__(self, core: CoreParams, dram: bytearray, around: Surroundings, data: bool, path: str) -> None:
        self.config, self.features = core.cfg, core.features
        self.memory = range(len(dram))
        self.bus_bytes: float | None = core.bus_bytes * around.bandwidth / 100
        self._core, self._dram, self._around, self._data, self._path = core, dram, around, data, path
        self._program = 0, 0

    def read(self, address: int, size: int) -> bytes:
        """Bytes of memory."""
        return bytes(memoryview(self._dram)[address : address + size])

    def write(self, address: int, data: bytes) -> None:
        """Write memory."""
        self._dram[address : address + len(data)] = data

    def start(self, insn_addr: int, insn_count: int) -> None:
        """Note the program."""
        self._program = insn_addr, insn_count

    def wait(self, timeout_s: float) -> Ending:
        """Run the program; its cycles bound the time, not `timeout_s`."""
        insn_addr, insn_count = self._program
        decoded = decoded_program(self.config, self.read(insn_addr, insn_count * INSN_BYTES))
        memories = Memories(bases=dict.fromkeys(MEMORIES, 0), window=(self.memory.start, self.memory.stop))
        try:
            found, _ = run_timed(decoded, self._dram, insn_addr, memories, self._core, self._around, data=self._data,
                                 path=self._path, rested=True)
        except ProgramFault as fault:
            return Ending(fault=fault.fault, index=fault.index, detail=fault.detail)
        return Ending(counters=found.counters, trace=found.trace(decoded.stage) if self._around.trace else None)

    def reset(self) -> None:
        """Nothing runs between two calls."""

    def close(self) -> None:
        """Give the memory back."""
        self._dram = bytearray()


def open_device(
    config: VTAConfig, *, memory_bytes: int = 1 << 26, data: bool = True, path: str = "auto", system: SystemLike = REFERENCE,
    bus_bits: int | None = None, core: Mapping[str, Any] | None = None, **around: Any,
) -> Device:
    """The cycle model of a configuration; its options are those after `config`.

    memory_bytes   of its DRAM
    data, path     as in `vtakit.sim.cycle.simulate`; without data a program leaves memory as it is
    system, bus_bits, core, around   as of device "rtl", but for injected errors and waveforms; with stalls a program's cycles are
                   those of `vtakit.sim.run`, since each access of the driver of device "rtl" draws random numbers too
    """
    found, bits = surrounded(system, bus_bits, around)
    check_options(data, path)
    return Cycle(CoreParams.of(config, bits, core), simulated_memory(memory_bytes), found, data, path)


OPTIONS = (*keywords(open_device), *AROUND)
