"""In-order retirement: a stage's instructions finish in the order in which they were started, and only then give their tokens."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import INDEX_BITS
from vtakit.hw.pipeline import HeadFIFO
from vtakit.hw.timing import INSNS_STARTED


def entry(units: int) -> data.StructLayout:
    """An instruction that was started: its number, the unit that does it (0: nothing is to be done), the tokens that it gives."""
    return data.StructLayout({"unit": range(units + 1), "push_prev": 1, "push_next": 1, "finish": 1, "index": INDEX_BITS})


class Retire(wiring.Component):
    """Members
    -------
    started : ``In(stream)``                   instructions, as they are started
    done : ``In(units)``                       bit n: unit n + 1 has finished its oldest instruction
    push_prev, push_next, finish : ``Out(1)``  the oldest instruction retires and gives a token; or it is FINISH
    retires : ``Out(1)``, index : ``Out``      the oldest instruction retires; its number
    empty : ``Out(1)``                         none is under way
    """

    def __init__(self, units: int) -> None:
        self._units = units
        super().__init__({
            "started": In(stream.Signature(entry(units))), "done": In(units),
            "push_prev": Out(1), "push_next": Out(1), "finish": Out(1), "empty": Out(1),
            "retires": Out(1), "index": Out(INDEX_BITS),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = HeadFIFO(width=entry(self._units).size, depth=INSNS_STARTED)
        oldest = data.View(entry(self._units), queue.r_data)
        finished = [Signal(range(INSNS_STARTED + 1), name=f"finished{n}") for n in range(self._units)]
        ready = Array([Signal(init=1, name="nothing"), *(count != 0 for count in finished)])[oldest.unit]
        m.d.comb += [
            queue.w_en.eq(self.started.valid), queue.w_data.eq(self.started.payload), self.started.ready.eq(queue.w_rdy),
            self.retires.eq(queue.r_rdy & ready), queue.r_en.eq(self.retires), self.empty.eq(~queue.r_rdy),
            self.index.eq(oldest.index),
            self.push_prev.eq(self.retires & oldest.push_prev), self.push_next.eq(self.retires & oldest.push_next),
            self.finish.eq(self.retires & oldest.finish),
        ]
        for n, count in enumerate(finished):
            m.d.sync += count.eq(count + self.done[n] - (self.retires & (oldest.unit == n + 1)))
        return m
