"""Machine code of a candidate as plain data, and its call on arrays."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vtakit.compiler.codegen.llvm.compile import compile_for
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.lowering.parallel import has_loops
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text.module import OUT_OF_MEMORY
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.passes import lower_late
from vtakit.compiler.passes.pragmas import check_pragmas
from vtakit.runtime.cpu.function import for_here
from vtakit.runtime.cpu.loader import Loaded

Array = npt.NDArray[Any]


class Port(NamedTuple):
    """A parameter of a function: an array that it reads, or one that it writes."""

    dtype: str
    shape: tuple[int, ...]
    written: bool

    @property
    def kind(self) -> "np.dtype[Any]":
        """NumPy's type of an element."""
        return numpy_dtype(dtype(self.dtype))


class Binary(NamedTuple):
    """Machine code of one function; fields as in `vtakit.runtime.cpu.loader.Code`.

    messages : what status 1, 2, … says does not hold
    """

    name: str
    code: bytes
    symbols: tuple[str, ...]
    outside: tuple[str, ...]
    ports: tuple[Port, ...]
    messages: tuple[str, ...]


def made(function: Function, target: Target) -> Binary:
    """Return the machine code of a function in block form, for this machine.

    Raises VtakitError for one without machine code, or with parameters other than arrays of known shapes.
    """
    check_pragmas(function)
    compiled = compile_for(lower_late(function), for_here(target, function.name, parallel=has_loops(function.body)))
    if compiled.packed:
        raise CodegenError(f"{function.name} calls Python, which a measurement in another process cannot")
    ports = []
    for param in function.params:
        shape = [int_value(extent) for extent in param.shape] if isinstance(param, Buffer) else [None]
        if not isinstance(param, Buffer) or None in shape:
            raise CodegenError(f"parameter {param.name} of {function.name} is no array of a known shape")
        ports.append(Port(str(param.dtype), tuple([size or 0 for size in shape]), compiled.signature.writes(param)))
    return Binary(compiled.name, compiled.code, compiled.symbols, compiled.outside, tuple(ports), compiled.messages)


class Failed(Exception):
    """A run that ended with a status: `kind` and reason."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def bound(binary: Binary, arrays: Sequence[Array]) -> Callable[[], None]:
    """Return a call of the code on arrays, one a parameter. It raises `Failed` for a status other than 0."""
    loaded = Loaded(binary, (), {})
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * len(arrays))(loaded.addresses[binary.symbols[0]])
    addresses = [array.ctypes.data for array in arrays]

    def run(_: Any = (loaded, arrays)) -> None:
        status = entry(*addresses)
        if status == OUT_OF_MEMORY:
            raise Failed("memory", "the candidate could not allocate a buffer")
        if status:
            raise Failed("wrong", f"the candidate found that this does not hold: {binary.messages[status - 1]}")
    return run


def random_array(port: Port, seed: Sequence[int]) -> Array:
    """Return random values of a parameter's type: normal ones, whole ones of a few bits, or truth values."""
    rng, kind = np.random.default_rng([*seed]), port.kind
    if kind.kind == "b":
        return rng.integers(0, 2, port.shape).astype(kind)
    if kind.kind in "iu":
        low, high = (0, 30) if kind.itemsize >= 4 else (0, 100) if kind.kind == "u" else (-100, 100)
        return rng.integers(low, high, port.shape, dtype=kind)
    return rng.standard_normal(port.shape).astype(kind)
