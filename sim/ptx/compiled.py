"""The executor as machine code: one text, which Python runs as it is and numba compiles."""

import functools
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
from vtakit.sim.translated import NO_COUNTING, call, fingerprint, translated

_NOTICE = "compiling the emulator of PTX (under a minute, once) …"
_PARTS = __name__.rpartition(".")[0]
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
    """Call `run_blocks` as machine code."""
    return call(_machine_code, _NOTICE, args)


@functools.cache
def _machine_code() -> MachineCode:
    assert isinstance(run_blocks, FunctionType)
    return MachineCode(translated(run_blocks, _PARTS, _form), fingerprint(Path(__file__).parent), "ptx", **NO_COUNTING)


def _form(function: FunctionType) -> Any:
    return _OTHER_FORMS.get(function) or _compiled(function)


@functools.cache
def _compiled(function: FunctionType) -> Any:
    """Return a function that is compiled when a caller is: for the types of its parameters, and for no others.

    Numba then infers no types anew at each call, and makes nothing where kept machine code is found.
    """
    made: Any = njit(error_model="numpy", **_INNER, **NO_COUNTING)(translated(function, _PARTS, _form))
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
