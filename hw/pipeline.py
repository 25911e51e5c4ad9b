"""Registers between blocks: a register slice, a queue that ends in one, and a FIFO whose oldest entry stands in one."""

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import fifo, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped


class Slice(wiring.Component):
    """One cycle's delay at full rate; no path runs through it, forward or back.

    Members
    -------
    i : ``In(stream)``
    o : ``Out(stream)``     the same, a cycle later
    """

    def __init__(self, shape: Any) -> None:
        self._shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        full = Signal()
        payload, kept = (Signal(self._shape, name=name, reset_less=True) for name in ("payload", "kept"))
        moves = ~self.o.valid | self.o.ready
        m.d.comb += [self.i.ready.eq(~full), self.o.payload.eq(payload)]
        with m.If(moves):
            m.d.sync += [self.o.valid.eq(full | self.i.valid), full.eq(0)]
            with m.If(full):
                m.d.sync += payload.eq(kept)
            with m.Else():
                m.d.sync += payload.eq(self.i.payload)
        with m.Elif(self.i.valid):
            m.d.sync += full.eq(1)
        # Taken even if it moves on: so what is behind, which is late in a cycle, does not reach all bits of `kept`.
        with m.If(self.i.valid & ~full):
            m.d.sync += kept.eq(self.i.payload)
        return m


class Queue(wiring.Component):
    """Room for `depth` entries and three more, two of them in a slice: its output is early in a cycle, not late like a RAM's.

    Members
    -------
    i : ``In(stream)``
    o : ``Out(stream)``     the same, three cycles later at the earliest
    """

    def __init__(self, shape: Any, depth: int) -> None:
        if depth < 2:
            raise ValueError(f"Queue depth must be at least 2, got {depth}")
        self._depth, self._shape = depth, shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        has_room = Signal(init=1)
        # Whether there is room is known from the cycle before, when one entry more may have come: hence the place beyond `depth`.
        m.submodules.fifo = inner = fifo.SyncFIFOBuffered(width=Shape.cast(self._shape).width, depth=self._depth + 1)
        m.submodules.slice = out = Slice(self._shape)
        connect(m, out.o, flipped(self.o))
        m.d.comb += [
            self.i.ready.eq(has_room), inner.w_en.eq(self.i.valid & has_room), inner.w_data.eq(self.i.payload),
            out.i.valid.eq(inner.r_rdy), out.i.payload.eq(inner.r_data), inner.r_en.eq(out.i.ready),
        ]
        m.d.sync += has_room.eq(inner.level < self._depth)
        return m


class HeadFIFO(wiring.Component):
    """As `amaranth.lib.fifo.SyncFIFO` in every cycle, but its oldest entry comes from a register, early in a cycle.

    Members
    -------
    w_en, w_data : ``In``, w_rdy : ``Out``    an entry goes in if there is room
    r_en : ``In``, r_data, r_rdy : ``Out``    the oldest entry, and whether there is one; it goes
    level : ``Out``                           entries that are there
    """

    def __init__(self, *, width: int, depth: int) -> None:
        self._depth = depth
        super().__init__({
            "w_en": In(1), "w_data": In(width), "w_rdy": Out(1), "r_en": In(1), "r_data": Out(width), "r_rdy": Out(1),
            "level": Out(range(depth + 1)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        places = max(2, 1 << (self._depth - 1).bit_length())
        m.submodules.storage = storage = memory.Memory(shape=len(self.w_data), depth=places, init=[])
        write, read = storage.write_port(), storage.read_port(domain="comb")
        # Each entry has a place, the oldest one too: so where one goes does not depend on what leaves.
        last = Signal(range(places))  # place of what comes
        second = Signal(range(places), init=1)  # place behind the oldest entry
        head = Signal.like(self.r_data, name="head", reset_less=True)
        comes = Signal()
        goes = Signal()
        m.d.comb += [
            comes.eq(self.w_en & self.w_rdy), goes.eq(self.r_en & self.r_rdy),
            self.w_rdy.eq(self.level != self._depth), self.r_rdy.eq(self.level != 0), self.r_data.eq(head),
            write.addr.eq(last), write.data.eq(self.w_data), write.en.eq(comes), read.addr.eq(second),
        ]
        with m.If(goes | (self.level == 0)):
            m.d.sync += head.eq(Mux(self.level <= 1, self.w_data, read.data))
        with m.If(comes):
            m.d.sync += last.eq(last + 1)
        with m.If(goes):
            m.d.sync += second.eq(second + 1)
        with m.If(comes != goes):
            m.d.sync += self.level.eq(Mux(comes, self.level + 1, self.level - 1))
        return m
