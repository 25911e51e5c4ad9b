"""The burst generator: exactly the beats of the rows, in order, in bursts that AXI allows."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data
from formal.checker import Checker, Scoreboard, held

from vtakit.hw.memory.bursts import BurstGenerator
from vtakit.hw.params import CoreParams

PENDING = 6  # pieces that the generator may have taken and not yet done with


class BurstsCoverRows(Checker):
    """Every row's beats are asked for once, in order, by bursts within one page; a row outside the window is not touched.

    The reference walks the rows of a piece: row r begins at `address + r * pitch_bytes`, and its beats are those that hold any of
    its bytes. A burst may take any number of those that are due, up to the next multiple of the longest burst. Pieces are of two
    kinds, each anything within the sizes, that follow each other in any order.
    """

    def __init__(self, params: CoreParams, *, count_bits: int, bytes_bits: int, kinds: int = 2) -> None:
        self._params, self._count_bits, self._bytes_bits, self._kinds = params, count_bits, bytes_bits, kinds
        super().__init__()

    def properties(self, m: Module) -> None:
        params = self._params
        m.submodules.generator = dut = BurstGenerator(params)
        piece = data.StructLayout({
            "address": params.address_bits + 1, "count": self._count_bits, "row_bytes": self._bytes_bits,
            "pitch_bytes": self._bytes_bits,
        })
        kinds = [self.constant(m, f"piece{n}", piece) for n in range(self._kinds)]
        which = self.free("which") if self._kinds > 1 else Const(0, 1)
        offered = Mux(which, Value.cast(kinds[-1]), Value.cast(kinds[0]))
        m.d.comb += [
            dut.rows.valid.eq(self.free("rows_valid")), dut.bursts.ready.eq(self.free("bursts_ready")),
            dut.window_low.eq(self.constant(m, "window_low", params.address_bits)),
            dut.window_high.eq(self.constant(m, "window_high", params.address_bits + 1)),
            *(dut.rows.payload[name].eq(data.View(piece, offered)[name]) for name in piece.members),
        ]
        self.assume(m, "the window lies in the address space", dut.window_high <= 1 << params.address_bits)
        now, pending = Signal(piece), Scoreboard(m, "pending", 1, PENDING + 1)
        m.d.comb += now.eq(Mux(pending.oldest, Value.cast(kinds[-1]), Value.cast(kinds[0])))
        moves = Signal()
        m.d.comb += moves.eq(dut.rows.valid & dut.rows.ready & (dut.rows.payload.count != 0) & (dut.rows.payload.row_bytes != 0))
        self._ends_with_one_outside(m, dut, data.View(piece, offered), moves)
        done = self._reference(m, dut, now, pending.count)
        pending.update(moves, which, done)
        self.prove(m, "few pieces are taken ahead", pending.count <= PENDING)
        self.reach(m, "a piece is taken while another is under way", moves & (pending.count == 1) & (now.count == 3))

    def _ends_with_one_outside(self, m: Module, dut: BurstGenerator, piece: data.View, moves: Value) -> None:
        """A piece with a row outside the window is the last that is taken, so whoever gave it knows whose row it was."""
        last_end, spoiled = Signal(self._params.address_bits + self._bytes_bits + self._count_bits + 3), Signal()
        m.d.comb += last_end.eq(piece.address + (piece.count - 1) * piece.pitch_bytes + piece.row_bytes)
        with m.If(moves & ((piece.address < dut.window_low) | (last_end > dut.window_high))):
            m.d.sync += spoiled.eq(1)
        self.prove(m, "no piece is taken behind one that lies outside the window", ~spoiled | ~dut.rows.ready | ~dut.rows.valid)
        self.prove(m, "outside is told only of a piece that lies outside", ~dut.outside | spoiled)
        self.reach(m, "a piece whose second row lies outside, behind one inside", spoiled & dut.outside & (piece.count == 2))

    def _reference(self, m: Module, dut: BurstGenerator, now: data.View, pending: Value) -> Value:
        """Walk the oldest piece; whether its last burst is taken."""
        params, low, burst = self._params, self._params.bus_bytes_log2, dut.bursts.payload
        exact = max(params.address_bits + 1, self._bytes_bits + self._count_bits) + 2  # no sum below is ever cut
        row, offset, done = Signal(self._count_bits), Signal(exact), Signal(self._bytes_bits + 2)
        start, end, inside = Signal(exact), Signal(exact), Signal()
        first, beyond, beats = (Signal(exact, name=name) for name in ("first", "beyond", "beats"))
        goes, row_ends, is_last = Signal(), Signal(), Signal()
        m.d.comb += [
            start.eq(now.address + offset), end.eq(start + now.row_bytes), is_last.eq(row + 1 == now.count),
            inside.eq((start >= dut.window_low) & (end <= dut.window_high)),
            first.eq(start >> low), beyond.eq((end + params.bus_bytes - 1) >> low), beats.eq(beyond - first),
            goes.eq(dut.bursts.valid & dut.bursts.ready), row_ends.eq(done + burst.last + 1 == beats),
        ]
        with m.If(goes & row_ends):
            m.d.sync += [row.eq(row + 1), offset.eq(offset + now.pitch_bytes), done.eq(0)]
            with m.If(is_last):
                m.d.sync += [row.eq(0), offset.eq(0)]
        with m.Elif(goes):
            m.d.sync += done.eq(done + burst.last + 1)

        last_byte = burst.address + ((burst.last + 1) << low) - 1
        # The longest burst divides a page, so what stays between multiples of it stays in its page.
        longest_log2 = (params.burst_beats * params.bus_bytes).bit_length() - 1
        self.watch(
            rows_ready=dut.rows.ready, valid=dut.bursts.valid, burst_address=burst.address, burst_last=burst.last,
            final=burst.final, outside=dut.outside, pending=pending, row=row, start=start, beats=beats, done=done,
        )
        self.prove(m, "a burst that waits does not change", held(m, dut.bursts.valid, dut.bursts.ready, burst))
        with m.If(dut.bursts.valid):
            self.prove(m, "there is a burst only while beats are due", pending != 0)
            self.prove(m, "the row of a burst lies in the window", inside)
            self.prove(m, "a burst begins at the beat that is due", burst.address == (first + done) << low)
            self.prove(m, "a burst ends with its row at the latest", done + burst.last + 1 <= beats)
            self.prove(m, "a burst is no longer than the longest", burst.last < params.burst_beats)
            self.prove(m, "a burst stays in its page", burst.address >> longest_log2 == last_byte >> longest_log2)
            self.prove(m, "final marks the last burst of the piece", burst.final == (is_last & row_ends))
        self.reach(m, "two rows, the second in two bursts", dut.bursts.valid & burst.final & (done != 0) & (row == 1))
        self.reach(m, "outside", dut.outside & (pending == 1) & (row == 1))
        waits = Signal(range(8))
        m.d.sync += waits.eq(Mux((pending == 0) | dut.bursts.valid | ~inside, 0, waits + 1))
        self.prove(m, "a burst that is due is offered within six cycles", waits < 6)
        return goes & row_ends & is_last
