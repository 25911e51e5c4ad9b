"""Device "cycle": results of the functional simulator with the cycles of the hardware, from the cycle model."""

from collections.abc import Mapping
from typing import Any

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.params import CoreParams
from vtakit.hw.system import REFERENCE, SystemLike
from vtakit.runtime.vta.device import Device, Ending
from vtakit.runtime.vta.simulated import Simulated, memory_of, simulated_memory
from vtakit.sim.api import keywords
from vtakit.sim.cycle import AROUND, check_options, run_timed
from vtakit.sim.decode import Decoded, Memories
from vtakit.sim.rtl.surroundings import Surroundings, surrounded


class Cycle(Simulated):
    """A `Device` that works out what a program does and how long it takes. No burst is under way when a program starts."""

    name = "cycle"

    def __init__(self, core: CoreParams, dram: bytearray, around: Surroundings, data: bool, path: str) -> None:
        super().__init__(core.cfg, core.features, dram)
        self.published = core.published
        self.bus_bytes = around.peak_bytes(core.bus_bytes)
        self._core, self._around, self._data, self._path = core, around, data, path

    def _run(self, decoded: Decoded, insn_addr: int, memories: Memories) -> Ending:
        found, _ = run_timed(
            decoded, self._dram, insn_addr, memories, self._core, self._around, data=self._data, path=self._path, rested=True)
        return Ending(counters=found.counters, trace=found.trace(decoded.stage) if self._around.trace else None)


def open_device(
    config: VTAConfig, *, memory_bytes: int | None = None, data: bool = True, path: str = "auto", system: SystemLike = REFERENCE,
    bus_bits: int | None = None, core: Mapping[str, Any] | None = None, **around: Any,
) -> Device:
    """The cycle model of a configuration; its options are those after `config`.

    memory_bytes   of its DRAM; 64 MiB if None, or what the chip of the memory system has, if that is less
    data, path     as in `vtakit.sim.cycle.simulate`; without data a program leaves memory as it is
    system, bus_bits, core, around   as of device "rtl", but for injected errors and waveforms; with stalls a program's cycles are
                   those of `vtakit.sim.run`, since each access of the driver of device "rtl" draws random numbers too
    """
    found, bits = surrounded(system, bus_bits, around)
    check_options(data, path)
    return Cycle(CoreParams.of(config, bits, core), simulated_memory(memory_of(found.chip, memory_bytes)), found, data, path)


OPTIONS = (*keywords(open_device), *AROUND)
