"""The Verilated model with every mutant in it, in place of the product's model of the same parameters."""

import ctypes
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from amaranth.back import verilog
from amaranth.hdl import Fragment
from mutation import schemata

from vtakit.hw.isa.config import NAMED
from vtakit.hw.params import CoreParams
from vtakit.hw.top import TOP_NAME, Top
from vtakit.hw.verilog import no_garbage_collection, source_hash
from vtakit.sim.rtl import build, host
from vtakit.sim.rtl.library import Library

PARAMS = CoreParams(cfg=NAMED["tiny"])
HARNESS = Path(__file__).with_name("harness.cpp")
_PRODUCT_HARNESS = build.HARNESS
_OPTIONS = ("-std=c++20", "-O1", "-fPIC", "-pthread")
MAX_CYCLES = 200_000  # of a run; the original is bound too, so it fails the suite if a run of that takes more


class OtherModelError(Exception):
    """A check wants a model of other parameters, or with a waveform."""


def elaborate() -> None:
    """Meet every site once."""
    Fragment.get(Top(PARAMS), None)


def library(rewritten: str, wave: str = "") -> Library:
    """The shared library, built now or before; `rewritten` is all source that is not the files', `wave` "" or "vcd"."""
    def hashed(params: CoreParams) -> str:
        parts = (source_hash(params), _PRODUCT_HARNESS.read_text(), rewritten, Path(schemata.__file__).read_text())
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    with patch.multiple(build, to_verilog=_to_verilog, source_hash=hashed, HARNESS=HARNESS, COMPILE=_OPTIONS):
        return build.library(PARAMS, wave)


@contextmanager
def in_place(chosen: Library, waves: Library | None = None) -> Iterator[None]:
    """Inside, the simulator runs these libraries for `PARAMS`, the second for waveforms, and refuses others."""
    def only(params: CoreParams, wave: str) -> Library:
        found = waves if wave else chosen
        if params != PARAMS or found is None:
            raise OtherModelError(f"{params} {wave}")
        return found

    with patch.object(host, "library", only):
        yield


def select(chosen: Library, mutant: int, max_cycles: int = MAX_CYCLES) -> None:
    """Runs from now on are of this mutant and end after so many cycles; 0 is the original."""
    mutate = chosen.functions.vta_mutate
    mutate.argtypes = [ctypes.c_uint16, ctypes.c_uint64]
    mutate.restype = None
    mutate(mutant, max_cycles)


def _to_verilog(params: CoreParams) -> str:
    top = Top(params)
    pins = [value for _, _, value in top.signature.flatten(top)]
    with no_garbage_collection():
        return str(verilog.convert(top, name=TOP_NAME, emit_src=False, ports=[*pins, schemata.MUTANT]))
