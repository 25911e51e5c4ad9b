"""One reader of DRAM for LOADs: addresses on one side, scratchpad writes on the other, memory's delay between them."""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.interfaces import COMMAND, FAULT_BITS, INDEX_BITS, burst, layout, read_beat
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import LOAD, PAD_LOAD, Feature, Opcode
from vtakit.hw.load.planner import COUNT_BITS
from vtakit.hw.load.writer import LoadWriter, load_write
from vtakit.hw.memory.bursts import BurstGenerator
from vtakit.hw.memory.read_buffer import ReadBuffer
from vtakit.hw.params import CoreParams
from vtakit.hw.timing import LOADS_AHEAD, Target


class LoadPort(wiring.Component):
    """Runs LOAD instructions that move something, in order; the reads of the next are under way while one is written.

    Members
    -------
    commands : ``In(stream)``               LOAD instructions, with the base register of their memory type
    may_write : ``In(1)``                   the oldest LOAD that is not begun may write to its scratchpad
    requests, returned : ``stream``         bursts and their beats
    write0 … : ``Out(stream)``              scratchpad writes, one stream for each target
    window_low, window_high : ``In``        bytes of DRAM that may be read
    next, end, begins, done, starved        of the writer
    fault, fault_index : ``Out``            of the writer, or a row leaves the window; number of its LOAD
    """

    def __init__(self, params: CoreParams, targets: Sequence[Target]) -> None:
        self._params, self._targets = params, tuple(targets)
        super().__init__({
            "commands": In(stream.Signature(data.StructLayout({"command": COMMAND, "base": params.address_bits}))),
            "may_write": In(1),
            "requests": Out(stream.Signature(burst(params))),
            "returned": In(stream.Signature(read_beat(params), always_ready=True)),
            **{f"write{n}": Out(stream.Signature(load_write(params))) for n in range(len(self._targets))},
            "window_low": In(params.address_bits), "window_high": In(params.address_bits + 1),
            "next": Out(COUNT_BITS), "end": Out(COUNT_BITS), "begins": Out(1), "done": Out(1),
            "starved": Out(1), "fault": Out(FAULT_BITS), "fault_index": Out(INDEX_BITS),
        })

    def elaborate(self, platform: object) -> Module:
        m, params, targets = Module(), self._params, self._targets
        m.submodules.bursts = bursts = BurstGenerator(params)
        m.submodules.buffer = buffer = ReadBuffer(params)
        m.submodules.writer = writer = LoadWriter(params, targets)
        m.submodules.queue = queue = fifo.SyncFIFO(width=COMMAND.size, depth=LOADS_AHEAD)
        connect(m, bursts.bursts, buffer.bursts)
        connect(m, buffer.requests, flipped(self.requests))
        connect(m, flipped(self.returned), buffer.returned)
        connect(m, buffer.beats, writer.beats)
        for n in range(len(targets)):
            connect(m, getattr(writer, f"write{n}"), flipped(getattr(self, f"write{n}")))

        f = data.View(layout(LOAD, params.cfg), self.commands.payload.command.word)

        def bytes_of(count: Value) -> Value:
            """`count` elements of the memory type in bytes."""
            found: Value = count << (targets[0].element_bytes.bit_length() - 1)
            for target in targets[1:]:
                found = Mux(f.memory_type == target.kind, count << (target.element_bytes.bit_length() - 1), found)
            return found

        address = Signal.like(bursts.rows.payload.address)
        m.d.comb += [
            address.eq(self.commands.payload.base + bytes_of(dram_base(params, self.commands.payload.command.word))),
            self.commands.ready.eq(bursts.rows.ready & queue.w_rdy),
            bursts.rows.valid.eq(self.commands.valid & queue.w_rdy),
            bursts.rows.payload.address.eq(address), bursts.rows.payload.count.eq(f.y_size),
            bursts.rows.payload.row_bytes.eq(bytes_of(f.x_size)), bursts.rows.payload.pitch_bytes.eq(bytes_of(f.x_stride)),
            bursts.window_low.eq(self.window_low), bursts.window_high.eq(self.window_high),
            queue.w_en.eq(self.commands.valid & bursts.rows.ready), queue.w_data.eq(self.commands.payload.command),
            writer.commands.valid.eq(queue.r_rdy), writer.commands.payload.eq(queue.r_data),
            queue.r_en.eq(writer.commands.ready), writer.may_write.eq(self.may_write),
            self.next.eq(writer.next), self.end.eq(writer.end), self.begins.eq(writer.begins), self.done.eq(writer.done),
            self.starved.eq(writer.starved),
        ]
        located = Signal(INDEX_BITS)  # number of the LOAD whose addresses are being made
        with m.If(self.commands.valid & self.commands.ready):
            m.d.sync += located.eq(self.commands.payload.command.index)
        with m.If(writer.fault):
            m.d.comb += [self.fault.eq(writer.fault), self.fault_index.eq(writer.fault_index)]
        with m.Elif(bursts.outside):
            m.d.comb += [self.fault.eq(Fault.DRAM_RANGE), self.fault_index.eq(located)]
        return m


def dram_base(params: CoreParams, word: Value) -> Value:
    """The first element in DRAM of a LOAD."""
    f = data.View(layout(LOAD, params.cfg), word)
    if Feature.PAD_VALUE not in params.features:
        return f.dram_base
    return Mux(f.opcode == Opcode.PAD_LOAD, data.View(layout(PAD_LOAD, params.cfg), word).dram_base, f.dram_base)
