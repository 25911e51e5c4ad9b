"""The accelerator with plain pins: what Verilator, cocotb and a board's own wrapper connect to."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.core import Core
from vtakit.hw.decoder import FAULT_BITS
from vtakit.hw.fetch import COUNT_BITS
from vtakit.hw.interfaces import INDEX_BITS
from vtakit.hw.isa.insns import MEMORIES, Stage
from vtakit.hw.params import CoreParams

TOP_NAME = "vta"


class Top(wiring.Component):
    """`Core` with the AXI4 signals under their standard names, and its settings and state as pins.

    Members
    -------
    start, insn_addr, insn_count, window_low, window_high, base_…   as in `Core`
    ar…, r…, aw…, w…, b…      the AXI4 channels; bursts are incrementing, of whole beats, with one ID
    busy, done, fault, fault_index, fault_stage, cause_…            as in `Core`
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        address = params.address_bits
        self._settings = {
            "start": In(1), "insn_addr": In(address), "insn_count": In(COUNT_BITS),
            "window_low": In(address), "window_high": In(address + 1),
            **{f"base_{kind.name.lower()}": In(address) for kind in MEMORIES},
        }
        self._state = {
            "busy": Out(1), "done": Out(1), "fault": Out(FAULT_BITS), "fault_index": Out(INDEX_BITS), "fault_stage": Out(2),
            **{f"cause_{stage.name.lower()}": Out(3) for stage in Stage},
        }
        super().__init__({
            **self._settings, **self._state,
            "araddr": Out(address), "arlen": Out(8), "arvalid": Out(1), "arready": In(1),
            "rdata": In(params.bus_bits), "rresp": In(2), "rlast": In(1), "rvalid": In(1), "rready": Out(1),
            "awaddr": Out(address), "awlen": Out(8), "awvalid": Out(1), "awready": In(1),
            "wdata": Out(params.bus_bits), "wstrb": Out(params.bus_bytes), "wlast": Out(1), "wvalid": Out(1), "wready": In(1),
            "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = core = Core(self._params)
        m.d.comb += [getattr(core, name).eq(getattr(self, name)) for name in self._settings]
        m.d.comb += [getattr(self, name).eq(getattr(core, name)) for name in self._state]
        for channel, port, outward in (
            ("ar", core.read.ar, True), ("r", core.read.r, False),
            ("aw", core.write.aw, True), ("w", core.write.w, True), ("b", core.write.b, False),
        ):
            pins = {name: getattr(self, f"{channel}{name}") for name in port.payload.shape().members}
            valid, ready = getattr(self, f"{channel}valid"), getattr(self, f"{channel}ready")
            if outward:
                m.d.comb += [valid.eq(port.valid), port.ready.eq(ready)]
                m.d.comb += [pin.eq(port.payload[name]) for name, pin in pins.items()]
            else:
                m.d.comb += [port.valid.eq(valid), ready.eq(port.ready)]
                m.d.comb += [port.payload[name].eq(pin) for name, pin in pins.items()]
        return m
