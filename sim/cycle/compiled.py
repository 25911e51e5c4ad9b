"""The cycle model as machine code: one text, which Python runs as it is and numba compiles."""

import functools
from pathlib import Path
from types import FunctionType
from typing import Any

from numba import njit

import vtakit.hw
from vtakit.sim.code import MachineCode
from vtakit.sim.cycle.simulation import advance
from vtakit.sim.translated import NO_COUNTING, call, fingerprint, translated

_NOTICE = "compiling the cycle model (about ten seconds, once) …"
_MODEL = __name__.rpartition(".")[0]


def run(*args: Any) -> int:
    """Call `advance` as machine code."""
    return call(_machine_code, _NOTICE, args)


@functools.cache
def _machine_code() -> MachineCode:
    assert isinstance(advance, FunctionType)
    sources = Path(__file__).parent, Path(vtakit.hw.__file__).parent  # constants of the hardware are in the code too
    return MachineCode(translated(advance, _MODEL, _compiled), fingerprint(*sources), "cycle", **NO_COUNTING)


@functools.cache
def _compiled(function: FunctionType) -> Any:
    return njit(error_model="numpy", **NO_COUNTING)(translated(function, _MODEL, _compiled))
