"""The AXI4 write master: handshake rules, data that are here before their burst, and answers counted."""

from amaranth.hdl import Const, Module, Mux, Signal
from formal.checker import Checker, Scoreboard, held

from vtakit.hw.memory.write_master import WriteMaster
from vtakit.hw.params import CoreParams


class WritesAreWhole(Checker):
    """The write master with any bursts and beats and any AXI4 memory.

    The memory takes address and data in any order, and may wait for either before it takes the other. It answers a burst once it
    has accepted the burst and its last beat, the bursts in order; bursts and beats that are offered stay until they are taken.
    Of a beat's data one bit is free, its strobes are the opposite of it, the others are 0; without `contents`, all beats are
    alike, so only their number is checked.
    """

    def __init__(self, params: CoreParams, *, contents: bool = True) -> None:
        self._params, self._contents = params, contents
        super().__init__()

    def properties(self, m: Module) -> None:
        params = self._params
        m.submodules.master = dut = WriteMaster(params)
        aw, w, b, wanted = dut.axi.aw, dut.axi.w, dut.axi.b, dut.bursts.payload
        burst = self.free("burst", wanted.shape())
        bit = self.free("beat") if self._contents else Const(0, 1)
        m.d.comb += [
            dut.stop.eq(self.free("stop")), aw.ready.eq(self.free("aw_ready")), w.ready.eq(self.free("w_ready")),
            b.valid.eq(self.free("b_valid")), b.payload.resp.eq(self.free("b_resp", 2)),
            dut.bursts.valid.eq(self.free("burst_valid")), wanted.eq(burst),
            dut.beats.valid.eq(self.free("beat_valid")), dut.beats.payload.data.eq(bit),
            dut.beats.payload.strb.eq(~bit),
        ]
        self.assume(m, "a burst offered stays", held(m, dut.bursts.valid, dut.bursts.ready, wanted))
        self.assume(m, "a beat offered stays", held(m, dut.beats.valid, dut.beats.ready, dut.beats.payload))

        started, asks, sends, ends, answered = (Signal(name=name) for name in ("started", "asks", "sends", "ends", "answered"))
        m.d.comb += [
            started.eq(dut.bursts.valid & dut.bursts.ready), asks.eq(aw.valid & aw.ready), sends.eq(w.valid & w.ready),
            ends.eq(sends & w.payload.last), answered.eq(b.valid & b.ready),
        ]
        limit = params.outstanding + 1
        asked = Scoreboard(m, "asked", burst.shape(), limit)  # taken, not yet accepted by the memory
        unsent = Scoreboard(m, "unsent", range(params.burst_beats), limit)  # taken, beats not yet all sent
        open_ = Scoreboard(m, "open", 1, limit)  # taken, not yet answered
        kept = Scoreboard(m, "kept", 1, 4 * params.burst_beats + 3)  # beats here and not sent
        asked.update(started, burst, asks)
        unsent.update(started, burst.last, ends)
        open_.update(started, burst.final, answered)
        kept.update(dut.beats.valid & dut.beats.ready, dut.beats.payload.data, sends)
        beat, whole, accepted = Signal(range(params.burst_beats + 1)), Signal(range(limit + 1)), Signal(range(limit + 1))
        with m.If(sends):
            m.d.sync += beat.eq(Mux(w.payload.last, 0, beat + 1))
        # Bursts not yet answered: those whose data are sent, those whose addresses are.
        m.d.sync += [whole.eq(whole + ends - answered), accepted.eq(accepted + asks - answered)]
        self.assume(m, "the memory answers only what it has whole", ~b.valid | ((whole != 0) & (accepted != 0)))
        self.watch(
            start=started, aw_valid=aw.valid, aw_addr=aw.payload.addr, aw_len=aw.payload.len, w_valid=w.valid,
            w_last=w.payload.last, done=dut.done, idle=dut.idle, asked=asked.count, unsent=unsent.count,
            unanswered=open_.count, kept=kept.count,
        )
        due = Signal(range(limit * params.burst_beats + 1))  # beats of the bursts taken that are not sent
        m.d.sync += due.eq(due + Mux(started, burst.last + 1, 0) - sends)

        self.prove(m, "AW keeps its burst until it is accepted", held(m, aw.valid, aw.ready, aw.payload))
        self.prove(m, "W keeps its beat until it is accepted", held(m, w.valid, w.ready, w.payload))
        with m.If(aw.valid):
            self.prove(m, "AW carries the oldest burst", (asked.count != 0) & (aw.payload.addr == asked.oldest.address)
                       & (aw.payload.len == asked.oldest.last))
        self.prove(m, "a burst taken is on AW at once", aw.valid == (asked.count != 0))
        with m.If(w.valid):
            self.prove(m, "no data without a burst", unsent.count != 0)
            self.prove(m, "last is on the last beat", w.payload.last == (beat == unsent.oldest))
            self.prove(m, "the beats go out in order, none twice",
                       (kept.count != 0) & (w.payload.data == kept.oldest) & (w.payload.strb == ~kept.oldest))
        self.prove(m, "a burst taken has all its data here", due <= kept.count)
        waits = Signal(range(3))
        with m.If((unsent.count != 0) & ~w.valid):
            m.d.sync += waits.eq(waits + 1)
        with m.Else():
            m.d.sync += waits.eq(0)
        self.prove(m, "a burst's beats are offered at most two cycles after its address, accepted or not", waits < 3)
        self.prove(m, "no more bursts in flight than allowed", open_.count <= params.outstanding)
        self.prove(m, "idle: every burst taken is answered", dut.idle == (open_.count == 0))
        self.prove(m, "an answer is always accepted", b.ready)
        self.prove(m, "done: the answer to the last burst of a piece", dut.done == (answered & open_.oldest))
        self.prove(m, "an error is reported when an answer says so", dut.error == (answered & b.payload.resp[1]))
        self.prove(m, "stop: no burst is taken", ~(dut.stop & started))
        self.reach(m, "all data of a burst are accepted before its address", aw.valid & ~aw.ready & (unsent.count == 0))
        self.reach(m, "the limit, all addresses accepted", (open_.count == params.outstanding) & (asked.count == 0))
        self.reach(m, "a beat of a second burst behind the first", w.valid & (beat == 1) & (whole != 0))
        self.reach(m, "a piece is done while a burst starts", dut.done & started)
        self.reach(m, "stopped with a burst under way", dut.stop & sends)
