"""The parts of a compiled model, ready to run on arrays."""

import ctypes
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.manifest import MANIFEST_BYTES
from vtakit.compiler.codegen.llvm.module import OUT_OF_MEMORY
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.runtime.cpu import openmp
from vtakit.runtime.cpu.function import CheckError
from vtakit.runtime.cpu.loader import Loaded, check_code
from vtakit.runtime.cpu.pages import reserve
from vtakit.runtime.image import CpuPart, Image, VtaPart
from vtakit.runtime.profile import Timed
from vtakit.runtime.report.report import Report
from vtakit.runtime.report.sections import layers_of
from vtakit.runtime.vta.connection import check_timeout
from vtakit.runtime.vta.driver import Driver, connect
from vtakit.runtime.vta.loaded import LaunchResult
from vtakit.runtime.vta.registry import options_of
from vtakit.runtime.vta.session import Session, needed_bytes
from vtakit.sim.api import check_options

Array = npt.NDArray[Any]


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
        if found != image.manifest(part):
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


def check_parts(image: Image) -> None:
    """Check the machine code of an image as `Native` does, for any processor; none is loaded. Raises CodegenError."""
    for part in image.cpu_parts:
        check_code(part, image.target)
        if image.manifest(part) not in part.code:  # a constant of the code
            raise _made_for_others(part)


def _made_for_others(part: CpuPart) -> CodegenError:
    return CodegenError(f"{part.name}: the machine code is not made for the arrays, memory or processor that its module says: "
                        "the module is damaged or changed; compile the model again")


def check_opening(device: str | Driver, timeout_s: float, options: Mapping[str, Any]) -> None:
    """Raise VtaError or VtakitError for a device that there is not, or what it does not take."""
    if isinstance(device, Driver):
        if options:
            raise VtaError(f"{min(options)} is an option of a device to be opened, and a driver was given: open it with that")
    else:
        check_options(device, options_of(device), options)
    check_timeout(timeout_s)


class Launched:
    """The parts of a model that are programs of an accelerator, on one device, with their constants in its memory.

    The device is opened by the first run and kept until `close`, or until something goes wrong: the next run then begins with
    one that is in order.

    device  : a name, or a driver, which stays open
    options : of the device to be opened
    counters : of the last run of each part
    """

    def __init__(self, image: Image, device: str | Driver, timeout_s: float, options: dict[str, Any]) -> None:
        self._given = device if isinstance(device, Driver) else None
        check_opening(device, timeout_s, options)
        if isinstance(device, Driver):
            self.device = device.device.name
            for part in image.vta_parts:
                part.program.require(device.config, version=device.device.version, features=device.device.features)
        else:
            self.device = device
        self._image, self._timeout_s, self._options = image, timeout_s, options
        self._driver: Driver | None = None
        self._sessions: dict[VtaPart, Session] = {}
        self.counters: dict[VtaPart, dict[str, int]] = {}

    @property
    def opening(self) -> tuple[str, float, dict[str, Any]]:
        """The name of the device, and with what it is opened."""
        return self.device, self._timeout_s, self._options

    def run(self, part: VtaPart, values: Sequence[Array]) -> None:
        """Run one of the parts on arrays of the model's values.

        Raises DeviceTimeout if the device has not finished in time, DeviceMemoryError if the model does not fit its memory,
        and whatever else the device raises.
        """
        try:
            if self._driver is None:
                self._driver = self._opened()
                for each in self._image.vta_parts:
                    self._sessions[each] = Session(each.program, self._driver)
            self.counters[part] = self._run(self._sessions[part], part, values).counters
        except BaseException:
            self.close()
            raise

    def _run(self, session: Session, part: VtaPart, values: Sequence[Array]) -> LaunchResult:
        given = {name: values[at].tobytes() for name, at in zip(part.inputs, part.reads, strict=True)}
        result = session.run(given, self._timeout_s)
        for name, at in zip(part.outputs, part.writes, strict=True):
            array = values[at]
            array[...] = np.frombuffer(session.buffers[name].read(array.nbytes), array.dtype).reshape(array.shape)
        return result

    def profile(self, part: VtaPart, values: Sequence[Array]) -> Report:
        """Run one of the parts, and say for each of its layers where cycles, multiplications and bytes went.

        A device that can is opened anew with a trace, so that each layer has its own cycles.
        """
        with ExitStack() as stack:
            driver = self._opened(trace=True)
            if self._given is None:
                stack.enter_context(driver)
            session = Session(part.program, driver)
            stack.callback(session.close)
            result = self._run(session, part, values)
        macs = {each.name: layer.macs for each, layer in zip(part.program.parts, part.layers, strict=True)}
        layers = layers_of(
            self._image.name, part.program, result.counters, result.trace, bus_bytes=result.bus_bytes, macs=macs)
        return Report(self.device, tuple(layers), result.trace)

    def close(self) -> None:
        """Let go of the device; a later run opens it again."""
        sessions, self._sessions = self._sessions, {}
        driver, self._driver = self._driver, None
        for session in sessions.values():
            session.close()
        if driver is not None and self._given is None:
            driver.close()

    def _opened(self, **more: Any) -> Driver:
        if self._given is not None:
            return self._given
        known, programs = options_of(self.device), [part.program for part in self._image.vta_parts]
        options = {name: value for name, value in more.items() if name in known} | self._options
        if "memory_bytes" in known:
            options = {"memory_bytes": needed_bytes(programs)} | options
        return connect(self.device, programs[0].config, **options)
