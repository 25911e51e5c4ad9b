"""A stand-in for `cuda.bindings.driver`: memory is this process's, calls are written down, kernels do nothing."""

import ctypes
from collections.abc import Callable
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_NO_DEVICE = 100


class Attribute(IntEnum):
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16


class FakeDriver:
    """Two GPUs.

    calls    : names of the functions that were called, with their arguments
    launches : (kernel, grid, block, shared, bytes of the arguments, stream); `sizes` says how many bytes each argument has
    fails    : function -> status that it returns
    """

    def __init__(self, capability: tuple[int, int] = (9, 0)) -> None:
        self.capability = capability
        self.calls: list[tuple[Any, ...]] = []
        self.launches: list[tuple[Any, ...]] = []
        self.fails: dict[str, Status] = {}
        self.memory: dict[int, np.ndarray[Any, Any]] = {}
        self.sizes: list[int] = []
        self.log = b""
        self.CUresult, self.CUdevice_attribute = Status, Attribute
        self.CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)
        self.CUjit_option = SimpleNamespace(CU_JIT_ERROR_LOG_BUFFER=5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES=6)
        self.CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
        self.handles = 100

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*args: Any) -> tuple[Any, ...]:
            self.calls.append((name, *args))
            if name in self.fails:
                if name == "cuModuleLoadDataEx":
                    args[3][0][:len(self.log)] = self.log
                return (self.fails[name],) if name == "cuStreamQuery" else (self.fails[name], None)
            found = getattr(self, f"_{name}", lambda *_: ())(*args)
            return (Status.CUDA_SUCCESS, *found)
        return call

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """Arguments of the calls of a function."""
        return [args for called, *args in self.calls if called == name]

    def _new(self, *_: Any) -> tuple[int]:
        self.handles += 1
        return (self.handles,)

    _cuDevicePrimaryCtxRetain = _cuStreamCreate = _cuEventCreate = _cuStreamEndCapture = _cuGraphInstantiate = _new
    _cuModuleLoadData = _cuModuleLoadDataEx = _new

    def _cuDeviceGetCount(self) -> tuple[int]:
        return (2,)

    def _cuDeviceGet(self, number: int) -> tuple[int]:
        return (number,)

    def _cuDeviceGetName(self, length: int, device: int) -> tuple[bytes]:
        return (b"A GPU\0\0",)

    def _cuDeviceGetAttribute(self, which: Attribute, device: int) -> tuple[int]:
        return ({75: self.capability[0], 76: self.capability[1]}.get(int(which), 132),)

    def _cuDriverGetVersion(self) -> tuple[int]:
        return (13000,)

    def _cuModuleGetFunction(self, module: int, name: bytes) -> tuple[str]:
        return (name.decode(),)

    def _cuMemAlloc(self, size: int) -> tuple[int]:
        raw = np.zeros(size + 256, np.uint8)
        address = -(-raw.ctypes.data // 256) * 256
        self.memory[address] = raw
        return (address,)

    def _cuMemFree(self, address: int) -> tuple[()]:
        del self.memory[address]
        return ()

    def _move(self, to: int, source: int, size: int, stream: int) -> tuple[()]:
        ctypes.memmove(to, source, size)
        return ()

    _cuMemcpyHtoDAsync = _cuMemcpyDtoHAsync = _cuMemcpyDtoDAsync = _move

    def _cuEventElapsedTime(self, begin: int, end: int) -> tuple[float]:
        return (2.0,)

    def _cuLaunchKernel(self, kernel: str, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int,
                        params: int, extra: int) -> tuple[()]:
        pointers = (ctypes.c_void_p * len(self.sizes)).from_address(params)
        args = [ctypes.string_at(pointers[at], size) for at, size in enumerate(self.sizes)]
        self.launches.append((kernel, (gx, gy, gz), (bx, by, bz), shared, args, stream))
        return ()
