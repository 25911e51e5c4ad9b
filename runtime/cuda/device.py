"""Devices that run kernels: their memory, code, launches and clocks. `CudaDevice` is a GPU behind NVIDIA's driver."""

import ctypes
import functools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.nvptx.arch import Arch, arch_of
from vtakit.compiler.codegen.nvptx.compile import Kernels
from vtakit.runtime.cuda import driver
from vtakit.runtime.cuda.driver import call
from vtakit.runtime.cuda.errors import CudaError

KIND, EMULATOR = "cuda", "emulator"
Bytes = npt.NDArray[np.uint8]
Grid = tuple[int, int, int]
_SPIN_S, _NAP_S = 2e-3, 1e-4  # a wait asks at once for so long, then so often


class Device(ABC):
    """A device, open. Its work is in order on each stream; stream 0 waits for all others and they for it.

    name  : "cuda:0", "emulator"
    title : for people
    lock  : of functions that use it
    """

    def __init__(self, name: str, title: str) -> None:
        self.name, self.title = name, title
        self.lock = threading.RLock()

    @property
    @abstractmethod
    def arch(self) -> Arch:
        """The architecture whose code is best for it."""

    @abstractmethod
    def allocate(self, size: int, what: str) -> int:
        """Return the address of memory. Raises MemoryError if there is not as much."""

    @abstractmethod
    def free(self, address: int) -> None:
        """Give memory back."""

    @abstractmethod
    def write(self, address: int, data: Bytes, stream: int = 0) -> None:
        """Copy bytes to the device; they may be changed once this returns."""

    @abstractmethod
    def read(self, address: int, data: Bytes, stream: int = 0) -> None:
        """Copy bytes from the device, after all that the stream has to do."""

    @abstractmethod
    def copy(self, to: int, source: int, size: int, stream: int = 0) -> None:
        """Copy bytes within the device."""

    @abstractmethod
    def load(self, kernels: Kernels, names: Sequence[str]) -> Mapping[str, Any]:
        """Return handles of kernels by name. Raises CudaError for code that the device cannot run."""

    @abstractmethod
    def launch(
        self, kernel: Any, grid: Grid, block: Grid, shared: int, args: Sequence[Any], stream: int = 0,
    ) -> None:
        """Begin a kernel.

        shared : bytes of shared memory that the kernel does not declare itself
        args   : ctypes values, of which addresses are c_void_p
        """

    @abstractmethod
    def finish(self, stream: int = 0, timeout_s: float | None = None) -> None:
        """Wait until a stream has nothing left to do. Raises CudaError for a failed kernel, or after the time limit."""

    @abstractmethod
    def timed(self, run: Callable[[], object], stream: int = 0) -> float:
        """Return the seconds that the device takes for what `run` begins, by its own clock."""

    @abstractmethod
    def captured(self, begin: Callable[[int], object]) -> "Graph":
        """Return what `begin` has done on the stream that it is given, to be done again; nothing is done now."""

    def __repr__(self) -> str:
        return f"<device {self.name!r}: {self.title}>"


class Graph(ABC):
    """Work of a device that was recorded once; addresses in it are fixed."""

    @abstractmethod
    def launch(self, stream: int = 0) -> None:
        """Begin all of it."""


