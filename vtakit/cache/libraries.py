"""Load a shared library from bytes, so that what was checked is what runs."""

import ctypes
import os
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

_NUMBERS = count(1)


def load_library(path: Path, data: bytes) -> ctypes.CDLL:
    """Return a shared library whose content is `data`, which was read from the file `path`. Raises `OSError` if it is none.

    The library is loaded from a copy in memory: what happens to the file later changes nothing. Where there can be no such copy,
    on other systems than Linux or under a limit on the size of files, it is loaded from the file, if that has the same content
    still. Each call loads a copy of its own.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            return _from_memory(path.name, data)
    if path.read_bytes() != data:
        raise OSError(f"{path} has changed since it was read")
    return ctypes.CDLL(str(path))


def _from_memory(name: str, data: bytes) -> ctypes.CDLL:
    handle = os.memfd_create(name)
    try:
        with os.fdopen(os.dup(handle), "wb") as file:
            file.write(data)
        # The loader takes two libraries of one name for the same, and numbers of open files are used again.
        return ctypes.CDLL(f"/proc/self/fd/{'./' * next(_NUMBERS)}{handle}")
    finally:
        os.close(handle)
