"""What leaves the accumulator: the beats of STOREs and REQUANTs hold exactly their rows, each element by its own parameters."""

import itertools
from unittest.mock import patch

from amaranth.hdl import Array, Cat, Const, Fragment, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2
from formal.checker import Checker, Scoreboard, SmallParams, held

from vtakit.hw.interfaces import layout
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import REQUANT, REQUANT_WORDS, Feature, Opcode
from vtakit.hw.store.port import StorePort
from vtakit.hw.timing import REQUANT_LATENCY

IN_FLIGHT = 4  # instructions taken whose beats have not all left


class Requantizing(SmallParams):
    """A port that requantizes, whatever the width of its accumulator."""

    @property
    def features(self) -> Feature:
        return Feature.REQUANT


def requantizing(cfg: VTAConfig, bus_bits: int) -> Requantizing:
    """Such a port with short bursts."""
    return Requantizing(cfg=cfg, bus_bits=bus_bits, address_bits=5, outstanding=2, burst_beats=2, buffer_beats=4)


def mixed(value: Value, words: list[Value]) -> Value:
    """A value and its three parameters, so that a wrong one of them shows: in place of the formula, which is proved by itself."""
    return value ^ words[0] ^ words[1].rotate_left(1) ^ words[2].rotate_left(2)


