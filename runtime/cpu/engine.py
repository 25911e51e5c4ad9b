"""Machine code of a compiled model, ready to run on arrays."""

import ctypes
import math
import time
from collections.abc import Sequence
from contextlib import nullcontext

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.manifest import MANIFEST_BYTES
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text.module import OUT_OF_MEMORY
from vtakit.runtime.cpu import openmp
from vtakit.runtime.cpu.function import CheckError
from vtakit.runtime.cpu.loader import Loaded, check_code
from vtakit.runtime.cpu.pages import reserve
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.target import Array, Engine, Image, Values
from vtakit.runtime.target import Target as RuntimeTarget
from vtakit.runtime.timed import Timed


class Native:
    """A part that is machine code, in this process. Several threads may run it at once, each run on an arena of its own.

    image   : of the part
    threads : that parallel loops use; what OpenMP was told if None

    Raises CodegenError for code that is damaged, or was made for other arrays than the image says.
    """

    def __init__(self, part: CpuPart, image: Image, threads: int | None = None) -> None:
        self.part = part
        self._operands = (*part.reads, *part.writes)
        self._limits = nullcontext() if threads is None or not part.parallel else openmp.Limit(threads)
        self._loaded = Loaded(part, (), {})
        found = ctypes.string_at(self._loaded.addresses[part.symbols[2]], MANIFEST_BYTES)
        if found != part.manifest(processor(image.target), image.values):
            raise _made_for_others(part)
        pointers = [ctypes.c_void_p] * (len(part.reads) + len(part.writes) + 2)
        self._entry = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers)(self._loaded.addresses[part.symbols[0]])
        self._step = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers, ctypes.c_int32)(self._loaded.addresses[part.symbols[1]])
        self._params = part.params.ctypes.data
        self._arenas = [self._reserved()]  # those that no run uses; threads may take from a list and add to it at once

    def run(self, addresses: Sequence[int]) -> None:
        """Run on the arrays of the model's values, which are at these addresses.

        Raises MemoryError if memory ran out, CheckError for a condition of the model.
        """
        arena = self._taken()
        try:
            with self._limits:
                status = self._entry(*self._pointers(addresses, arena))
        finally:
            self._arenas.append(arena)
        if status:
            self._failed(status)

    def timed(self, addresses: Sequence[int], repeat: int) -> list[Timed]:
        """Run each layer by itself; of `repeat` runs the quickest counts."""
        seconds = [math.inf] * len(self.part.layers)
        arena = self._taken()
        pointers = self._pointers(addresses, arena)
        try:
            with self._limits:
                for _ in range(repeat + 1):  # the first fills caches and starts threads
                    for number in range(len(seconds)):
                        begin = time.perf_counter()
                        status = self._step(*pointers, number)
                        seconds[number] = min(seconds[number], time.perf_counter() - begin)
                        if status:
                            self._failed(status)
        finally:
            self._arenas.append(arena)
        return [Timed(*each) for each in zip(self.part.layers, seconds, strict=True)]

    def _taken(self) -> tuple[Array, int]:
        """An arena that no other run uses, and its address."""
        try:
            return self._arenas.pop()
        except IndexError:
            return self._reserved()

    def _reserved(self) -> tuple[Array, int]:
        arena = reserve(self.part.arena_bytes)
        return arena, arena.ctypes.data

    def _pointers(self, addresses: Sequence[int], arena: tuple[Array, int]) -> list[int]:
        return [*[addresses[at] for at in self._operands], self._params, arena[1]]

    def _failed(self, status: int) -> None:
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"{self.part.name} could not allocate a buffer")
        raise CheckError(f"{self.part.name}: {self.part.messages[status - 1]}")


class CpuEngine(Engine):
    """The parts of a model that are machine code, in this process."""

    def __init__(self, image: Image, threads: int | None) -> None:
        self._native = {part: Native(part, image, threads) for part in image.parts_of(CpuPart)}

    def run(self, part: CpuPart, values: Values) -> None:
        """Run a part; see `Native.run`."""
        self._native[part].run([address for _, address in values])

    def native(self, part: CpuPart) -> Native:
        """Return the loaded code of a part."""
        return self._native[part]

    def profile(self, part: CpuPart, values: Values, repeat: int) -> tuple[list[Timed], None]:
        """Run each layer by itself; of `repeat` runs the quickest counts."""
        return self._native[part].timed([address for _, address in values], repeat), None

    def close(self) -> None:
        """Nothing is open."""


def check_parts(image: Image) -> None:
    """Check the machine code of an image as `Native` does, for any processor; none is loaded. Raises CodegenError."""
    target = processor(image.target)
    for part in image.parts_of(CpuPart):
        check_code(part, target)
        if part.manifest(target, image.values) not in part.code:  # a constant of the code
            raise _made_for_others(part)


def processor(target: RuntimeTarget) -> Target:
    """Return the processor of a target's machine code."""
    found = target.processor
    assert isinstance(found, Target), found
    return found


def _made_for_others(part: CpuPart) -> CodegenError:
    return CodegenError(f"{part.name}: the machine code is not made for the arrays, memory or processor that its module says: "
                        "the module is damaged or changed; compile the model again")
