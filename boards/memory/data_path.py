"""Words of the chip and beats of the port: what comes behind a READ, and what goes beside a WRITE."""

from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.boards.memory.signals import beats_a_column, bits, column, words_a_beat
from vtakit.hw.dram import Dram
from vtakit.hw.interfaces import axi_read, axi_write
from vtakit.hw.params import CoreParams
from vtakit.hw.pipeline import Queue, Slice

COMMAND_CLOCKS = 2  # from the register of a command, over that of the pins, to the chip
CAPTURE_CLOCKS = 1  # from the pins to the register of the words


class _Burst:
    """Counts the words of column commands: `start` in a clock makes that one and the following ones active."""

    def __init__(self, m: Module, params: CoreParams, dram: Dram, start: Any, begun: Any) -> None:
        beats = beats_a_column(params, dram)
        in_beat = words_a_beat(params, dram)
        word, kept, running = Signal(range(max(dram.burst, in_beat))), Signal.like(begun), Signal()
        self.active, self.column = Signal(), Signal.like(begun)
        self.ends_command, self.ends_beat = Signal(), Signal()
        self.word = word[: bits(in_beat)]  # in its beat
        beat = word[bits(in_beat) :] if beats > 1 else None
        m.d.comb += [
            self.active.eq(start | running), self.column.eq(Mux(start, begun, kept)),
            self.ends_command.eq(word[: bits(dram.burst)].all()), self.ends_beat.eq(self.word.all()),
        ]
        m.d.sync += [kept.eq(self.column), running.eq(self.active & ~self.ends_command)]
        with m.If(self.active):
            m.d.sync += word.eq(word + 1)
        self.keep, self.is_last = Signal(), Signal()  # the beat is wanted; it is the last wanted one
        m.d.comb += [
            self.keep.eq(self.column.keep.bit_select(beat, 1) if beat is not None else self.column.keep),
            self.is_last.eq((self.column.keep >> (beat + 1)) == 0 if beat is not None else 1),
        ]


class ReadPath(wiring.Component):
    """Members
    -------
    start, column : ``In``    a READ stands in the register of commands
    words : ``In``            of the chip, from a register
    r : ``Out(stream)``       beats; there is always room for what has been asked for
    """

    def __init__(self, params: CoreParams, dram: Dram, outstanding: int) -> None:
        self._params, self._dram, self._depth = params, dram, outstanding * params.burst_beats
        super().__init__({
            "start": In(1), "column": In(column(params, dram)), "words": In(dram.width),
            "r": Out(stream.Signature(axi_read(params).members["r"].signature.members["payload"].shape)),
        })

    def elaborate(self, platform: object) -> Module:
        m, params, dram = Module(), self._params, self._dram
        waiting = data.StructLayout({"valid": 1, "column": column(params, dram)})
        line = [Signal(waiting, name=f"waiting{n}") for n in range(COMMAND_CLOCKS + dram.tcas + CAPTURE_CLOCKS - 1)]
        m.d.sync += [line[0].valid.eq(self.start), line[0].column.eq(self.column)]
        m.d.sync += [after.eq(before) for before, after in pairwise(line)]
        burst = _Burst(m, params, dram, line[-1].valid, line[-1].column)
        earlier = Signal((words_a_beat(params, dram) - 1) * dram.width, reset_less=True)
        beat = Cat(earlier, self.words)
        with m.If(burst.active):  # between the commands of one beat there may be a refresh
            m.d.sync += earlier.eq(beat[dram.width :])
        shape = data.StructLayout({"data": params.bus_bits, "last": 1})
        m.submodules.beats = beats = fifo.SyncFIFOBuffered(width=params.bus_bits + 1, depth=self._depth)
        m.submodules.out = out = Slice(shape)
        # A beat goes round the queue while that is empty.
        complete, passes = Signal(), Signal()
        whole = Signal(shape)
        m.d.comb += [
            complete.eq(burst.active & burst.ends_beat & burst.keep), passes.eq(out.i.ready & (beats.level == 0)),
            whole.data.eq(beat), whole.last.eq(burst.column.ends & burst.is_last),
            beats.w_en.eq(complete & ~passes), beats.w_data.eq(whole), beats.r_en.eq(out.i.ready),
            out.i.valid.eq(Mux(passes, complete, beats.r_rdy)), out.i.payload.eq(Mux(passes, whole, beats.r_data)),
            self.r.valid.eq(out.o.valid), out.o.ready.eq(self.r.ready), self.r.payload.data.eq(out.o.payload.data),
            self.r.payload.last.eq(out.o.payload.last),
        ]
        return m


class WritePath(wiring.Component):
    """Members
    -------
    start, column : ``In``     a WRITE stands in the register of commands
    w : ``In(stream)``         beats of the port
    arrived : ``Out(1)``       the last beat of a burst has been taken
    words, mask, drives : ``Out``   for the registers of the pins, beside the command
    written : ``Out(1)``       the last word of a burst goes out
    """

    def __init__(self, params: CoreParams, dram: Dram, outstanding: int) -> None:
        self._params, self._dram, self._depth = params, dram, outstanding * params.burst_beats
        super().__init__({
            "start": In(1), "column": In(column(params, dram)),
            "w": In(stream.Signature(axi_write(params).members["w"].signature.members["payload"].shape)),
            "arrived": Out(1), "words": Out(dram.width), "mask": Out(dram.width // 8), "drives": Out(1), "written": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, params, dram = Module(), self._params, self._dram
        m.submodules.beats = beats = Queue(self.w.payload.shape(), self._depth)
        connect(m, flipped(self.w), beats.i)
        burst = _Burst(m, params, dram, self.start, self.column)
        beat, lanes = beats.o.payload, dram.width // 8
        m.d.comb += [
            self.arrived.eq(self.w.valid & self.w.ready & self.w.payload.last), self.drives.eq(burst.active),
            self.words.eq(beat.data.word_select(burst.word, dram.width)),
            self.mask.eq(Mux(burst.active, Mux(burst.keep, ~beat.strb.word_select(burst.word, lanes), (1 << lanes) - 1), 0)),
            beats.o.ready.eq(burst.active & burst.keep & burst.ends_beat),
            self.written.eq(burst.active & burst.ends_command & burst.column.ends),
        ]
        return m
