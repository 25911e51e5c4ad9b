"""From accumulator elements to output values: their low bits, or requantized; as many lanes at a time as a beat takes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.isa.insns import REQUANT_WORDS, Feature
from vtakit.hw.params import CoreParams
from vtakit.hw.store.requantizer import Requantizer
from vtakit.hw.timing import PLAIN_AHEAD, SCALED_AHEAD, element_parts, part_lanes, table_rows


def narrowed(params: CoreParams) -> data.StructLayout:
    """The output values of a part; where a beat holds several elements, the place in it, and whether the row ends."""
    lanes = max(1, params.bus_bytes // params.cfg.out_bytes)
    return data.StructLayout({
        "value": 8 * params.cfg.out_bytes // element_parts(params), "place": data.StructLayout({"lane": range(lanes), "ends": 1}),
    })


def asked(params: CoreParams) -> data.StructLayout:
    """Return the layout of a read from ACC.

    is_tap  : part of an element, the first of its window or not (`is_first`); the greatest of each lane are kept if `pools`
    is_part : part of an element, the last of its window; requantized if `scales`, and then looked up if `looks_up`
    is_word : a word of every lane's parameters
    is_row  : part of an element, a row of the table
    """
    return data.StructLayout({
        "is_tap": 1, "is_first": 1, "pools": 1, "is_part": 1, "scales": 1, "looks_up": 1, "part": range(element_parts(params)),
        "place": narrowed(params)["place"].shape,
        "is_word": 1, "word": range(REQUANT_WORDS), "is_row": 1, "row": range(table_rows(part_lanes(params))),
    })


class Narrower(wiring.Component):
    """Members
    -------
    asked : ``In``            what is read in this cycle
    data : ``In``             the element that was read in the cycle before
    found : ``Out(stream)``   output values, in the order in which they were asked for
    has_room : ``Out(1)``     a part may be asked for
    settled : ``Out(1)``      nothing to be requantized is under way; otherwise only more of that may be asked for
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__({
            "asked": In(asked(params)), "data": In(8 * params.cfg.acc_bytes), "found": Out(stream.Signature(narrowed(params))),
            "has_room": Out(1, init=1), "settled": Out(1, init=1),
        })

    def elaborate(self, platform: object) -> Module:
        m, cfg = Module(), self._params.cfg
        requantizes = Feature.REQUANT in self._params.features
        ahead = SCALED_AHEAD if requantizes else PLAIN_AHEAD
        m.submodules.queue = queue = fifo.SyncFIFO(width=narrowed(self._params).size, depth=ahead)
        room = Signal(range(ahead + 1), init=ahead)
        out = Signal(narrowed(self._params))
        taken = Signal()
        m.d.sync += [
            room.eq(room - self.asked.is_part + taken),
            self.has_room.eq(Mux(self.asked.is_part & ~taken, room > 1, taken | (room != 0))),
        ]
        m.d.comb += [
            taken.eq(self.found.valid & self.found.ready), queue.w_data.eq(out), self.found.valid.eq(queue.r_rdy),
            self.found.payload.eq(queue.r_data), queue.r_en.eq(self.found.ready),
        ]

        # What a RAM gives comes late in a cycle: it meets a register first.
        coming, here = (Signal(asked(self._params), name=name) for name in ("coming", "here"))
        values = Signal(8 * cfg.acc_bytes // element_parts(self._params), reset_less=True)
        m.d.sync += [coming.eq(self.asked), here.eq(coming), values.eq(self.data.word_select(coming.part, len(values)))]
        m.d.comb += [
            queue.w_en.eq(here.is_part & ~here.scales), out.place.eq(here.place),
            out.value.eq(Cat(values[n : n + cfg.out_bits] for n in range(0, len(values), cfg.acc_bits))),
        ]
        if requantizes:
            table = Feature.LOOKUP in self._params.features
            m.submodules.requantizer = unit = Requantizer(cfg, part_lanes(self._params), here.place.shape().size, table=table)
            if table:
                m.d.comb += [unit.fills.eq(here.is_row), unit.row.eq(here.row)]
                with m.If(here.is_word):  # before the values that it is for
                    m.d.sync += unit.looks_up.eq(here.looks_up)
            m.d.comb += [
                unit.loads.eq(coming.is_word), unit.word.eq(coming.word), unit.element.eq(self.data),
                unit.valid.eq(here.is_part & here.scales), unit.values.eq(values),
                unit.part.eq(here.part), unit.tag.eq(here.place),
            ]
            under_way = [self.asked.is_part & self.asked.scales, coming.is_part & coming.scales, unit.stays]
            if Feature.POOL in self._params.features:
                pooled = Signal.like(here)  # a cycle later, when the greatest are known
                pools = Signal()
                best = self._greatest(m, here, values)
                m.d.sync += pooled.eq(here)
                with m.If(here.is_word):
                    m.d.sync += pools.eq(here.pools)
                with m.If(pools & ~here.is_row):  # rows of a table come as they are
                    m.d.comb += [
                        unit.valid.eq(pooled.is_part & pooled.scales), unit.values.eq(best), unit.part.eq(pooled.part),
                        unit.tag.eq(pooled.place),
                    ]
                under_way.append(pools & here.is_part & here.scales)
            m.d.sync += self.settled.eq(~Cat(under_way).any())
            with m.If(unit.result_valid):  # nothing else is here then
                m.d.comb += [queue.w_en.eq(1), out.value.eq(unit.results), out.place.eq(unit.result_tag)]
        return m

    def _greatest(self, m: Module, here: Signal, values: Signal) -> Signal:
        """Return the greatest value of each lane since the first of a window."""
        best = Signal.like(values, name="best")
        bits = self._params.cfg.acc_bits
        with m.If(here.is_tap):
            for lane in range(0, len(values), bits):
                old, new = best[lane : lane + bits], values[lane : lane + bits]
                with m.If(here.is_first | (new.as_signed() > old.as_signed())):
                    m.d.sync += old.eq(new)
        return best
