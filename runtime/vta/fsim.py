"""Device "fsim": the functional simulator, which has no time."""

import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.base.reading import check_memory
from vtakit.hw.isa.config import INSN_BYTES, VTAConfig
from vtakit.hw.isa.insns import ISA_VERSION, MEMORIES
from vtakit.hw.isa.regs import device_features
from vtakit.runtime.vta.device import Device, Ending
from vtakit.sim.api import integer, keywords
from vtakit.sim.decode import Memories
from vtakit.sim.faults import DeviceError, ProgramFault
from vtakit.sim.fsim import execute
from vtakit.sim.program import decoded_program


class Fsim:
    """A `Device` that works out what a program does, when it is waited for. Scratchpads are zero when a program starts."""

    name = "fsim"
    version = ISA_VERSION
    bus_bytes: float | None = None

    def __init__(self, config: VTAConfig, dram: bytearray, order: str | int, path: str, max_steps: int) -> None:
        self.config, self.features = config, device_features(config)
        self.memory = range(len(dram))
        self._dram = dram
        self._order, self._path, self._max_steps = order, path, max_steps
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
        """Run the program; its steps bound the time, not `timeout_s`."""
        insn_addr, insn_count = self._program
        decoded = decoded_program(self.config, self.read(insn_addr, insn_count * INSN_BYTES))
        counters = decoded.transfer_counters()
        steps = sum(counters[name] for name in ("gemm_counter", "gemm_reset_counter", "alu_counter"))
        if steps > self._max_steps:
            raise DeviceError(f"the program has {steps} steps, and device 'fsim' runs at most {self._max_steps}: raise max_steps")
        memories = Memories(bases=dict.fromkeys(MEMORIES, 0), window=(self.memory.start, self.memory.stop))
        try:
            execute(decoded, self._dram, memories, order=self._order, path=self._path)
        except ProgramFault as fault:
            return Ending(fault=fault.fault, index=fault.index, detail=fault.detail)
        return Ending()

    def reset(self) -> None:
        """Nothing runs between two calls."""

    def close(self) -> None:
        """Give the memory back."""
        self._dram = bytearray()


def open_device(
    config: VTAConfig, *, memory_bytes: int = 1 << 26, order: str | int = "program", path: str = "auto", max_steps: int = 10**10
) -> Device:
    """The functional simulator of a configuration; its options are those after `config`.

    memory_bytes   of its DRAM
    order, path    as in `vtakit.sim.fsim.simulate`
    max_steps      micro-op steps of a program: one that has more is refused; a processor runs some ten million a second
    """
    if integer("max_steps", max_steps) < 1:
        raise VtakitError(f"max_steps must be at least 1, not {max_steps}")
    return Fsim(config, simulated_memory(memory_bytes), order, path, max_steps)


OPTIONS = keywords(open_device)


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