class CudaDevice(Device):
    """A GPU, by its number; in the primary context, which other libraries of the process use too."""

    def __init__(self, number: int) -> None:
        name = f"{KIND}:{number}"
        count = int(call("the number of GPUs", "cuDeviceGetCount"))
        if number >= count:
            known = ", ".join(f"{KIND}:{at}" for at in range(count))
            raise CudaError(f"device {name!r} does not exist: this machine has {known or 'no GPU'}")
        self.number = number
        self.handle = call(name, "cuDeviceGet", number)
        title = call(name, "cuDeviceGetName", 100, self.handle).split(b"\0")[0].decode()
        super().__init__(name, title)
        attribute = driver.bindings().CUdevice_attribute
        self.capability = (self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                           self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR))
        self.processors = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        self.context = call(name, "cuDevicePrimaryCtxRetain", self.handle)
        self._threads = threading.local()
        self._modules: list[Any] = []  # a kernel lives as long as its module

    def _attribute(self, which: Any) -> int:
        return int(call(self.name, "cuDeviceGetAttribute", which, self.handle))

    @property
    def arch(self) -> Arch:
        return arch_of(self.capability)

    @property
    def memory_bytes(self) -> int:
        """Size in bytes of the device's memory."""
        return int(call(self.name, "cuDeviceTotalMem", self.handle))

    def activate(self) -> None:
        """Make this device's context that of the calling thread."""
        call(self.name, "cuCtxSetCurrent", self.context)

    def allocate(self, size: int, what: str) -> int:
        self.activate()
        return int(call(f"{what}, {size} bytes on {self.name}", "cuMemAlloc", max(1, size)))

    def free(self, address: int) -> None:
        self.activate()
        call(f"memory of {self.name}", "cuMemFree", address)

    def write(self, address: int, data: Bytes, stream: int = 0) -> None:
        if data.nbytes:
            self.activate()
            call(f"{data.nbytes} bytes to {self.name}", "cuMemcpyHtoDAsync", address, data.ctypes.data, data.nbytes, stream)
            self.finish(stream)

    def read(self, address: int, data: Bytes, stream: int = 0) -> None:
        if data.nbytes:
            self.activate()
            call(f"{data.nbytes} bytes from {self.name}", "cuMemcpyDtoHAsync", data.ctypes.data, address, data.nbytes, stream)
            self.finish(stream)

    def copy(self, to: int, source: int, size: int, stream: int = 0) -> None:
        if size:
            self.activate()
            call(f"{size} bytes on {self.name}", "cuMemcpyDtoDAsync", to, source, size, stream)

    def load(self, kernels: Kernels, names: Sequence[str]) -> dict[str, Any]:
        if not kernels.arch.runs_on(self.capability):
            major, minor = self.capability
            raise CudaError(f"the code is for {kernels.arch.name}, and {self.name} ({self.title}) has compute capability "
                            f"{major}.{minor}: compile for target('cuda', arch={self.arch.name!r})")
        self.activate()
        module = self._module(kernels)
        self._modules.append(module)
        found = {name: call(f"kernel {name}", "cuModuleGetFunction", module, name.encode()) for name in names}
        most = driver.bindings().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        for name, size in kernels.dynamic.items():
            if name in found:
                call(f"{size} bytes of shared memory for {name}", "cuFuncSetAttribute", found[name], most, size)
        return found

    def _module(self, kernels: Kernels) -> Any:
        """Return the machine code of its own architecture, else what the driver's compiler makes of the PTX."""
        api = driver.bindings()
        if kernels.cubin and kernels.arch.capability == self.capability:
            status, module = api.cuModuleLoadData(kernels.cubin)
            if status == api.CUresult.CUDA_SUCCESS:
                return module
        option = api.CUjit_option
        log = bytearray(1 << 14)
        asked = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        status, module = api.cuModuleLoadDataEx(kernels.ptx.encode() + b"\0", len(asked), asked, [log, len(log)])
        if status != api.CUresult.CUDA_SUCCESS:
            text = bytes(log).split(b"\0")[0].decode(errors="replace")
            raise driver.failure(f"kernels for {kernels.arch.name} on {self.name}", status.name, text)
        return module

    def launch(self, kernel: Any, grid: Grid, block: Grid, shared: int, args: Sequence[Any], stream: int = 0) -> None:
        pointers = (ctypes.c_void_p * len(args))(*map(ctypes.addressof, args))
        call("a launch", "cuLaunchKernel", kernel, *grid, *block, shared, stream, ctypes.addressof(pointers), 0)

    def finish(self, stream: int = 0, timeout_s: float | None = None) -> None:
        self.activate()
        if timeout_s is None:
            call(f"work on {self.name}", "cuStreamSynchronize", stream)
            return
        api, begin = driver.bindings(), time.monotonic()
        while True:
            (status,) = api.cuStreamQuery(stream)
            if status != api.CUresult.CUDA_ERROR_NOT_READY:
                break
            spent = time.monotonic() - begin
            if spent > timeout_s:
                raise CudaError(f"{self.name} still runs after {timeout_s:g} s: a kernel takes longer than the time limit, or "
                                "hangs; it ends with this process")
            if spent > _SPIN_S:
                time.sleep(_NAP_S)
        if status != api.CUresult.CUDA_SUCCESS:
            raise driver.failure(f"work on {self.name}", status.name)

    def timed(self, run: Callable[[], object], stream: int = 0) -> float:
        self.activate()
        begin, end = (call("an event", "cuEventCreate", 0) for _ in range(2))
        try:
            call("an event", "cuEventRecord", begin, stream)
            run()
            call("an event", "cuEventRecord", end, stream)
            call(f"work on {self.name}", "cuEventSynchronize", end)
            return float(call("an event", "cuEventElapsedTime", begin, end)) * 1e-3
        finally:
            for event in (begin, end):
                call("an event", "cuEventDestroy", event)


    def captured(self, begin: Callable[[int], object]) -> "CudaGraph":
        self.activate()
        modes = driver.bindings().CUstreamCaptureMode
        stream = int(call("a stream", "cuStreamCreate", 0))
        try:
            call("a recording", "cuStreamBeginCapture", stream, modes.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
            try:
                begin(stream)
            finally:
                graph = call("a recording", "cuStreamEndCapture", stream)
            try:
                return CudaGraph(self, call("a recording", "cuGraphInstantiate", graph, 0))
            finally:
                call("a recording", "cuGraphDestroy", graph)
        finally:
            call("a stream", "cuStreamDestroy", stream)


class CudaGraph(Graph):
    """A CUDA graph, ready to launch."""

    def __init__(self, device: CudaDevice, handle: Any) -> None:
        self.device, self.handle = device, handle

    def launch(self, stream: int = 0) -> None:
        self.device.activate()
        call("a recorded run", "cuGraphLaunch", self.handle, stream)

    def __del__(self) -> None:
        try:
            call("a recorded run", "cuGraphExecDestroy", self.handle)
        except Exception:  # the process ends, or the device has failed
            return


@functools.cache
def cuda_device(number: int) -> CudaDevice:
    """Return a GPU by its number, opened once."""
    return CudaDevice(number)


def cuda_devices() -> list[CudaDevice]:
    """Return all GPUs. Raises CudaError if there is none."""
    return [cuda_device(number) for number in range(int(call("the number of GPUs", "cuDeviceGetCount")))]


def stream_of(given: object) -> int:
    """Return the handle of a stream: a number, a `CUstream`, or a stream of torch or CuPy; 0 for None."""
    if given is None:
        return 0
    for name in ("cuda_stream", "ptr", "handle"):
        if isinstance(found := getattr(given, name, None), int):
            return found
    try:
        return int(given)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError):
        raise CudaError(f"{given!r:.60} is no stream: give one of torch or CuPy, a CUstream, or its handle") from None
