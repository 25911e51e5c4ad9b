"""From LOAD instructions to pieces: what one cycle writes to a scratchpad, pads or data, in the order of the elements."""

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import COMMAND, INDEX_BITS, layout
from vtakit.hw.isa.insns import LOAD, PAD_LOAD, Feature, Opcode
from vtakit.hw.params import CoreParams
from vtakit.hw.timing import Target

COUNT_BITS = 18  # elements of a LOAD that fits a scratchpad, and more
SIDE_BITS = 17  # rows and columns, pads included


def load_piece(targets: Sequence[Target]) -> data.StructLayout:
    """Return the layout of a write in one cycle.

    target      who is written
    count       elements, at least 1
    whole       they are complete with this: false for all but the last beat of an element that is wider than the bus
    pad         pads, not data
    value       of the pads
    at          place of the first element in its beat
    beat        number of the beat in its element
    ends_beat   no later piece needs the beat
    begins, ends    first and last of its LOAD
    base, bound     of its LOAD: first element, and the one after the last
    outside     an element of the LOAD lies outside its scratchpad
    index       number of the instruction
    """
    return data.StructLayout({
        "target": range(len(targets)), "count": 7, "whole": 1, "pad": 1, "value": 8, "at": 6, "beat": 9, "ends_beat": 1,
        "begins": 1, "ends": 1, "base": 16, "bound": COUNT_BITS, "outside": 1, "index": INDEX_BITS,
    })


