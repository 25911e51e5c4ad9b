"""What the multipliers take: one tile spread over all lanes of outputs, or for a DWCONV a window over the last tiles."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import DWCONV

COLUMN_BITS = DWCONV.width("columns")


class Window(wiring.Component):
    """Registers before the multipliers: factor [n, lane] is multiplied by weight [lane, n].

    A row of the window is a shift register. Below the last row, each takes what the one after it took a row of steps before, from
    a memory of one row of tiles. Rows that a DWCONV has not had yet are zeros.

    Members
    -------
    tile : ``In``          an input tile
    spreads : ``In(1)``    of a GEMM step: input n of a batch's row is factor n of all that row's lanes
    shifts : ``In(1)``     of a step of a DWCONV: a tile enters the window
    first : ``In(1)``      the first one; what was there before is zeros
    column : ``In``        number of the step in its row
    row : ``In``           number of its row, or the last of the window if that is less
    takes : ``In(1)``      with passes: of a DWCONV's pass that forms outputs
    part : ``In``          with passes: which part of the lanes of outputs the pass forms
    factors : ``Out``      [input lane][batch][output lane], a cycle later; with passes two cycles, and only the lanes of the part

    passes : parts of the lanes of outputs that are formed one after the other; then the window and the factors have registers of
             their own, and a DWCONV goes on where GEMM steps come between
    """

    def __init__(self, cfg: VTAConfig, *, passes: int = 1) -> None:
        self._cfg, self._passes = cfg, passes
        super().__init__({
            "tile": In(8 * cfg.inp_bytes), "spreads": In(1), "shifts": In(1), "first": In(1), "column": In(COLUMN_BITS),
            "row": In(range(max(2, cfg.window[0]))), "takes": In(1), "part": In(range(passes)),
            "factors": Out(cfg.block * 8 * cfg.inp_bytes // passes),
        })

    def elaborate(self, platform: object) -> Module:
        m, cfg = Module(), self._cfg
        rows, columns = cfg.window
        taps = [Signal(8 * cfg.inp_bytes, name=f"tap{n:02}", reset_less=True) for n in range(cfg.block)]
        entering: list[Value] = [self.tile]  # to each row of the window, from the last on
        for back in range(1, rows):
            m.submodules[f"line{back}"] = line = memory.Memory(shape=len(self.tile), depth=1 << COLUMN_BITS, init=[])
            write, read = line.write_port(), line.read_port(domain="comb")
            before = Signal.like(self.tile, name=f"before{back}")
            m.d.comb += [
                write.en.eq(self.shifts), write.addr.eq(self.column), write.data.eq(entering[-1]), read.addr.eq(self.column),
                before.eq(Mux(self.row >= back, read.data, 0)),
            ]
            entering.append(before)
        with m.If(self.shifts):
            for n, tap in enumerate(taps):
                row, column = divmod(n, columns)
                if row >= rows:
                    m.d.sync += tap.eq(0)
                elif column == columns - 1:
                    m.d.sync += tap.eq(entering[rows - 1 - row])
                else:
                    m.d.sync += tap.eq(Mux(self.first, 0, taps[n + 1]))
        if self._passes == 1:
            m.d.comb += self.factors.eq(Cat(taps))
            with m.If(self.spreads & ~self.shifts):
                m.d.sync += [tap.eq(self._spread(self.tile, n)) for n, tap in enumerate(taps)]
            return m
        tile, part = Signal.like(self.tile, name="tile_before", reset_less=True), Signal.like(self.part, name="part_before")
        spreads, takes = Signal(name="spreads_before"), Signal(name="takes_before")
        m.d.sync += [tile.eq(self.tile), part.eq(self.part), spreads.eq(self.spreads), takes.eq(self.takes)]
        factors = [Signal(len(tile) // self._passes, name=f"factor{n:02}", reset_less=True) for n in range(cfg.block)]
        m.d.comb += self.factors.eq(Cat(factors))
        row_bits = cfg.block * cfg.inp_bits
        for n, (factor, tap) in enumerate(zip(factors, taps, strict=True)):
            rows_of_tap = (tap.word_select(row, row_bits) for row in range(cfg.batch))
            with m.If(spreads):
                m.d.sync += factor.eq(self._spread(tile, n))
            with m.Elif(takes):
                m.d.sync += factor.eq(Cat(each.word_select(part, row_bits // self._passes) for each in rows_of_tap))
        return m

    def _spread(self, tile: Value, n: int) -> Value:
        """Input n of each row of the batch, for all lanes of outputs."""
        cfg = self._cfg
        values = (tile.word_select(row * cfg.block + n, cfg.inp_bits) for row in range(cfg.batch))
        return Cat(value.replicate(cfg.block // self._passes) for value in values)
