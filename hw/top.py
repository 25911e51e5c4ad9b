"""The accelerator as a block for a system: an AXI4-Lite port for the host's registers, an AXI4 port for memory."""

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, DomainRenamer, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.control.counters import Counters
from vtakit.hw.control.registers import Registers
from vtakit.hw.control.supervisor import Supervisor
from vtakit.hw.core import Core
from vtakit.hw.interfaces import INDEX_BITS, axi_lite, axi_read, axi_write
from vtakit.hw.isa.insns import ISA_VERSION, MEMORIES, Stage
from vtakit.hw.isa.regs import ADDRESS_BITS, CYCLE_CAUSES, IDENTITY, pack_config
from vtakit.hw.params import CoreParams

TOP_NAME = "vta"
_INCREMENTING = 1
_NORMAL_MEMORY = 0b0011  # AxCACHE: modifiable, bufferable
CONSTANT_PINS = {  # AXI4 signals that never change, by name without the channel: width and value
    "id": (1, 0), "burst": (2, _INCREMENTING), "lock": (1, 0), "cache": (4, _NORMAL_MEMORY), "prot": (3, 0), "qos": (4, 0),
}


class Top(wiring.Component):
    """Registers, supervisor, counters and core.

    Members
    -------
    s_axil_…    an AXI4-Lite subordinate: the registers of `hw.isa.regs`
    m_axi_…     an AXI4 manager: incrementing bursts of whole beats, one ID
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        members: dict[str, wiring.Member] = {}
        for prefix, signature, flow in (
            ("s_axil_", axi_lite(ADDRESS_BITS), In), ("m_axi_", axi_read(params), Out), ("m_axi_", axi_write(params), Out),
        ):
            for channel, member in signature.members.items():
                outward = (flow is Out) == (member.flow is Out)
                to, back = (Out, In) if outward else (In, Out)
                pins = {name: field.width for name, field in member.signature.members["payload"].shape}
                members |= {f"{prefix}{channel}{name}": to(width) for name, width in pins.items()}
                members |= {f"{prefix}{channel}valid": to(1), f"{prefix}{channel}ready": back(1)}
        members |= {"s_axil_awprot": In(3), "s_axil_arprot": In(3), "m_axi_rid": In(1), "m_axi_bid": In(1)}
        for channel in ("ar", "aw"):
            members |= {f"m_axi_{channel}{name}": Out(width) for name, (width, _) in CONSTANT_PINS.items()}
            members |= {f"m_axi_{channel}size": Out(3)}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        settings = {
            "insn_addr": params.address_bits, "insn_count": INDEX_BITS,
            **{f"base_{kind.name.lower()}": params.address_bits for kind in MEMORIES},
            "window_low": params.address_bits, "window_high": params.address_bits + 1,
        }
        registers, supervisor, counters, core = Registers(settings), Supervisor(), Counters(), Core(params)
        pin_reset, core_reset = Signal(name="pin_reset", init=1, reset_less=True), Signal(name="core_reset", init=1)
        m.d.sync += pin_reset.eq(ResetSignal())
        m.d.control += core_reset.eq(supervisor.clear)
        for domain, reset, blocks in (
            ("control", pin_reset, {"registers": registers, "supervisor": supervisor, "counters": counters}),
            ("core", core_reset, {"core": core}),
        ):
            self._domain(m, domain, reset)
            for name, block in blocks.items():
                m.submodules[name] = DomainRenamer(domain)(block)
        self._pins(m, "s_axil_", registers.axil, axi_lite(ADDRESS_BITS))
        self._pins(m, "m_axi_", core.read, axi_read(params).flip())
        self._pins(m, "m_axi_", core.write, axi_write(params).flip())
        for channel in ("ar", "aw"):
            m.d.comb += [getattr(self, f"m_axi_{channel}{name}").eq(value) for name, (_, value) in CONSTANT_PINS.items()]
            m.d.comb += getattr(self, f"m_axi_{channel}size").eq(params.bus_bytes_log2)

        m.d.comb += [getattr(core, name).eq(getattr(registers, name)) for name in settings]
        m.d.comb += [
            registers.busy.eq(supervisor.busy), supervisor.start.eq(registers.start), supervisor.reset.eq(registers.reset),
            core.start.eq(supervisor.go), core.stop.eq(supervisor.stop),
            *(getattr(supervisor, n).eq(getattr(core, n)) for n in ("ended", "drained", "fault", "fault_index", "fault_stage")),
            counters.enable.eq(supervisor.busy), counters.clear.eq(registers.clear_counters | registers.reset),
            *(getattr(counters, f"cause_{s.name.lower()}").eq(getattr(core, f"activity_{s.name.lower()}").cause) for s in Stage),
        ]
        byte = {"log_data_bytes": params.bus_bytes_log2, "outstanding": params.outstanding, "address_bits": params.address_bits}
        values: dict[str, Value] = {
            "identity": Const(IDENTITY, 32), "version": Cat(Const(ISA_VERSION[1], 16), Const(ISA_VERSION[0], 16)),
            "features": Const(params.features, 32), "config": Const(pack_config(params.cfg), 64),
            "bus": Cat(Const(value, 8) for value in byte.values()),
            "status": Cat(supervisor.busy, supervisor.done, supervisor.error != 0),
            "error": Cat(supervisor.error, supervisor.error_stage), "error_insn": supervisor.error_index,
            "cycles": counters.cycles,
            **{name: getattr(counters, name) for s in Stage for name in (f"{s.name.lower()}_{cause}" for cause in CYCLE_CAUSES)},
        }
        m.d.comb += [getattr(registers, name).eq(value) for name, value in values.items()]
        return m

    def _domain(self, m: Module, name: str, reset: Signal) -> None:
        """A part of the accelerator with a reset of its own, from a register.

        So it can reach every corner in time, and a simulator has no path from a pin to work out twice a cycle.
        """
        domain = ClockDomain(name, local=True)
        m.domains += domain
        m.d.comb += [domain.clk.eq(ClockSignal()), domain.rst.eq(reset)]

    def _pins(self, m: Module, prefix: str, port: wiring.PureInterface, signature: wiring.Signature) -> None:
        """Join a port's streams to the pins; `signature` is as seen from the pins' driver."""
        for channel, member in signature.members.items():
            stream = getattr(port, channel)
            pins = [(getattr(self, f"{prefix}{channel}{name}"), stream.payload[name]) for name in stream.payload.shape().members]
            valid, ready = getattr(self, f"{prefix}{channel}valid"), getattr(self, f"{prefix}{channel}ready")
            if member.flow is Out:  # into the port
                m.d.comb += [stream.valid.eq(valid), ready.eq(stream.ready), *(value.eq(pin) for pin, value in pins)]
            else:
                m.d.comb += [valid.eq(stream.valid), stream.ready.eq(ready), *(pin.eq(value) for pin, value in pins)]
