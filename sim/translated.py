"""One text that Python runs as it is and numba compiles: what the cycle model and the emulator of PTX share.

A function of the text calls others of its package by their names. Its compiled form calls their compiled forms.
"""

import hashlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

from vtakit.sim.code import MachineCode

NO_COUNTING: dict[str, Any] = {"_nrt": False}  # of references to arrays: no function keeps one, and it takes a fifth of the time
_PATIENCE_SECONDS = 2


def translated(function: FunctionType, package: str, compiled: Callable[[FunctionType], Any]) -> FunctionType:
    """Return a function that calls `compiled` forms of a package's functions wherever `function` calls these."""
    found = FunctionType(function.__code__, dict(function.__globals__), function.__name__, function.__defaults__)
    found.__module__ = function.__module__
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType) and value.__module__.startswith(package):
            found.__globals__[name] = compiled(value)
    return found


def call(make: Callable[[], MachineCode], notice: str, args: tuple[Any, ...]) -> int:
    """Call machine code, kept from an earlier process if that can be, else made now: `notice` says so on a terminal."""
    timer = threading.Timer(_PATIENCE_SECONDS, print, [notice], {"file": sys.stderr})
    if sys.stderr is not None and sys.stderr.isatty():
        timer.start()
    try:
        return int(make()(*args))
    finally:
        timer.cancel()


def fingerprint(*folders: Path) -> int:
    """Return a number that stands for every source in some folders."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "little")
