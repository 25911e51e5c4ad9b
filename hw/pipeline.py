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
