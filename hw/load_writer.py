"""The scratchpad side of a LOAD: which elements are zeros and which come from DRAM, in the order in which they are written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import COMMAND, FAULT_BITS, INDEX_BITS, layout, read_beat
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import LOAD, MemType
from vtakit.hw.params import CoreParams

OfKind = Callable[[Sequence[Value | int]], Value]  # of one value for each target, that of the memory type in hand
COUNT_BITS = 18  # elements of a LOAD that fits a scratchpad, and more


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How one memory type meets the bus.

    element_bytes   in DRAM
    lanes           elements written at once at most; more than 1 only if several share a beat
    depth           elements of its scratchpad
    """

    kind: MemType
    element_bytes: int
    lanes: int
    depth: int

    def beats(self, params: CoreParams) -> int:
        """Beats that one element takes, at least 1."""
        return max(1, self.element_bytes // params.bus_bytes)

    def a_beat(self, params: CoreParams) -> int:
        """Elements that one beat holds, at least 1."""
        return max(1, params.bus_bytes // self.element_bytes)


def load_write(params: CoreParams) -> data.StructLayout:
    """What to write to a scratchpad.

    index   first element; it fits the scratchpad
    zero    `count` elements of zeros; otherwise `count` elements at the low end of `data`, or, of an element that is wider
            than the bus, beat number `beat`
    last    the element is complete with this
    """
    return data.StructLayout({"index": 16, "count": 7, "zero": 1, "beat": 9, "last": 1, "data": params.bus_bits})


def located_command(params: CoreParams) -> data.StructLayout:
    """A LOAD with the place of its first element inside a beat, in bytes."""
    return data.StructLayout({"command": COMMAND, "offset": params.bus_bytes_log2})


class LoadWriter(wiring.Component):
    """Walks rows and pads of one LOAD after the other.

    Members
    -------
    commands : ``In(stream)``           LOAD instructions that move something
    beats : ``In(stream)``              the data of their rows, each row from the beat that holds its first element
    write0 … : ``Out(stream)``          writes, one stream for each target
    next, end : ``Out``                 of the LOAD in hand: element that is written next, and a bound of those to come
    begins, done : ``Out(1)``           a LOAD is taken up; all of it is written
    active : ``Out(1)``                 a LOAD is in hand
    starved : ``Out(1)``                it waits for a beat
    fault, fault_index : ``Out``        the next element lies outside its scratchpad, or its data are an error: it is not
                                        written, ever; number of the LOAD
    """

    def __init__(self, params: CoreParams, targets: Sequence[Target]) -> None:
        self._params, self._targets = params, tuple(targets)
        super().__init__({
            "commands": In(stream.Signature(located_command(params))), "beats": In(stream.Signature(read_beat(params))),
            **{f"write{n}": Out(stream.Signature(load_write(params))) for n in range(len(self._targets))},
            "next": Out(COUNT_BITS), "end": Out(COUNT_BITS), "begins": Out(1), "done": Out(1), "active": Out(1),
            "starved": Out(1), "fault": Out(FAULT_BITS), "fault_index": Out(INDEX_BITS),
        })

    def elaborate(self, platform: object) -> Module:
        m, params, targets = Module(), self._params, self._targets
        current, setup = Signal(located_command(params)), Signal()
        f = data.View(layout(LOAD, params.cfg), current.command.word)
        writes = [getattr(self, f"write{n}") for n in range(len(targets))]
        mine = [f.memory_type == target.kind for target in targets]

        def of_kind(values: Sequence[Value | int]) -> Value:
            """The value of the memory type in hand."""
            chosen: Value | int = values[0]
            for hit, value in list(zip(mine, values, strict=True))[1:]:
                chosen = Mux(hit, value, chosen)
            return chosen if isinstance(chosen, Value) else Value.cast(chosen)

        # Where the walk is: row (pad rows included), phase of the row, elements left of the phase.
        row, left, leading, trailing = Signal(17), Signal(17), Signal(), Signal()
        across, data_end, row_end = Signal(17), Signal(17), Signal(17)
        m.d.comb += [
            across.eq(f.x_pad_0 + f.x_size + f.x_pad_1), data_end.eq(f.y_pad_0 + f.y_size), row_end.eq(data_end + f.y_pad_1),
        ]
        zero, wide, beat = Signal(), Signal(), Signal(9)
        count, step, available, at = Signal(7), Signal(7), Signal(7), Signal(6)
        fires, run_done, row_done, data_row, next_row = Signal(), Signal(), Signal(), Signal(), Signal(17)
        fits, legal, offset, ready = Signal(), Signal(), Signal(max(1, params.bus_bytes_log2)), Signal()
        error = ~zero & self.beats.valid & self.beats.payload.error
        lanes = of_kind([target.lanes for target in targets])
        a_beat = of_kind([target.a_beat(params) for target in targets])
        last_beat = of_kind([target.beats(params) - 1 for target in targets])
        m.d.comb += [
            data_row.eq((row >= f.y_pad_0) & (row < data_end)), zero.eq(leading | trailing), wide.eq(last_beat != 0),
            at.eq(of_kind_shift(offset, [t.element_bytes for t in targets], params, of_kind)),
            available.eq(a_beat - at),
            count.eq(self._smallest(m, lanes, left, Mux(zero | wide, 64, available))),
            step.eq(Mux(zero | ~wide | (beat == last_beat), count, 0)),
            fits.eq(self.next + count <= of_kind([target.depth for target in targets])),
            ready.eq(sum((hit & write.ready for hit, write in zip(mine, writes, strict=True)), start=0) != 0),
            legal.eq(self.active & ~setup & fits & ~error), fires.eq(legal & ready & (zero | self.beats.valid)),
            run_done.eq(fires & (left == step)), next_row.eq(row + 1),
            row_done.eq(run_done & (trailing | (leading & ~data_row) | (~zero & (f.x_pad_1 == 0)))),
            self.beats.ready.eq(fires & ~zero & (wide | (available == count) | (left == count))),
            self.done.eq(row_done & (next_row == row_end)),
            self.starved.eq(self.active & ~setup & ~zero & ~self.beats.valid),
            self.fault_index.eq(current.command.index),
        ]
        with m.If(self.active & ~setup & ~fits):
            m.d.comb += self.fault.eq(Fault.SRAM_RANGE)
        with m.Elif(self.active & ~setup & error):
            m.d.comb += self.fault.eq(Fault.BUS_READ)
        for hit, write, target in zip(mine, writes, targets, strict=True):
            # Elements that share a beat come to its low end.
            moved = self.beats.payload.data
            if target.a_beat(params) > 1:
                bits = 8 * target.element_bytes
                moved = Array(moved[n * bits :] for n in range(target.a_beat(params)))[at]
            m.d.comb += [
                write.valid.eq(legal & hit & (zero | self.beats.valid)),
                write.payload.index.eq(self.next), write.payload.count.eq(count), write.payload.zero.eq(zero),
                write.payload.beat.eq(beat), write.payload.last.eq(zero | (beat == last_beat)), write.payload.data.eq(moved),
            ]

        def begin_row(number: Value) -> list[object]:
            inside = (number >= f.y_pad_0) & (number < data_end)
            return [
                row.eq(number), leading.eq(~inside | (f.x_pad_0 != 0)), trailing.eq(0),
                left.eq(Mux(inside, Mux(f.x_pad_0 != 0, f.x_pad_0, f.x_size), across)),
            ]

        pitch = of_kind_pitch(f.x_stride, [t.element_bytes for t in targets], params, of_kind)
        row_offset = Signal.like(offset)
        with m.If(fires):
            m.d.sync += [self.next.eq(self.next + step), left.eq(left - step)]
            with m.If(~zero):
                m.d.sync += beat.eq(Mux(beat == last_beat, 0, beat + 1))
                with m.If(~wide):
                    m.d.sync += offset.eq(offset + count * of_kind([t.element_bytes for t in targets]))
                with m.If(left == step):
                    m.d.sync += [offset.eq(row_offset + pitch), row_offset.eq(row_offset + pitch)]
        with m.If(row_done):
            m.d.sync += begin_row(next_row)
        with m.Elif(run_done & leading):
            m.d.sync += [leading.eq(0), left.eq(f.x_size)]
        with m.Elif(run_done):
            m.d.sync += [trailing.eq(1), left.eq(f.x_pad_1)]
        with m.If(setup):
            m.d.sync += [*begin_row(Value.cast(0)), setup.eq(0), self.end.eq(f.sram_base + row_end * across)]

        m.d.comb += [self.commands.ready.eq(~self.active | self.done), self.begins.eq(self.commands.valid & self.commands.ready)]
        with m.If(self.commands.ready):
            first = data.View(layout(LOAD, params.cfg), self.commands.payload.command.word)
            m.d.sync += [
                self.active.eq(self.commands.valid), setup.eq(self.commands.valid), current.eq(self.commands.payload),
                self.next.eq(first.sram_base), self.end.eq(~0), beat.eq(0),
                offset.eq(self.commands.payload.offset), row_offset.eq(self.commands.payload.offset),
            ]
        return m

    def _smallest(self, m: Module, lanes: Value, left: Value, available: Value) -> Value:
        fewer = Signal(7, name="fewer")
        m.d.comb += fewer.eq(Mux(left < lanes, left, lanes))
        return Mux(available < fewer, available, fewer)


def of_kind_shift(offset: Signal, sizes: list[int], params: CoreParams, of_kind: OfKind) -> Value:
    """The number of the element, in its beat, that starts at byte `offset`."""
    return of_kind([offset >> (size.bit_length() - 1) if size < params.bus_bytes else 0 for size in sizes])


def of_kind_pitch(stride: Value, sizes: list[int], params: CoreParams, of_kind: OfKind) -> Value:
    """The low bits, in bytes, of a row pitch of `stride` elements."""
    return of_kind([(stride * size)[: params.bus_bytes_log2] if size < params.bus_bytes else 0 for size in sizes])
