"""One AXI4 port for several managers."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.interfaces import axi_read, axi_write
from vtakit.hw.params import CoreParams


class Arbiter(wiring.Component):
    """Lets managers share a port. The first one that asks goes first; what is offered stays until it is taken.

    Answers go to whoever asked, in order. A manager whose channel waits stops the others: it asks for no more than it has room
    for, and offers a write only with all of its data.

    outstanding    bursts of each direction under way at most

    Members
    -------
    read0 …, write0 … : ``In``   the managers, the most urgent first
    read, write : ``Out``        the port
    """

    def __init__(self, params: CoreParams, managers: int, outstanding: int) -> None:
        self._managers, self._outstanding = managers, outstanding
        ports = {f"read{n}": In(axi_read(params)) for n in range(managers)}
        ports |= {f"write{n}": In(axi_write(params)) for n in range(managers)}
        super().__init__({**ports, "read": Out(axi_read(params)), "write": Out(axi_write(params))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        reads = [getattr(self, f"read{n}") for n in range(self._managers)]
        writes = [getattr(self, f"write{n}") for n in range(self._managers)]
        reader = self._addresses(m, "ar", [port.ar for port in reads], self.read.ar)
        self._back(m, reader, [port.r for port in reads], self.read.r, self.read.r.payload.last)
        answered = self._addresses(m, "aw", [port.aw for port in writes], self.write.aw)
        self._back(m, answered, [port.b for port in writes], self.write.b, Const(1, 1))
        # Data follow their addresses.
        m.submodules.data = owners = fifo.SyncFIFO(width=self._bits, depth=self._outstanding)
        w = self.write.w
        m.d.comb += [owners.w_en.eq(self.write.aw.valid & self.write.aw.ready), owners.w_data.eq(self._choice["aw"]),
                     owners.r_en.eq(w.valid & w.ready & w.payload.last)]
        for n, port in enumerate(writes):
            with m.If(owners.r_rdy & (owners.r_data == n)):
                m.d.comb += [w.valid.eq(port.w.valid), w.payload.eq(port.w.payload), port.w.ready.eq(w.ready)]
        return m

    @property
    def _bits(self) -> int:
        return max(1, (self._managers - 1).bit_length())

    def _addresses(self, m: Module, name: str, asks: list[Any], port: Any) -> fifo.SyncFIFO:
        """Share an address channel; return the queue of who was served."""
        if not hasattr(self, "_choice"):
            self._choice: dict[str, Signal] = {}
        m.submodules[f"{name}_owners"] = owners = fifo.SyncFIFO(width=self._bits, depth=self._outstanding)
        choice, held = Signal(self._bits, name=f"{name}_choice"), Signal(self._bits, name=f"{name}_held")
        stands = Signal(name=f"{name}_stands")
        self._choice[name] = choice
        first: Value = Const(len(asks) - 1, self._bits)
        for n in reversed(range(len(asks) - 1)):
            first = Mux(asks[n].valid, n, first)
        valid = Cat(each.valid for each in asks).bit_select(choice, 1)
        m.d.comb += [choice.eq(Mux(stands, held, first)), port.valid.eq(valid & owners.w_rdy)]
        m.d.sync += [held.eq(choice), stands.eq(port.valid & ~port.ready)]
        for n, each in enumerate(asks):
            with m.If(choice == n):
                m.d.comb += [port.payload.eq(each.payload), each.ready.eq(port.ready & owners.w_rdy)]
        m.d.comb += [owners.w_en.eq(port.valid & port.ready), owners.w_data.eq(choice)]
        return owners

    def _back(self, m: Module, owners: fifo.SyncFIFO, answers: list[Any], port: Any, ends: Value) -> None:
        """Give answers back to who asked."""
        for n, each in enumerate(answers):
            with m.If(owners.r_rdy & (owners.r_data == n)):
                m.d.comb += [each.valid.eq(port.valid), port.ready.eq(each.ready)]
            m.d.comb += each.payload.eq(port.payload)
        m.d.comb += owners.r_en.eq(port.valid & port.ready & ends)
