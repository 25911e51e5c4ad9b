"""Registers between blocks: a register slice, and a queue that ends in one."""

from typing import Any

from amaranth.hdl import Module, Shape, Signal
from amaranth.lib import fifo, stream, wiring
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
        m, kept, full = Module(), Signal(self._shape), Signal()
        moves = ~self.o.valid | self.o.ready
        m.d.comb += self.i.ready.eq(~full)
        with m.If(moves & full):
            m.d.sync += [self.o.payload.eq(kept), full.eq(0)]
        with m.Elif(moves):
            m.d.sync += [self.o.payload.eq(self.i.payload), self.o.valid.eq(self.i.valid)]
        with m.Elif(self.i.valid & ~full):
            m.d.sync += [kept.eq(self.i.payload), full.eq(1)]
        return m


class Queue(wiring.Component):
    """Room for `depth` entries, and two more in a slice: what comes out is there early in a cycle, not late like a RAM's data.

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
        m.submodules.fifo = inner = fifo.SyncFIFOBuffered(width=Shape.cast(self._shape).width, depth=self._depth)
        m.submodules.slice = out = Slice(self._shape)
        connect(m, out.o, flipped(self.o))
        m.d.comb += [
            inner.w_en.eq(self.i.valid), inner.w_data.eq(self.i.payload), self.i.ready.eq(inner.w_rdy),
            out.i.valid.eq(inner.r_rdy), out.i.payload.eq(inner.r_data), inner.r_en.eq(out.i.ready),
        ]
        return m
