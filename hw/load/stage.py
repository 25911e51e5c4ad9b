"""The load stage: LOADs of INP and WGT."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.interfaces import COMMAND, burst, layout, read_beat, sram_write
from vtakit.hw.isa.insns import LOAD, Feature, MemType, Stage
from vtakit.hw.issue.issue import Issue
from vtakit.hw.issue.stage import Cause, attribute, status, token_members
from vtakit.hw.load.port import LoadPort
from vtakit.hw.params import CoreParams
from vtakit.hw.timing import Storage, Target, load_targets, storage


def write_port(into: Storage) -> wiring.Signature:
    """Return the signature of a scratchpad's write port."""
    return sram_write(into.word_bits, into.depth_log2, lanes=into.lanes, slices=into.slices)


def connect_write(m: Module, params: CoreParams, to: Target, writes: stream.Interface, port: wiring.PureInterface) -> None:
    """From a load writer's stream to a scratchpad, which is always ready, but for pads of elements that take several writes."""
    write, beats, into = writes.payload, to.beats(params), storage(params, to.kind)
    pads: Value | int = 0
    if to.kind is MemType.INP and Feature.PAD_VALUE in params.features:
        pads = write.value[: params.cfg.inp_bits].replicate(params.bus_bits // params.cfg.inp_bits)
    value = Mux(write.pad, pads, write.data)
    m.d.comb += [port.valid.eq(writes.valid), port.mask.eq(1)]
    if beats == 1:
        m.d.comb += [
            writes.ready.eq(1), port.index.eq(write.index << into.parts.bit_length() - 1),
            port.count.eq(write.count * into.parts),
        ]
    else:
        # A beat is a slice of one word, or some words; a pad writes all slices of a word, or as many words, in a cycle.
        turns = into.turns
        turn, beat = Signal(range(turns), name=f"{to.kind.name.lower()}_turn"), write.beat[: beats.bit_length() - 1]
        slice_bits = into.slices.bit_length() - 1
        place = Cat(Const(0, into.lanes.bit_length() - 1), Mux(write.pad, turn, beat[slice_bits:])[: turns.bit_length() - 1])
        m.d.comb += [
            writes.ready.eq(~write.pad | (turn == turns - 1)), port.index.eq(Cat(place, write.index)), port.count.eq(into.lanes),
        ]
        if into.slices > 1:
            m.d.comb += port.mask.eq(Mux(write.pad, ~0, 1 << beat[:slice_bits]))
        with m.If(writes.valid & write.pad):
            m.d.sync += turn.eq(Mux(turn == turns - 1, 0, turn + 1))
    for lane in range(into.lanes):
        own = value.replicate(into.slices) if into.slices > 1 else value[lane * into.word_bits : (lane + 1) * into.word_bits]
        m.d.comb += port.data[lane].eq(own)


class LoadStage(wiring.Component):
    """Members
    -------
    commands : ``In(stream)``                instructions, in order
    base_inp, base_wgt : ``In``              base registers
    window_low, window_high : ``In``         bytes of DRAM that may be read
    requests, returned : ``stream``          read bursts and their beats
    inp, wgt : ``Out(sram_write)``           the scratchpads
    pop_next, push_next                      tokens from and to compute
    stop : ``In(1)``                         start nothing
    status : ``Out(status)``
    """

    def __init__(self, params: CoreParams) -> None:
        self._params, targets = params, load_targets(params)
        super().__init__({
            "commands": In(stream.Signature(COMMAND)),
            **{f"base_{to.kind.name.lower()}": In(params.address_bits) for to in targets},
            "window_low": In(params.address_bits), "window_high": In(params.address_bits + 1),
            "requests": Out(stream.Signature(burst(params))),
            "returned": In(stream.Signature(read_beat(params), always_ready=True)),
            **{to.kind.name.lower(): Out(write_port(storage(params, to.kind))) for to in targets},
            **token_members(Stage.LOAD), "stop": In(1), "status": Out(status()),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        targets = load_targets(params)
        m.submodules.port = port = LoadPort(params, targets)
        m.submodules.issue = issue = Issue(params.cfg, Stage.LOAD, 1)
        connect(m, port.requests, flipped(self.requests))
        connect(m, flipped(self.returned), port.returned)
        for n, to in enumerate(targets):
            connect_write(m, params, to, getattr(port, f"write{n}"), getattr(self, to.kind.name.lower()))
        connect(m, flipped(self.commands), issue.commands)
        connect(m, flipped(self.pop_next), issue.pop_next)
        issue.tell(m, self.status)

        command = self.commands.payload
        f = data.View(layout(LOAD, params.cfg), command.word)
        m.d.comb += [
            issue.unit.eq(command.works), issue.takes.eq(port.commands.ready), issue.done.eq(port.done),
            issue.stop.eq(self.stop), self.push_next.eq(issue.push_next),
            port.commands.valid.eq(issue.offers), port.commands.payload.command.eq(command),
            port.commands.payload.base.eq(Mux(f.memory_type == MemType.INP, self.base_inp, self.base_wgt)),
            port.may_write.eq(1), port.window_low.eq(self.window_low), port.window_high.eq(self.window_high),
            self.status.fault.eq(port.fault), self.status.fault_index.eq(port.fault_index),
        ]
        attribute(m, self.status.activity.cause, {
            Cause.BUSY: issue.starts | (~issue.none_started & ~port.starved),
            Cause.WAIT_MEMORY: ~issue.none_started,
            Cause.WAIT_NEXT: issue.lacks_next,
        })
        return m
