"""From rows of bytes to bursts: aligned pieces that never cross a page."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.interfaces import burst
from vtakit.hw.params import CoreParams
from vtakit.hw.pipeline import Slice

ROW_BYTES_BITS = 16 + 12  # 65,535 elements of at most 4,096 bytes
OFFSET_BITS = 32 + 12  # dram_base of such elements


def rows(params: CoreParams) -> data.StructLayout:
    """A two-dimensional piece of DRAM, in bytes: `count` rows of `row_bytes`, `pitch_bytes` apart, from `address` on.

    The address has room for any base and any instruction's offset, so that what lies beyond DRAM never wraps into it.
    """
    address_bits = max(params.address_bits, OFFSET_BITS) + 1
    return data.StructLayout({"address": address_bits, "count": 16, "row_bytes": ROW_BYTES_BITS, "pitch_bytes": ROW_BYTES_BITS})


def burst_of_rows(params: CoreParams) -> data.StructLayout:
    """A burst; `final` says that it is the last of its piece."""
    return data.StructLayout({**burst(params).members, "final": 1})


class BurstGenerator(wiring.Component):
    """Cuts each row into bursts that end at multiples of the longest burst, so none crosses 4 KiB.

    Four stages, each with its registers: rows are found, checked against the window and made beats, cut into bursts, offered.

    Members
    -------
    rows : ``In(stream)``               what to move; a count or a row of 0 moves nothing
    bursts : ``Out(stream)``            the bursts, in order
    window_low, window_high : ``In``    first byte that may be touched, and the byte after the last
    outside : ``Out(1)``                a row leaves the window: no burst is made of it, ever
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__({
            "rows": In(stream.Signature(rows(params))), "bursts": Out(stream.Signature(burst_of_rows(params))),
            "window_low": In(params.address_bits), "window_high": In(params.address_bits + 1), "outside": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        low = params.bus_bytes_log2
        row = data.StructLayout({
            "beat": params.address_bits - low, "beats": ROW_BYTES_BITS - low + 1, "is_last": 1,
        })
        checked = stream.Signature(row).create()
        self._check(m, checked)

        def room_from(beat: Value) -> Value:
            """Beats up to the next multiple of the longest burst."""
            return params.burst_beats - beat[: params.burst_beats.bit_length() - 1]

        # The burst at hand ends where the row ends, or at the next multiple of the longest burst.
        now = Signal(row, reset_less=True)  # the row in hand
        busy = Signal()
        ends = Signal()  # with this burst
        moves = Signal()
        room = Signal(range(params.burst_beats + 1))
        size = Signal(range(params.burst_beats + 1))
        m.submodules.out = out = Slice(burst_of_rows(params))
        connect(m, out.o, flipped(self.bursts))
        burst = out.i.payload
        m.d.comb += [
            room.eq(room_from(now.beat)), size.eq(Mux(ends, now.beats, room)),
            moves.eq(busy & out.i.ready), checked.ready.eq(~busy | (moves & ends)), out.i.valid.eq(busy),
            burst.address.eq(Cat(Const(0, low), now.beat)), burst.last.eq(size - 1),
            burst.final.eq(now.is_last & ends),
        ]
        with m.If(moves):
            m.d.sync += [
                now.beat.eq(now.beat + size), now.beats.eq(now.beats - size), ends.eq(now.beats <= room + params.burst_beats),
            ]
        with m.If(checked.ready):
            new = checked.payload
            m.d.sync += [now.eq(new), busy.eq(checked.valid), ends.eq(new.beats <= room_from(new.beat))]
        return m

    def _check(self, m: Module, checked: stream.Interface) -> None:
        """One row of the piece in hand after the other: where it lies, then as beats, and whether it lies in the window."""
        params, low = self._params, self._params.bus_bytes_log2
        piece = Signal(rows(params), reset_less=True)
        left = Signal(16)  # rows not yet begun
        any_left = Signal()
        row_end = Signal(len(piece.address) + 1)
        knows_end = Signal()
        found = Signal(data.StructLayout({"address": len(piece.address), "end": len(row_end), "is_last": 1}))
        has_found, has_row, inside, begins, passes = (
            Signal(name=name) for name in ("has_found", "has_row", "inside", "begins", "passes")
        )
        m.d.comb += [
            self.rows.ready.eq(~any_left & ~has_found & (~has_row | inside)),  # never again after one that lies outside
            begins.eq(any_left & knows_end & (~has_found | passes)),
            checked.valid.eq(has_row & inside), passes.eq(has_found & (~has_row | (checked.valid & checked.ready))),
        ]
        m.d.sync += [knows_end.eq(1), self.outside.eq(has_row & ~inside)]
        with m.If(checked.valid & checked.ready):
            m.d.sync += has_row.eq(0)
        with m.If(passes):
            m.d.sync += [
                has_found.eq(0), has_row.eq(1), checked.payload.is_last.eq(found.is_last),
                inside.eq((found.address >= self.window_low) & (found.end <= self.window_high)),
                checked.payload.beat.eq(found.address[low : params.address_bits]),
                checked.payload.beats.eq((found.address[:low] + piece.row_bytes + params.bus_bytes - 1) >> low),
            ]
        with m.If(~knows_end):
            m.d.sync += row_end.eq(piece.address + piece.row_bytes)
        with m.If(begins):
            m.d.sync += [
                has_found.eq(1), found.address.eq(piece.address), found.end.eq(row_end), found.is_last.eq(left == 1),
                left.eq(left - 1), any_left.eq(left != 1), piece.address.eq(piece.address + piece.pitch_bytes),
                row_end.eq(row_end + piece.pitch_bytes),
            ]
        with m.If(self.rows.valid & self.rows.ready):
            new = self.rows.payload
            m.d.sync += [
                piece.eq(new), left.eq(new.count), any_left.eq((new.row_bytes != 0) & (new.count != 0)), knows_end.eq(0),
            ]
