"""The store stage: a STORE retires, and the stage is empty, only when the memory has accepted all that was to be written."""

from amaranth.hdl import Module, Mux, Signal
from formal.checker import Checker, Scoreboard

from vtakit.hw.interfaces import layout
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import STORE, MemType, Opcode
from vtakit.hw.params import CoreParams
from vtakit.hw.store.stage import StoreStage

BYTES = 8  # bits of the byte counters: they wrap, and are never half their range apart


class WriteCounter:
    """Counts what a memory behind the write channels accepted, and answers: only bursts that it has whole, in order."""

    def __init__(self, m: Module, checker: Checker, params: CoreParams, axi: object) -> None:
        aw, w, b = axi.aw, axi.w, axi.b
        self.answered = Signal(BYTES, name="answered_bytes")  # bytes of the bursts that were answered
        self.open = Signal(range(params.outstanding + 3), name="open_bursts")  # accepted addresses without an answer
        sent, in_burst = Signal(BYTES), Signal(BYTES)
        whole = Scoreboard(m, "whole", BYTES, params.outstanding + 1)  # bytes of the bursts sent and not answered
        m.d.comb += [
            aw.ready.eq(checker.free("aw_ready")), w.ready.eq(checker.free("w_ready")), b.valid.eq(checker.free("b_valid")),
            b.payload.resp.eq(checker.free("b_resp", 2)), sent.eq(sum(bit for bit in w.payload.strb)),
        ]
        sends, answers = w.valid & w.ready, b.valid & b.ready
        whole.update(sends & w.payload.last, in_burst + sent, answers)
        with m.If(sends):
            m.d.sync += in_burst.eq(Mux(w.payload.last, 0, in_burst + sent))
        m.d.sync += self.open.eq(self.open + (aw.valid & aw.ready) - answers)
        with m.If(answers):
            m.d.sync += self.answered.eq(self.answered + whole.oldest)
        checker.assume(m, "the memory answers only what it has whole", ~b.valid | ((whole.count != 0) & (self.open != 0)))
        self.quiet = ~aw.valid & ~w.valid & (self.open == 0)


class StoresRetireWhenWritten(Checker):
    """The store stage with any STOREs (fields within `bits`), tokens, accumulator and AXI4 memory; one STORE is watched."""

    def __init__(self, params: CoreParams, bits: dict[str, int]) -> None:
        self._params, self._bits = params, bits
        super().__init__()

    def properties(self, m: Module) -> None:
        params, cfg = self._params, self._params.cfg
        m.submodules.stage = dut = StoreStage(params)
        word = Signal(layout(STORE, cfg))
        m.d.comb += [word.opcode.eq(Opcode.STORE), word.memory_type.eq(MemType.OUT)]
        for name, width in self._bits.items():
            m.d.comb += word[name].eq(self.free(name, width))
        m.d.comb += [
            dut.commands.valid.eq(self.free("command_valid")), dut.commands.payload.word.eq(word), dut.stop.eq(self.free("stop")),
            dut.acc.data.eq(self.free("acc", 1)), dut.acc_ready.eq(self.free("acc_ready")),
            dut.pop_prev.valid.eq(self.free("token")), dut.window_high.eq(self.free("window_high", params.address_bits)),
        ]
        before, begun = Signal(params.address_bits), Signal()
        m.d.sync += [before.eq(dut.window_high), begun.eq(1)]
        self.assume(m, "the window does not change", ~begun | (before == dut.window_high))
        index = self.free("index", 4)
        m.d.comb += dut.commands.payload.index.eq(index)
        m.d.comb += dut.commands.payload.works.eq((word.x_size != 0) & (word.y_size != 0))
        written = WriteCounter(m, self, params, dut.axi)

        # `due`: bytes that the STOREs started so far are to write; `bound`: those up to the STORE that is watched.
        starts, retires = Signal(), dut.status.activity.retires
        due, begin, bound, after = Signal(BYTES), Signal(BYTES), Signal(BYTES), Signal(BYTES)
        under_way, before_it, watching, number = Signal(4), Signal(4), Signal(), Signal(4)
        m.d.comb += [
            starts.eq(dut.commands.valid & dut.commands.ready), after.eq(due + word.x_size * word.y_size * cfg.out_bytes),
        ]
        m.d.sync += under_way.eq(under_way + starts - retires)
        with m.If(starts):
            m.d.sync += due.eq(after)
        with m.If(~watching & starts & self.free("watch_this")):
            m.d.sync += [watching.eq(1), begin.eq(due), bound.eq(after), before_it.eq(under_way - retires), number.eq(index)]
        with m.Elif(watching & retires):
            m.d.sync += before_it.eq(before_it - 1)
            with m.If(before_it == 0):
                m.d.sync += watching.eq(0)
        self.watch(
            start=starts, retires=retires, empty=dut.status.empty, aw_valid=dut.axi.aw.valid, w_valid=dut.axi.w.valid,
            strobe=dut.axi.w.payload.strb, w_last=dut.axi.w.payload.last, open=written.open, due=due, answered=written.answered,
            under_way=under_way, watching=watching, before_it=before_it, bound=bound,
        )
        self.prove(m, "a STORE retires only when all its bytes were accepted and answered",
                   ~(watching & retires & (before_it == 0)) | ~(written.answered - bound)[BYTES - 1])
        error = dut.axi.b.valid & dut.axi.b.ready & dut.axi.b.payload.resp[1]
        left = Signal(BYTES)  # bytes of the STORE that are not answered, as long as any of it is
        m.d.comb += left.eq(bound - written.answered)
        its_own = watching & ~(written.answered - begin)[BYTES - 1] & (left != 0) & ~left[-1]
        with m.If(error):
            self.prove(m, "a write's error is told at once", dut.status.fault == Fault.BUS_WRITE)
            self.prove(m, "it names the STORE whose bytes they were", ~its_own | (dut.status.fault_index == number))
        self.reach(m, "an error while an older STORE has yet to retire", error & its_own & (before_it != 0))
        self.prove(m, "a token is given only when a STORE retires", ~dut.push_prev | retires)
        self.prove(m, "no STORE retires that was not started", ~retires | (under_way != 0))
        with m.If(dut.status.empty):
            self.prove(m, "empty: nothing is on the write channels, nothing waits for an answer", written.quiet & dut.idle)
            self.prove(m, "empty: all that was to be written is", written.answered == due)
            self.prove(m, "empty: every STORE has retired", under_way == 0)
        with m.If(dut.idle):
            self.prove(m, "idle: nothing is on the write channels, nothing waits for an answer", written.quiet)
        stopped = Signal()
        m.d.sync += stopped.eq(dut.idle & dut.stop)
        self.prove(m, "idle and stopped: it stays idle", ~stopped | dut.idle)
        self.reach(m, "a STORE of two rows retires while another is under way",
                   (bound > 2) & watching & retires & (under_way == 2))
        self.reach(m, "empty after a STORE", dut.status.empty & (due != 0))
