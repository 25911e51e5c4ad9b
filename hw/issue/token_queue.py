"""A dependence-token queue between two stages."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import INDEX_BITS


class TokenQueue(wiring.Component):
    """Dependence tokens between two stages, kept as a count because a token carries no data.

    Members
    -------
    push : ``In(1)``                    the producing stage retired an instruction with its push flag set
    pop : ``Out(stream.Signature(0))``  a token is available; taking it lets the consumer start
    overflow : ``Out(1)``               in the cycle before, a push found the queue full: the program is wrong
    empty : ``Out(1)``                  no token waits
    index : ``In``, giver : ``Out``     number of the instruction that pushes; of the last one that did
    """

    def __init__(self, depth: int) -> None:
        if depth < 1:
            raise ValueError(f"TokenQueue depth must be at least 1, got {depth}")
        self._depth = depth
        super().__init__({"push": In(1), "pop": Out(stream.Signature(0)), "overflow": Out(1), "empty": Out(1),
                          "index": In(INDEX_BITS), "giver": Out(INDEX_BITS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # What comes and goes is known late in a cycle, so it is counted in the next: `before` is the count of the cycle before.
        before, count = (Signal(range(self._depth + 1), name=name) for name in ("before", "count"))
        came, went, full, more, loses = (Signal(name=name) for name in ("came", "went", "full", "more", "loses"))
        any_there = Signal()
        taken = self.pop.valid & self.pop.ready
        m.d.comb += [
            count.eq(before + came - went), self.pop.valid.eq(any_there), self.empty.eq(~any_there),
            # No room, and more than one token: without the adder.
            full.eq(Mux(came, before == self._depth - 1, ~went & (before == self._depth))),
            more.eq(Mux(came, before > 0, Mux(went, before > 2, before > 1))), loses.eq(self.push & ~taken & full),
        ]
        m.d.sync += [
            any_there.eq(self.push | Mux(taken, more, any_there)), self.overflow.eq(loses),
            came.eq(self.push & ~taken & ~full), went.eq(taken & ~self.push), before.eq(count),
        ]
        with m.If(self.push):
            m.d.sync += self.giver.eq(self.index)
        return m
