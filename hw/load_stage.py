"""The load stage: LOADs of INP and WGT."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.decoder import FAULT_BITS
from vtakit.hw.interfaces import COMMAND, INDEX_BITS, burst, layout, sram_write
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import LOAD, MEMORIES, MemType, Stage
from vtakit.hw.load_port import LoadPort
from vtakit.hw.load_writer import Target
from vtakit.hw.params import CoreParams
from vtakit.hw.retire import Retire
from vtakit.hw.stage import Cause, token_members, tokens_there

KINDS = (MemType.INP, MemType.WGT)


def target(params: CoreParams, kind: MemType) -> Target:
    """How a memory type that fills a scratchpad straight from the bus meets it."""
    memory = MEMORIES[kind]
    size, depth = memory.bytes_in(params.cfg), memory.depth_in(params.cfg)
    return Target(kind=kind, element_bytes=size, lanes=params.lanes(size, depth), depth=depth)


def sram_port(params: CoreParams, kind: MemType) -> wiring.Signature:
    """The write port of such a scratchpad: several elements a beat, or several beats an element."""
    to = target(params, kind)
    depth_log2 = to.depth.bit_length() - 1
    return sram_write(8 * to.element_bytes, depth_log2, lanes=to.lanes, slices=to.beats(params))


def connect_write(m: Module, params: CoreParams, to: Target, writes: stream.Interface, port: wiring.PureInterface) -> None:
    """From a load writer's stream to a scratchpad that is always ready."""
    write, beats = writes.payload, to.beats(params)
    value = Mux(write.zero, 0, write.data)
    m.d.comb += [
        writes.ready.eq(1), port.valid.eq(writes.valid), port.index.eq(write.index), port.count.eq(write.count),
        port.mask.eq(Mux(write.zero, ~0, 1 << write.beat) if beats > 1 else 1),
    ]
    for lane in range(to.lanes):
        bits = 8 * to.element_bytes
        m.d.comb += port.data[lane].eq(value.replicate(beats) if beats > 1 else value[lane * bits : (lane + 1) * bits])


def moves(word: Signal, cfg: VTAConfig) -> object:
    """Whether a LOAD writes anything."""
    f = data.View(layout(LOAD, cfg), word)
    return (f.x_size != 0) & ((f.y_size | f.y_pad_0 | f.y_pad_1) != 0)


class LoadStage(wiring.Component):
    """Members
    -------
    commands : ``In(stream)``                instructions, in order
    base_inp, base_wgt : ``In``              base registers
    window_low, window_high : ``In``         bytes of DRAM that may be read
    requests, returned : ``stream``          read bursts and their beats
    inp, wgt : ``Out(sram_write)``           the scratchpads
    pop_next, push_next                      tokens from and to compute
    fault, fault_index : ``Out``             a `Fault` and the number of its instruction
    cause : ``Out(3)``                       what the cycle was spent on
    waits : ``Out(1)``, index : ``Out``      an instruction waits for a token; its number
    empty : ``Out(1)``                       nothing is under way
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__({
            "commands": In(stream.Signature(COMMAND)),
            **{f"base_{kind.name.lower()}": In(params.address_bits) for kind in KINDS},
            "window_low": In(params.address_bits), "window_high": In(params.address_bits + 1),
            "requests": Out(stream.Signature(burst(params))),
            "returned": In(stream.Signature(params.bus_bits, always_ready=True)),
            **{kind.name.lower(): Out(sram_port(params, kind)) for kind in KINDS},
            **token_members(Stage.LOAD),
            "fault": Out(FAULT_BITS), "fault_index": Out(INDEX_BITS), "cause": Out(3), "waits": Out(1), "index": Out(INDEX_BITS),
            "empty": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        targets = [target(params, kind) for kind in KINDS]
        m.submodules.port = port = LoadPort(params, targets)
        m.submodules.retire = retire = Retire(1)
        connect(m, port.requests, flipped(self.requests))
        connect(m, flipped(self.returned), port.returned)
        for n, (kind, to) in enumerate(zip(KINDS, targets, strict=True)):
            connect_write(m, params, to, getattr(port, f"write{n}"), getattr(self, kind.name.lower()))

        command = self.commands.payload
        f = data.View(layout(LOAD, params.cfg), command.word)
        moving, start = Signal(), Signal()
        missing = tokens_there(m, self, Stage.LOAD, params.cfg, command.word, start)["pop_next"]
        m.d.comb += [
            moving.eq(moves(command.word, params.cfg)),
            start.eq(self.commands.valid & ~missing & retire.started.ready & (~moving | port.commands.ready)),
            self.commands.ready.eq(start),
            port.commands.valid.eq(self.commands.valid & ~missing & retire.started.ready & moving),
            port.commands.payload.command.eq(command),
            port.commands.payload.base.eq(Mux(f.memory_type == MemType.INP, self.base_inp, self.base_wgt)),
            port.may_write.eq(1), port.window_low.eq(self.window_low), port.window_high.eq(self.window_high),
            retire.started.valid.eq(start), retire.started.payload.unit.eq(moving),
            retire.started.payload.push_next.eq(f.push_next), retire.done.eq(port.done),
            self.push_next.eq(retire.push_next), self.empty.eq(retire.empty & ~self.commands.valid),
            self.waits.eq(self.commands.valid & missing & retire.empty), self.index.eq(command.index),
        ]
        with m.If(port.outside):
            m.d.comb += [self.fault.eq(Fault.SRAM_RANGE), self.fault_index.eq(port.outside_index)]
        with m.Elif(port.dram_outside):
            m.d.comb += [self.fault.eq(Fault.DRAM_RANGE), self.fault_index.eq(port.dram_outside_index)]
        with m.If(port.active & ~port.starved):
            m.d.comb += self.cause.eq(Cause.BUSY)
        with m.Elif(~retire.empty):
            m.d.comb += self.cause.eq(Cause.WAIT_MEMORY)
        with m.Elif(self.commands.valid & missing):
            m.d.comb += self.cause.eq(Cause.WAIT_NEXT)
        with m.Elif(self.commands.valid):
            m.d.comb += self.cause.eq(Cause.BUSY)
        with m.Else():
            m.d.comb += self.cause.eq(Cause.IDLE)
        return m


