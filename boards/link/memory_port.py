"""Pieces of memory as bytes: an AXI4 manager that needs no alignment and makes the memory wait for nothing."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.boards.link.protocol import REQUEST
from vtakit.hw.interfaces import axi_read, axi_write
from vtakit.hw.params import CoreParams

SIZE_BITS = 8 * REQUEST["length"]


class MemoryPort(wiring.Component):
    """Reads or writes `size` bytes, at least one, in bursts one after the other that no multiple of a burst's size crosses.

    A burst is read when all its beats have room, and written when all its beats are there.

    Members
    -------
    start : ``In(1)``             begin, when not busy
    writes, address, size         what to do
    busy : ``Out(1)``
    failed : ``Out(1)``           the memory answered with an error, from `start` to the next
    moves : ``Out(1)``            the memory has taken or given something
    abandon : ``In(1)``           end without the other side: write none of the bytes that are missing, drop those that come
    source : ``In(stream)``       bytes to write
    sink : ``Out(stream)``        bytes that were read
    read : ``Out(axi_read)``
    write : ``Out(axi_write)``
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__({
            "start": In(1), "writes": In(1), "address": In(params.address_bits), "size": In(SIZE_BITS), "busy": Out(1),
            "failed": Out(1), "moves": Out(1), "abandon": In(1),
            "source": In(stream.Signature(8)), "sink": Out(stream.Signature(8)),
            "read": Out(axi_read(params)), "write": Out(axi_write(params)),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        low, burst_low = params.bus_bytes_log2, (params.burst_beats - 1).bit_length()
        ar, r, aw, w, b = self.read.ar, self.read.r, self.write.aw, self.write.w, self.write.b
        beat_shape = data.StructLayout({"data": params.bus_bits, "strb": params.bus_bytes})
        m.submodules.beats = beats = fifo.SyncFIFO(width=beat_shape.size, depth=params.burst_beats)
        lane, row, left = Signal(low), Signal(params.address_bits - low), Signal(SIZE_BITS)
        writes, abandoned = Signal(), Signal()
        wanted = Signal(SIZE_BITS)  # beats of the piece
        room = Signal(range(params.burst_beats + 1))  # beats to the next multiple of a burst
        last, filled = Signal(range(params.burst_beats)), Signal(range(params.burst_beats))  # beats of the burst, less one
        ends = Signal()  # with this byte a beat
        beat, found = Signal(beat_shape), Signal(beat_shape)
        m.d.comb += [
            wanted.eq((left + lane + params.bus_bytes - 1) >> low), room.eq(params.burst_beats - row[:burst_low]),
            ends.eq((lane == params.bus_bytes - 1) | (left == 1)),
            self.moves.eq((ar.valid & ar.ready) | (r.valid & r.ready) | (aw.valid & aw.ready) | (w.valid & w.ready)
                          | (b.valid & b.ready)),
            self.sink.payload.eq(found.data.word_select(lane, 8)),
            found.eq(beats.r_data),
        ]
        with m.If(ar.ready):
            m.d.sync += ar.valid.eq(0)
        with m.If(aw.ready):
            m.d.sync += aw.valid.eq(0)
        with m.If(self.abandon):
            m.d.sync += abandoned.eq(1)

        def step() -> None:
            m.d.sync += [lane.eq(Mux(ends, 0, lane + 1)), left.eq(left - 1)]

        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.sync += [
                    writes.eq(self.writes), left.eq(self.size), lane.eq(self.address[:low]), row.eq(self.address[low:]),
                ]
                with m.If(self.start):
                    m.d.sync += [self.failed.eq(0), abandoned.eq(0)]
                    m.next = "PLAN"
            with m.State("PLAN"):
                m.d.sync += [last.eq(Mux(wanted < room, wanted, room) - 1), filled.eq(0)]
                m.next = "BEGIN"
            with m.State("BEGIN"):
                for channel in (ar, aw):
                    m.d.sync += [channel.payload.addr.eq(row << low), channel.payload.len.eq(last)]
                with m.If(writes):
                    m.next = "GATHER"
                with m.Else():
                    m.d.sync += ar.valid.eq(1)
                    m.next = "READ"
            with m.State("GATHER"):  # the bytes of a burst
                here = self.source.valid | abandoned
                m.d.comb += self.source.ready.eq(~abandoned)
                with m.If(here):
                    step()
                    m.d.sync += [
                        beat.data.word_select(lane, 8).eq(self.source.payload), beat.strb.bit_select(lane, 1).eq(~abandoned),
                    ]
                    with m.If(ends):
                        m.next = "STORE"
            with m.State("STORE"):
                m.d.comb += [beats.w_en.eq(1), beats.w_data.eq(beat)]
                m.d.sync += [beat.eq(0), filled.eq(filled + 1), row.eq(row + 1)]
                with m.If(filled == last):
                    m.d.sync += [aw.valid.eq(1), filled.eq(0)]
                    m.next = "WRITE"
                with m.Else():
                    m.next = "GATHER"
            with m.State("WRITE"):
                m.d.comb += [
                    w.valid.eq(beats.r_rdy), w.payload.last.eq(filled == last), beats.r_en.eq(w.valid & w.ready),
                    Cat(w.payload.data, w.payload.strb).eq(beats.r_data),
                ]
                with m.If(w.valid & w.ready):
                    m.d.sync += filled.eq(filled + 1)
                    with m.If(filled == last):
                        m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += b.ready.eq(1)
                with m.If(b.valid):
                    m.d.sync += self.failed.eq(self.failed | b.payload.resp.any())
                    m.next = "NEXT"
            with m.State("READ"):
                m.d.comb += [r.ready.eq(1), beats.w_en.eq(r.valid), beats.w_data.eq(r.payload.data)]
                with m.If(r.valid):
                    m.d.sync += self.failed.eq(self.failed | r.payload.resp.any())
                    with m.If(r.payload.last):
                        m.next = "GIVE"
            with m.State("GIVE"):  # the bytes of a burst
                m.d.comb += self.sink.valid.eq(beats.r_rdy & ~abandoned)
                with m.If(beats.r_rdy & (self.sink.ready | abandoned)):
                    step()
                    with m.If(ends):
                        m.d.comb += beats.r_en.eq(1)
                        m.d.sync += [filled.eq(filled + 1), row.eq(row + 1)]
                        with m.If(filled == last):
                            m.next = "NEXT"
            with m.State("NEXT"):
                m.next = "PLAN"
                with m.If(left == 0):
                    m.next = "IDLE"
        return m
