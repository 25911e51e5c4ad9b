"""Machine code that numba makes, kept as entries of the cache.

numba's own cache takes whatever files lie in its folder. So it gets a private folder in each process, filled with the files of an
entry whose sum was right.
"""

import hashlib
import io
import sys
import threading
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numba
import numpy as np
from llvmlite import binding
from numba import njit, typeof

from vtakit.cache.bounds import keep
from vtakit.cache.entry import read
from vtakit.cache.place import cache_folder, trouble, warn

_FILE = "code.zip"
_SIMULATORS = {"fsim": "functional simulator", "cycle": "cycle model", "ptx": "emulator of PTX"}  # by kind of entry
_LOCK = threading.Lock()  # for numba's setting of its folder, which all threads share


class MachineCode:
    """A function as machine code, compiled or found when it is first called with arguments of a kind."""

    def __init__(self, function: Callable[..., Any], fingerprint: int, kind: str = "fsim", **options: Any) -> None:
        """`fingerprint` stands for every source that the code is made of; `kind` of entry in the cache; `options` are numba's."""
        self._function, self._fingerprint, self._kind, self._options = function, fingerprint, kind, options
        self._made: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        key = tuple(map(_kind, args))
        if key not in self._made:
            with _LOCK:
                self._made[key] = self._found_or_made(tuple(map(typeof, args)))
        return self._made[key](*args)

    def _found_or_made(self, kinds: tuple[Any, ...]) -> Callable[..., Any]:
        folder = cache_folder(self._kind) / self._key(kinds)
        try:
            why = trouble(folder.parent)
            if not why:
                return self._kept(kinds, folder)
            warn(f"the {_SIMULATORS[self._kind]}'s machine code is not kept: {why}")
        except OSError:  # no folder can be written
            pass
        made: Callable[..., Any] = njit(error_model="numpy", **self._options)(self._function)
        return made

    def _kept(self, kinds: tuple[Any, ...], folder: Path) -> Callable[..., Any]:
        with TemporaryDirectory(prefix="vtakit.") as name:
            private, settings = Path(name), vars(numba.config)  # which are made as it is loaded
            before = settings["CACHE_DIR"]
            if (data := read(folder, _FILE)) is not None:
                zipfile.ZipFile(io.BytesIO(data)).extractall(private)
            settings["CACHE_DIR"] = name
            try:
                made = njit(cache=True, error_model="numpy", **self._options)(self._function)  # takes note of the folder
            finally:
                settings["CACHE_DIR"] = before
            made.compile(kinds)
            made.disable_compile()  # its folder goes now
            if made.stats.cache_misses:
                keep(folder, _FILE, [_packed(private)])
            found: Callable[..., Any] = made
        return found

    def _key(self, kinds: tuple[Any, ...]) -> str:
        """Hash of all that decides the code, and of where the source is, which numba wants to find again."""
        source = self._function.__code__.co_filename
        machine = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
        parts = (self._fingerprint, kinds, self._options, source, *machine, sys.version, numba.__version__, version("llvmlite"))
        return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


def _kind(value: Any) -> Any:
    """Return what decides numba's type of an argument, without the milliseconds that `typeof` takes for a record's."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        return value.dtype, value.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned
    return type(value)


def _packed(folder: Path) -> bytes:
    """Return the files of a folder as one."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return packed.getvalue()
