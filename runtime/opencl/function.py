"""Functions that run on an OpenCL device."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.clike.kernel import Source
from vtakit.compiler.codegen.clike.network import facts_of
from vtakit.compiler.codegen.gpu.host import HostCode
from vtakit.compiler.codegen.gpu.launches import Program
from vtakit.compiler.codegen.gpu.steps import Check
from vtakit.compiler.codegen.llvm.signature import Signature, signature
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.ir.walk import free_vars
from vtakit.runtime.cpu.arguments import ArgumentError, Arguments
from vtakit.runtime.cpu.function import CheckError
from vtakit.runtime.cpu.timing import Timing, measure
from vtakit.runtime.opencl.arrays import DeviceArray
from vtakit.runtime.opencl.devices import Device, OpenClError, failing, find, pyopencl
from vtakit.runtime.opencl.program import Kernels, arguments

Array = npt.NDArray[Any]


class Timed(NamedTuple):
    """Seconds that a kernel took on the device."""

    kernel: str
    seconds: float


class Function:
    """A function of arrays. Calling it runs its kernels and waits; NumPy arrays are copied to the device and back.

    program : launches and steps of the host
    source  : kernels in OpenCL C
    """

    def __init__(self, program: Program, source: Source, device: str | Device = "opencl") -> None:
        self.program, self.source = program, source
        self.name = program.function.name
        self._given = device
        self._signature: Signature = signature(program.function)
        self._arguments = _Arguments(self._signature)
        self._host = HostCode(program)

    @cached_property
    def device(self) -> Device:
        """The device, opened when it is first needed."""
        return self._given if isinstance(self._given, Device) else find(self._given)

    @cached_property
    def _kernels(self) -> Kernels:
        return Kernels(self.source, [facts_of(launch) for launch in self.program.launches], self.device)

    def __call__(self, *args: Any) -> None:
        """Run on NumPy arrays, arrays of the device (`device_array`) and numbers, in the order of the parameters.

        Raises ArgumentError if one does not fit, MemoryError if the device's memory ran out, OpenClError for what the device
        cannot do, CheckError if a condition does not hold that the program checks.
        """
        self.profile(*args)

    def profile(self, *args: Any) -> list[Timed]:
        """Run as a call does; return what each kernel took, in order, by the device's clock."""
        with self.device.lock:
            values, memory, back = self._bound(args)
            events = self._begin(values, memory)
            self._finish(back)
            return [Timed(name, (event.profile.end - event.profile.start) * 1e-9) for name, event in events]

    def time(self, *args: Any, repeat: int = 5, number: int | None = None, min_repeat_ms: float = 20.0) -> Timing:
        """Run repeatedly on the same arguments and time it, from the first launch to the end of the last; no copies count.

        repeat : how many times to measure
        number : runs in a row in each; None for as many as take `min_repeat_ms`
        """
        with self.device.lock:
            values, memory, _ = self._bound(args)

            def run() -> None:
                self._begin(values, memory)
                with failing(f"{self.name} on {self.device.title}"):
                    self.device.queue.finish()
            return measure(run, repeat, number, min_repeat_ms)

    # One run

    def _bound(self, args: tuple[Any, ...]) -> tuple[dict[Var, Any], dict[Var, Any], list[tuple[Array, Any]]]:
        """Return values of scalars and sizes, memory by address, and which arrays take back which memory."""
        for arg in args:
            if isinstance(arg, DeviceArray) and arg.device is not self.device:
                raise ArgumentError(f"{arg!r} is given to {self.name}, which runs on {self.device.name}: copy it there")
        passed, arrays = self._arguments.bind(args)
        s = self._signature
        values = {param: value for param, value in zip((*s.params, *s.sizes), passed, strict=True) if isinstance(param, Var)}
        memory: dict[Var, Any] = {}
        back: list[tuple[Array, Any]] = []
        for param, arg, array, address in zip(s.params, args, arrays, passed, strict=False):
            if not isinstance(param, Buffer):
                continue
            if isinstance(arg, DeviceArray):
                memory[param.data] = arg.memory
                continue
            start = int(array.__array_interface__["data"][0])
            copy = self._copied(array, start - address)
            memory[param.data] = copy
            if s.writes(param) and array.size:
                back.append((array, (copy, start - address)))
        for buffer, elements in zip(self.program.workspaces, self._host.workspaces(values), strict=True):
            memory[buffer.data] = self._allocated(max(1, elements * buffer.dtype.bytes), buffer.name)
        return values, memory, back

    def _allocated(self, size: int, name: str) -> Any:
        cl = pyopencl()
        with failing(f"{name} of {self.name}, {size} bytes on {self.device.title}"):
            return cl.Buffer(self.device.context, cl.mem_flags.READ_WRITE, size)

    def _copied(self, array: Array, before: int) -> Any:
        """Return memory of the device with an array's elements, `before` bytes after its start."""
        flat = _flat(array)
        found = self._allocated(max(1, before + flat.nbytes), "an argument")
        if flat.nbytes:
            with failing(f"{flat.nbytes} bytes to {self.device.title}"):
                pyopencl().enqueue_copy(self.device.queue, found, flat, dst_offset=before)
        return found

    def _begin(self, values: Mapping[Var, Any], memory: Mapping[Var, Any]) -> list[tuple[str, Any]]:
        events: list[tuple[str, Any]] = []
        kernels = self._kernels

        def launch(number: int, grid: tuple[int, int, int], scalars: tuple[Any, ...]) -> None:
            event = kernels.launch(number, grid, arguments(self.program.launches[number], memory, scalars))
            if event is not None:
                events.append((self.source.kernels[number], event))
        self._host.run(values, launch, lambda check: self._failed(check, values))
        return events

    def _finish(self, back: Sequence[tuple[Array, Any]]) -> None:
        cl = pyopencl()
        with failing(f"{self.name} on {self.device.title}"):
            for array, (memory, before) in back:
                cl.enqueue_copy(self.device.queue, _flat(array), memory, src_offset=before, is_blocking=False)
            self.device.queue.finish()

    def _failed(self, check: Check, values: Mapping[Var, Any]) -> Exception:
        if any(check.reason == each.reason for each in self.program.function.requires):
            used = sorted(free_vars(check.condition), key=lambda var: var.name)
            here = " and ".join(f"{var.name} = {values[var]}" for var in used if var in values)
            return ArgumentError(f"{self.name} needs {check.reason}; here {here}")
        return CheckError(f"{self.name}: {check.reason}")

    def __repr__(self) -> str:
        return f"<function {self.name} for OpenCL>"


class _Arguments(Arguments):
    """Arguments among which arrays of the device may be. Their addresses are nothing to the device: they are copied."""

    def __init__(self, s: Signature) -> None:
        super().__init__(s)
        for param in self.params:
            if not isinstance(param, Var):
                param.align = 1

    def bind(self, args: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, ...]]:
        return super().bind(tuple(arg.shadow if isinstance(arg, DeviceArray) else arg for arg in args))


def _flat(array: Array) -> npt.NDArray[np.uint8]:
    """Return the bytes from an array's first element to its last, gaps included."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    if not array.size:
        return np.empty(0, np.uint8)
    if any(step % array.itemsize for step in array.strides):
        raise OpenClError(f"an array has strides of {array.strides} bytes and elements of {array.itemsize}: pass a contiguous "
                          "one")
    last = sum((extent - 1) * step for extent, step in zip(array.shape, array.strides, strict=True)) // array.itemsize
    flat = np.lib.stride_tricks.as_strided(array, (last + 1,), (array.itemsize,), writeable=array.flags.writeable)
    return flat.view(np.uint8)
