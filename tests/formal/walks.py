"""Proof that `Walk` reads the accumulators of each window in the order of nested loops."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data
from formal.checker import Checker

from vtakit.hw.interfaces import layout
from vtakit.hw.isa.insns import REQUANT, Opcode
from vtakit.hw.params import CoreParams
from vtakit.hw.store.walk import AT_BITS, Walk


class WindowsAreReadOnceForEachPart(Checker):
    """Walk against nested loops: rows and columns of what is stored, parts of an element, rows and columns of a window.

    One instruction of any fields within `bits`, at any pace, with `parts` parts of an element.
    """

    def __init__(self, params: CoreParams, bits: dict[str, int], parts: int) -> None:
        self._params, self._bits, self._parts = params, bits, parts
        super().__init__()

    def properties(self, m: Module) -> None:
        m.submodules.walk = dut = Walk(self._params)
        word = Signal(layout(REQUANT, self._params.cfg))
        f = data.View(layout(REQUANT, self._params.cfg), word.as_value())
        for name, width in self._bits.items():
            m.d.comb += word[name].eq(self.constant(m, name, width))
        m.d.comb += [word.opcode.eq(Opcode.REQUANT), dut.word.eq(word)]
        self.assume(m, "it stores something", (f.x_size != 0) & (f.y_size != 0))
        self.assume(m, "no window is without values", (f.pool != 0) | ~(f.pool_above | f.pool_left))

        age = Signal(2)
        with m.If(age != 2):
            m.d.sync += age.eq(age + 1)
        done = Signal()
        goes = self.free("goes") & (age == 2) & ~done
        row, column, part, down, across = (Signal(4, name=name) for name in ("row", "column", "part", "down", "across"))
        above, left = f.pool_above & (row == 0), f.pool_left & (column == 0)
        ends, again, row_ends = (down == f.pool) & (across == f.pool), part != self._parts - 1, column + 1 == f.x_size
        m.d.comb += [
            dut.take.eq(age == 0), dut.jump.eq(age < 2), dut.begins.eq(age == 1), dut.first_of.eq(f.sram_base),
            dut.on_in_windows.eq(goes), dut.again.eq(again), dut.row_ends.eq(row_ends),
        ]
        with m.If(age == 1):
            m.d.sync += [down.eq(f.pool_above), across.eq(f.pool_left)]
        with m.If(goes):
            m.d.sync += across.eq(across + 1)
            with m.If(across == f.pool):
                m.d.sync += [across.eq(left), down.eq(down + 1)]
            with m.If(ends):
                m.d.sync += [down.eq(above), part.eq(Mux(again, part + 1, 0))]
                with m.If(~again):
                    m.d.sync += [column.eq(Mux(row_ends, 0, column + 1)), across.eq(Mux(row_ends, f.pool_left, 0))]
                    with m.If(row_ends):
                        m.d.sync += [row.eq(row + 1), down.eq(0), done.eq(row + 1 == f.y_size)]
        step = f.pool_step + 1
        wanted = Signal(AT_BITS)
        width = (f.x_size - 1) * step + f.pool + 1
        m.d.comb += wanted.eq(f.sram_base + (row * step + down) * width + column * step + across)
        self.watch(row=row, column=column, part=part, down=down, across=across, at=dut.at, wanted=wanted, goes=goes)
        with m.If((age == 2) & ~done):
            self.prove(m, "the element is that of the loops", dut.at == wanted)
            self.prove(m, "it is known to be the window's first", dut.first == ((down == above) & (across == left)))
            self.prove(m, "it is known to be the window's last", dut.last == ends)
            self.prove(m, "an element behind ACC is told", dut.beyond == (wanted >= self._params.cfg.acc_depth))
        self.reach(m, "all windows of several rows and columns were read", done & (f.x_size == 2) & (row == 2) & (f.pool == 1))
