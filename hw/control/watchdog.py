"""A bound on waiting for memory: an accelerator whose memory never answers says so."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.params import MOST_OUTSTANDING


class Watchdog(wiring.Component):
    """Counts the cycles in which memory has something to do and no channel moves.

    Members
    -------
    limit : ``In``                    as many cycles are too long; 0: none are
    watches : ``In(1)``               a program runs or is being stopped
    ar, aw : ``In(1)``                the memory takes the address of a burst
    r, b : ``In(1)``                  the memory gives the last beat of a burst, or the answer to one
    asks : ``In(1)``                  an address or data are offered
    moves : ``In(1)``                 some channel has a transfer
    late : ``Out(1)``                 in the cycle after the last of `limit` ones
    """

    def __init__(self, limit_bits: int) -> None:
        super().__init__({
            "limit": In(limit_bits), "watches": In(1), "ar": In(1), "aw": In(1), "r": In(1), "b": In(1), "asks": In(1),
            "moves": In(1), "late": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        reads, writes = (Signal(range(MOST_OUTSTANDING + 1), name=name) for name in ("reads", "writes"))
        waits = Signal()
        passed = Signal.like(self.limit)
        m.d.sync += [
            reads.eq(reads + self.ar - self.r), writes.eq(writes + self.aw - self.b),
            waits.eq(self.watches & ~self.moves & ((reads != 0) | (writes != 0) | self.asks)),
            passed.eq(Mux(waits, passed + 1, 0)), self.late.eq(waits & (self.limit != 0) & (passed + 1 == self.limit)),
        ]
        return m
