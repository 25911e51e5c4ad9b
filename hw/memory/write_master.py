"""The AXI4 write port: a burst starts only when all its data are here, so that it can always end."""

from amaranth.hdl import Module, ResetSignal, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.interfaces import axi_write
from vtakit.hw.memory.bursts import burst_of_rows
from vtakit.hw.params import CoreParams
from vtakit.hw.pipeline import Queue


def write_beat(params: CoreParams) -> data.StructLayout:
    """A beat, and which of its bytes are to be written."""
    return data.StructLayout({"data": params.bus_bits, "strb": params.bus_bytes})


class WriteMaster(wiring.Component):
    """Members
    -------
    bursts : ``In(stream)``     where the data go, in the order of the data
    beats : ``In(stream)``      the data
    axi : ``Out(axi_write)``
    stop : ``In(1)``            start no further burst
    done : ``Out(1)``           the memory has accepted the last burst of a piece
    error : ``Out(1)``          the memory answered with an error
    idle : ``Out(1)``           no burst is under way
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__({
            "bursts": In(stream.Signature(burst_of_rows(params))), "beats": In(stream.Signature(write_beat(params))),
            "axi": Out(axi_write(params)), "stop": In(1), "done": Out(1), "error": Out(1), "idle": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        m.submodules.data = buffer = Queue(write_beat(params), 4 * params.burst_beats)
        connect(m, flipped(self.beats), buffer.i)
        m.submodules.lengths = lengths = fifo.SyncFIFO(width=8, depth=params.outstanding)
        m.submodules.finals = finals = fifo.SyncFIFO(width=1, depth=params.outstanding)
        aw, w, b, wanted = self.axi.aw, self.axi.w, self.axi.b, self.bursts.payload
        here = Signal(range(4 * params.burst_beats + 2))  # beats in the buffer that no burst has been started for
        in_flight = Signal(range(params.outstanding + 1))
        start = Signal()
        arrives = Signal()
        finished = Signal()
        m.d.comb += [
            arrives.eq(self.beats.valid & self.beats.ready),
            start.eq(
                self.bursts.valid & (~aw.valid | aw.ready) & (here > wanted.last) & (in_flight != params.outstanding) & ~self.stop
            ),
            # The data are offered beside their address: a memory may wait for either before it takes the other.
            self.bursts.ready.eq(start), lengths.w_en.eq(start), lengths.w_data.eq(wanted.last),
            finals.w_en.eq(start), finals.w_data.eq(wanted.final),
        ]
        with m.If(start):
            m.d.sync += here.eq(here + arrives - wanted.last - 1)
        with m.Else():
            m.d.sync += here.eq(here + arrives)
        with m.If(aw.ready):
            m.d.sync += aw.valid.eq(0)
        with m.If(start):
            m.d.sync += [aw.valid.eq(1), aw.payload.addr.eq(wanted.address), aw.payload.len.eq(wanted.last)]

        sent = Signal(8)  # beats of the oldest burst
        beat = buffer.o.payload  # the next
        m.d.comb += [
            w.valid.eq(lengths.r_rdy & buffer.o.valid), w.payload.data.eq(beat.data), w.payload.strb.eq(beat.strb),
            w.payload.last.eq(sent == lengths.r_data), buffer.o.ready.eq(lengths.r_rdy & w.ready),
            lengths.r_en.eq(w.valid & w.ready & w.payload.last),
        ]
        with m.If(w.valid & w.ready):
            m.d.sync += sent.eq(sent + 1)
            with m.If(w.payload.last):
                m.d.sync += sent.eq(0)
        m.d.comb += [
            b.ready.eq(~ResetSignal(allow_reset_less=True)), finished.eq(b.valid & b.ready), finals.r_en.eq(finished),
            self.done.eq(finished & finals.r_data), self.error.eq(finished & b.payload.resp[1]), self.idle.eq(in_flight == 0),
        ]
        m.d.sync += in_flight.eq(in_flight + start - finished)
        return m
