"""Memories that give the inverse of what is read in the cycle in which it is written: block RAM may give anything then.

Inside `spoiled()`, whatever of hw/ is elaborated has such memories in its scratchpads and in every queue of block RAM.
"""

import hashlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import fifo, memory

from vtakit.hw.memory import scratchpad
from vtakit.hw.params import CoreParams
from vtakit.hw.verilog import source_hash, to_verilog
from vtakit.sim.rtl import build, host
from vtakit.sim.rtl.library import Library

_OPTIONS = ("-std=c++20", "-O1", "-fPIC", "-pthread")  # built sooner than the product's
_made: list[list["Spoiled"]] = []  # memories of each elaboration under way, the innermost last


class Spoiled(memory.Memory):
    """A memory whose synchronous reads invert the bits that are being written."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._raw: list[tuple[memory.ReadPort, Signal]] = []
        _made[-1].append(self)

    def read_port(self, *, domain: str = "sync", **settings: Any) -> memory.ReadPort:
        """A port whose data pass the inverter."""
        port = super().read_port(domain=domain, **settings)
        if domain != "comb":
            self._raw.append((port, port.data))
            port.data = Signal.like(port.data, name="spoiled")
        return port

    def spoil(self, m: Module) -> None:
        """Add the inverters to the module that holds the memory."""
        for port, raw in self._raw:
            hit = Signal(len(raw), name="hit")
            now: Any = 0
            for write in self.write_ports:
                bits = Cat(bit.replicate(len(raw) // len(write.en)) for bit in write.en)
                now = now | Mux(write.addr == port.addr, bits, 0)
            with m.If(port.en):
                m.d.sync += hit.eq(now)
            m.d.comb += port.data.eq(raw ^ hit)

    def elaborate(self, platform: object) -> Any:
        for port, raw in self._raw:
            port.data = raw
        return super().elaborate(platform)


def _spoiling(elaborate: Any) -> Any:
    def wrapped(self: Any, platform: object) -> Module:
        _made.append([])
        m: Module = elaborate(self, platform)
        for made in _made.pop():
            made.spoil(m)
        return m

    return wrapped


@contextmanager
def spoiled() -> Iterator[None]:
    """Inside, memories are spoiled."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(scratchpad, "memory", SimpleNamespace(Memory=Spoiled)))
        patches.enter_context(patch.object(fifo, "Memory", Spoiled))
        for block in (scratchpad.Scratchpad, fifo.SyncFIFO, fifo.SyncFIFOBuffered):
            patches.enter_context(patch.object(block, "elaborate", _spoiling(block.elaborate)))
        yield


def hasty() -> type:
    """A queue like amaranth's buffered one, but an entry that comes when it is empty is read in the cycle in which it is written.

    Its memory's port promises the new value, so it is right wherever that promise is kept.
    """
    source = textwrap.dedent(inspect.getsource(fifo.SyncFIFOBuffered))
    for right, wrong in (
        ("inner_r_rdy.eq(inner_level != 0)", "inner_r_rdy.eq((inner_level != 0) | do_write)"),
        ('storage.read_port(domain="sync")', 'storage.read_port(domain="sync", transparent_for=[w_port])'),
    ):
        assert source.count(right) == 1, f"amaranth's SyncFIFOBuffered no longer holds {right!r}"
        source = source.replace(right, wrong)
    names = vars(fifo) | {"Memory": lambda **settings: fifo.Memory(**settings)}  # as it is when the queue is elaborated
    exec(compile(source, "hasty", "exec"), names)
    block: type = names["SyncFIFOBuffered"]
    return block


@contextmanager
def model(params: CoreParams) -> Iterator[Library]:
    """Inside, device "rtl" runs a model of `params` with spoiled memories, built now or before, and no other."""
    def spoiled_verilog(params: CoreParams) -> str:
        with spoiled():
            return to_verilog(params)

    def hashed(params: CoreParams) -> str:
        return hashlib.sha256(f"{source_hash(params)} {Path(__file__).read_text()}".encode()).hexdigest()

    with patch.multiple(build, to_verilog=spoiled_verilog, source_hash=hashed, COMPILE=_OPTIONS):
        spoiled_library = build.library(params)

    def only(wanted: CoreParams, wave: str = "") -> Library:
        assert (wanted, wave) == (params, "")
        return spoiled_library

    with patch.object(host, "library", only):
        yield spoiled_library
