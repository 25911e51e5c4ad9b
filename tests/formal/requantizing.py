"""The requantizer: every value leaves as the instruction set's formula says."""

import itertools
from collections.abc import Callable

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from formal.checker import Checker

from vtakit.hw.interfaces import layout
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import REQUANT_PARAMS, REQUANT_WORDS, TABLE_BYTES
from vtakit.hw.store.requantizer import (
    FINE_BITS,
    LOW_BITS,
    NEAR_BITS,
    PRODUCT_BITS,
    WORD_BITS,
    Requantizer,
)
from vtakit.hw.timing import REQUANT_LATENCY, table_rows

PRODUCT_AT = 3  # the stage that has the product


class ValuesAreRequantized(Checker):
    """Requantizer against the formula, in exact integers: values, parts, tags and parameters are free in every cycle.

    No solver finds out in time that a product of 33 by 16 bits is the sum of two smaller ones. That is algebra: the checker forms
    it by the distributive law too, with the block's cut, one step a cycle. All that follows is done in one step,
    `REQUANT_LATENCY` cycles after the value. Parameters may be loaded in any cycle in which none is under way, so those held at
    the end are those held when the value came.
    """

    def __init__(self, cfg: VTAConfig, lanes: int) -> None:
        self._cfg, self._lanes = cfg, lanes
        super().__init__()

    def properties(self, m: Module) -> None:
        cfg, lanes = self._cfg, self._lanes
        m.submodules.requantizer = dut = Requantizer(cfg, lanes, 1)
        busy, word = Signal(), self.free("word", range(REQUANT_WORDS))
        loads = self.free("loads") & ~busy
        element, values = self.free("element", 8 * cfg.acc_bytes), self.free("values", lanes * WORD_BITS)
        given = data.StructLayout({"valid": 1, "tag": 1, "part": dut.part.shape()})
        stages = [Signal(given, name=f"given{n}") for n in range(REQUANT_LATENCY + 1)]
        m.d.comb += [
            busy.eq(Cat(stage.valid for stage in stages).any()),
            dut.loads.eq(loads), dut.word.eq(word), dut.element.eq(element), dut.values.eq(values), dut.valid.eq(stages[0].valid),
            dut.part.eq(stages[0].part), dut.tag.eq(stages[0].tag), stages[0].eq(self.free("given", given)),
        ]
        m.d.sync += [later.eq(now) for now, later in itertools.pairwise(stages)]
        held = [Signal(8 * cfg.acc_bytes, name=f"held{n}") for n in range(REQUANT_WORDS)]
        for n, register in enumerate(held):
            with m.If(loads & (word == n)):
                m.d.sync += register.eq(element)

        def parameters(stage: int, lane: int) -> data.View:
            """Of the lane of the part that is at `stage`."""
            chosen = (register.word_select(stages[stage].part, lanes * WORD_BITS) for register in held)
            return data.View(layout(REQUANT_PARAMS, cfg), Cat(each.word_select(lane, WORD_BITS) for each in chosen))

        came = stages[REQUANT_LATENCY]
        self.watch(stays=dut.stays, result_valid=dut.result_valid, results=dut.results)
        self.prove(m, "a result comes exactly so many cycles behind its value", dut.result_valid == came.valid)
        self.prove(m, "stays: a value is under way in the next cycle", dut.stays == Cat(each.valid for each in stages[:-1]).any())
        with m.If(came.valid):
            self.prove(m, "the tag is the value's", dut.result_tag == came.tag)
        for lane in range(lanes):
            product = self._product(m, lane, values.word_select(lane, WORD_BITS).as_signed(), parameters(0, lane))
            wanted, result = Signal(cfg.out_bits, name=f"wanted{lane}"), dut.results.word_select(lane, cfg.out_bits)
            m.d.comb += wanted.eq(_formula(product, parameters(REQUANT_LATENCY, lane)))
            self.watch(**{f"product{lane}": product, f"wanted{lane}": wanted})
            with m.If(came.valid):
                self.prove(m, f"lane {lane} is the formula's", result == wanted)
            f, inside = parameters(REQUANT_LATENCY, lane), Signal(name=f"inside{lane}")
            m.d.comb += inside.eq(came.valid & (wanted.as_signed() > f.low) & (wanted.as_signed() < f.high))
            rounds_up = (f.shift > 1 << FINE_BITS) & ((product << 1) >> f.shift)[0]
            self.reach(m, f"lane {lane}: rounded up, not clipped", inside & rounds_up & product[-1])
            self.reach(m, f"lane {lane}: far above, clipped", came.valid & (product >> f.shift > 1 << NEAR_BITS) & (result == 5))

    @staticmethod
    def _product(m: Module, lane: int, value: Value, f: data.View) -> Value:
        """The value with its bias, times the multiplier, when the result is due."""
        total, multiplier = Signal(signed(WORD_BITS + 1), name=f"total{lane}"), Signal(16, name=f"multiplier{lane}")
        low, high = Signal(PRODUCT_BITS, name=f"low{lane}"), Signal(signed(PRODUCT_BITS), name=f"high{lane}")
        m.d.sync += [
            total.eq(value + f.bias), multiplier.eq(f.multiplier),
            low.eq(total[:LOW_BITS] * multiplier), high.eq(total[LOW_BITS:].as_signed() * multiplier),
        ]
        products = [Signal(signed(PRODUCT_BITS), name=f"product{lane}_{n}") for n in range(PRODUCT_AT, REQUANT_LATENCY + 1)]
        m.d.sync += [products[0].eq((high << LOW_BITS) + low)]
        m.d.sync += [later.eq(now) for now, later in itertools.pairwise(products)]
        return products[-1]


