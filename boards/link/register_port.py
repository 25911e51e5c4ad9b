"""One register access at a time: an AXI4-Lite manager of 32 bits."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.boards.host_map import HOST_ADDRESS_BITS
from vtakit.hw.interfaces import axi_lite


class RegisterPort(wiring.Component):
    """Members
    -------
    start : ``In(1)``            begin, when not busy
    writes, address, value       what to do; stable while busy
    busy : ``Out(1)``
    failed, found : ``Out``      of the last access: the bus answered with an error; what was read
    registers : ``Out(axi_lite)``
    """

    def __init__(self) -> None:
        super().__init__({
            "start": In(1), "writes": In(1), "address": In(HOST_ADDRESS_BITS), "value": In(32), "busy": Out(1), "failed": Out(1),
            "found": Out(32), "registers": Out(axi_lite(HOST_ADDRESS_BITS)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus = self.registers
        writes = Signal()
        for channel in (bus.aw, bus.w, bus.ar):
            with m.If(channel.ready):
                m.d.sync += channel.valid.eq(0)
        with m.If(~self.busy & self.start):
            m.d.sync += [
                self.busy.eq(1), writes.eq(self.writes), bus.aw.valid.eq(self.writes), bus.w.valid.eq(self.writes),
                bus.ar.valid.eq(~self.writes), bus.aw.payload.addr.eq(self.address), bus.ar.payload.addr.eq(self.address),
                bus.w.payload.data.eq(self.value), bus.w.payload.strb.eq(0b1111),
            ]
        m.d.comb += [bus.b.ready.eq(self.busy & writes), bus.r.ready.eq(self.busy & ~writes)]
        with m.If(bus.b.valid & bus.b.ready):
            m.d.sync += [self.busy.eq(0), self.failed.eq(bus.b.payload.resp.any())]
        with m.If(bus.r.valid & bus.r.ready):
            m.d.sync += [self.busy.eq(0), self.failed.eq(bus.r.payload.resp.any()), self.found.eq(bus.r.payload.data)]
        return m
