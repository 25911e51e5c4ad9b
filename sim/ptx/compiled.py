"""The executor as machine code: one text, which Python runs as it is and numba compiles."""

import functools
import hashlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

from numba import njit, types
from numba.extending import intrinsic

from vtakit.sim.code import MachineCode
from vtakit.sim.ptx.execute.blocks import run_blocks
from vtakit.sim.ptx.execute.codes import Memory, Warps
from vtakit.sim.ptx.execute.fused import fma32, fma64

_PATIENCE_SECONDS = 2
_NOTICE = "compiling the emulator of PTX (under a minute, once) …"
_PARTS = __name__.rpartition(".")[0]
_NO_COUNTING: dict[str, Any] = {"_nrt": False}  # of references to arrays: no function keeps one
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # functions that only machine code calls


@intrinsic
def _fma(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
    """The processor's own fused multiply and add."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return x(x, x, x), codegen


_ONE, _TWO, _THREE = (types.Array(types.int64, dimensions, "C") for dimensions in (1, 2, 3))
_BYTES, _HALVES, _WORDS = (types.Array(each, 1, "C") for each in (types.uint8, types.uint16, types.uint32))
_named: Any = types.NamedTuple
# Types of parameters by name; others are int64, or what their annotation says.
_TYPES = {
    **dict.fromkeys(("row", "r", "lanes", "picked", "lists", "init", "ctl", "fault", "scratch", "shadow"), _ONE),
    **dict.fromkeys(("code", "clocks", "counts", "ranges", "regs", "inits", "causes"), _TWO),
    "every_cause": _THREE,
    "reals": types.Array(types.float64, 1, "C"),
    "f": types.Array(types.float32, 1, "C"),
    "mem": _named((_BYTES, _HALVES, _WORDS, _ONE, _BYTES, _WORDS, _ONE), Memory),
    "warps": _named((_TWO, _THREE, _TWO, _TWO, _ONE), Warps),
}
_OTHER_FORMS: dict[Callable[..., Any], Any] = {fma32: _fma, fma64: _fma}


def run(*args: Any) -> int:
    """Call `run_blocks` as machine code: kept from an earlier process if that can be, else made now."""
    notice = threading.Timer(_PATIENCE_SECONDS, print, [_NOTICE], {"file": sys.stderr})
    if sys.stderr is not None and sys.stderr.isatty():
        notice.start()
    try:
        return int(_machine_code()(*args))
    finally:
        notice.cancel()


@functools.cache
def _machine_code() -> MachineCode:
    assert isinstance(run_blocks, FunctionType)
    return MachineCode(_translated(run_blocks), _fingerprint(), "ptx", **_NO_COUNTING)


@functools.cache
def _translated(function: FunctionType) -> FunctionType:
    """Return a function that calls compiled forms of the executor's functions wherever `function` calls these."""
    found = FunctionType(function.__code__, dict(function.__globals__), function.__name__, function.__defaults__)
    found.__module__ = function.__module__
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType) and value.__module__.startswith(_PARTS):
            found.__globals__[name] = _OTHER_FORMS.get(value) or _compiled(value)
    return found


@functools.cache
def _compiled(function: FunctionType) -> Any:
    """Return a function that is compiled when a caller is: for the types of its parameters, and for no others.

    Numba then infers no types anew at each call, and makes nothing where kept machine code is found.
    """
    made: Any = njit(error_model="numpy", **_INNER, **_NO_COUNTING)(_translated(function))
    resolved, code = made.get_call_template, function.__code__
    kinds = tuple(_type_of(name, function.__annotations__[name]) for name in code.co_varnames[: code.co_argcount])

    def get_call_template(args: Any, keywords: Any) -> Any:
        if not made.signatures:
            made.compile(kinds)
            made.disable_compile()
        return resolved(args, keywords)

    made.get_call_template = get_call_template
    return made


def _type_of(name: str, annotation: Any) -> Any:
    metadata = getattr(annotation, "__metadata__", ())
    return getattr(types, metadata[0]) if metadata else _TYPES.get(name, types.int64)


def _fingerprint() -> int:
    """A number that stands for every source that the machine code is made of."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "little")
