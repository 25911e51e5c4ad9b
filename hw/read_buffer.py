"""Room for the data of one reader's bursts: a burst is asked for only when all its beats will fit."""

from amaranth.hdl import Module, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.bursts import burst_of_rows
from vtakit.hw.interfaces import burst, read_beat
from vtakit.hw.params import CoreParams


class ReadBuffer(wiring.Component):
    """Keeps a slow reader from blocking the others, since read data come back in the order of the bursts.

    Members
    -------
    bursts : ``In(stream)``        what to read
    requests : ``Out(stream)``     the same, when there is room
    returned : ``In(stream)``      beats from memory; always accepted
    beats : ``Out(stream)``        the beats, in order
    empty : ``Out(1)``             no beat is buffered or expected
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        beat = read_beat(params)
        super().__init__({
            "bursts": In(stream.Signature(burst_of_rows(params))), "requests": Out(stream.Signature(burst(params))),
            "returned": In(stream.Signature(beat, always_ready=True)), "beats": Out(stream.Signature(beat)), "empty": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        m.submodules.fifo = buffer = fifo.SyncFIFOBuffered(width=read_beat(params).size, depth=params.buffer_beats)
        room = Signal(range(params.buffer_beats + 1), init=params.buffer_beats)
        fits, asked, taken = Signal(), Signal(), Signal()
        m.d.comb += [
            fits.eq(room > self.bursts.payload.last),
            self.requests.valid.eq(self.bursts.valid & fits), self.requests.payload.address.eq(self.bursts.payload.address),
            self.requests.payload.last.eq(self.bursts.payload.last),
            self.bursts.ready.eq(self.requests.ready & fits),
            buffer.w_en.eq(self.returned.valid), buffer.w_data.eq(self.returned.payload),
            self.beats.valid.eq(buffer.r_rdy), self.beats.payload.eq(buffer.r_data), buffer.r_en.eq(self.beats.ready),
            asked.eq(self.bursts.valid & self.bursts.ready), taken.eq(self.beats.valid & self.beats.ready),
            self.empty.eq(room == params.buffer_beats),
        ]
        change = Signal(range(-params.burst_beats, 2))
        with m.If(asked):
            m.d.comb += change.eq(taken - self.bursts.payload.last - 1)
        with m.Else():
            m.d.comb += change.eq(taken)
        m.d.sync += room.eq(room + change)
        return m
