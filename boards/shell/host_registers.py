"""The registers that a host sees: the core's, and those of the board."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.boards.host_map import BOARD_PAGE, BOARD_REGISTERS, HOST_ADDRESS_BITS
from vtakit.hw.control.registers import OKAY, SLVERR
from vtakit.hw.interfaces import axi_lite
from vtakit.hw.isa.regs import ADDRESS_BITS


class HostRegisters(wiring.Component):
    """Sends accesses to page 0 on to the core, and answers those to page 1. One access at a time.

    Members
    -------
    host : ``In(axi_lite)``
    core : ``Out(axi_lite)``
    testing : ``In(1)``          the self-test has the core: the host's accesses to it are refused
    a board register's name : ``In(32)``   its value
    """

    def __init__(self) -> None:
        super().__init__({
            "host": In(axi_lite(HOST_ADDRESS_BITS)), "core": Out(axi_lite(ADDRESS_BITS)), "testing": In(1),
            **{name: In(32) for name in BOARD_REGISTERS},
        })

    def elaborate(self, platform: object) -> Module:
        m, host, core = Module(), self.host, self.core
        address, word, strobes = Signal(HOST_ADDRESS_BITS), Signal(32), Signal(4)
        has_address, has_data = Signal(), Signal()
        m.d.comb += [
            core.aw.payload.addr.eq(address), core.ar.payload.addr.eq(address), core.w.payload.data.eq(word),
            core.w.payload.strb.eq(strobes),
        ]
        of_board = Signal()
        m.d.comb += of_board.eq(address[ADDRESS_BITS])
        with m.FSM():
            with m.State("IDLE"):
                # A write begins when its address and its data are here; only one of the two directions is taken.
                m.d.comb += [host.aw.ready.eq(host.w.valid), host.w.ready.eq(host.aw.valid), host.ar.ready.eq(~host.aw.valid)]
                m.d.sync += [word.eq(host.w.payload.data), strobes.eq(host.w.payload.strb)]
                with m.If(host.aw.valid):
                    m.d.sync += address.eq(host.aw.payload.addr)
                    with m.If(host.w.valid):
                        m.next = "WRITE"
                with m.Elif(host.ar.valid):
                    m.d.sync += address.eq(host.ar.payload.addr)
                    m.next = "READ"
            with m.State("WRITE"):
                m.d.sync += [has_address.eq(1), has_data.eq(1)]
                m.next = "WRITE CORE"
                with m.If(of_board | self.testing):
                    m.d.sync += [has_address.eq(0), has_data.eq(0), host.b.valid.eq(1), host.b.payload.resp.eq(SLVERR)]
                    m.next = "ANSWER"
            with m.State("WRITE CORE"):
                m.d.comb += [core.aw.valid.eq(has_address), core.w.valid.eq(has_data), core.b.ready.eq(1)]
                with m.If(core.aw.ready):
                    m.d.sync += has_address.eq(0)
                with m.If(core.w.ready):
                    m.d.sync += has_data.eq(0)
                with m.If(core.b.valid):
                    m.d.sync += [host.b.valid.eq(1), host.b.payload.resp.eq(core.b.payload.resp)]
                    m.next = "ANSWER"
            with m.State("ANSWER"), m.If(host.b.ready):
                m.d.sync += host.b.valid.eq(0)
                m.next = "IDLE"
            with m.State("READ"):
                m.d.sync += has_address.eq(1)
                m.next = "READ CORE"
                with m.If(of_board | self.testing):
                    m.d.sync += [has_address.eq(0), host.r.valid.eq(1), host.r.payload.data.eq(0), host.r.payload.resp.eq(SLVERR)]
                    m.next = "DATA"
                with m.If(of_board), m.Switch(address[:ADDRESS_BITS]):
                    for name, at in BOARD_REGISTERS.items():
                        with m.Case(at - BOARD_PAGE):
                            m.d.sync += [host.r.payload.data.eq(getattr(self, name)), host.r.payload.resp.eq(OKAY)]
            with m.State("READ CORE"):
                m.d.comb += [core.ar.valid.eq(has_address), core.r.ready.eq(1)]
                with m.If(core.ar.ready):
                    m.d.sync += has_address.eq(0)
                with m.If(core.r.valid):
                    m.d.sync += [host.r.valid.eq(1), Cat(host.r.payload.as_value()).eq(core.r.payload.as_value())]
                    m.next = "DATA"
            with m.State("DATA"), m.If(host.r.ready):
                m.d.sync += host.r.valid.eq(0)
                m.next = "IDLE"
        return m
