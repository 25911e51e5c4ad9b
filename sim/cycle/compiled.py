"""The cycle model as machine code: one text, which Python runs as it is and numba compiles."""

import functools
import hashlib
import sys
import threading
from pathlib import Path
from types import FunctionType
from typing import Any

from numba import njit

import vtakit.hw
from vtakit.sim.code import MachineCode
from vtakit.sim.cycle.simulation import advance

_PATIENCE_SECONDS = 2
_NOTICE = "compiling the cycle model (about ten seconds, once) …"
_MODEL = __name__.rpartition(".")[0]
_NO_COUNTING: dict[str, Any] = {"_nrt": False}  # of references to arrays: no function keeps one, and it takes a fifth of the time


def run(*args: Any) -> int:
    """Call `advance` as machine code: kept from an earlier process if that can be, else made now."""
    notice = threading.Timer(_PATIENCE_SECONDS, print, [_NOTICE], {"file": sys.stderr})
    if sys.stderr is not None and sys.stderr.isatty():
        notice.start()
    try:
        return int(_machine_code()(*args))
    finally:
        notice.cancel()


@functools.cache
def _machine_code() -> MachineCode:
    assert isinstance(advance, FunctionType)
    return MachineCode(_translated(advance), _fingerprint(), "cycle", **_NO_COUNTING)


@functools.cache
def _translated(function: FunctionType) -> FunctionType:
    """Return a function that calls compiled forms of the model's functions wherever `function` calls these."""
    found = FunctionType(function.__code__, dict(function.__globals__), function.__name__, function.__defaults__)
    found.__module__ = function.__module__
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType) and value.__module__.startswith(_MODEL):
            found.__globals__[name] = _compiled(value)
    return found


@functools.cache
def _compiled(function: FunctionType) -> Any:
    return njit(error_model="numpy", **_NO_COUNTING)(_translated(function))


def _fingerprint() -> int:
    """A number that stands for every source that the machine code is made of: constants of the hardware are in it too."""
    digest = hashlib.sha256()
    for folder in (Path(__file__).parent, Path(vtakit.hw.__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "little")
