"""Devices that are simulated in this process: memory, loading and running of a program."""

from abc import ABC, abstractmethod

import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.base.reading import check_memory
from vtakit.hw.dram import Dram
from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.insns import ISA_VERSION, MEMORIES, Feature
from vtakit.runtime.vta.device import Ending
from vtakit.sim.decode import Decoded, Memories
from vtakit.sim.faults import ProgramFault
from vtakit.sim.program import decoded_program

_USUAL_BYTES = 1 << 26


class Simulated(ABC):
    """A `Device` that runs a program when it is waited for. Scratchpads are zero when a program starts."""

    name: str
    version = ISA_VERSION
    bus_bytes: float | None = None
    published = False  # whether it has the published instruction set alone, `CoreParams.published`

    def __init__(self, config: VTAConfig, features: Feature, dram: bytearray) -> None:
        self.config, self.features = config, features
        self.memory = range(len(dram))
        self._dram = dram
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
        """Run the program; its steps or cycles bound the time, not `timeout_s`."""
        insn_addr, insn_count = self._program
        decoded = decoded_program(self.config, self.read(insn_addr, insn_count * INSN_BYTES), self.published)
        memories = Memories(bases=dict.fromkeys(MEMORIES, 0), window=(self.memory.start, self.memory.stop))
        try:
            return self._run(decoded, insn_addr, memories)
        except ProgramFault as fault:
            return Ending(fault=fault.fault, index=fault.index, detail=fault.detail, trace=fault.trace)

    @abstractmethod
    def _run(self, decoded: Decoded, insn_addr: int, memories: Memories) -> Ending:
        """Run a program that lies in memory."""

    def reset(self) -> None:
        """Forget the program; nothing runs between two calls."""
        self._program = 0, 0

    def close(self) -> None:
        """Give the memory back."""
        self._dram = bytearray()


def memory_of(chip: Dram | None, memory_bytes: int | None) -> int:
    """Return the size of a simulated device's memory: what was asked for, or 64 MiB, or a smaller chip's.

    Raises `VtakitError` if the chip has less than was asked for.
    """
    if memory_bytes is None:
        return _USUAL_BYTES if chip is None else min(_USUAL_BYTES, chip.capacity_bytes)
    if chip is not None and isinstance(memory_bytes, int | np.integer) and memory_bytes > chip.capacity_bytes:
        raise VtakitError(f"memory_bytes is {memory_bytes} and the memory system's chip has {chip.capacity_bytes}, which are "
                          "rows x banks x columns x width / 8: more rows hold more")
    return memory_bytes


def simulated_memory(memory_bytes: int) -> bytearray:
    """The memory of a simulated device, all zero.

    Raises `VtakitError` if the size is no number from 4096 up, or more than this machine has.
    """
    if not isinstance(memory_bytes, int | np.integer) or isinstance(memory_bytes, bool) or not 4096 <= memory_bytes <= 1 << 40:
        raise VtakitError(f"memory_bytes must be an integer from 4096 to {1 << 40}, not {memory_bytes!r:.40}")
    try:
        check_memory(int(memory_bytes))
        return bytearray(int(memory_bytes))
    except MemoryError:
        raise VtakitError(f"a device's memory of {memory_bytes} bytes is more than this machine has") from None
