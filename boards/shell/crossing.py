"""An AXI4 port from one clock to another."""

from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import axi_read, axi_write
from vtakit.hw.params import CoreParams

DEPTH = 16  # of a channel's queue: more than a place's way to the other clock and back takes, so that streams do not wait
MEMORY = "memory"  # the far side's domain


class AxiCrossing(wiring.Component):
    """Carries a port of the domain `sync` to the domain `memory`, whatever the two clocks are.

    Each channel is a queue of its own: a memory that one clock writes and the other reads, and counters of both sides that the
    other one sees in Gray code, over two registers. So channels keep their order, and nothing is lost or doubled. Between
    channels there is no order that AXI4 would not let go. Both domains must be reset at the same time.

    Members
    -------
    read, write : ``In``           of the manager, in the domain `sync`
    far_read, far_write : ``Out``  to the subordinate, in the domain `memory`
    """

    def __init__(self, params: CoreParams) -> None:
        read, write = axi_read(params), axi_write(params)
        super().__init__({"read": In(read), "write": In(write), "far_read": Out(read), "far_write": Out(write)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for near, far in ((self.read, self.far_read), (self.write, self.far_write)):
            for name, member in far.signature.members.items():
                outward = member.flow is Out
                source, sink = (getattr(near, name), getattr(far, name)) if outward else (getattr(far, name), getattr(near, name))
                domains = {"w_domain": "sync", "r_domain": MEMORY} if outward else {"w_domain": MEMORY, "r_domain": "sync"}
                self._channel(m, name, source, sink, domains)
        return m

    def _channel(self, m: Module, name: str, source: Any, sink: Any, domains: dict[str, str]) -> None:
        """Carry a stream over."""
        width = len(Value.cast(source.payload))
        # What leaves the queue comes from a register, which counts as a place of its own.
        m.submodules[name] = queue = fifo.AsyncFIFOBuffered(width=width, depth=DEPTH + 1, **domains)
        m.d.comb += [
            queue.w_data.eq(source.payload), queue.w_en.eq(source.valid), source.ready.eq(queue.w_rdy),
            sink.payload.eq(queue.r_data), sink.valid.eq(queue.r_rdy), queue.r_en.eq(sink.ready),
        ]
