"""The gateware of the link in Verilator, beside a memory and registers in C++: fast enough for thousands of sessions."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from amaranth.back import verilog
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from harness_library import harness_library
from link_support import PARAMS, FakeBus

from vtakit.boards.host_map import BOARD_PAGE, HOST_ADDRESS_BITS
from vtakit.boards.link.link import Link

HARNESS = Path(__file__).with_name("link_harness.cpp")
_QUIET_CYCLES = 400  # after which nothing more comes: the longest pause is a burst of bytes, with stalls
_MOST_BYTES = 1 << 18
# Of each channel: the link's port, and the channel's fields with their widths.
_CHANNELS = {
    "ar": ("read", {"addr": 32, "len": 8}), "aw": ("write", {"addr": 32, "len": 8}),
    "w": ("write", {"data": 64, "strb": 8, "last": 1}), "b": ("write", {"resp": 2}),
    "r": ("read", {"data": 64, "resp": 2, "last": 1}),
    "reg_aw": ("registers", {"addr": HOST_ADDRESS_BITS}), "reg_w": ("registers", {"data": 32}),
    "reg_b": ("registers", {"resp": 2}),
    "reg_ar": ("registers", {"addr": HOST_ADDRESS_BITS}), "reg_r": ("registers", {"data": 32, "resp": 2}),
}


class Pins(wiring.Component):
    """The link with a pin for each field of its channels."""

    def __init__(self) -> None:
        members = {"rx_valid": In(1), "rx_payload": In(8), "tx_valid": Out(1), "tx_payload": Out(8), "tx_ready": In(1)}
        for channel, (_, fields) in _CHANNELS.items():
            way, back = (In, Out) if channel.endswith(("b", "r")) and not channel.endswith("ar") else (Out, In)
            members |= {f"{channel}_{name}": way(width) for name, width in {**fields, "valid": 1}.items()}
            members[f"{channel}_ready"] = back(1)
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.link = link = Link(PARAMS)
        m.d.comb += [
            link.rx.valid.eq(self.rx_valid), link.rx.payload.eq(self.rx_payload), link.tx.ready.eq(self.tx_ready),
            self.tx_valid.eq(link.tx.valid), self.tx_payload.eq(link.tx.payload),
        ]
        for channel, (port, fields) in _CHANNELS.items():
            stream = getattr(getattr(link, port), channel.removeprefix("reg_"))
            pins = [(getattr(self, f"{channel}_{name}"), stream.payload[name]) for name in fields]
            valid, ready = getattr(self, f"{channel}_valid"), getattr(self, f"{channel}_ready")
            if self.signature.members[f"{channel}_valid"].flow is In:
                m.d.comb += [stream.valid.eq(valid), ready.eq(stream.ready), *(value.eq(pin) for pin, value in pins)]
            else:
                m.d.comb += [valid.eq(stream.valid), stream.ready.eq(ready), *(pin.eq(value) for pin, value in pins)]
        return m


class _Settings(ctypes.Structure):
    _fields_ = [("memory", ctypes.c_void_p), ("size", ctypes.c_uint64),
                *((name, ctypes.c_uint32) for name in ("stall", "seed", "pace")), ("board", ctypes.c_uint32 * 16),
                ("sum", ctypes.c_uint32), ("pops", ctypes.c_uint32)]


@cache
def functions() -> Any:
    """The harness's functions."""
    text = verilog.convert(Pins(), name="link", emit_src=False)
    library = harness_library("link", text, HARNESS)
    library.link_open.restype = ctypes.c_void_p
    library.link_open.argtypes = [ctypes.c_void_p]
    library.link_feed.restype = ctypes.c_uint64
    buffer = (ctypes.c_char_p, ctypes.c_uint64)
    library.link_feed.argtypes = [ctypes.c_void_p, *buffer, *buffer, ctypes.c_uint64]
    library.link_cycles.restype, library.link_cycles.argtypes = ctypes.c_uint64, [ctypes.c_void_p]
    library.link_broken.restype, library.link_broken.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    library.link_close.restype, library.link_close.argtypes = None, [ctypes.c_void_p]
    return library


class VerilatedBoard:
    """A link that runs whenever bytes come, beside the memory of a `FakeBus`, which it changes."""

    def __init__(self, bus: FakeBus, *, stall: int = 0, seed: int = 1, pace: int = 1) -> None:
        self._bus, self._functions = bus, functions()
        self._memory = (ctypes.c_char * len(bus.memory)).from_buffer(bus.memory)
        self._back = ctypes.create_string_buffer(_MOST_BYTES)
        self._settings = _Settings(ctypes.addressof(self._memory), len(bus.memory), stall, seed, pace)
        for address, value in bus.board.items():
            self._settings.board[(address - BOARD_PAGE) // 4] = value
        self._handle = None
        self.reset()

    def reset(self) -> None:
        """Begin anew; memory and registers keep what they hold."""
        self.close()
        self._handle = self._functions.link_open(ctypes.byref(self._settings))

    def feed(self, data: bytes) -> bytes:
        """Give it bytes; return what it sends until it is at rest."""
        count = self._functions.link_feed(self._handle, data, len(data), self._back, _MOST_BYTES, _QUIET_CYCLES)
        self._bus.sum, self._bus.pops = self._settings.sum, self._settings.pops
        broken = self._functions.link_broken(self._handle)
        assert broken is None, broken
        return self._back[:count]

    def close(self) -> None:
        """End the simulation."""
        if self._handle is not None:
            self._functions.link_close(self._handle)
            self._handle = None
