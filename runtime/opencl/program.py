"""Source text built for a device, and its kernels with arguments."""

import warnings
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from vtakit.compiler.codegen.clike.kernel import Source
from vtakit.compiler.codegen.clike.network import KernelFacts
from vtakit.compiler.codegen.gpu.launches import Launch
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import DType
from vtakit.runtime.opencl.devices import Device, OpenClError, failing, pyopencl
from vtakit.runtime.opencl.signals import handlers_kept

# PoCL 3.0 and 3.1 lose stores of kernels with barriers: tests/runtime/test_opencl.py has one. Without its optimiser they do not.
_POCL = "Portable Computing Language"


class Kernels:
    """The kernels of a source, on a device.

    Raises OpenClError for a device that lacks what they need, with the compiler's log if it refuses them.
    """

    def __init__(self, source: Source, facts: Sequence[KernelFacts], device: Device) -> None:
        cl = pyopencl()
        self.device, self.facts = device, facts
        what = f"kernels of {source.kernels[0] if source.kernels else 'a function without any'}"
        if any(each.is_float and each.bits == 64 for each in source.uses) and not device.doubles:
            raise OpenClError(f"{what} compute with float64, which {device.title} does not: use float32")
        options = ["-w"]
        if device.handle.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
            options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        if device.handle.platform.name == _POCL and any(each.barriers for each in facts):
            options.append("-cl-opt-disable")
        for each, name in zip(facts, source.kernels, strict=True):
            _check(each, name, device)
        self.kernels: list[Any] = []
        if facts:
            with failing(f"{what} cannot be compiled for {device.title}"), handlers_kept(), warnings.catch_warnings():
                warnings.simplefilter("ignore", cl.CompilerWarning)  # a log that is no error
                program = cl.Program(device.context, source.text).build(options, cache_dir=device.cache)
                self.kernels = [cl.Kernel(program, name) for name in source.kernels]

    def launch(self, number: int, grid: tuple[int, int, int], args: Sequence[Any]) -> Any | None:
        """Begin a launch; return its event, or None for a grid without a block.

        args : buffers of the device, and NumPy numbers
        """
        if 0 in grid:
            return None
        kernel, block = self.kernels[number], self.facts[number].block
        with failing(f"{kernel.function_name} on {self.device.title}"):
            kernel.set_args(*args)
            size = tuple(blocks * threads for blocks, threads in zip(grid, block, strict=True))
            return pyopencl().enqueue_nd_range_kernel(self.device.queue, kernel, size, block)


def _check(facts: KernelFacts, name: str, device: Device) -> None:
    count = prod(facts.block)
    if count > device.threads:
        raise OpenClError(f"{name} has blocks of {count} threads, and {device.title} has room for {device.threads}: "
                          "bind loops of fewer iterations to threadIdx")
    for axis, threads, most in zip("xyz", facts.block, device.handle.max_work_item_sizes, strict=False):
        if threads > most:
            raise OpenClError(f"{name} has {threads} threads in threadIdx.{axis}, and {device.title} takes {most}")
    if facts.shared_bytes > device.shared_bytes:
        raise OpenClError(f"{name} needs {facts.shared_bytes} bytes of shared memory, and {device.title} has "
                          f"{device.shared_bytes}: split the stage's loops into smaller tiles")


def scalar(value: Any, dtype: DType) -> Any:
    """Return a scalar argument as the kernel takes it."""
    if dtype.is_bool:
        return np.uint8(value)
    if dtype.is_float:
        return np.float64(value) if dtype.bits == 64 else np.float32(value)
    return np.dtype(f"{dtype.code}{max(dtype.bits, 8)}").type(value)


def arguments(launch: Launch, memory: Any, scalars: Sequence[Any]) -> list[Any]:
    """Return the arguments of a launch.

    memory  : of the device, by a buffer's `data`
    scalars : values of the launch's scalar parameters
    """
    buffers = [memory[param.data] for param in launch.params if isinstance(param, Buffer)]
    kinds = [param.dtype for param in launch.params if not isinstance(param, Buffer)]
    return [*buffers, *(scalar(value, kind) for value, kind in zip(scalars, kinds, strict=True))]
