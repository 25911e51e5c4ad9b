"""Python functions that compiled code calls by name."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.llvm.text.module import RAISED, PackedArg, PackedSite
from vtakit.compiler.ir.dtypes import DType

_REGISTERED: dict[str, Callable[..., Any]] = {}
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64))


class PackedError(VtakitError, LookupError):
    """A Python function that compiled code calls and nobody gave."""


def register(name: str, function: Callable[..., Any]) -> None:
    """Let every function built from now on call `function` by `name`; a function registered before gives way.

    It is called with NumPy arrays that share the code's memory, and Python numbers; it may return a number.
    An exception that it raises ends the compiled function and comes out of its call.
    """
    _REGISTERED[name] = function


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy type of an element, ml_dtypes' for bfloat16."""
    if dtype.code == "bfloat":
        import ml_dtypes  # only who uses bfloat16 waits for it

        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    return np.dtype(str(dtype.scalar))


class Bridge:
    """Bridge for the calls of one compiled function into Python."""

    def __init__(self, owner: str, sites: tuple[PackedSite, ...], given: Mapping[str, Callable[..., Any]]) -> None:
        for name, function in given.items():
            if not callable(function):
                raise PackedError(f"packed[{name!r}] of {owner} is {function!r}, which is no function: give a Python function")
        known = {**_REGISTERED, **given}
        missing = sorted({site.name for site in sites} - set(known))
        if missing:
            raise PackedError(
                f"{owner} calls the Python function {missing[0]!r}, which is not known: "
                f"give build(packed={{{missing[0]!r}: …}}), or register it with vtakit.runtime.cpu.packed.register"
            )
        self.sites = [(site, known[site.name]) for site in sites]
        self.raised: list[BaseException] = []
        self.callback = CALLBACK(self._call)  # kept here: C has only its address
        self.address = ctypes.cast(self.callback, ctypes.c_void_p).value or 0

    def _call(self, number: int, slots: Any) -> int:
        try:
            site, function = self.sites[number]
            found = function(*_arguments(site, slots))
            if site.returns.is_float:
                _floats(slots)[0] = 0.0 if found is None else float(found)
            else:
                slots[0] = 0 if found is None else int(found)
        except BaseException as error:  # C cannot pass it on, so it waits for the caller; Ctrl-C too
            self.raised.append(error)
            return RAISED
        return 0

    def reraise(self) -> None:
        """Raise the first exception that waits."""
        error = self.raised[0]
        self.raised.clear()
        raise error


def _floats(slots: Any) -> Any:
    return ctypes.cast(slots, ctypes.POINTER(ctypes.c_double))


def _arguments(site: PackedSite, slots: Any) -> list[Any]:
    found: list[Any] = []
    at = 0
    for arg in site.args:
        if arg.dims >= 0:
            found.append(_array(arg, slots[at], tuple(slots[at + 1 + i] for i in range(arg.dims))))
        elif arg.dtype.is_float:
            found.append(_floats(slots)[at])
        else:
            found.append(bool(slots[at]) if arg.dtype.is_bool else slots[at] if arg.dtype.code == "int" else slots[at] % 2**64)
        at += 1 + max(arg.dims, 0)
    return found


def _array(arg: PackedArg, address: int, shape: tuple[int, ...]) -> Any:
    """The memory at an address as an array."""
    dtype = numpy_dtype(arg.dtype)
    if arg.dtype.lanes > 1:
        shape = (*shape, arg.dtype.lanes)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory: Any = (ctypes.c_uint8 * size).from_address(address)
    array = np.frombuffer(memory, dtype).reshape(shape)
    array.flags.writeable = arg.writable
    return array
