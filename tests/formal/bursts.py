"""The burst generator: exactly the beats of the rows, in order, in bursts that AXI allows."""

from amaranth.hdl import Module, Mux, Signal
from formal.checker import Checker, held

from vtakit.hw.bursts import BurstGenerator
from vtakit.hw.params import CoreParams


class BurstsCoverRows(Checker):
    """Every row's beats are asked for once, in order, by bursts within one page; a row outside the window is not touched.

    The reference holds the piece and walks its rows: row r begins at `address + r * pitch_bytes`, and its beats are those that hold
    any of its bytes. A burst may take any number of them that are due, up to the next multiple of the longest burst.
    """

    def __init__(self, params: CoreParams, *, count_bits: int, bytes_bits: int) -> None:
        self._params, self._count_bits, self._bytes_bits = params, count_bits, bytes_bits
        super().__init__()

    def properties(self, m: Module) -> None:
        params, low = self._params, self._params.bus_bytes_log2
        m.submodules.generator = dut = BurstGenerator(params)
        address, count = self.free("address", params.address_bits + 1), self.free("count", self._count_bits)
        row_bytes, pitch_bytes = self.free("row_bytes", self._bytes_bits), self.free("pitch_bytes", self._bytes_bits)
        offered, ready = self.free("rows_valid"), self.free("bursts_ready")
        m.d.comb += [
            dut.rows.valid.eq(offered), dut.rows.payload.address.eq(address), dut.rows.payload.count.eq(count),
            dut.rows.payload.row_bytes.eq(row_bytes), dut.rows.payload.pitch_bytes.eq(pitch_bytes),
            dut.window_low.eq(self.free("window_low", params.address_bits)),
            dut.window_high.eq(self.free("window_high", params.address_bits + 1)), dut.bursts.ready.eq(ready),
        ]
        for name in ("window_low", "window_high"):
            before, begun = Signal.like(self.inputs[name], name=f"{name}_before"), Signal(name=f"{name}_begun")
            m.d.sync += [before.eq(self.inputs[name]), begun.eq(1)]
            self.assume(m, f"{name} does not change", ~begun | (self.inputs[name] == before))
        self.assume(m, "the window lies in the address space", dut.window_high <= 1 << params.address_bits)
        self._reference(m, dut, low)

    def _reference(self, m: Module, dut: BurstGenerator, low: int) -> None:
        params, burst = self._params, dut.bursts.payload
        # Of the piece in hand: rows to come, the one in hand included; where that one begins; its beats done so far.
        rows_left, done = Signal(self._count_bits), Signal(self._bytes_bits + 2)
        exact = max(params.address_bits + 1, self._bytes_bits + self._count_bits) + 2  # no sum below is ever cut
        start, length, pitch = Signal(exact), Signal(self._bytes_bits), Signal(self._bytes_bits)
        end, inside = Signal(exact), Signal()
        first, beyond, beats = (Signal(exact, name=name) for name in ("first", "beyond", "beats"))
        taken, goes, row_ends = Signal(), Signal(), Signal()
        m.d.comb += [
            end.eq(start + length), inside.eq((start >= dut.window_low) & (end <= dut.window_high)),
            first.eq(start >> low), beyond.eq((end + params.bus_bytes - 1) >> low), beats.eq(beyond - first),
            taken.eq(dut.rows.valid & dut.rows.ready), goes.eq(dut.bursts.valid & dut.bursts.ready),
            row_ends.eq(done + burst.last + 1 == beats),
        ]
        with m.If(taken):
            m.d.sync += [
                rows_left.eq(Mux(dut.rows.payload.row_bytes == 0, 0, dut.rows.payload.count)), start.eq(dut.rows.payload.address),
                length.eq(dut.rows.payload.row_bytes), pitch.eq(dut.rows.payload.pitch_bytes), done.eq(0),
            ]
        with m.Elif(goes & row_ends):
            m.d.sync += [rows_left.eq(rows_left - 1), start.eq(start + pitch), done.eq(0)]
        with m.Elif(goes):
            m.d.sync += done.eq(done + burst.last + 1)

        last_byte = burst.address + ((burst.last + 1) << low) - 1
        # The longest burst divides a page, so what stays between multiples of it stays in its page.
        longest_log2 = (params.burst_beats * params.bus_bytes).bit_length() - 1
        self.watch(
            rows_ready=dut.rows.ready, valid=dut.bursts.valid, burst_address=burst.address, burst_last=burst.last, final=burst.final,
            outside=dut.outside, rows_left=rows_left, start=start, beats=beats, done=done,
        )
        self.prove(m, "a burst that waits does not change", held(m, dut.bursts.valid, dut.bursts.ready, burst))
        with m.If(dut.bursts.valid):
            self.prove(m, "there is a burst only while beats are due", rows_left != 0)
            self.prove(m, "the row of a burst lies in the window", inside)
            self.prove(m, "a burst begins at the beat that is due", burst.address == (first + done) << low)
            self.prove(m, "a burst ends with its row at the latest", done + burst.last + 1 <= beats)
            self.prove(m, "a burst is no longer than the longest", burst.last < params.burst_beats)
            self.prove(m, "a burst stays in its page", burst.address >> longest_log2 == last_byte >> longest_log2)
            self.prove(m, "final marks the last burst of the piece", burst.final == ((rows_left == 1) & row_ends))
        self.prove(m, "the next piece is taken when all beats are asked for, and not before", dut.rows.ready == (rows_left == 0))
        with m.If(dut.outside):
            self.prove(m, "outside: a row that is due, or the one after the row in hand, leaves the window",
                       (rows_left != 0) & ~(inside & (rows_left == 1)))
        self.reach(m, "two rows, the second in two bursts", dut.bursts.valid & burst.final & (done != 0) & (pitch > length))
        self.reach(m, "outside", dut.outside)
        self.reach(m, "the next piece", taken & (pitch != 0))

