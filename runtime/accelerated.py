"""Functions of NumPy arrays that run a program on the accelerator."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.vta.compile import compile_for
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.ir.values import int_value
from vtakit.hw.isa.program import BufferKind, Program
from vtakit.sim import api
from vtakit.sim.values import pack, unpack


class Accelerated:
    """A program with a parameter for each of its tensors. Calling it runs it on arrays, in place.

    program  : the instructions, to be saved or read
    device   : where it runs: "fsim" or "rtl"
    counters : of the last run: bytes by memory, steps, instructions; cycles where the device has them
    """

    def __init__(self, function: Function, target: Target, device: str = "fsim") -> None:
        self.program: Program = compile_for(function, target)
        self.device, self.name = device, function.name
        self.counters: dict[str, int] = {}
        self._params: Sequence[Buffer] = [param for param in function.params if isinstance(param, Buffer)]

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        return [tuple(int_value(extent) or 0 for extent in param.shape) for param in self._params]

    def __call__(self, *arrays: npt.NDArray[Any]) -> None:
        """Run on one array for each parameter, in their order; integers of less than 8 bits are int8 arrays.

        Raises VtaError if an array does not fit its parameter, and what the device raises.
        """
        if len(arrays) != len(self._params):
            names = ", ".join(param.name for param in self._params)
            raise VtaError(f"{self.name} takes {len(self._params)} arrays ({names}), got {len(arrays)}")
        given: dict[str, bytes] = {}
        buffers = [buffer for buffer in self.program.buffers if buffer.kind is not BufferKind.SCRATCH]
        for param, shape, buffer, array in zip(self._params, self._shapes, buffers, arrays, strict=True):
            kind = f"int{max(8, param.dtype.bits)}"
            if not isinstance(array, np.ndarray) or str(array.dtype) != kind or array.shape != shape:
                got = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
                raise VtaError(f"argument {param.name} of {self.name} is {kind}{list(shape)}, got {got}")
            if buffer.kind is BufferKind.INPUT:
                given[buffer.name] = pack(array.astype(np.int64), param.dtype.bits).tobytes()
        result = api.run(self.program, given, device=self.device)
        self.counters = result.counters
        for param, buffer, array in zip(self._params, buffers, arrays, strict=True):
            if buffer.kind is BufferKind.OUTPUT:
                values = unpack(np.frombuffer(result.buffers[buffer.name], np.uint8), param.dtype.bits)
                array[...] = values.reshape(array.shape)

    def __repr__(self) -> str:
        return f"<program {self.name}, {len(self.program.insns)} instructions, on {self.device}>"
