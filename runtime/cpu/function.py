"""Functions made from low-form IR that take NumPy arrays."""

import ctypes
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.llvm.compile import Compiled, compile_for
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.lowering.calls import PACKED
from vtakit.compiler.codegen.llvm.lowering.parallel import has_loops
from vtakit.compiler.codegen.llvm.signature import c_type
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text.module import OUT_OF_MEMORY, RAISED
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.walk import free_vars
from vtakit.runtime.cpu import openmp
from vtakit.runtime.cpu.arguments import ArgumentError, Arguments
from vtakit.runtime.cpu.loader import Loaded
from vtakit.runtime.cpu.packed import Bridge
from vtakit.runtime.cpu.timing import Timing, measure

_C = {
    "float": ctypes.c_float, "double": ctypes.c_double, "int8_t": ctypes.c_int8, "int16_t": ctypes.c_int16,
    "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint8_t": ctypes.c_uint8, "uint16_t": ctypes.c_uint16,
    "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
}


class CheckError(VtakitError, AssertionError):
    """A condition that the compiled program itself checks does not hold."""


class Function:
    """A compiled function. Calling it runs it on arrays, in place; it releases Python's lock while it runs.

    compiled : the machine code, with its text at each stage and ways to save it
    """

    def __init__(
        self, compiled: Compiled, packed: Mapping[str, Callable[..., Any]], libraries: tuple[ctypes.CDLL, ...]
    ) -> None:
        self.compiled = compiled
        self._arguments = Arguments(compiled.signature)
        self._misfit = misfit(compiled.target)
        if self._misfit:
            return
        self._bridge = Bridge(compiled.name, compiled.packed, packed)
        self._libraries = libraries
        self._loaded = Loaded(compiled, libraries, {PACKED: self._bridge.address})
        s = compiled.signature
        kinds: list[Any] = [ctypes.c_void_p if isinstance(p, Buffer) else _C[c_type(p.dtype)] for p in s.params]
        kinds += [ctypes.c_int64] * len(s.sizes)
        self._entry = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(self._loaded.addresses[compiled.symbol])

    @property
    def name(self) -> str:
        return self.compiled.name

    def __call__(self, *args: Any) -> None:
        """Run on arrays (or what offers DLPack) and numbers, in the order of the parameters.

        Raises ArgumentError if one does not fit, MemoryError if memory ran out, CheckError if a condition does not hold that the
        program checks, CodegenError if the code is for another machine, and whatever a Python function raises that the program
        calls.
        """
        passed, alive = self._bind(args)
        self._run(passed)
        del alive

    def _bind(self, args: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, ...]]:
        if self._misfit:
            raise CodegenError(f"{self.name}: {self._misfit}: save it, with compiled.save_object or compiled.save_library")
        return self._arguments.bind(args)

    def _run(self, passed: list[Any]) -> None:
        status = self._entry(*passed)
        if status == RAISED:
            self._bridge.reraise()
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"{self.name} could not allocate a buffer")
        if status:
            message, s = self.compiled.messages[status - 1], self.compiled.signature
            for required in s.requires:
                if required.reason == message:
                    given = dict(zip((*s.params, *s.sizes), passed, strict=True))
                    used = sorted(free_vars(required.condition), key=lambda var: var.name)
                    here = " and ".join(f"{var.name} = {given[var]}" for var in used)
                    raise ArgumentError(f"{self.name} needs {message}; here {here}")
            raise CheckError(f"{self.name}: {message}")

    def time(
        self, *args: Any, repeat: int = 5, number: int | None = None, min_repeat_ms: float = 20.0
    ) -> Timing:
        """Run repeatedly on the same arguments and time it.

        repeat        : how many times to measure
        number        : runs in a row in each; None for as many as take `min_repeat_ms`
        """
        passed, alive = self._bind(args)
        found = measure(lambda: self._run(passed), repeat, number, min_repeat_ms)
        del alive
        return found

    def bound(self, *args: Any) -> Callable[[], None]:
        """A call on arguments that are looked at now and not again, for functions that take a few microseconds.

        Raises what a call does, an ArgumentError at once.
        """
        passed, alive = self._bind(args)

        def run(_: object = alive) -> None:
            self._run(passed)
        return run

    def __repr__(self) -> str:
        return f"<function {self.name} for {self.compiled.target}>"


def build(
    function: st.Function, target: Target | None = None, *, packed: Mapping[str, Callable[..., Any]] | None = None,
    libraries: tuple[str | Path, ...] = (),
) -> Function:
    """Compile a function in low form and load it, if this machine can run it.

    target    : this machine by default; what is made for one whose code this machine cannot run is to be saved
    packed    : Python functions that the code calls, by name, before those that `packed.register` knows
    libraries : shared libraries with the C functions that the code calls; this process's own need not be named

    Raises CodegenError if there is no such code, PackedError or CodegenError if a function that it calls is not known.
    """
    parallel = has_loops(function.body)
    chosen = target if target and misfit(target) else for_here(target, function.name, parallel=parallel)
    loaded = tuple(map(_library, libraries))
    return Function(compile_for(function, chosen), packed or {}, loaded)


def misfit(target: Target) -> str:
    """Why this machine cannot run code for a target; "" if it can."""
    host = Target.host()
    if target.arch != host.arch or target.system not in ("", host.system):  # calls and object files differ between systems
        return f"code for {target} cannot run in this process on {host}"
    if missing := host.lacks(target):
        return f"this machine lacks {', '.join(missing)}"
    return ""


def for_here(target: Target | None, name: str, *, parallel: bool) -> Target:
    """The target, by default this machine, without threads if it has no OpenMP runtime and code is `parallel`.

    Raises CodegenError for a target whose code this machine cannot run.
    """
    chosen = target or Target.host()
    if why := misfit(chosen):
        raise CodegenError(f"{why}: compile for this machine, or on one of that kind")
    if chosen.threads and parallel and openmp.library() is None:
        warnings.warn(
            f"{name}: parallel loops run on one thread, because there is no OpenMP runtime: apt install libgomp1",
            RuntimeWarning, stacklevel=3,
        )
        return replace(chosen, threads=False)
    return chosen


def _library(path: str | Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CodegenError(f"libraries=({str(path)!r},): {error}") from None


def empty(shape: tuple[int, ...], dtype: Any = "float32", align: int = 64) -> np.ndarray[Any, Any]:
    """An array, not initialised, whose first element's address is a multiple of `align` bytes."""
    return placed(shape, np.dtype(dtype), align)[0]


def placed(shape: tuple[int, ...], kind: np.dtype[Any], align: int = 64) -> tuple[np.ndarray[Any, Any], int]:
    """Return an aligned array and its address, which NumPy takes longer to look up than to make the array."""
    raw = np.empty(math.prod(shape) * kind.itemsize + align, np.uint8)
    address = raw.ctypes.data
    offset = -address % align
    return np.ndarray(shape, kind, raw, offset), address + offset