def _formula(product: Value, f: data.View) -> Value:
    """Rounding shift, zero point and clip."""
    half = ((1 << f.shift) >> 1).as_unsigned()
    scaled = ((product + half) >> f.shift) + f.zero_point
    above = Mux(scaled < f.low, f.low, scaled)
    return Mux(above > f.high, f.high, above)


class _Delayed(Requantizer):
    """A requantizer whose results are the low bits of values: what comes before the table is proved by itself."""

    def _lane(self, m: Module, lane: int, x: Value, parameter: Callable[[str, int, int], Value]) -> Value:
        found: Value = x[: self._cfg.out_bits]
        for n in range(1, REQUANT_LATENCY):
            held = Signal(self._cfg.out_bits, name=f"delayed{n}_{lane}")
            m.d.sync += held.eq(found)
            found = held
        return found


class ResultsAreLookedUp(Checker):
    """The table of a Requantizer: rows come in any order, and a result is the byte that it chooses, or itself.

    Rows and the choice change only while no value is under way, as the store port has it. Any one byte of the table is followed.
    """

    def __init__(self, cfg: VTAConfig, lanes: int) -> None:
        self._cfg, self._lanes = cfg, lanes
        super().__init__()

    def properties(self, m: Module) -> None:
        lanes, rows = self._lanes, table_rows(self._lanes)
        m.submodules.requantizer = dut = _Delayed(self._cfg, lanes, 1, table=True)
        under_way, quiet = Signal(REQUANT_LATENCY + 1), Signal()
        fills, row = self.free("fills") & quiet, self.free("row", range(rows))
        valid, values = self.free("valid") & ~fills, self.free("values", lanes * WORD_BITS)
        looks_up = Signal()
        m.d.comb += quiet.eq(under_way == 0)
        m.d.sync += under_way.eq(Cat(valid, under_way))
        with m.If(quiet & ~valid):
            m.d.sync += looks_up.eq(self.free("choice"))
        m.d.comb += [
            dut.fills.eq(fills), dut.row.eq(row), dut.values.eq(values), dut.valid.eq(valid), dut.looks_up.eq(looks_up),
        ]
        followed, row_bytes = self.constant(m, "followed", 8), TABLE_BYTES // rows
        known, byte = Signal(), Signal(8)
        with m.If(fills & (row == followed // row_bytes)):
            m.d.sync += [known.eq(1), byte.eq(values.word_select(followed % row_bytes, 8))]
        came = [values]
        for n in range(REQUANT_LATENCY + 1):
            came.append(Signal.like(values, name=f"came{n}"))
            m.d.sync += came[-1].eq(came[-2])
        self.prove(m, "a result comes exactly so many cycles behind its value, one more if it is looked up",
                   dut.result_valid == Mux(looks_up, under_way[REQUANT_LATENCY], under_way[REQUANT_LATENCY - 1]))
        self.watch(results=dut.results, result_valid=dut.result_valid, looks_up=looks_up, byte=byte)
        for lane in range(lanes):
            value = Mux(looks_up, came[-1], came[-2])
            number, result = value.word_select(lane, WORD_BITS)[:8], dut.results.word_select(lane, 8)
            chosen = known & looks_up & (number == (followed ^ 0x80))
            with m.If(dut.result_valid):
                self.prove(m, f"lane {lane} is the table's byte", ~chosen | (result == byte))
                self.prove(m, f"lane {lane} is as it was", looks_up | (result == number))
                self.reach(m, f"lane {lane}: another number than it was", chosen & (result != number))
