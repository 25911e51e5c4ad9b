"""Functions of arrays that run on a GPU."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vtakit.base.process import TIMEOUT_S
from vtakit.compiler.codegen.gpu.host import HostCode
from vtakit.compiler.codegen.gpu.launches import Launch, Program
from vtakit.compiler.codegen.gpu.steps import Check
from vtakit.compiler.codegen.llvm.signature import Signature, signature
from vtakit.compiler.codegen.nvptx.arch import MOST_BLOCKS, VECTOR_BYTES, Arch
from vtakit.compiler.codegen.nvptx.compile import Kernels, compile_launches
from vtakit.compiler.codegen.nvptx.ptxas import Resources
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.expr import Var
from vtakit.compiler.ir.walk import free_vars
from vtakit.runtime.cpu.arguments import ArgumentError, Arguments
from vtakit.runtime.cpu.function import CheckError
from vtakit.runtime.cpu.timing import Timing
from vtakit.runtime.cuda.arrays import Memory, borrowed, phantom
from vtakit.runtime.cuda.device import Device, Graph, Grid, stream_of
from vtakit.runtime.cuda.devices import find

Array = npt.NDArray[Any]
_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


class _Bound(NamedTuple):
    """Arguments of one run: scalars and sizes, addresses by buffer, host arrays that take results, what lives until its end."""

    values: Mapping[Var, Any]
    addresses: Mapping[Var, int]
    back: Sequence[tuple[Array, int]]
    alive: Sequence[object]


class _Launch(NamedTuple):
    """A launch with its arguments, as `Device.launch` takes it."""

    kernel: Any
    grid: Grid
    block: Grid
    shared: int
    args: Sequence[Any]


class Function:
    """A function of arrays. Calling it runs its kernels.

    With arrays of the device alone it returns once the kernels are begun, as torch and CuPy do; NumPy arrays are copied to the
    device and back, and it waits.

    program : launches and steps of the host
    kernels : PTX, and machine code where an assembler is installed
    """

    def __init__(
        self, program: Program, arch: Arch, device: str | Device = "cuda", *, timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.program, self.arch = program, arch
        self.name = program.function.name
        self.timeout_s = timeout_s
        self.kernels: Kernels = compile_launches(program.launches, arch)
        self._given = device
        self._signature: Signature = signature(program.function)
        self._arguments = Arguments(self._signature)
        self._host = HostCode(program)
        self._workspaces: dict[int, tuple[int, Memory]] = {}

    @property
    def ptx(self) -> str:
        """The kernels as PTX."""
        return self.kernels.ptx

    @property
    def resources(self) -> Mapping[str, Resources]:
        """Registers and memory of each kernel; empty without an assembler."""
        return self.kernels.resources

    @cached_property
    def device(self) -> Device:
        """The device, opened when it is first needed."""
        return find(self._given)

    @cached_property
    def _handles(self) -> Mapping[str, Any]:
        return self.device.load(self.kernels, [launch.name for launch in self.program.launches])

    def __call__(self, *args: Any, stream: object = None) -> None:
        """Run on NumPy arrays, arrays of the device (ours, torch's, CuPy's) and numbers, in the order of the parameters.

        stream : of the device, on which kernels are begun; the default stream of CUDA if None

        Raises ArgumentError if one does not fit, CudaError for what the device cannot do, MemoryError if its memory ran out,
        CheckError if a condition does not hold that the program checks.
        """
        on = stream_of(stream)
        with self.device.lock:
            bound = self._bind(args, on)
            self._begin(bound, on)
            self._finish(bound, on)

    def time(self, *args: Any, repeat: int = 5, number: int | None = None, min_repeat_ms: float = 20.0) -> Timing:
        """Run repeatedly on the same arguments and time it by the device's events, without copies of arguments.

        repeat : how many times to measure
        number : runs in a row in each; None for as many as take `min_repeat_ms`
        """
        with self.device.lock:
            bound = self._bind(args, 0)

            def run(count: int) -> None:
                for _ in range(count):
                    self._begin(bound, 0)

            def spend(count: int) -> float:
                return self.device.timed(partial(run, count))
            spend(1)
            count = number or 1
            while number is None and (spent := spend(count)) * 1e3 < min_repeat_ms:
                count = max(count + 1, min(count * 10, int(count * min_repeat_ms / 1e3 / max(spent, 1e-9) * 1.1)))
            return Timing(tuple(spend(count) / count for _ in range(repeat)), count)

    def recorded(self, *args: Any, times: int = 1) -> Graph:
        """Return the run on arrays of the device as a CUDA graph, `times` in a row. Raises ArgumentError for NumPy arrays."""
        runs = self._prepared(args)
        device = self.device
        return device.captured(lambda stream: [device.launch(*each, stream) for _ in range(times) for each in runs])

    def bound(self, *args: Any, stream: object = None) -> Callable[[], None]:
        """Return a call on arrays of the device that are looked at now and not again. Raises ArgumentError for NumPy arrays."""
        on, runs, device = stream_of(stream), self._prepared(args), self.device

        def run() -> None:
            for each in runs:
                device.launch(*each, on)
        return run

    def _prepared(self, args: tuple[Any, ...]) -> list[_Launch]:
        """Return the launches of a run on arrays of the device, which the caller keeps."""
        with self.device.lock:
            found = self._bind(args, 0)
        if any(isinstance(each, Memory) for each in found.alive):
            raise ArgumentError(f"{self.name} is bound to arrays of the device: make them with vtakit.device_array(array, "
                                f"{self.device.name!r})")
        launches: list[_Launch] = []
        self._steps(found, launches.append)
        return launches

    # One run

    def _bind(self, args: tuple[Any, ...], stream: int) -> _Bound:
        device, s = self.device, self._signature
        here = [None if isinstance(arg, np.ndarray | int | float) else borrowed(arg) for arg in args]
        for param, array in zip(s.params, here, strict=False):
            if array is not None and array.device is not device:
                raise ArgumentError(f"argument {param.name} of {self.name} is on {array.device.name}, and the function runs on "
                                    f"{device.name}: copy it there with vtakit.device_array(array.numpy(), {device.name!r})")
        passed, arrays = self._arguments.bind(
            tuple(arg if array is None else phantom(array) for arg, array in zip(args, here, strict=True)))
        values = {param: value for param, value in zip((*s.params, *s.sizes), passed, strict=True) if isinstance(param, Var)}
        addresses: dict[Var, int] = {}
        back: list[tuple[Array, int]] = []
        alive: list[object] = [*here]
        for param, given, array, address in zip(s.params, here, arrays, passed, strict=False):
            if not isinstance(param, Buffer):
                continue
            if given is None:
                start = int(array.__array_interface__["data"][0])
                flat = flat_bytes(array)
                memory = Memory(device, start - address + flat.nbytes, f"argument {param.name} of {self.name}")
                device.write(memory.address + start - address, flat, stream)
                if s.writes(param) and array.size:
                    back.append((array, memory.address + start - address))
                address = memory.address
                alive.append(memory)
            elif address % VECTOR_BYTES and given.size:
                raise ArgumentError(f"argument {param.name} of {self.name} starts at the address {address:#x}, which is no "
                                    f"multiple of {VECTOR_BYTES} bytes: pass a copy")
            addresses[param.data] = address
        for number, (buffer, elements) in enumerate(zip(self.program.workspaces, self._host.workspaces(values), strict=True)):
            addresses[buffer.data] = self._workspace(number, elements * buffer.dtype.bytes, buffer.name)
        return _Bound(values, addresses, back, alive)

    def _workspace(self, number: int, size: int, name: str) -> int:
        """Return the address of memory between launches, kept from run to run."""
        known = self._workspaces.get(number)
        if known is None or known[0] < size:
            self._workspaces.pop(number, None)
            known = (size, Memory(self.device, size, f"{name} of {self.name}"))
            self._workspaces[number] = known
        return known[1].address

    def _begin(self, bound: _Bound, stream: int) -> None:
        launches: list[_Launch] = []
        self._steps(bound, launches.append)
        for each in launches:
            self.device.launch(*each, stream)

    def _steps(self, bound: _Bound, begin: Callable[[_Launch], None]) -> None:
        handles, launches = self._handles, self.program.launches

        def launch(number: int, grid: Grid, scalars: tuple[Any, ...]) -> None:
            if 0 in grid:
                return
            made = launches[number]
            check_grid(made.name, grid)
            shared = self.kernels.dynamic.get(made.name, 0)
            begin(_Launch(handles[made.name], grid, made.block, shared, packed(made, bound.addresses, scalars)))
        self._host.run(bound.values, launch, lambda check: self._failed(check, bound.values))

    def _finish(self, bound: _Bound, stream: int) -> None:
        if any(array is not None and isinstance(array, Memory) for array in bound.alive):
            self.device.finish(stream, self.timeout_s)
        for array, address in bound.back:
            flat = flat_bytes(array)
            self.device.read(address, flat, stream)

    def _failed(self, check: Check, values: Mapping[Var, Any]) -> Exception:
        if any(check.reason == each.reason for each in self.program.function.requires):
            used = sorted(free_vars(check.condition), key=lambda var: var.name)
            here = " and ".join(f"{var.name} = {values[var]}" for var in used if var in values)
            return ArgumentError(f"{self.name} needs {check.reason}; here {here}")
        return CheckError(f"{self.name}: {check.reason}")

    def __repr__(self) -> str:
        return f"<function {self.name} for {self.arch.name}>"


def check_grid(name: str, grid: Grid) -> None:
    """Raise ArgumentError for more blocks than a grid has."""
    for axis, blocks in zip(_AXES, grid, strict=True):
        if blocks > MOST_BLOCKS[axis]:
            raise ArgumentError(f"{name} needs {blocks} blocks in {axis}, and a grid has at most {MOST_BLOCKS[axis]}: bind the "
                                "longest axis to blockIdx.x, or split it")


def packed(launch: Launch, addresses: Mapping[Var, int], scalars: Sequence[Any]) -> list[Any]:
    """Return the arguments of a launch as ctypes values."""
    todo = iter(scalars)
    return [
        ctypes.c_void_p(addresses[param.data]) if isinstance(param, Buffer) else c_type(param.dtype)(next(todo))
        for param in launch.params
    ]


def c_type(kind: DType) -> Any:
    """Return the ctypes type of a scalar argument: the bits of float16 and bfloat16."""
    if kind.is_bool:
        return ctypes.c_uint8
    if kind.is_float:
        return {16: ctypes.c_uint16, 32: ctypes.c_float, 64: ctypes.c_double}[kind.bits]
    return getattr(ctypes, f"c_{kind.code}{max(8, kind.bits)}")


def flat_bytes(array: Array) -> npt.NDArray[np.uint8]:
    """Return the bytes from an array's first element to its last, gaps included."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    if not array.size:
        return np.empty(0, np.uint8)
    last = sum((extent - 1) * step for extent, step in zip(array.shape, array.strides, strict=True)) // array.itemsize
    flat = np.lib.stride_tricks.as_strided(array, (last + 1,), (array.itemsize,), writeable=array.flags.writeable)
    return flat.view(np.uint8)
