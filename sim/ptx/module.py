"""A PTX module that can be launched."""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from vtakit.base.errors import VtakitError, one_of
from vtakit.sim.ptx.decode.program import Program, program_of
from vtakit.sim.ptx.launch import Counters, Dim, launch
from vtakit.sim.ptx.memory import DeviceMemory
from vtakit.sim.ptx.text.parser import parse
from vtakit.sim.ptx.text.syntax import Text


def load(text: str) -> "Module":
    """Parse a module and decode its kernels; an instruction that the emulator does not know is an error that names it."""
    return Module(parse(text))


def _three(sizes: Sequence[int]) -> Dim:
    x, y, z = (*(int(each) for each in sizes), 1, 1)[:3]
    return x, y, z


class Module:
    """The kernels of a module; its global variables live in each memory that a kernel is launched on."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.programs: dict[str, Program] = {
            name: program_of(kernel, text.variables) for name, kernel in text.kernels.items() if kernel.entry}
        self._symbols: WeakKeyDictionary[DeviceMemory, dict[str, int]] = WeakKeyDictionary()

    def launch(self, name: str, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], memory: DeviceMemory, *,
               shared: int = 0, checks: bool = True, plain: bool = False, limit: int = 1 << 40) -> Counters:
        """Run a kernel over a grid of blocks.

        args    one for each parameter: an address or integer, a float, a NumPy scalar, bytes
        shared  bytes of dynamic shared memory
        checks  whether reads of undefined memory and races are looked for; bounds and alignment always are
        plain   whether the definition in Python runs, many thousand times slower
        limit   instructions of all warps together, after which the kernel is stopped
        """
        if name not in self.programs:
            raise VtakitError(f"the PTX module has no kernel {name!r}: {one_of(self.programs, name)}")
        return launch(self.programs[name], self._placed(memory), _three(grid), _three(block), args, memory, shared=shared,
                      checks=checks, plain=plain, limit=limit)

    def _placed(self, memory: DeviceMemory) -> dict[str, int]:
        """Addresses of the module's global and constant variables, which the first launch on a memory writes there."""
        if memory in self._symbols:
            return self._symbols[memory]
        variables = [each for each in self.text.variables if each.space in ("global", "const")]
        variables += [each for program in self.programs.values() for each in program.kernel.variables
                      if each.space in ("global", "const")]
        found = {each.name: memory.allocate(each.size) for each in variables}
        for each in variables:
            data = bytearray(each.data if each.data is not None else bytes(each.size))
            for at, symbol in each.symbols:
                data[at : at + 8] = (found[symbol.name] + symbol.offset).to_bytes(8, "little")
            memory.write(found[each.name], np.frombuffer(bytes(data), np.uint8))
        self._symbols[memory] = found
        return found