class LoadPlanner(wiring.Component):
    """Walks rows and pads. While one LOAD is walked, the size of the next is worked out.

    Members
    -------
    commands : ``In(stream)``    LOAD instructions that write something
    pieces : ``Out(stream)``     their pieces, one a cycle
    """

    def __init__(self, params: CoreParams, targets: Sequence[Target]) -> None:
        self._params, self._targets = params, tuple(targets)
        super().__init__({
            "commands": In(stream.Signature(COMMAND)), "pieces": Out(stream.Signature(load_piece(self._targets))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan = Signal(self._plan(), reset_less=True)
        planned = Signal()
        takes = Signal()
        self._size(m, plan, planned, takes)
        self._walk(m, plan, planned, takes)
        return m

    def _plan(self) -> data.StructLayout:
        """A LOAD whose size is known."""
        return data.StructLayout({
            "command": COMMAND, "target": range(len(self._targets)), "across": SIDE_BITS, "data_end": SIDE_BITS,
            "rows": SIDE_BITS, "bound": COUNT_BITS, "outside": 1,
        })

    def _size(self, m: Module, plan: data.View, planned: Signal, takes: Signal) -> None:
        """Work out how many elements a LOAD writes, in three cycles, and whether they fit."""
        f = data.View(layout(LOAD, self._params.cfg), plan.command.word)
        total = Signal(2 * SIDE_BITS)
        stage = Signal(2)  # 0 none, 1 taken, 2 sides known, 3 total known
        bound = Signal(2 * SIDE_BITS + 1)
        target: Value | int = 0
        for n, kind in enumerate(t.kind for t in self._targets):
            target = Mux(f.memory_type == kind, n, target)
        m.d.comb += [
            bound.eq(f.sram_base + total), self.commands.ready.eq((stage == 0) & (~planned | takes)),
        ]
        m.d.sync += total.eq(plan.rows * plan.across)
        with m.If(takes):
            m.d.sync += planned.eq(0)
        with m.Switch(stage):
            with m.Case(0), m.If(self.commands.valid & self.commands.ready):
                m.d.sync += [plan.command.eq(self.commands.payload), stage.eq(1)]
            with m.Case(1):
                m.d.sync += [
                    plan.across.eq(f.x_pad_0 + f.x_size + f.x_pad_1), plan.data_end.eq(f.y_pad_0 + f.y_size),
                    plan.rows.eq(f.y_pad_0 + f.y_size + f.y_pad_1), plan.target.eq(target), stage.eq(2),
                ]
            with m.Case(2):
                m.d.sync += stage.eq(3)
            with m.Case(3):
                depth = of_target(plan.target, [t.depth for t in self._targets])
                m.d.sync += [plan.bound.eq(bound), plan.outside.eq(bound > depth), planned.eq(1), stage.eq(0)]

    def _walk(self, m: Module, plan: data.View, planned: Signal, takes: Signal) -> None:
        params, targets = self._params, self._targets
        now = Signal(self._plan(), reset_less=True)
        active = Signal()
        first = Signal()
        f = data.View(layout(LOAD, params.cfg), now.command.word)

        def of_kind(values: Sequence[int]) -> Value:
            return of_target(now.target, values)

        lanes = of_kind([t.lanes for t in targets])
        a_beat = of_kind([t.a_beat(params) for t in targets])
        last_beat = of_kind([t.beats(params) - 1 for t in targets])
        place_bits = max(t.a_beat(params) for t in targets).bit_length() - 1

        # Where the walk is: row, phase of the row, elements left of the phase, place in the beat, beat of the element; and
        # how many elements a piece may have here.
        next_row = Signal(SIDE_BITS)
        left = Signal(SIDE_BITS)
        leading = Signal()
        trailing = Signal()
        place = Signal(6)
        row_place = Signal(6)
        beat = Signal(9)
        most = Signal(7)
        moves, ends_run, ends_row, ends = (Signal(name=name) for name in ("moves", "ends_run", "ends_row", "ends"))
        data_row = Signal()
        past = Signal(7)
        pad = leading | trailing
        whole = pad | (beat == last_beat)  # an element is complete with this piece
        piece = self.pieces.payload
        m.d.comb += [
            moves.eq(active & (~self.pieces.valid | self.pieces.ready)), past.eq(place + most),
            ends_run.eq(whole & (left <= most)),
            ends_row.eq(ends_run & (trailing | (leading & ~data_row) | (~pad & (f.x_pad_1 == 0)))),
            ends.eq(ends_row & (next_row == now.rows)), takes.eq(planned & ~active),
        ]
        with m.If(self.pieces.ready):
            m.d.sync += self.pieces.valid.eq(0)

        def most_at(at: Value) -> Value:
            room = a_beat - at
            return Mux(room < lanes, room, lanes)

        def begin_row(plan: data.View, number: Value, at: Value, lanes: Value, most_at_row: Value) -> list[object]:
            fields = data.View(layout(LOAD, params.cfg), plan.command.word)
            inside = (number >= fields.y_pad_0) & (number < plan.data_end)
            pads = ~inside | (fields.x_pad_0 != 0)
            return [
                next_row.eq(number + 1), data_row.eq(inside), leading.eq(pads), trailing.eq(0), place.eq(at), row_place.eq(at),
                left.eq(Mux(inside, Mux(fields.x_pad_0 != 0, fields.x_pad_0, fields.x_size), plan.across)),
                most.eq(Mux(pads, lanes, most_at_row)),
            ]

        def in_beat(value: Value, per_beat: Value) -> Value:
            """The place in its beat of the element that lies `value` elements from an aligned one."""
            return (value & (per_beat - 1))[:place_bits] if place_bits else Const(0, 1)

        new_place = Mux(data_row, in_beat(row_place + f.x_stride, a_beat), row_place)  # of the next row
        with m.If(moves):
            m.d.sync += [
                self.pieces.valid.eq(1), first.eq(0), piece.target.eq(now.target), piece.pad.eq(pad), piece.at.eq(place),
                piece.value.eq(pad_value(params, now.command.word)),
                piece.beat.eq(beat), piece.count.eq(Mux(ends_run, left, most)), piece.whole.eq(whole), piece.begins.eq(first),
                piece.ends.eq(ends), piece.ends_beat.eq((last_beat != 0) | ends_run | (past == a_beat)),
                piece.base.eq(f.sram_base), piece.bound.eq(now.bound), piece.outside.eq(now.outside),
                piece.index.eq(now.command.index),
            ]
            with m.If(whole):
                m.d.sync += [beat.eq(0), left.eq(left - most)]
            with m.Else():
                m.d.sync += beat.eq(beat + 1)
            with m.If(ends_row):
                m.d.sync += begin_row(now, next_row, new_place, lanes, most_at(new_place))
            with m.Elif(ends_run & leading):
                m.d.sync += [leading.eq(0), left.eq(f.x_size), most.eq(most_at(place))]
            with m.Elif(ends_run):
                m.d.sync += [trailing.eq(1), left.eq(f.x_pad_1), most.eq(lanes)]
            with m.Elif(~pad & (last_beat == 0)):
                m.d.sync += [place.eq(in_beat(past, a_beat)), most.eq(most_at(in_beat(past, a_beat)))]
        with m.If(takes):
            new = data.View(layout(LOAD, params.cfg), plan.command.word)
            new_lanes = of_target(plan.target, [t.lanes for t in targets])
            new_a_beat = of_target(plan.target, [t.a_beat(params) for t in targets])
            at = in_beat(new.dram_base, new_a_beat)
            room = new_a_beat - at
            m.d.sync += [
                now.eq(plan), active.eq(1), first.eq(1), beat.eq(0),
                *begin_row(plan, Const(0, 1), at, new_lanes, Mux(room < new_lanes, room, new_lanes)),
            ]
        with m.Elif(moves & ends):
            m.d.sync += active.eq(0)


def pad_value(params: CoreParams, word: Value) -> Value:
    """The value of the pads of a LOAD: 0, or a PAD_LOAD's."""
    if Feature.PAD_VALUE not in params.features:
        return Const(0, 8)
    f = data.View(layout(PAD_LOAD, params.cfg), word)
    return Mux(f.opcode == Opcode.PAD_LOAD, f.pad_value.as_unsigned(), 0)


def of_target(target: Value, values: Sequence[Value | int]) -> Value:
    """The value of the target in hand, of one for each."""
    chosen = Value.cast(values[0])
    for n, value in list(enumerate(values))[1:]:
        chosen = Mux(target == n, value, chosen)
    return chosen
