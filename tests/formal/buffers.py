"""The read buffer: every beat that was asked for has its place."""

from amaranth.hdl import Module, Mux, Signal
from formal.checker import Checker, Scoreboard, held

from vtakit.hw.memory.read_buffer import ReadBuffer
from vtakit.hw.params import CoreParams


class BeatsHaveRoom(Checker):
    """The read buffer with any bursts and any reader behind it; memory returns any of the beats asked for, whenever it likes.

    Nothing can hold back a beat that returns, so a full buffer would lose it: the beats must come out as they came in. One bit of
    a beat's data is free, its error mark is the opposite.
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__()

    def properties(self, m: Module) -> None:
        params = self._params
        m.submodules.buffer = dut = ReadBuffer(params)
        burst, bit = self.free("burst", dut.bursts.payload.shape()), self.free("beat")
        m.d.comb += [
            dut.bursts.valid.eq(self.free("burst_valid")), dut.bursts.payload.eq(burst),
            dut.requests.ready.eq(self.free("request_ready")),
            dut.returned.valid.eq(self.free("returned")), dut.returned.payload.data.eq(bit), dut.returned.payload.error.eq(~bit),
            dut.beats.ready.eq(self.free("beat_ready")),
        ]
        self.assume(m, "a burst offered stays", held(m, dut.bursts.valid, dut.bursts.ready, burst))
        took, asked, taken = Signal(), Signal(), Signal()
        m.d.comb += [
            took.eq(dut.bursts.valid & dut.bursts.ready), asked.eq(dut.requests.valid & dut.requests.ready),
            taken.eq(dut.beats.valid & dut.beats.ready),
        ]
        promised = Scoreboard(m, "promised", burst.shape(), 4)  # bursts taken that memory has not been asked for
        promised.update(took, burst, asked)
        due = Signal(range(2 * params.buffer_beats + 1))  # beats of the bursts taken that have not returned
        m.d.sync += due.eq(due + Mux(took, burst.last + 1, 0) - dut.returned.valid)
        owed = Signal(range(2 * params.buffer_beats + 1))  # beats asked for that have not returned
        m.d.sync += owed.eq(owed + Mux(asked, dut.requests.payload.last + 1, 0) - dut.returned.valid)
        self.assume(m, "memory returns only what was asked for", ~dut.returned.valid | (owed != 0))
        kept = Scoreboard(m, "kept", 1, params.buffer_beats + 1)
        kept.update(dut.returned.valid, bit, taken)
        self.watch(took=took, asked=asked, due=due, owed=owed, kept=kept.count, beats_valid=dut.beats.valid)

        request = dut.requests.payload
        self.prove(m, "a request waits with the same burst until it is taken",
                   held(m, dut.requests.valid, dut.requests.ready, request))
        self.prove(m, "a burst taken is asked for at once", dut.requests.valid == (promised.count != 0))
        with m.If(dut.requests.valid):
            self.prove(m, "a request is the burst taken",
                       (request.address == promised.oldest.address) & (request.last == promised.oldest.last))
        self.prove(m, "what is due and what is kept fit the buffer", due + kept.count <= params.buffer_beats)
        with m.If(dut.beats.valid):
            self.prove(m, "the beats come out as they came in", (kept.count != 0) & (dut.beats.payload.data == kept.oldest)
                       & (dut.beats.payload.error == ~kept.oldest))
        waits = Signal(range(4))
        m.d.sync += waits.eq(Mux((kept.count != 0) & ~dut.beats.valid, waits + 1, 0))
        self.prove(m, "a beat is offered at most three cycles after it came", waits < 3)
        before = Signal()  # a beat was taken in the cycle before: it still counts
        m.d.sync += before.eq(taken)
        with m.If(dut.bursts.valid & ~dut.bursts.ready):
            self.prove(m, "a burst waits only while it does not fit or the one before it waits",
                       (due + kept.count + before + burst.last + 1 > params.buffer_beats) | (promised.count != 0))
        self.reach(m, "full of beats", kept.count == params.buffer_beats)
        self.reach(m, "a burst is asked for, a beat returns and one leaves at once", took & dut.returned.valid & taken)
        self.reach(m, "empty again", (due + kept.count == 0) & (burst.address != 0))
