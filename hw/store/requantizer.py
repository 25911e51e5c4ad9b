"""Requantization on the way from ACC to memory: bias, scale, rounding shift, zero point and clip, some lanes a cycle."""

from collections.abc import Callable

from amaranth.hdl import Array, Cat, Const, Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import REQUANT_PARAMS, REQUANT_WORD_BITS, REQUANT_WORDS, TABLE_BYTES
from vtakit.hw.timing import REQUANT_LATENCY, table_rows

WORD_BITS = REQUANT_WORD_BITS  # of a value too
MULTIPLIER_BITS, SHIFT_BITS = REQUANT_PARAMS.width("multiplier"), REQUANT_PARAMS.width("shift")
LOW_BITS = 17  # of a sum of 33 bits: the rest has 16 and a sign's place, so that each half is one DSP block's operand
NEAR_BITS = 10  # of a scaled value: beyond them neither rounding nor a zero point brings it back between the bounds of eight bits
FINE_BITS = 4  # of a shift: the second shifter's part
ENTRY_BITS = 8  # of a result that is looked up
PRODUCT_BITS = WORD_BITS + 1 + MULTIPLIER_BITS
WINDOW_BITS = (1 << FINE_BITS) + NEAR_BITS  # what the second shifter can bring to the near bits and the one below them


