"""The AXI4 masters: handshake rules, limits, and whose beats are whose."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data
from formal.checker import Checker, Scoreboard, held

from vtakit.hw.memory.read_master import ReadMaster
from vtakit.hw.params import CoreParams


class ReadsComeBackInOrder(Checker):
    """The read master with any readers and any AXI4 memory.

    The memory answers the bursts that it accepted, in their order, with as many beats as asked for, `last` on the last of them;
    the readers keep a request until it is taken. Nothing else is assumed: any wait, any data, any answer.
    """

    def __init__(self, params: CoreParams, readers: int) -> None:
        self._params, self._readers = params, readers
        super().__init__()

    def properties(self, m: Module) -> None:
        params = self._params
        m.submodules.master = dut = ReadMaster(params, self._readers)
        ar, r = dut.axi.ar, dut.axi.r
        m.d.comb += [
            dut.stop.eq(self.free("stop")), ar.ready.eq(self.free("ar_ready")), r.valid.eq(self.free("r_valid")),
            r.payload.eq(self.free("r", r.payload.shape())),
        ]
        taken, choice = Signal(), Signal(data.StructLayout({"reader": range(self._readers), "burst": _burst(dut)}))
        for n in range(self._readers):
            request = getattr(dut, f"requests{n}")
            valid, payload = self.free(f"request{n}_valid"), self.free(f"request{n}", request.payload.shape())
            m.d.comb += [request.valid.eq(valid), request.payload.eq(payload)]
            self.assume(m, f"reader {n} keeps its request", held(m, valid, request.ready, payload))
            with m.If(valid & request.ready):
                self.prove(m, f"no other request is taken with reader {n}'s", ~taken_by_others(dut, n, self._readers))
                m.d.comb += [taken.eq(1), choice.reader.eq(n), choice.burst.eq(payload)]

        for n in range(self._readers):  # turns: while a reader asks, each other one has at most one burst
            request, others = getattr(dut, f"requests{n}"), [o for o in range(self._readers) if o != n]
            for other in others:
                passed = Signal(range(3), name=f"reader{other}_before{n}")
                goes = getattr(dut, f"requests{other}")
                with m.If(~request.valid | request.ready):
                    m.d.sync += passed.eq(0)
                with m.Elif(goes.valid & goes.ready & (passed != 2)):
                    m.d.sync += passed.eq(passed + 1)
                self.prove(m, f"reader {n} waits for at most one burst of reader {other}", passed != 2)

        # What is owed: the bursts taken and not yet given to the memory, then those that it has to answer.
        asked = Scoreboard(m, "asked", _burst(dut), params.outstanding + 1)
        owed = Scoreboard(m, "owed", data.StructLayout({"reader": range(self._readers), "last": range(params.burst_beats)}),
                          params.outstanding + 1)
        asks, answers = Signal(), Signal()
        beat = Signal(range(params.burst_beats + 1))
        m.d.comb += [asks.eq(ar.valid & ar.ready), answers.eq(r.valid & r.ready & r.payload.last)]
        asked.update(taken, choice.burst, asks)
        entry = Signal(owed.oldest.shape())
        m.d.comb += [entry.reader.eq(choice.reader), entry.last.eq(choice.burst.last)]
        owed.update(taken, entry, answers)
        with m.If(r.valid & r.ready):
            m.d.sync += beat.eq(Mux(r.payload.last, 0, beat + 1))
        self.assume(m, "the memory keeps its beat", held(m, r.valid, r.ready, r.payload))
        self.assume(m, "the memory answers only what it accepted", ~r.valid | (owed.count > asked.count))
        self.assume(m, "last is on the last beat", ~r.valid | (r.payload.last == (beat == owed.oldest.last)))
        self.watch(
            ar_valid=ar.valid, ar_addr=ar.payload.addr, ar_len=ar.payload.len, r_ready=r.ready, idle=dut.idle,
            owed=owed.count, asked=asked.count, owner=owed.oldest.reader,
            **{f"returned{n}": getattr(dut, f"returned{n}").valid for n in range(self._readers)},
        )

        self.prove(m, "AR keeps its burst until it is accepted", held(m, ar.valid, ar.ready, ar.payload))
        with m.If(ar.valid):
            self.prove(m, "AR carries the oldest request", (asked.count != 0) & (ar.payload.addr == asked.oldest.address)
                       & (ar.payload.len == asked.oldest.last))
        self.prove(m, "a burst taken is on AR at once", ar.valid == (asked.count != 0))
        self.prove(m, "no more bursts in flight than allowed", owed.count <= params.outstanding)
        self.prove(m, "idle: nothing is in flight", ~dut.idle | (owed.count == 0))
        waited, goes = Signal(), Signal()
        m.d.comb += goes.eq(r.valid & r.ready)
        m.d.sync += waited.eq(r.valid & ~r.ready)
        self.prove(m, "no beat waits for more than one cycle", ~(waited & r.valid & ~r.ready))
        self.prove(m, "R is ready only while a burst is in flight", ~r.ready | (owed.count != 0))
        stopped, rested = Signal(), Signal()
        m.d.sync += [stopped.eq(dut.stop), rested.eq(dut.idle & dut.stop)]
        self.prove(m, "stop: no burst is taken from the next cycle on", ~(stopped & taken))
        self.prove(m, "idle and stopped: it stays idle", ~rested | dut.idle)
        for n in range(self._readers):
            back = getattr(dut, f"returned{n}")
            self.prove(m, f"reader {n} gets a beat exactly when one of its own comes",
                       back.valid == (goes & (owed.oldest.reader == n)))
            self.prove(m, f"reader {n} gets the beat that came",
                       ~back.valid | ((back.payload.data == r.payload.data) & (back.payload.error == r.payload.resp[1])))
        self.reach(m, "the limit, with AR free", (owed.count == params.outstanding) & (asked.count == 0))
        self.reach(m, "a new burst with the last beat of another", taken & answers)
        self.reach(m, "the second beat of the last reader", r.valid & (beat == 1) & (owed.oldest.reader == self._readers - 1))
        self.reach(m, "idle again", dut.idle & ~ar.valid & (ar.payload.addr != 0))


def _burst(dut: ReadMaster) -> data.Layout:
    return dut.requests0.payload.shape()


def taken_by_others(dut: ReadMaster, reader: int, readers: int) -> Value:
    """Whether a request of any other reader is taken."""
    others = [getattr(dut, f"requests{n}") for n in range(readers) if n != reader]
    return sum((other.valid & other.ready for other in others), start=0) != 0
