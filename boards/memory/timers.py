"""Least distances between commands, each as a shift register: its lowest bit is 1 until the distance has passed."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, Signal, Value


def timer(m: Module, name: str, *causes: tuple[Value, int]) -> Value:
    """Return a bit that is 1 when `clocks` have passed since each (event, clocks).

    An event in clock t keeps the bit 0 in the clocks t + 1 to t + clocks - 1. Of several, the one that lasts longest counts.
    """
    wait = Signal(max(1, *(clocks - 1 for _, clocks in causes)), name=name)
    started = [Mux(event, (1 << clocks - 1) - 1, 0) for event, clocks in causes if clocks > 1]
    m.d.sync += wait.eq(reduce(or_, started, wait >> 1))
    return ~wait[0]
