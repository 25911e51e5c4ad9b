"""The padding and address generator of LOAD: exactly the elements of the instruction set's definition, in order."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from formal.checker import Checker, held

from vtakit.hw.interfaces import layout
from vtakit.hw.isa.faults import Fault
from vtakit.hw.isa.insns import LOAD, Opcode
from vtakit.hw.load_writer import LoadWriter, Target
from vtakit.hw.params import CoreParams

FIELDS = ("sram_base", "x_size", "y_size", "x_stride", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")


class LoadsFollowTheDefinition(Checker):
    """LoadWriter against the definition: element (row, column) of the padded rectangle goes to the next index; it is a zero in a
    pad, and else the element at `(row - y_pad_0) * x_stride + column - x_pad_0` of the DRAM piece.

    Every byte of DRAM holds its own distance from the first element's beat, so a wrong lane or beat shows in the data. Beats come
    row by row, each row from the beat that holds its first element; any of them, and any write, may be kept waiting. A LOAD's
    fields are free within `bits`; those not named are 0.
    """

    def __init__(self, params: CoreParams, target: Target, bits: dict[str, int], *, stalls: bool, alike: bool) -> None:
        self._params, self._target, self._bits, self._stalls, self._alike = params, target, bits, stalls, alike
        super().__init__()

    def properties(self, m: Module) -> None:
        params, target, bus = self._params, self._target, self._params.bus_bytes
        m.submodules.writer = dut = LoadWriter(params, [target])
        word = Signal(data.View(layout(LOAD, params.cfg), Signal(LOAD.bits)).shape())
        for name, width in self._bits.items():
            m.d.comb += word[name].eq(self.free(name, width))
        self._base = word.sram_base
        offset = self.free("offset", range(bus))
        payload = dut.commands.payload
        m.d.comb += [
            word.opcode.eq(Opcode.LOAD), word.memory_type.eq(target.kind), dut.commands.valid.eq(self.free("command_valid") if self._stalls else 1),
            payload.command.word.eq(word), payload.offset.eq(offset),
        ]
        if self._alike:
            fields = Cat(*(self.inputs[name] for name in self._bits), offset)
            before, begun = Signal(len(fields)), Signal()
            m.d.sync += [before.eq(fields), begun.eq(1)]
            self.assume(m, "all LOADs are alike", ~begun | (fields == before))
        self.assume(m, "the LOAD moves something", (word.x_size != 0) & (Cat(word.y_size, word.y_pad_0, word.y_pad_1) != 0))
        self.assume(m, "an element begins at a multiple of its size", (offset & (target.element_bytes - 1)) == 0)

        # The LOAD in hand.
        f = {name: Signal(max(1, self._bits.get(name, 0)), name=f"now_{name}") for name in FIELDS}
        start, taken, first = Signal.like(offset), Signal(), Signal()
        m.d.comb += taken.eq(dut.commands.valid & dut.commands.ready)
        m.d.sync += first.eq(taken)
        with m.If(taken):
            m.d.sync += [start.eq(offset), *(now.eq(word[name]) for name, now in f.items())]
        self._beats(m, dut, f, start, taken)
        self._writes(m, dut, f, start, taken, first)

    def _beats(self, m: Module, dut: LoadWriter, f: dict[str, Signal], start: Value, taken: Value) -> None:
        """The data of the rows, as the load port delivers them."""
        size, bus, bus_log2 = self._target.element_bytes, self._params.bus_bytes, self._params.bus_bytes_log2
        row, beat, row_start = Signal(len(f["y_size"])), Signal(4), Signal(8)
        first, beyond, goes, due = Signal(8), Signal(8), Signal(), Signal()
        m.d.comb += [
            first.eq(row_start >> bus_log2),
            beyond.eq((row_start + f["x_size"] * size + bus - 1) >> bus_log2),
            due.eq(row != f["y_size"]), dut.beats.valid.eq(self.free("beat_valid") if self._stalls else 1), goes.eq(dut.beats.valid & dut.beats.ready),
            dut.beats.payload.data.eq(Mux(due, Cat((((first + beat) << bus_log2) + n)[:8] for n in range(bus)), 0)),
        ]
        self.watch(beat_ready=dut.beats.ready, beat=dut.beats.payload.data)
        self.assume(m, "a beat offered stays", held(m, dut.beats.valid, dut.beats.ready, Const(0, 1)))
        row_ends = first + beat + 1 == beyond
        with m.If(taken):
            m.d.sync += [row.eq(0), beat.eq(0), row_start.eq(dut.commands.payload.offset)]
        with m.Elif(goes & due):
            m.d.sync += beat.eq(beat + 1)
            with m.If(row_ends):
                m.d.sync += [row.eq(row + 1), beat.eq(0), row_start.eq(row_start + f["x_stride"] * size)]
        self.prove(m, "no beat is taken that is not this LOAD's", ~(goes & ~due))
        self.prove(m, "a LOAD takes all its beats", ~dut.done | ~due | (goes & row_ends & (row + 1 == f["y_size"])))

    def _writes(
        self, m: Module, dut: LoadWriter, f: dict[str, Signal], start: Value, taken: Value, first: Value,
    ) -> None:
        target, write = self._target, dut.write0
        lanes, slices, size = target.lanes, target.beats(self._params), target.element_bytes
        m.d.comb += write.ready.eq(self.free("write_ready") if self._stalls else 1)
        # The element that is due: its place, its index, where its row lies in DRAM, and which part of it is due.
        row, column, index, part, active = Signal(4), Signal(4), Signal(8), Signal(range(slices + 1)), Signal()
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
            self.prove(m, "a row of the LOAD is due", row < rows)
            self.prove(m, "a write ends with its row at the latest", behind <= across)
            for n in range(lanes):
                with m.If(n < write.payload.count):
                    wanted = row_start + (column + n - f["x_pad_0"]) * size + part * bus
                    value = Cat((wanted + byte)[:8] for byte in range(bits // 8))
                    self.prove(m, f"element {n} is a zero exactly in a pad", write.payload.zero == ~is_data(column + n))
                    self.prove(m, f"element {n} is the one of its place",
                               write.payload.zero | (write.payload.data[n * bits : (n + 1) * bits] == value))
            self.prove(m, "the index is the next", (write.payload.index == index) & (dut.next == index))
            self.prove(m, "at least one element, at most as many as there are lanes",
                       (write.payload.count != 0) & (write.payload.count <= lanes))
            self.prove(m, "nothing is written outside the scratchpad", index + write.payload.count <= target.depth)
            self.prove(m, "the parts of an element in order", write.payload.zero | (write.payload.beat == part))
            self.prove(m, "last: the element is complete", write.payload.last == (write.payload.zero | (part == slices - 1)))
            self.prove(m, "end is the index behind the LOAD's last", dut.end == f["sram_base"] + total)
        self.prove(m, "a write offered stays", held(m, write.valid, write.ready, write.payload))
        with m.If(taken):
            m.d.sync += [
                row.eq(0), column.eq(0), part.eq(0), index.eq(self._base), row_start.eq(dut.commands.payload.offset),
            ]
        with m.Elif(goes & ~write.payload.last):
            m.d.sync += part.eq(part + 1)
        with m.Elif(goes):
            m.d.sync += [column.eq(behind), index.eq(index + write.payload.count), part.eq(0)]
            with m.If(behind == across):
                m.d.sync += [row.eq(row + 1), column.eq(0), row_start.eq(row_start + Mux(data_row, f["x_stride"] * size, 0))]
        with m.If(taken):
            m.d.sync += active.eq(1)
        with m.Elif(dut.done):
            m.d.sync += active.eq(0)
        ends = goes & write.payload.last & (index + write.payload.count == f["sram_base"] + total)
        self.prove(m, "done: the last element is written", dut.done == ends)
        self.prove(m, "the next LOAD is taken up when this one is done, and not before",
                   dut.commands.ready == (~active | dut.done))
        starved = is_data(column) & ~dut.beats.valid
        self.prove(m, "no cycle is lost", ~active | first | write.valid | (dut.fault != 0) | starved)
        self.prove(m, "a fault is told only of a LOAD that does not fit the scratchpad",
                   (dut.fault == 0) | ((dut.fault == Fault.SRAM_RANGE) & (f["sram_base"] + total > target.depth)))
        self.watch(
            command_ready=dut.commands.ready, valid=write.valid, index=write.payload.index, count=write.payload.count,
            zero=write.payload.zero, data=write.payload.data, last=write.payload.last, done=dut.done, row=row, column=column,
        )
        self.reach(m, "a second LOAD with pads and two rows is done", dut.done & (f["y_size"] == 2) & (f["x_pad_0"] != 0) & (index > total))
        self.reach(m, "outside the scratchpad", dut.fault != 0)
        if lanes > 1:
            self.reach(m, "several elements at once, of data", goes & ~write.payload.zero & (write.payload.count == lanes))
