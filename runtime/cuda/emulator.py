"""The emulator of PTX as a device: the text that a GPU would get runs here, every access checked."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vtakit.compiler.codegen.nvptx.arch import Arch
from vtakit.compiler.codegen.nvptx.compile import Kernels
from vtakit.runtime.cuda.device import EMULATOR, Bytes, Device, Graph, Grid
from vtakit.sim.ptx import DeviceMemory, Module, load

_LATEST = "sm_90a"  # whose instructions it knows


class Emulator(Device):
    """A GPU in this process. Launches end before they return; streams are all one."""

    def __init__(self) -> None:
        super().__init__(EMULATOR, "the emulator of PTX")
        self.memory = DeviceMemory()
        self._recording: list[Callable[[], object]] | None = None

    @property
    def arch(self) -> Arch:
        return Arch(_LATEST)

    def allocate(self, size: int, what: str) -> int:
        return self.memory.allocate(max(1, size))

    def free(self, address: int) -> None:
        self.memory.release(address)

    def write(self, address: int, data: Bytes, stream: int = 0) -> None:
        if data.nbytes:
            self.memory.write(address, data)

    def read(self, address: int, data: Bytes, stream: int = 0) -> None:
        if data.nbytes:
            data[...] = self.memory.read(address, data.shape, np.uint8)

    def copy(self, to: int, source: int, size: int, stream: int = 0) -> None:
        def run() -> None:
            if size:
                self.memory.write(to, self.memory.read(source, size, np.uint8))
        self._do(run)

    def load(self, kernels: Kernels, names: Sequence[str]) -> Mapping[str, tuple[Module, str]]:
        module = load(kernels.ptx)
        return {name: (module, name) for name in names}

    def launch(self, kernel: Any, grid: Grid, block: Grid, shared: int, args: Sequence[Any], stream: int = 0) -> None:
        module, name = kernel
        given = [bytes(arg) for arg in args]
        self._do(lambda: module.launch(name, grid, block, given, self.memory, shared=shared))

    def _do(self, run: Callable[[], object]) -> None:
        if self._recording is None:
            run()
        else:
            self._recording.append(run)

    def finish(self, stream: int = 0, timeout_s: float | None = None) -> None:
        """Nothing is left to do."""

    def timed(self, run: Callable[[], object], stream: int = 0) -> float:
        """Return the seconds that the emulator takes, which say nothing about a GPU."""
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin

    def captured(self, begin: Callable[[int], object]) -> "Recorded":
        self._recording = []
        try:
            begin(0)
            return Recorded(self._recording)
        finally:
            self._recording = None


class Recorded(Graph):
    """Launches of the emulator, in order."""

    def __init__(self, steps: Sequence[Callable[[], object]]) -> None:
        self.steps = tuple(steps)

    def launch(self, stream: int = 0) -> None:
        for step in self.steps:
            step()


@functools.cache
def emulator() -> Emulator:
    """Return the emulator, opened once."""
    return Emulator()
