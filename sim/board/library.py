"""The library of a simulated board: its C interface, loaded."""

import ctypes
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from vtakit.base.errors import VtakitError
from vtakit.cache.libraries import load_library
from vtakit.sim.board import build

HARNESS = Path(__file__).with_name("harness.cpp")
INTERFACE = Path(__file__).with_name("harness.h")
_COUNTS = ("width", "banks", "rows", "columns", "refreshes")
_TIMES = ("trcd", "trp", "tras", "tras_most", "trc", "trrd", "twr", "trfc", "refresh", "power_up")
_IN_CLOCKS = ("trrd", "twr")  # of these, some datasheets name clocks at least
_MODE_CLOCKS = 2  # tMRD of every SDR SDRAM


class Datasheet(Protocol):
    """A chip as `vtakit.boards.memory.chips.Chip` describes it: geometry, and times in ns."""

    @property
    def latencies(self) -> tuple[tuple[int, float], ...]:
        """CAS latencies with the shortest clock periods."""


class CSdram(ctypes.Structure):
    """`struct sdram_chip` of sdram.h."""

    _fields_ = [(name, ctypes.c_int64) for name in (
        "period", "width", "banks", "rows", "columns", "cas2", "cas3", "trcd", "trp", "tras", "tras_most", "trc", "trrd", "twr",
        "trfc", "refresh", "power_up", "refreshes", "tmrd_clocks")]


class CUsb(ctypes.Structure):
    """`struct usb_settings` of usb_host.h: a seed, faults in a thousand packets, and the drift of the host's clock in ppm."""

    _fields_ = [*((name, ctypes.c_uint32) for name in ("seed", "garble_out", "garble_in", "lose_ack", "lose_handshake")),
                ("drift", ctypes.c_int32)]


class CSettings(ctypes.Structure):
    """`struct board_settings` of harness.h."""

    _fields_ = [("chip", CSdram), ("memory", ctypes.c_void_p), ("divisor", ctypes.c_uint64), ("period", ctypes.c_uint64),
                ("usb", CUsb)]


@dataclass(frozen=True, slots=True)
class Library:
    """A loaded library."""

    functions: Any = field(repr=False)


def period_of(mhz: float) -> int:
    """Return a clock's period in picoseconds."""
    return round(1e6 / mhz)


def c_sdram(chip: Datasheet, mhz: float) -> CSdram:
    """Return a chip with a clock of `mhz` for the model that checks it; its times in picoseconds."""
    latencies, period = dict(chip.latencies), period_of(mhz)
    times = {name: round(1000 * getattr(chip, name)) for name in _TIMES}
    for name in _IN_CLOCKS:
        times[name] = max(times[name], getattr(chip, f"{name}_clocks") * period)
    return CSdram(
        period=period, tmrd_clocks=_MODE_CLOCKS,
        **{f"cas{clocks}": round(1000 * latencies.get(clocks, 0)) for clocks in (2, 3)},
        **{name: int(getattr(chip, name)) for name in _COUNTS}, **times,
    )


def library(
    verilog: str, what: str, memory: Mapping[str, Collection[str]] | None = None,
    usb: Mapping[str, Collection[str]] | None = None,
) -> Library:
    """Return the library of a board's Verilog, built now if it is not kept. Raises `VtakitError` if that fails.

    memory    the clock of the memory, if it has its own, and the inputs that go with it
    usb       the clocks of USB, if that is the way to the host, and the inputs that go with each
    """
    defines = {name: 1 for name, clocks in (("MEMORY_CLOCK", memory), ("USB", usb)) if clocks}
    clocks = {**(memory or {}), **(usb or {})} or None
    product = build.library(verilog, HARNESS, what=what, headers=(INTERFACE,), clocks=clocks, defines=defines)
    try:
        functions = load_library(product.path, product.data)
    except OSError as error:
        raise VtakitError(f"cannot load the model of a board {product.path}: {error}") from None
    model, u64 = ctypes.c_void_p, ctypes.c_uint64
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "board_open": (model, [ctypes.POINTER(CSettings)]), "board_advance": (ctypes.c_int, [model, u64]),
        "board_send": (None, [model, ctypes.c_char_p, u64]),
        "board_receive": (ctypes.c_int64, [model, ctypes.c_void_p, u64, u64]),
        "board_counts": (None, [model, ctypes.POINTER(u64)]), "board_error": (ctypes.c_char_p, [model]),
        "board_close": (None, [model]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(functions, name)
        function.restype, function.argtypes = result, arguments
    return Library(functions)
