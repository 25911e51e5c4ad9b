"""The USB device of a link in Verilator, between a host at its pins and streams that wait at random."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from amaranth.back import verilog
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from harness_library import harness_library

from vtakit.boards.link.usb import PINS, USB, USB_IO, UsbSerial, stable_names
from vtakit.sim.board.build import FOLDER

HARNESS = Path(__file__).with_name("usb_harness.cpp")
HOST = FOLDER / "usb_host.h"
TICKS_S = 48_000_000
MOST_BYTES = 1 << 20
_FAULTS = ("garble_out", "garble_in", "lose_ack", "lose_handshake")
_COUNTS = ("ticks", "frames", "out", "in", "naks_out", "naks_in", "timeouts", "garbled", "repeated", "doubled", "faults",
           "slowest_tick")


class Pins(wiring.Component):
    """The device with a pin for each field of its members."""

    def __init__(self) -> None:
        usb = {name: member.flow(member.shape) for name, member in PINS.members.items()}
        clocks = {f"{name}_{what}": In(1) for name in (USB, USB_IO) for what in ("clk", "rst")}
        super().__init__({
            **usb, **clocks, "received_valid": Out(1), "received_payload": Out(8), "received_ready": In(1),
            "send_valid": In(1), "send_payload": In(8), "send_ready": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in (USB, USB_IO):
            m.domains += (domain := ClockDomain(name))
            m.d.comb += [domain.clk.eq(getattr(self, f"{name}_clk")), domain.rst.eq(getattr(self, f"{name}_rst"))]
        m.submodules.usb_line = usb = UsbSerial()
        for name, member in PINS.members.items():
            mine, theirs = getattr(self, name), getattr(usb.pins, name)
            m.d.comb += mine.eq(theirs) if member.flow is Out else theirs.eq(mine)
        m.d.comb += [
            self.received_valid.eq(usb.received.valid), self.received_payload.eq(usb.received.payload),
            usb.received.ready.eq(self.received_ready), usb.send.valid.eq(self.send_valid),
            usb.send.payload.eq(self.send_payload), self.send_ready.eq(usb.send.ready),
        ]
        return m


class _Settings(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_uint32) for name in ("seed", *_FAULTS)), ("drift", ctypes.c_int32),
                ("stall", ctypes.c_uint32), ("period", ctypes.c_uint32)]


@cache
def functions() -> Any:
    """The harness's functions."""
    text = stable_names(verilog.convert(Pins(), name="usb", emit_src=False))
    library = harness_library("usb", text, HARNESS, (HOST,))
    handle, size = ctypes.c_void_p, ctypes.c_uint64
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "usb_open": (handle, [ctypes.c_void_p]), "usb_close": (None, [handle]), "usb_advance": (ctypes.c_int, [handle, size]),
        "usb_send": (None, [handle, ctypes.c_int, ctypes.c_char_p, size]),
        "usb_receive": (size, [handle, ctypes.c_int, ctypes.c_char_p, size]), "usb_replug": (None, [handle]),
        "usb_count": (None, [handle, ctypes.c_void_p]), "usb_error": (ctypes.c_char_p, [handle]),
        "usb_descriptor": (size, [handle, ctypes.c_int, ctypes.c_char_p, size]),
        "usb_crc5": (ctypes.c_uint8, [ctypes.c_uint16]), "usb_crc16": (ctypes.c_uint16, [ctypes.c_char_p, size]),
        "usb_encode": (size, [ctypes.c_char_p, size, ctypes.c_char_p]),
        "usb_decode": (ctypes.c_int64, [ctypes.c_char_p, size, ctypes.c_char_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class UsbBench:
    """A device with a host at its pins. Faults are in a thousand, by the names of `usb_settings`; `drift` in parts of a million.

    stall    percent of the cycles in which a stream of the link waits
    mhz      the link's clock
    """

    def __init__(self, *, seed: int = 1, stall: int = 0, mhz: float = 80, drift: int = 0, **faults: int) -> None:
        self._functions = functions()
        settings = _Settings(seed=seed, stall=stall, period=round(1e6 / mhz), drift=drift, **faults)
        self._handle = self._functions.usb_open(ctypes.byref(settings))
        self._buffer = ctypes.create_string_buffer(MOST_BYTES)

    def advance(self, ticks: int) -> bool:
        """Simulate so many ticks; return whether the device is configured."""
        configured = self._functions.usb_advance(self._handle, ticks)
        error = self._functions.usb_error(self._handle).decode()
        assert not error, error
        return bool(configured)

    def enumerate(self) -> None:
        """Simulate until the device is configured."""
        for _ in range(100):
            if self.advance(10_000):
                return
        raise AssertionError(f"not configured: {self.counts()}")

    def send(self, side: int, data: bytes) -> None:
        """Give bytes to the host (side 0) or to the link's side."""
        self._functions.usb_send(self._handle, side, data, len(data))

    def receive(self, side: int) -> bytes:
        """Return what has come to the host, or to the link's side."""
        count = self._functions.usb_receive(self._handle, side, self._buffer, MOST_BYTES)
        return self._buffer.raw[:count]

    def replug(self) -> None:
        """Reset the bus and enumerate anew."""
        self._functions.usb_replug(self._handle)
        self.enumerate()

    def descriptor(self, which: int) -> bytes:
        """Return the descriptor of the device (0), of its configuration, or the strings."""
        count = self._functions.usb_descriptor(self._handle, which, self._buffer, MOST_BYTES)
        return self._buffer.raw[:count]

    def counts(self) -> dict[str, int]:
        """The host's counts."""
        counts = (ctypes.c_uint64 * len(_COUNTS))()
        self._functions.usb_count(self._handle, counts)
        return dict(zip(_COUNTS, counts, strict=True))

    def close(self) -> None:
        """End the simulation."""
        self._functions.usb_close(self._handle)


def encoded(data: bytes) -> str:
    """The lines of a packet as the host has them, a letter a bit: J, K, or 0 for SE0."""
    text = ctypes.create_string_buffer(16 * len(data) + 64)
    count = functions().usb_encode(data, len(data), text)
    return text.raw[:count].decode()


def decoded(lines: str) -> bytes | None:
    """The bytes of a packet's lines before its end, as the host reads them; None where they are none."""
    data = ctypes.create_string_buffer(len(lines))
    count = functions().usb_decode(lines.encode(), len(lines), data)
    return None if count < 0 else data.raw[:count]