class Mixer(wiring.Component):
    """A requantizer but for its arithmetic; parameters that come too early spoil what is under way."""

    def __init__(self, cfg: VTAConfig, lanes: int, tag_bits: int, *, table: bool = False) -> None:
        assert not table, "a table is of 256 bytes: too many here"
        parts = cfg.batch * cfg.block // lanes
        self._cfg, self._bits = cfg, 8 * cfg.acc_bytes // parts
        super().__init__({
            "word": In(range(REQUANT_WORDS)), "loads": In(1), "element": In(8 * cfg.acc_bytes),
            "valid": In(1), "values": In(self._bits), "part": In(range(parts)), "tag": In(tag_bits),
            "results": Out(self._bits), "result_tag": Out(tag_bits), "result_valid": Out(1), "stays": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = [Signal(8 * self._cfg.acc_bytes, name=f"word{n}") for n in range(REQUANT_WORDS)]
        for n, word in enumerate(words):
            with m.If(self.loads & (self.word == n)):
                m.d.sync += word.eq(self.element)
        busy, spoilt = Signal(), Signal()
        chosen = [word.word_select(self.part, self._bits) for word in words]
        stage = data.StructLayout({"valid": 1, "tag": len(self.tag), "values": self._bits})
        stages = [Signal(stage, name=f"stage{n}") for n in range(REQUANT_LATENCY + 1)]
        m.d.comb += [
            stages[0].valid.eq(self.valid), stages[0].tag.eq(self.tag), stages[0].values.eq(mixed(self.values, chosen)),
            busy.eq(Cat(each.valid for each in stages).any()), self.stays.eq(Cat(each.valid for each in stages[:-1]).any()),
            self.result_valid.eq(stages[-1].valid),
            self.result_tag.eq(stages[-1].tag), self.results.eq(stages[-1].values ^ spoilt.replicate(self._bits)),
        ]
        m.d.sync += [later.eq(now) for now, later in itertools.pairwise(stages)]
        m.d.sync += spoilt.eq(spoilt | (self.loads & busy))
        return m


class BeatsHoldTheRows(Checker):
    """StorePort with any STOREs and REQUANTs (fields within `bits`) that stay inside the accumulator.

    Every byte of the accumulator has its own value, and the requantizer is a `Mixer`. With `stalls`,
    instructions, reads, bursts and beats may be kept waiting in any cycle.
    """

    def __init__(self, params: Requantizing, bits: dict[str, int], *, stalls: bool) -> None:
        self._params, self._bits, self._stalls = params, bits, stalls
        super().__init__()

    def _maybe(self, name: str) -> Value:
        return self.free(name) if self._stalls else Const(1, 1)

    def properties(self, m: Module) -> None:
        params, cfg = self._params, self._params.cfg
        dut = StorePort(params)
        narrower = StorePort.elaborate.__globals__["Narrower"]  # of the block, or of a copy with a defect
        with patch.dict(narrower.elaborate.__globals__, Requantizer=Mixer):
            m.submodules.port = Fragment.get(dut, None)
        word = Signal(layout(REQUANT, cfg))
        for name, width in self._bits.items():
            m.d.comb += word[name].eq(self.free(name, width))
        requants = self.free("requants")
        m.d.comb += [
            word.opcode.eq(Mux(requants, Opcode.REQUANT, Opcode.STORE)), dut.commands.payload.command.word.eq(word),
            dut.commands.valid.eq(self._maybe("command_valid")), dut.read_ready.eq(self._maybe("read_ready")),
            dut.bursts.ready.eq(self._maybe("burst_ready")), dut.beats.ready.eq(self._maybe("beat_ready")),
            dut.window_high.eq(~0),
        ]
        elements, size = cfg.acc_depth, cfg.acc_bytes
        contents = Array(Const(int.from_bytes(bytes(37 * (size * n + at) + 11 & 0xFF for at in range(size)), "little"), 8 * size)
                         for n in range(elements))
        m.d.sync += dut.read.data.eq(contents[dut.read.index])
        self.assume(m, "an instruction moves something", (word.x_size != 0) & (word.y_size != 0))
        self.assume(m, "all of it inside the accumulator", word.sram_base + word.x_size * word.y_size <= elements)
        self.assume(m, "its parameters too", ~requants | (word.params + REQUANT_WORDS <= elements))
        self.prove(m, "nothing lies outside", ~dut.outside & ~dut.dram_outside)

        # The instruction whose beats are due, and which of them: the row's first byte, and the beat.
        kept = data.StructLayout({"requants": 1, **self._bits})
        taken, takes, ends = Signal(kept), Signal(), Signal()
        m.d.comb += [taken[name].eq(word[name]) for name in self._bits]
        m.d.comb += [taken.requants.eq(requants), takes.eq(dut.commands.valid & dut.commands.ready)]
        under_way = Scoreboard(m, "under_way", kept, IN_FLIGHT)
        under_way.update(takes, taken, ends)
        self.prove(m, "no more instructions under way than this checker counts", ~takes | ends | (under_way.count != IN_FLIGHT))
        f, bus, element = under_way.oldest, params.bus_bytes, cfg.out_bytes
        row, passed, start, beat = Signal(4), Signal(4), Signal(8), Signal(4)
        first, beyond, goes = Signal(8), Signal(8), Signal()
        m.d.comb += [
            start.eq((f.dram_base + row * f.x_stride) * element), first.eq(start >> exact_log2(bus)),
            beyond.eq((start + f.x_size * element + bus - 1) >> exact_log2(bus)), goes.eq(dut.beats.valid & dut.beats.ready),
        ]
        row_ends = first + beat + 1 == beyond
        m.d.comb += ends.eq(goes & row_ends & (row + 1 == f.y_size))
        with m.If(goes):
            m.d.sync += beat.eq(beat + 1)
            with m.If(row_ends):
                m.d.sync += [row.eq(row + 1), beat.eq(0), passed.eq(passed + f.x_size)]
            with m.If(ends):
                m.d.sync += [row.eq(0), passed.eq(0)]
        values = Array(each[8 * at : 8 * at + 8] for each in contents for at in range(size))
        got, index_bits = dut.beats.payload, (elements * size - 1).bit_length()
        with m.If(dut.beats.valid):
            self.prove(m, "beats belong to an instruction", under_way.count != 0)
            for n in range(bus):
                place = Signal(8, name=f"place{n}")  # of the byte in its row
                m.d.comb += place.eq(((first + beat) * bus + n) - start)
                is_row = (((first + beat) * bus + n) >= start) & (place < f.x_size * element)
                lane = place[: exact_log2(size)]
                plain = values[((f.sram_base + passed) * size + place)[:index_bits]]
                words = [values[((f.params + k) * size + lane)[:index_bits]] for k in range(REQUANT_WORDS)]
                self.prove(m, f"byte {n} is written exactly if it is the row's", got.strb[n] == is_row)
                self.prove(m, f"byte {n} is the element's of its place",
                           ~is_row | (got.data[8 * n : 8 * n + 8] == Mux(f.requants, mixed(plain, words), plain)))
        self.prove(m, "a beat offered stays", held(m, dut.beats.valid, dut.beats.ready, got))
        ended, seen = under_way.oldest, Signal(2)  # a STORE, a REQUANT
        with m.If(ends):
            m.d.sync += seen.eq(seen | Cat(~ended.requants, ended.requants))
        self.watch(
            takes=takes, beat_valid=dut.beats.valid, strobe=got.strb, data=got.data, row=row, beat=beat,
            under_way=under_way.count,
        )
        self.reach(m, "a REQUANT of several rows behind a STORE ends", ends & seen[0] & f.requants & (f.y_size > 1))
        self.reach(m, "a STORE behind a REQUANT ends", ends & seen[1] & ~f.requants)
