"""Address generator of a STORE or REQUANT: accumulators one after another, or window by window."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import layout
from vtakit.hw.isa.config import INSN_BITS
from vtakit.hw.isa.insns import REQUANT, Feature, Opcode
from vtakit.hw.params import CoreParams

PLACE_BITS = 16  # of sram_base, params and x_size
AT_BITS = PLACE_BITS + 4  # of an index, also of the first beyond ACC: it lies at most two rows behind one within


class Walk(wiring.Component):
    """Members
    -------
    word, take : ``In``             take this instruction's windows; a STORE's have one element
    jump, place, first_of : ``In``  go to the element `place`; without `take`, to the first window, which `first_of` begins
    begins : ``In(1)``              with `jump`: it is the first of the first window; with `take` only for a STORE
    on : ``In(1)``                  go to the next element, for parameters and tables
    on_in_windows : ``In(1)``       go to the next element of the window or, behind its last one, to the next window
    again : ``In(1)``               with it: to the same window, since it is read once for each part of its elements
    row_ends : ``In(1)``            with it: the next window is the first of a row
    at, beyond : ``Out``            the element, and whether it lies outside ACC
    first, last : ``Out(1)``        it is the first or the last of its window
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__({
            "word": In(INSN_BITS), "take": In(1), "jump": In(1), "place": In(PLACE_BITS), "first_of": In(PLACE_BITS),
            "begins": In(1), "on": In(1), "on_in_windows": In(1), "again": In(1), "row_ends": In(1), "at": Out(AT_BITS),
            "beyond": Out(1), "first": Out(1, init=1), "last": Out(1, init=1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        after = Signal(AT_BITS)
        start = Signal(AT_BITS)  # of the windows, behind what is read before them
        to = Signal(AT_BITS)
        m.d.comb += [after.eq(self.at + 1), start.eq(self.first_of), to.eq(Mux(self.take, self.place, start))]
        if Feature.POOL in self._params.features:
            self._windows(m, after, start, to)
        else:
            m.d.comb += [self.first.eq(1), self.last.eq(1)]
            with m.If(self.on_in_windows & self.again):
                m.d.comb += after.eq(self.at)
        with m.If(self.on | self.on_in_windows):
            m.d.sync += [self.at.eq(after), self.beyond.eq(self._is_beyond(after))]
        with m.If(self.jump):
            m.d.sync += [self.at.eq(to), self.beyond.eq(Mux(self.take, self._is_beyond(self.place), self._is_beyond(start)))]
        return m

    def _is_beyond(self, index: Value) -> Value:
        return (index >> self._params.cfg.acc_depth_log2).any()

    def _windows(self, m: Module, after: Signal, start: Signal, to: Signal) -> None:
        """Add the registers and next addresses of windows; image rows are `pitch` elements apart, flagged pads are skipped."""
        f = data.View(layout(REQUANT, self._params.cfg), self.word)
        edge = Signal(2)  # of a window, less one
        double = Signal()  # windows are two elements apart, not one
        above = Signal()
        left = Signal()
        pitch = Signal(PLACE_BITS + 2)
        line, origin, row_origin = (Signal(AT_BITS, name=name) for name in ("line", "origin", "row_origin"))
        rows_left = Signal(2)
        columns_left = Signal(2)
        lacks_row = Signal()  # this row of windows
        lacks_column = Signal()  # this window
        is_first = Signal(init=1)
        pools = f.opcode == Opcode.REQUANT
        with m.If(self.take):
            m.d.sync += [
                edge.eq(Mux(pools, f.pool, 0)), double.eq(pools & f.pool_step), above.eq(pools & f.pool_above),
                left.eq(pools & f.pool_left),
                pitch.eq(Mux(pools, Mux(f.pool_step, Cat(Const(0, 1), f.x_size) - 1, f.x_size) + f.pool, f.x_size)),
            ]
        m.d.comb += [
            self.first.eq(is_first), self.last.eq((rows_left == 0) & (columns_left == 0)),
            start.eq(self.first_of + Mux(above, pitch, 0) + left),
        ]
        with m.If(self.jump & self.begins):
            m.d.sync += [
                line.eq(to), origin.eq(to), row_origin.eq(to), is_first.eq(1),
                rows_left.eq(Mux(self.take, 0, edge - above)), columns_left.eq(Mux(self.take, 0, edge - left)),
                lacks_row.eq(~self.take & above), lacks_column.eq(~self.take & left),
            ]
        with m.If(self.on_in_windows):
            m.d.sync += is_first.eq(self.last)
            with m.If(columns_left != 0):
                m.d.sync += columns_left.eq(columns_left - 1)
            with m.Elif(rows_left != 0):
                m.d.comb += after.eq(line + pitch)
                m.d.sync += [line.eq(after), rows_left.eq(rows_left - 1), columns_left.eq(edge - lacks_column)]
            with m.Else():
                m.d.sync += [
                    line.eq(after), origin.eq(after), rows_left.eq(edge - lacks_row), columns_left.eq(edge - lacks_column),
                ]
                with m.If(self.again):
                    m.d.comb += after.eq(origin)
                with m.Elif(self.row_ends):
                    m.d.comb += after.eq(row_origin + Mux(double, Mux(lacks_row, pitch, pitch << 1), Mux(lacks_row, 0, pitch)))
                    m.d.sync += [
                        row_origin.eq(after), lacks_row.eq(0), rows_left.eq(edge), lacks_column.eq(left),
                        columns_left.eq(edge - left),
                    ]
                with m.Else():
                    m.d.comb += after.eq(origin + 1 + double - lacks_column)
                    m.d.sync += [lacks_column.eq(0), columns_left.eq(edge)]
