"""The shared library of a Verilated accelerator, loaded once in a process."""

import ctypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vtakit.base.errors import VtakitError
from vtakit.cache.libraries import load_library


@dataclass(frozen=True, slots=True)
class Library:
    """A loaded library: the file that its content is from, and the functions of the harness in it."""

    path: Path
    functions: Any = field(repr=False)


def opened(path: Path, data: bytes) -> Library:
    """Load a library with the content `data`, which is from the file `path`. Raises `VtakitError` if it is none."""
    try:
        functions = load_library(path, data)
        functions.vta_open.restype = ctypes.c_void_p
        functions.vta_advance.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        functions.vta_advance.restype = ctypes.c_uint64
        functions.vta_give.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64]
        functions.vta_give.restype = None
        functions.vta_forget.argtypes = [ctypes.c_void_p]
        functions.vta_forget.restype = None
        functions.vta_report.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
        functions.vta_report.restype = None
        functions.vta_events.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        functions.vta_events.restype = ctypes.c_uint64
        functions.vta_close.argtypes = [ctypes.c_void_p]
        functions.vta_close.restype = ctypes.c_int
    except (OSError, AttributeError) as error:
        raise VtakitError(f"cannot load the RTL model {path}: {error}") from None
    return Library(path, functions)
