"""The data side of a STORE: accumulator elements in, beats out."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.hw.interfaces import COMMAND, INDEX_BITS, layout, sram_read
from vtakit.hw.isa.insns import REQUANT, REQUANT_WORDS, STORE, Feature, Opcode
from vtakit.hw.memory.bursts import BurstGenerator, burst_of_rows
from vtakit.hw.memory.write_master import write_beat
from vtakit.hw.params import CoreParams
from vtakit.hw.store.narrower import Narrower
from vtakit.hw.store.walk import Walk
from vtakit.hw.timing import element_parts, part_lanes, table_rows


class StorePort(wiring.Component):
    """Runs STORE and REQUANT instructions that move something, in order.

    Members
    -------
    commands : ``In(stream)``             instructions, with the base register of OUT
    read : ``Out(sram_read)``             the ACC scratchpad, data one cycle after the index
    read_ready : ``In(1)``                the port is ours in this cycle
    bursts, beats : ``Out(stream)``       for the write master
    window_low, window_high : ``In``      bytes of DRAM that may be written
    outside, dram_outside : ``Out(1)``    an element lies outside ACC, a row outside the window
    index : ``Out``                       number of the STORE in hand
    active : ``Out(1)``                   a STORE's elements are being read
    stalled : ``Out(1)``                  but not now: those before are still on their way to memory
    """

    def __init__(self, params: CoreParams) -> None:
        self._params, cfg = params, params.cfg
        super().__init__({
            "commands": In(stream.Signature(data.StructLayout({"command": COMMAND, "base": params.address_bits}))),
            "read": Out(sram_read(8 * cfg.acc_bytes, cfg.acc_depth_log2)), "read_ready": In(1),
            "bursts": Out(stream.Signature(burst_of_rows(params))), "beats": Out(stream.Signature(write_beat(params))),
            "window_low": In(params.address_bits), "window_high": In(params.address_bits + 1),
            "outside": Out(1), "dram_outside": Out(1), "index": Out(INDEX_BITS), "active": Out(1), "stalled": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m, params, cfg = Module(), self._params, self._params.cfg
        m.submodules.bursts = bursts = BurstGenerator(params)
        connect(m, bursts.bursts, flipped(self.bursts))
        m.submodules.narrower = narrower = Narrower(params)
        size_log2, parts = cfg.out_bytes.bit_length() - 1, element_parts(params)
        f = data.View(layout(STORE, cfg), self.commands.payload.command.word)
        address = Signal.like(bursts.rows.payload.address)
        take = Signal()
        wanted = narrower.asked
        m.d.comb += [
            address.eq(self.commands.payload.base + (f.dram_base << size_log2)),
            bursts.window_low.eq(self.window_low), bursts.window_high.eq(self.window_high),
            self.commands.ready.eq(~self.active & narrower.settled & bursts.rows.ready),
            take.eq(self.commands.valid & self.commands.ready),
            bursts.rows.valid.eq(take), bursts.rows.payload.address.eq(address), bursts.rows.payload.count.eq(f.y_size),
            bursts.rows.payload.row_bytes.eq(f.x_size << size_log2), bursts.rows.payload.pitch_bytes.eq(f.x_stride << size_log2),
            self.dram_outside.eq(bursts.outside),
        ]

        # Which element, and which part of it: as many lanes as a beat takes, one part a cycle. Parameters are read before.
        m.submodules.walk = walk = Walk(params)
        left = Signal(16)
        rows_left = Signal(16)
        width = Signal(16)
        place, row_place, pitch = (Signal(max(1, params.bus_bytes_log2), name=n) for n in ("place", "row_place", "pitch"))
        issue = Signal()
        moves = Signal()
        part = Signal(range(parts))
        first = Signal(16)
        words_left = Signal(range(REQUANT_WORDS + 1))
        rows = table_rows(part_lanes(params)) if Feature.LOOKUP in params.features else 0
        table_left = Signal(range(rows + 1))
        scales = Signal()
        looks_up = Signal()
        pools = Signal()
        is_requant = Signal()
        requant = data.View(layout(REQUANT, cfg), self.commands.payload.command.word)
        begin = Signal(16)  # the element that is read first
        if Feature.REQUANT in params.features:
            m.d.comb += is_requant.eq(f.opcode == Opcode.REQUANT)
        m.d.comb += begin.eq(Mux(is_requant, requant.params, f.sram_base))
        is_word = Signal()
        is_row = Signal()
        m.d.comb += [
            self.read.index.eq(walk.at), self.outside.eq(self.active & walk.beyond), self.read.enable.eq(issue),
            self.stalled.eq(self.active & ~narrower.has_room),
            issue.eq(self.active & self.read_ready & narrower.has_room & ~walk.beyond & ~self.dram_outside),
            is_word.eq(issue & (words_left != 0)), is_row.eq(issue & (words_left == 0) & (table_left != 0)),
            moves.eq(issue & (words_left == 0) & (table_left == 0)),
        ]
        row_ends, part_ends, ended = left == 1, part == parts - 1, Signal()
        m.d.comb += [
            ended.eq((is_word & (words_left == 1) & (table_left == 0)) | (is_row & (table_left == 1))),
            walk.word.eq(self.commands.payload.command.word), walk.take.eq(take), walk.jump.eq(take | ended),
            walk.place.eq(begin), walk.first_of.eq(first), walk.begins.eq(ended | ~is_requant),
            walk.on.eq(is_word | (is_row & part_ends)), walk.on_in_windows.eq(moves), walk.again.eq(~part_ends),
            walk.row_ends.eq(row_ends),
        ]
        with m.If((moves & walk.last) | is_row):
            m.d.sync += part.eq(Mux(part_ends, 0, part + 1))
        with m.If(moves & walk.last & part_ends):
            m.d.sync += [left.eq(Mux(row_ends, width, left - 1)), place.eq(place + cfg.out_bytes)]
            with m.If(row_ends):
                m.d.sync += [rows_left.eq(rows_left - 1), place.eq(row_place + pitch), row_place.eq(row_place + pitch)]
                with m.If(rows_left == 1):
                    m.d.sync += self.active.eq(0)
        with m.If(is_word):
            m.d.sync += words_left.eq(words_left - 1)
        with m.If(is_row):
            m.d.sync += table_left.eq(table_left - 1)
        with m.If(ended):
            m.d.sync += part.eq(0)
        with m.If(take):
            m.d.sync += [
                self.active.eq(1), left.eq(f.x_size), first.eq(f.sram_base),
                width.eq(f.x_size), rows_left.eq(f.y_size), place.eq(address), row_place.eq(address),
                pitch.eq(f.x_stride << size_log2), self.index.eq(self.commands.payload.command.index), part.eq(0), scales.eq(0),
            ]
            if Feature.REQUANT in params.features:
                with m.If(is_requant):
                    m.d.sync += [
                        scales.eq(1), words_left.eq(REQUANT_WORDS), looks_up.eq(requant.lookup), pools.eq(requant.pool != 0),
                        table_left.eq(Mux(requant.lookup, rows, 0)),
                    ]

        found, lanes = narrower.found, params.bus_bytes // cfg.out_bytes
        m.d.comb += [
            narrower.data.eq(self.read.data), wanted.is_part.eq(moves & walk.last), wanted.is_tap.eq(moves),
            wanted.is_first.eq(walk.first), wanted.pools.eq(pools), wanted.scales.eq(scales), wanted.part.eq(part),
            wanted.place.lane.eq(place >> size_log2), wanted.place.ends.eq(row_ends), wanted.is_word.eq(is_word),
            wanted.word.eq(REQUANT_WORDS - words_left), wanted.looks_up.eq(looks_up),
            wanted.is_row.eq(is_row), wanted.row.eq(rows - table_left),
        ]
        if lanes > 1:
            self._join(m, found, lanes)
        else:
            m.d.comb += [
                self.beats.valid.eq(found.valid), self.beats.payload.strb.eq(~0), self.beats.payload.data.eq(found.payload.value),
                found.ready.eq(self.beats.ready),
            ]
        return m

    def _join(self, m: Module, elements: stream.Interface, lanes: int) -> None:
        """An element joins the beat in hand, which is full with its last lane or at the row's end."""
        size, element, place = self._params.cfg.out_bytes, elements.payload, elements.payload.place
        filled = Signal(self._params.bus_bits)
        strobes = Signal(self._params.bus_bytes)
        new_data = [Mux(place.lane == n, element.value, filled[8 * n * size : 8 * (n + 1) * size]) for n in range(lanes)]
        ones = Const((1 << size) - 1, size)
        new_strobes = [Mux(place.lane == n, ones, strobes[n * size : (n + 1) * size]) for n in range(lanes)]
        full = Signal()
        pending = Signal()
        beat = Signal.like(filled)
        mask = Signal.like(strobes)
        m.d.comb += [
            full.eq(place.ends | (place.lane == lanes - 1)), elements.ready.eq(~full | ~pending | self.beats.ready),
            self.beats.valid.eq(pending), self.beats.payload.data.eq(beat), self.beats.payload.strb.eq(mask),
        ]
        with m.If(self.beats.ready):
            m.d.sync += pending.eq(0)
        with m.If(elements.valid & elements.ready):
            m.d.sync += [filled.eq(Cat(*new_data)), strobes.eq(Mux(full, 0, Cat(*new_strobes)))]
        with m.If(elements.valid & elements.ready & full):
            m.d.sync += [pending.eq(1), beat.eq(Cat(*new_data)), mask.eq(Cat(*new_strobes))]
