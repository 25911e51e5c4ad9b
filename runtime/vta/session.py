"""A program that stays on a device, with buffers for what goes in and out."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from vtakit.hw.isa.config import INSN_BYTES, UOP_BYTES
from vtakit.hw.isa.program import BufferKind, Program, dram_alignment
from vtakit.runtime.vta.buffer import DeviceBuffer
from vtakit.runtime.vta.driver import Driver
from vtakit.runtime.vta.errors import DeviceTimeout
from vtakit.runtime.vta.loaded import LaunchResult, LoadedProgram
from vtakit.sim.faults import DeviceError

_LEAST_BYTES = 1 << 16  # of a simulated device's memory


class Session:
    """A program loaded on a device, with its buffers."""

    def __init__(self, program: Program, driver: Driver) -> None:
        self.driver = driver
        self.buffers: dict[str, DeviceBuffer] = {}
        self._loaded: LoadedProgram = driver.load(program)
        try:
            for buffer in program.buffers:
                if buffer.kind in (BufferKind.INPUT, BufferKind.OUTPUT):
                    self.buffers[buffer.name] = driver.allocate(buffer.size_bytes)
        except BaseException:
            self.close()
            raise

    def run(self, inputs: Mapping[str, bytes], timeout_s: float) -> LaunchResult:
        """Fill the inputs, launch, and wait; a program that has not ended in time is stopped."""
        for name, data in inputs.items():
            self.buffers[name].write(data)
        launch = self._loaded.launch(self.buffers)
        try:
            return launch.wait(timeout_s)
        except DeviceTimeout as error:
            self.driver.reset()
            raise DeviceTimeout(error.device, error.passed, "it was stopped; timeout_s and max_cycles say how long it may take"
                                ) from None

    def close(self) -> None:
        """Give the device's memory back."""
        with suppress(DeviceError):  # one that is lost or closed has none
            self._loaded.free()
        for buffer in self.buffers.values():
            if buffer.alive:
                with suppress(DeviceError):
                    buffer.free()


def needed_bytes(programs: Iterable[Program]) -> int:
    """Memory of a simulated device that holds programs with all their buffers."""
    total = 0
    for program in programs:
        align = dram_alignment(program.config)
        sizes = [len(program.insns) * INSN_BYTES, len(program.uops) * UOP_BYTES, *(b.size_bytes for b in program.buffers)]
        total += align + sum(-(-max(size, 1) // align) * align for size in sizes)
    return max(_LEAST_BYTES, total)
