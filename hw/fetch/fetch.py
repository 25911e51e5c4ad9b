"""Instruction fetch: streams the program from DRAM ahead of the stages and sorts it into their queues."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.fetch.decoder import Decoder
from vtakit.hw.interfaces import COMMAND, FAULT_BITS, INDEX_BITS, burst, read_beat
from vtakit.hw.isa.config import INSN_BITS, INSN_BYTES
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import COMMAND_QUEUE_DEPTH, Stage
from vtakit.hw.isa.published import overwrite_bit
from vtakit.hw.memory.bursts import BurstGenerator
from vtakit.hw.memory.read_buffer import ReadBuffer
from vtakit.hw.params import CoreParams
from vtakit.hw.pipeline import Queue, Slice


class Fetch(wiring.Component):
    """Reads `count` instructions from byte `address` once `start` is given.

    Members
    -------
    start, address, count : ``In``         where the program lies
    requests, returned : ``stream``        bursts and their beats
    load, compute, store : ``Out(stream)`` each stage's instructions, in order
    fault, fault_index : ``Out``           an instruction that the instruction set does not know, or that cannot be read; or
                                           there is none, or the first that lies beyond the address space
    ended : ``Out(1)``                     every instruction is in a queue
    blocked : ``Out(1)``                   the next instruction waits for room in its stage's queue
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__({
            "start": In(1), "address": In(params.address_bits), "count": In(INDEX_BITS),
            "requests": Out(stream.Signature(burst(params))),
            "returned": In(stream.Signature(read_beat(params), always_ready=True)),
            **{stage.name.lower(): Out(stream.Signature(COMMAND)) for stage in Stage},
            "fault": Out(FAULT_BITS), "fault_index": Out(INDEX_BITS), "ended": Out(1), "blocked": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        m.submodules.bursts = bursts = BurstGenerator(params)
        m.submodules.buffer = buffer = ReadBuffer(params)
        m.submodules.decoder = decoder = Decoder(params)
        connect(m, bursts.bursts, buffer.bursts)
        connect(m, buffer.requests, flipped(self.requests))
        connect(m, flipped(self.returned), buffer.returned)
        m.d.comb += [
            bursts.window_high.eq(1 << params.address_bits), bursts.rows.valid.eq(self.start),
            bursts.rows.payload.address.eq(self.address), bursts.rows.payload.count.eq(1),
            bursts.rows.payload.row_bytes.eq(self.count * INSN_BYTES),
        ]
        valid, word, error, taken = self._instructions(m, buffer)

        # Instructions pass two registers: before they are decoded, and before they go to their queue.
        index = Signal(INDEX_BITS)
        left = Signal(INDEX_BITS)
        any_left = Signal()  # left is not 0
        fetched = data.StructLayout({"word": INSN_BITS, "index": INDEX_BITS, "error": 1, "is_last": 1})
        m.submodules.fetched = between = Slice(fetched)
        coming, now = between.i.payload, between.o.payload
        decoded = Signal(data.StructLayout({"command": COMMAND, "stage": 2, "fault": FAULT_BITS, "legal": 1}), reset_less=True)
        has_decoded = Signal()
        sent = Signal()
        known = Const(~overwrite_bit(params.cfg), INSN_BITS)  # in the published instruction set; stages look at no other free bit
        m.d.comb += [
            between.i.valid.eq(valid & any_left), taken.eq(between.i.valid & between.i.ready), coming.word.eq(word),
            coming.index.eq(index), coming.error.eq(error), coming.is_last.eq(left == 1),
            decoder.word.eq(now.word), decoder.is_last.eq(now.is_last), between.o.ready.eq(~has_decoded | sent),
            self.ended.eq(~any_left & ~between.o.valid & ~has_decoded), self.blocked.eq(has_decoded & ~sent),
        ]
        with m.If(between.o.ready):
            m.d.sync += [
                has_decoded.eq(between.o.valid), decoded.command.word.eq(now.word & known if params.published else now.word),
                decoded.command.index.eq(now.index), decoded.command.works.eq(decoder.works), decoded.stage.eq(decoder.stage),
                decoded.fault.eq(Mux(now.error, Fault.BUS_FETCH, decoder.fault)),
                decoded.legal.eq(~now.error & (decoder.fault == 0)),
            ]
        with m.If(taken):
            m.d.sync += [index.eq(index + 1), left.eq(left - 1), any_left.eq(left != 1)]
        with m.If(self.start):
            m.d.sync += [index.eq(0), left.eq(self.count), any_left.eq(self.count != 0)]
        missing = Signal()
        first_outside = Signal(INDEX_BITS)
        m.d.sync += first_outside.eq((-self.address)[INSN_BYTES.bit_length() - 1 :])  # counts where a program leaves the space
        with m.If(self.start):
            m.d.sync += missing.eq(self.count == 0)
        with m.If(missing):
            m.d.comb += self.fault.eq(Fault.NO_FINISH)
        with m.Elif(bursts.outside):
            m.d.comb += [self.fault.eq(Fault.DRAM_RANGE), self.fault_index.eq(first_outside)]
        with m.Elif(has_decoded):
            m.d.comb += [self.fault.eq(decoded.fault), self.fault_index.eq(decoded.command.index)]
        for stage in Stage:
            name = stage.name.lower()
            m.submodules[f"{name}_queue"] = queue = Queue(COMMAND, COMMAND_QUEUE_DEPTH - 2)
            mine = has_decoded & (decoded.stage == stage) & decoded.legal
            m.d.comb += [queue.i.valid.eq(mine), queue.i.payload.eq(decoded.command)]
            connect(m, queue.o, flipped(getattr(self, name)))
            with m.If(mine):
                m.d.comb += sent.eq(queue.i.ready)
        return m

    def _instructions(self, m: Module, buffer: ReadBuffer) -> tuple[Signal, Signal, Signal, Signal]:
        """From beats to instructions: a valid flag, the word, whether it is an error, and a signal to drive when it is taken."""
        bus = self._params.bus_bits
        valid = Signal()
        word = Signal(INSN_BITS)
        error = Signal()
        taken = Signal()
        beat = buffer.beats.payload
        if bus < INSN_BITS:
            pieces = INSN_BITS // bus
            kept = Signal(INSN_BITS - bus)
            held = Signal(range(pieces))
            broken = Signal()
            whole = held == pieces - 1
            m.d.comb += [
                valid.eq(buffer.beats.valid & whole), word.eq(Cat(kept, beat.data)),
                error.eq(broken | beat.error),
                buffer.beats.ready.eq(~whole | taken),
            ]
            with m.If(buffer.beats.valid & buffer.beats.ready):
                m.d.sync += [
                    kept.eq(Cat(kept, beat.data)[bus:]), held.eq(Mux(whole, 0, held + 1)),
                    broken.eq(~whole & (broken | beat.error)),
                ]
        else:
            lanes = bus // INSN_BITS
            lane = Signal(range(max(2, lanes)))
            m.d.comb += [
                valid.eq(buffer.beats.valid), word.eq(beat.data.word_select(lane, INSN_BITS)), error.eq(beat.error),
                buffer.beats.ready.eq(taken & (lane == lanes - 1)),
            ]
            with m.If(self.start):
                m.d.sync += lane.eq(self.address[4:] & (lanes - 1))
            with m.Elif(taken):
                m.d.sync += lane.eq((lane + 1) & (lanes - 1))
        return valid, word, error, taken