class Requantizer(wiring.Component):
    """Takes values in any cycle and never waits; a lane's result is that of `sim.plain.requantized`, its low output-width bits.

    Results that are looked up come a cycle later. The table lies in a memory as wide as the values, with a read port for each
    lane: the upper bits of a result choose a row, and the lower a byte of it.

    The shift is done in two steps, and on few bits: all that the result can depend on is a window of a product, and whether the
    bits above it are more than a sign. Half of the last bit is added as that bit itself, which is shifted out last.

    Members
    -------
    word : ``In``             which of the parameters' words comes, while `loads`
    loads : ``In(1)``         take `element` as that word of every lane; never while values are under way
    element : ``In``          an accumulator element
    valid : ``In(1)``
    values : ``In``           a part of an element, `part` says which
    tag : ``In``              comes out beside the result
    results, result_tag, result_valid : ``Out``    `REQUANT_LATENCY` cycles later, or one more if they are looked up
    stays : ``Out(1)``        values are under way in the next cycle too
    fills, row : ``In``       where there is a table: take `values` as that row of it; never while values are under way
    looks_up : ``In(1)``      likewise: results are entries of the table; the same while values are under way
    """

    def __init__(self, cfg: VTAConfig, lanes: int, tag_bits: int, *, table: bool = False) -> None:
        self._cfg, self._lanes, self._parts, self._table = cfg, lanes, cfg.batch * cfg.block // lanes, table
        super().__init__({
            **({"fills": In(1), "row": In(range(table_rows(lanes))), "looks_up": In(1)} if table else {}),
            "word": In(range(REQUANT_WORDS)), "loads": In(1), "element": In(8 * cfg.acc_bytes),
            "valid": In(1), "values": In(lanes * WORD_BITS), "part": In(range(self._parts)), "tag": In(tag_bits),
            "results": Out(lanes * cfg.out_bits), "result_tag": Out(tag_bits), "result_valid": Out(1), "stays": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        elements = [Signal(8 * self._cfg.acc_bytes, name=f"parameters{n}", reset_less=True) for n in range(REQUANT_WORDS)]
        for n, element in enumerate(elements):
            with m.If(self.loads & (self.word == n)):
                m.d.sync += element.eq(self.element)

        # Which part is at each stage: its lanes' parameters meet it there.
        valid, parts, tags = [self.valid], [Value.cast(self.part)], [Value.cast(self.tag)]
        for n in range(REQUANT_LATENCY + self._table):
            flag, part = Signal(name=f"valid{n}"), Signal.like(self.part, name=f"part{n}", reset_less=True)
            tag = Signal.like(self.tag, name=f"tag{n}", reset_less=True)
            m.d.sync += [flag.eq(valid[-1]), part.eq(parts[-1]), tag.eq(tags[-1])]
            valid, parts, tags = [*valid, flag], [*parts, part], [*tags, tag]
        late = self.looks_up if self._table else Const(0, 1)  # the results are those of the last stage, not of the one before
        flags, tags = valid[: REQUANT_LATENCY + 1], [*tags[REQUANT_LATENCY:], tags[-1]]
        m.d.comb += [
            self.result_valid.eq(Mux(late, valid[-1], flags[-1])), self.result_tag.eq(Mux(late, tags[1], tags[0])),
            self.stays.eq(Cat(flags[:-1]).any() | (late & flags[-1])),
        ]

        fields = {p.field.name: p for p in REQUANT_PARAMS.place(self._cfg)}

        def parameter(name: str, stage: int, lane: int) -> Value:
            """Return the parameter of the lane's value that is at `stage`."""
            word, at = divmod(fields[name].offset, WORD_BITS)
            starts = [(part * self._lanes + lane) * WORD_BITS + at for part in range(self._parts)]
            value = Array(elements[word][start : start + fields[name].width] for start in starts)[parts[stage]]
            return value.as_signed() if fields[name].low < 0 else value

        table = self._memory(m) if self._table else None
        for lane in range(self._lanes):
            x = self.values[lane * WORD_BITS : (lane + 1) * WORD_BITS].as_signed()
            clipped6 = self._lane(m, lane, x, parameter)
            result7 = Signal(self._cfg.out_bits, name=f"result7_{lane}", reset_less=True)
            m.d.sync += result7.eq(clipped6)
            result = result7 if table is None else self._looked_up(m, table, lane, clipped6, result7)
            m.d.comb += self.results.word_select(lane, self._cfg.out_bits).eq(result)
        return m

    def _lane(self, m: Module, lane: int, x: Value, parameter: Callable[[str, int, int], Value]) -> Value:
        """The result of one lane; the names end in the stage at which they are."""
        def register(name: str, value: Value, shape: ShapeLike) -> Signal:
            held = Signal(shape, name=f"{name}_{lane}", reset_less=True)
            m.d.sync += held.eq(value)
            return held

        sum1 = register("sum1", x + parameter("bias", 0, lane), signed(WORD_BITS + 1))
        multiplier1 = register("multiplier1", parameter("multiplier", 0, lane), MULTIPLIER_BITS)
        low2 = register("low2", sum1[:LOW_BITS] * multiplier1, LOW_BITS + MULTIPLIER_BITS)
        high2 = register("high2", sum1[LOW_BITS:].as_signed() * multiplier1, signed(PRODUCT_BITS - LOW_BITS))
        product3 = register("product3", Cat(low2[:LOW_BITS], (high2 + low2[LOW_BITS:])[: len(high2)]), PRODUCT_BITS)
        shift3 = register("shift3", parameter("shift", 2, lane), SHIFT_BITS)

        # Sixteens of the shift. Below the window's first bit is what is shifted out for good; the first bit is the rounding one.
        sign3, doubled3 = product3[-1], Cat(Const(0, 1), product3)
        extended3 = Cat(doubled3, sign3.replicate(1 << SHIFT_BITS))
        starts = range(0, 1 << SHIFT_BITS, 1 << FINE_BITS)
        windows = Array([extended3[at : at + WINDOW_BITS] for at in starts])
        uppers = [extended3[at + WINDOW_BITS :] for at in starts]
        beyond = Array([Mux(sign3, ~upper.all(), upper.any()) for upper in uppers])
        window4 = register("window4", windows[shift3[FINE_BITS:]], WINDOW_BITS)
        far4 = register("far4", beyond[shift3[FINE_BITS:]], 1)
        fine4, sign4 = register("fine4", shift3[:FINE_BITS], FINE_BITS), register("sign4", sign3, 1)

        near5 = register("near5", (window4 >> fine4)[: NEAR_BITS + 1], NEAR_BITS + 1)
        unlike4 = window4[NEAR_BITS:] ^ sign4.replicate(WINDOW_BITS - NEAR_BITS)
        far5, sign5 = register("far5", far4 | (unlike4 >> fine4).any(), 1), register("sign5", sign4, 1)

        farthest5 = Cat((~sign5).replicate(NEAR_BITS - 1), sign5).as_signed()  # the least number of so many bits, or the largest
        scaled5 = Mux(far5, farthest5, near5[1:].as_signed())
        total6 = register("total6", scaled5 + near5[0] + parameter("zero_point", 5, lane), signed(NEAR_BITS + 2))
        low6, high6 = parameter("low", 6, lane), parameter("high", 6, lane)
        return Mux((total6 > high6) | (low6 > high6), high6, Mux(total6 < low6, low6, total6))

    def _memory(self, m: Module) -> memory.Memory:
        """The table, whose rows are parts of elements."""
        m.submodules.table = table = memory.Memory(
            shape=min(len(self.values), 8 * TABLE_BYTES), depth=table_rows(self._lanes), init=[],
            attrs={"ram_style": "distributed"},  # otherwise registers, since it has few rows, and a multiplexer of them each lane
        )
        write = table.write_port()
        m.d.comb += [write.en.eq(self.fills), write.addr.eq(self.row), write.data.eq(self.values)]
        return table

    def _looked_up(self, m: Module, table: memory.Memory, lane: int, clipped6: Value, result7: Signal) -> Value:
        """The result of one lane, or a cycle later the entry that it chooses."""
        read = table.read_port()
        row_bits = (table.depth - 1).bit_length()
        entry6 = Cat(clipped6[: ENTRY_BITS - 1], ~clipped6[ENTRY_BITS - 1])  # 128 more
        result8 = Signal.like(result7, name=f"result8_{lane}")
        entry7 = Cat(result7[:-1], ~result7[-1])
        found7 = read.data.word_select(entry7[: ENTRY_BITS - row_bits], 8)
        m.d.comb += read.addr.eq(entry6[ENTRY_BITS - row_bits :])
        m.d.sync += result8.eq(found7)
        return Mux(self.looks_up, result8, result7)
