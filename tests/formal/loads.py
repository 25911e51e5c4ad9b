"""The padding and address generator of LOAD: exactly the elements of the instruction set's definition, in order."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from formal.checker import Checker, held

from vtakit.hw.interfaces import layout
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import LOAD, PAD_LOAD, Feature, Opcode
from vtakit.hw.load.writer import LoadWriter
from vtakit.hw.params import CoreParams
from vtakit.hw.timing import Target

FIELDS = ("sram_base", "x_size", "y_size", "x_stride", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")


class LoadsFollowTheDefinition(Checker):
    """LoadWriter against the definition: element (row, column) of the padded rectangle goes to the next index; it is the
    value of the pads in a pad, and else the element at `(row - y_pad_0) * x_stride + column - x_pad_0` of the DRAM piece.

    Every byte of DRAM holds its own distance from the first element's beat, so a wrong lane or beat shows in the data. Beats come
    row by row, each row from the beat that holds its first element. One LOAD, whose fields are free within `bits` and 0 where not
    named, is given again and again. With `stalls`, LOADs, beats, permission and writes may be kept waiting in any cycle.
    """

    def __init__(self, params: CoreParams, target: Target, bits: dict[str, int], *, stalls: bool) -> None:
        self._params, self._target, self._bits, self._stalls = params, target, bits, stalls
        super().__init__()

    def properties(self, m: Module) -> None:
        params, target = self._params, self._target
        m.submodules.writer = dut = LoadWriter(params, [target])
        word = Signal(layout(LOAD, params.cfg))
        for name, width in self._bits.items():
            m.d.comb += word[name].eq(self.constant(m, name, width))
        pad_load, value_of_pads = Const(0, 1), Const(0, 8)
        if Feature.PAD_VALUE in params.features:
            pad_load = self.constant(m, "pad_load", 1)
            value_of_pads = Mux(pad_load, self.constant(m, "pad_value", 8), 0)
        at = next(p.offset for p in PAD_LOAD.place(params.cfg) if p.field.name == "pad_value")
        m.d.comb += [
            word.opcode.eq(Mux(pad_load, Opcode.PAD_LOAD, Opcode.LOAD)), word.memory_type.eq(target.kind),
            dut.commands.payload.word.eq(word.as_value() | (value_of_pads << at)),
            dut.commands.valid.eq(self._maybe("command_valid")), dut.may_write.eq(self._maybe("may_write")),
        ]
        self.assume(m, "the LOAD moves something", (word.x_size != 0) & (Cat(word.y_size, word.y_pad_0, word.y_pad_1) != 0))
        f = {name: word[name][: max(1, self._bits.get(name, 0))] for name in FIELDS}
        start = Signal(range(params.bus_bytes))
        m.d.comb += start.eq(word.dram_base * target.element_bytes)
        # Whether a LOAD is in hand, as `begins` and `done` tell.
        active = Signal()
        m.d.sync += active.eq((active & ~dut.done) | dut.begins)
        self.prove(m, "LOADs follow each other: one begins when none is in hand, or the one in hand is done",
                   ~dut.begins | ~active | dut.done)
        self.prove(m, "a LOAD begins only when it may", ~dut.begins | dut.may_write)
        self._beats(m, dut, f, start, active)
        self._writes(m, dut, f, start, active, value_of_pads)

    def _maybe(self, name: str) -> Value:
        return self.free(name) if self._stalls else Const(1, 1)

    def _beats(self, m: Module, dut: LoadWriter, f: dict[str, Value], start: Value, active: Value) -> None:
        """The data of the rows, as the load port delivers them."""
        size, bus, bus_log2 = self._target.element_bytes, self._params.bus_bytes, self._params.bus_bytes_log2
        row, beat, row_start, passed = Signal(len(f["y_size"])), Signal(4), Signal(8), Signal(8)
        first, beyond, goes, due = Signal(8), Signal(8), Signal(), Signal()
        m.d.comb += [
            row_start.eq(start + passed), first.eq(row_start >> bus_log2),
            beyond.eq((row_start + f["x_size"] * size + bus - 1) >> bus_log2),
            due.eq(f["y_size"] != 0), dut.beats.valid.eq(self._maybe("beat_valid")), goes.eq(dut.beats.valid & dut.beats.ready),
            dut.beats.payload.data.eq(Cat((((first + beat) << bus_log2) + n)[:8] for n in range(bus))),
        ]
        self.watch(beat_ready=dut.beats.ready, beat=dut.beats.payload.data)
        self.assume(m, "a beat offered stays", held(m, dut.beats.valid, dut.beats.ready, Const(0, 1)))
        row_ends = first + beat + 1 == beyond
        with m.If(goes & due):
            m.d.sync += beat.eq(beat + 1)
            with m.If(row_ends):
                m.d.sync += [row.eq(row + 1), beat.eq(0), passed.eq(passed + f["x_stride"] * size)]
                with m.If(row + 1 == f["y_size"]):
                    m.d.sync += [row.eq(0), passed.eq(0)]
        self.prove(m, "a beat is taken only if the LOAD in hand has data", ~goes | (active & due))
        at_end = Mux(goes, row_ends & (row + 1 == f["y_size"]), (row == 0) & (beat == 0))
        self.prove(m, "a LOAD takes all its beats and no other", ~dut.done | at_end)

    def _writes(
        self, m: Module, dut: LoadWriter, f: dict[str, Value], start: Value, active: Value, value_of_pads: Value,
    ) -> None:
        """The writes, element by element."""
        target, write = self._target, dut.write0
        lanes, slices, size = target.lanes, target.beats(self._params), target.element_bytes
        m.d.comb += write.ready.eq(self._maybe("write_ready"))
        # The element that is due: its place, its index, where its row lies in DRAM, and which part of it is due.
        row, column, index, part = Signal(4), Signal(4), Signal(8), Signal(range(slices + 1))
        row_start = Signal(8)
        across, rows, total, goes = Signal(4), Signal(4), Signal(8), Signal()
        data_row, behind = Signal(), Signal(5)
        m.d.comb += [
            across.eq(f["x_pad_0"] + f["x_size"] + f["x_pad_1"]), rows.eq(f["y_pad_0"] + f["y_size"] + f["y_pad_1"]),
            total.eq(across * rows), goes.eq(write.valid & write.ready), behind.eq(column + write.payload.count),
            data_row.eq((row >= f["y_pad_0"]) & (row < f["y_pad_0"] + f["y_size"])),
        ]

        def is_data(place: Value) -> Value:
            return data_row & (place >= f["x_pad_0"]) & (place < f["x_pad_0"] + f["x_size"])

        bus = self._params.bus_bytes
        bits = 8 * min(size, bus)
        with m.If(write.valid):
            self.prove(m, "a LOAD is in hand, and a row of it is due", active & (row < rows))
            self.prove(m, "a write ends with its row at the latest", behind <= across)
            for n in range(lanes):
                with m.If(n < write.payload.count):
                    wanted = row_start + (column + n - f["x_pad_0"]) * size + part * bus
                    value = Cat((wanted + byte)[:8] for byte in range(bits // 8))
                    self.prove(m, f"element {n} is a pad where the LOAD has one", write.payload.pad == ~is_data(column + n))
                    self.prove(m, f"element {n} is the one of its place",
                               write.payload.pad | (write.payload.data[n * bits : (n + 1) * bits] == value))
            self.prove(m, "the index is the next", (write.payload.index == index) & (dut.next == index))
            self.prove(m, "at least one element, at most as many as there are lanes",
                       (write.payload.count != 0) & (write.payload.count <= lanes))
            self.prove(m, "nothing is written outside the scratchpad", index + write.payload.count <= target.depth)
            self.prove(m, "pads are zeros, or of a PAD_LOAD its value", write.payload.value == value_of_pads)
            self.prove(m, "the parts of an element in order", write.payload.pad | (write.payload.beat == part))
            self.prove(m, "last: the element is complete", write.payload.last == (write.payload.pad | (part == slices - 1)))
            self.prove(m, "end is the index behind the LOAD's last", dut.end == f["sram_base"] + total)
        self.prove(m, "a write offered stays", held(m, write.valid, write.ready, write.payload))
        with m.If(dut.begins):
            m.d.sync += [row.eq(0), column.eq(0), part.eq(0), index.eq(f["sram_base"]), row_start.eq(start)]
        with m.Elif(goes & ~write.payload.last):
            m.d.sync += part.eq(part + 1)
        with m.Elif(goes):
            m.d.sync += [column.eq(behind), index.eq(index + write.payload.count), part.eq(0)]
            with m.If(behind == across):
                m.d.sync += [row.eq(row + 1), column.eq(0), row_start.eq(row_start + Mux(data_row, f["x_stride"] * size, 0))]
        ends = goes & write.payload.last & (index + write.payload.count == f["sram_base"] + total)
        self.prove(m, "done: the last element is written", dut.done == ends)
        waits = Signal(range(4))
        starved = is_data(column) & ~dut.beats.valid
        m.d.sync += waits.eq(Mux(~active | write.valid | starved | (dut.fault != 0), 0, waits + 1))
        self.prove(m, "a LOAD in hand never pauses", waits == 0)
        too_long = f["sram_base"] + total > target.depth
        self.prove(m, "a fault is told only of a LOAD that does not fit the scratchpad",
                   (dut.fault == 0) | ((dut.fault == Fault.SRAM_RANGE) & too_long))
        self.prove(m, "nothing is written of a LOAD that does not fit the scratchpad", ~write.valid | ~too_long)
        self.watch(
            command_ready=dut.commands.ready, valid=write.valid, index=write.payload.index, count=write.payload.count,
            pad=write.payload.pad, data=write.payload.data, last=write.payload.last, done=dut.done, row=row, column=column,
        )
        self.reach(m, "a second LOAD with pads and two rows is done",
                   dut.done & (f["y_size"] == 2) & (f["x_pad_0"] != 0) & self._before(m, dut.done))
        self.reach(m, "outside the scratchpad", dut.fault != 0)
        if lanes > 1:
            self.reach(m, "several elements at once, of data", goes & ~write.payload.pad & (write.payload.count == lanes))

    @staticmethod
    def _before(m: Module, condition: Value) -> Value:
        seen = Signal()
        m.d.sync += seen.eq(seen | condition)
        return seen
