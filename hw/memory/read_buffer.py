"""Room for the data of one reader's bursts: a burst is asked for only when all its beats will fit."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.interfaces import burst, read_beat
from vtakit.hw.memory.bursts import burst_of_rows
from vtakit.hw.params import CoreParams
from vtakit.hw.pipeline import Queue, Slice


class ReadBuffer(wiring.Component):
    """Keeps a slow reader from blocking the others, since read data come back in the order of the bursts.

    Members
    -------
    bursts : ``In(stream)``        what to read
    requests : ``Out(stream)``     the same, when there is room
    returned : ``In(stream)``      beats from memory; always accepted
    beats : ``Out(stream)``        the beats, in order
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        beat = read_beat(params)
        super().__init__({
            "bursts": In(stream.Signature(burst_of_rows(params))), "requests": Out(stream.Signature(burst(params))),
            "returned": In(stream.Signature(beat, always_ready=True)), "beats": Out(stream.Signature(beat)),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        m.submodules.queue = queue = Queue(read_beat(params), params.buffer_beats)
        connect(m, queue.o, flipped(self.beats))
        # Beats that fit beside those that are here or asked for. One that is taken, which is known late in a cycle, counts from
        # the next on.
        room = Signal(range(params.buffer_beats + 1), init=params.buffer_beats)
        taken_before = Signal()
        m.submodules.out = out = Slice(burst(params))
        connect(m, out.o, flipped(self.requests))
        wanted = self.bursts.payload
        fits = Signal()
        asked = Signal()
        taken = Signal()
        m.d.comb += [
            queue.i.valid.eq(self.returned.valid), queue.i.payload.eq(self.returned.payload),
            fits.eq(room > wanted.last), self.bursts.ready.eq(out.i.ready & fits), out.i.valid.eq(self.bursts.valid & fits),
            out.i.payload.address.eq(wanted.address), out.i.payload.last.eq(wanted.last),
            asked.eq(self.bursts.valid & self.bursts.ready), taken.eq(self.beats.valid & self.beats.ready),
        ]
        change = Signal(range(-params.burst_beats, 2))
        with m.If(asked):
            m.d.comb += change.eq(taken_before - wanted.last - 1)
        with m.Else():
            m.d.comb += change.eq(taken_before)
        m.d.sync += [room.eq(room + change), taken_before.eq(taken)]
        return m
