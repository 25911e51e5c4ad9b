"""The scratchpad side of LOADs: pieces and beats in, writes out."""

from collections.abc import Sequence

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.interfaces import COMMAND, FAULT_BITS, INDEX_BITS, read_beat
from vtakit.hw.isa.faults import Fault
from vtakit.hw.load.planner import COUNT_BITS, LoadPlanner, load_piece, of_target
from vtakit.hw.params import CoreParams
from vtakit.hw.pipeline import Slice
from vtakit.hw.timing import Target


def load_write(params: CoreParams) -> data.StructLayout:
    """Return the layout of a write to a scratchpad.

    index   first element; it fits the scratchpad
    pad     `count` elements whose values are `value`; otherwise `count` elements at the low end of `data`, or, of an element
            that is wider than the bus, beat number `beat`
    last    the element is complete with this
    meant   the write in hand is for this scratchpad, even if it still waits for its beat: what `valid` says, early in a cycle
    """
    return data.StructLayout({
        "index": 16, "count": 7, "pad": 1, "value": 8, "beat": 9, "last": 1, "meant": 1, "data": params.bus_bits,
    })


class LoadWriter(wiring.Component):
    """Runs one LOAD after the other, without a gap if its data are there.

    Members
    -------
    commands : ``In(stream)``           LOAD instructions that write something
    may_write : ``In(1)``               the oldest LOAD that is not begun may begin
    beats : ``In(stream)``              the data of their rows, each row from the beat that holds its first element
    write0 … : ``Out(stream)``          writes, one stream for each target
    next, end : ``Out``                 of the LOAD in hand: the element that is written next, and the one after its last
    begins, done : ``Out(1)``           a LOAD begins to write; all of it is written
    starved : ``Out(1)``                the LOAD in hand waits for a beat
    fault, fault_index : ``Out``        an element lies outside its scratchpad, or data are an error: nothing is written from
                                        there on, ever; number of the LOAD
    """

    def __init__(self, params: CoreParams, targets: Sequence[Target]) -> None:
        self._params, self._targets = params, tuple(targets)
        super().__init__({
            "commands": In(stream.Signature(COMMAND)), "may_write": In(1), "beats": In(stream.Signature(read_beat(params))),
            **{f"write{n}": Out(stream.Signature(load_write(params))) for n in range(len(self._targets))},
            "next": Out(COUNT_BITS), "end": Out(COUNT_BITS), "begins": Out(1), "done": Out(1),
            "starved": Out(1), "fault": Out(FAULT_BITS), "fault_index": Out(INDEX_BITS),
        })

    def elaborate(self, platform: object) -> Module:
        m, params, targets = Module(), self._params, self._targets
        m.submodules.planner = planner = LoadPlanner(params, targets)
        connect(m, flipped(self.commands), planner.commands)
        writes = [getattr(self, f"write{n}") for n in range(len(targets))]
        m.submodules.between = between = Slice(load_piece(targets))
        connect(m, planner.pieces, between.i)
        coming = between.o.payload
        piece = Signal(load_piece(targets), reset_less=True)
        has = Signal()
        moves, legal, fires, ready, missing, error = (
            Signal(name=name) for name in ("moves", "legal", "fires", "ready", "missing", "error")
        )
        m.d.comb += [
            between.o.ready.eq((~has | fires) & (~coming.begins | self.may_write)),
            moves.eq(between.o.valid & between.o.ready), self.begins.eq(moves & coming.begins),
            missing.eq(~piece.pad & ~self.beats.valid), error.eq(~piece.pad & self.beats.valid & self.beats.payload.error),
            legal.eq(has & ~piece.outside & ~missing & ~error), fires.eq(legal & ready),
            ready.eq(of_target(piece.target, [write.ready for write in writes])),
            self.beats.ready.eq(fires & ~piece.pad & piece.ends_beat), self.done.eq(fires & piece.ends),
            self.starved.eq(has & missing), self.fault_index.eq(piece.index),
        ]
        with m.If(has & piece.outside):
            m.d.comb += self.fault.eq(Fault.SRAM_RANGE)
        with m.Elif(has & error):
            m.d.comb += self.fault.eq(Fault.BUS_READ)
        for n, (write, target) in enumerate(zip(writes, targets, strict=True)):
            # Elements that share a beat come to its low end.
            moved = self.beats.payload.data
            if target.a_beat(params) > 1:
                bits = 8 * target.element_bytes
                moved = Array(moved[at * bits :] for at in range(target.a_beat(params)))[piece.at]
            m.d.comb += [
                write.valid.eq(legal & (piece.target == n)), write.payload.index.eq(self.next),
                write.payload.count.eq(piece.count), write.payload.pad.eq(piece.pad), write.payload.value.eq(piece.value),
                write.payload.beat.eq(piece.beat), write.payload.last.eq(piece.whole), write.payload.data.eq(moved),
                write.payload.meant.eq(has & (piece.target == n)),
            ]
        with m.If(fires):
            m.d.sync += [has.eq(0), self.next.eq(self.next + Mux(piece.whole, piece.count, 0))]
        with m.If(moves):
            m.d.sync += [has.eq(1), piece.eq(coming)]
        with m.If(self.begins):
            m.d.sync += [self.next.eq(coming.base), self.end.eq(coming.bound)]
        return m
