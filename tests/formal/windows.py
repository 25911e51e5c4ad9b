"""The window of a DWCONV: each tap is the tile that entered so many steps before."""

from amaranth.hdl import Const, Module, Mux, Signal
from formal.checker import Checker

from vtakit.hw.compute.window import COLUMN_BITS, Window
from vtakit.hw.isa.config import VTAConfig


class TapsAreTheLastTiles(Checker):
    """Window against the instruction set's formula: tiles, pauses, tiles that are spread and new instructions come at any time.

    Steps of a row are numbered as the step generator does, up to any last one. Any one step is followed: as long as its
    instruction goes on, the tap that is `back` steps behind the last one holds its tile `back` steps later, whatever the others
    hold. A tap that is further behind than the instruction has had steps is 0.
    """

    def __init__(self, cfg: VTAConfig, most_columns: int) -> None:
        self._cfg, self._most_columns = cfg, most_columns
        super().__init__()

    def properties(self, m: Module) -> None:
        cfg = self._cfg
        rows, columns = cfg.window
        m.submodules.window = dut = Window(cfg)
        last = self.constant(m, "last_column", COLUMN_BITS)
        self.assume(m, "rows are short", last < self._most_columns)
        most = (rows - 1) * self._most_columns + columns  # steps after which a tile has left
        column, row, count = Signal(COLUMN_BITS), Signal(range(max(2, rows))), Signal(range(most + 1))
        shifts, spreads = self.free("shifts"), self.free("spreads")
        begun = Signal()
        first = self.free("begins") | ~begun  # what is in the window before the first instruction is not looked at
        at, down = Mux(first, 0, column), Mux(first, 0, row)
        tile = self.free("tile", 8 * cfg.inp_bytes)
        m.d.comb += [
            dut.shifts.eq(shifts), dut.spreads.eq(spreads & ~shifts), dut.tile.eq(tile), dut.first.eq(first), dut.column.eq(at),
            dut.row.eq(down),
        ]
        with m.If(shifts):
            ends = at == last
            m.d.sync += [
                begun.eq(1), column.eq(Mux(ends, 0, at + 1)), row.eq(Mux(ends & (down != rows - 1), down + 1, down)),
                count.eq(Mux(first, 1, Mux(count == most, most, count + 1))),
            ]
        with m.Elif(spreads):
            m.d.sync += begun.eq(0)
        chosen, followed, kept = self.free("chosen"), Signal(), Signal.like(tile)
        age = Signal(range(most + 1))  # steps after the followed one
        with m.If(shifts & chosen & ~(followed & ~first)):
            m.d.sync += [followed.eq(1), kept.eq(tile), age.eq(0)]
        with m.Elif((shifts & first) | (spreads & ~shifts)):
            m.d.sync += followed.eq(0)
        with m.Elif(shifts):
            m.d.sync += age.eq(Mux(age == most, most, age + 1))
        self.watch(column=column, row=row, count=count, followed=followed, age=age, kept=kept)
        for n in range(rows * columns):
            back = Signal(range(most + 1), name=f"back{n}")
            m.d.comb += back.eq(sum([last + 1] * (rows - 1 - n // columns), Const(columns - 1 - n % columns)))
            tap = dut.factors.word_select(n, len(tile))
            with m.If(followed & (age == back)):
                self.prove(m, f"tap {n} is the tile of its step", tap == kept)
            with m.If(begun & (count <= back)):
                self.prove(m, f"tap {n} is 0 before its first tile", tap == 0)
            self.reach(m, f"tap {n} holds a tile", followed & (age == back) & (kept != 0))
        for n in range(rows * columns, cfg.block):
            with m.If(begun):
                self.prove(m, f"lane {n} has no tap", dut.factors.word_select(n, len(tile)) == 0)
