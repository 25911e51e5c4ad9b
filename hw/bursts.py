"""From rows of bytes to bursts: aligned pieces that never cross a page."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import burst
from vtakit.hw.params import CoreParams

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

    Members
    -------
    rows : ``In(stream)``               what to move; a count or a row of 0 moves nothing
    bursts : ``Out(stream)``            the bursts, in order
    window_low, window_high : ``In``    first byte that may be touched, and the byte after the last
    outside : ``Out(1)``                the row in hand leaves the window: no burst is made of it, ever
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
        beats_log2 = params.burst_beats.bit_length() - 1
        beat_bits = params.address_bits - low
        piece = Signal(rows(params))
        left = Signal(16)  # rows not yet begun
        beat, beats_left = Signal(beat_bits), Signal(ROW_BYTES_BITS - low + 1)  # of the row begun; beats_left 0: none is
        row_end = Signal(len(piece.address) + 1)
        inside, next_row = Signal(), Signal()
        m.d.comb += [
            row_end.eq(piece.address + piece.row_bytes),
            inside.eq((piece.address >= self.window_low) & (row_end <= self.window_high)),
            self.outside.eq((left != 0) & (piece.row_bytes != 0) & ~inside),
            self.rows.ready.eq((left == 0) & (beats_left == 0)),
        ]
        with m.If(self.rows.valid & self.rows.ready):
            m.d.sync += [piece.eq(self.rows.payload), left.eq(Mux(self.rows.payload.row_bytes == 0, 0, self.rows.payload.count))]

        # The burst at hand ends where its beats end, or at the next multiple of the longest burst.
        room, size = Signal(beats_log2 + 1), Signal(beats_log2 + 1)
        m.d.comb += [
            room.eq(params.burst_beats - beat[:beats_log2]), size.eq(Mux(beats_left > room, room, beats_left)),
            self.bursts.valid.eq(beats_left != 0), self.bursts.payload.last.eq(size - 1),
            self.bursts.payload.final.eq((left == 0) & (beats_left <= room)),
            self.bursts.payload.address.eq(Cat(Const(0, low), beat)),
        ]
        done = Signal()
        m.d.comb += [
            done.eq((beats_left == 0) | (self.bursts.ready & (beats_left <= room))),
            next_row.eq(done & (left != 0) & inside),
        ]
        with m.If(self.bursts.valid & self.bursts.ready):
            m.d.sync += [beat.eq(beat + size), beats_left.eq(beats_left - size)]
        with m.If(next_row):
            m.d.sync += [
                beat.eq(piece.address[low : params.address_bits]), left.eq(left - 1),
                piece.address.eq(piece.address + piece.pitch_bytes),
                beats_left.eq((piece.address[:low] + piece.row_bytes + params.bus_bytes - 1) >> low),
            ]
        return m
