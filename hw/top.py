"""The accelerator as a block for a system: an AXI4-Lite port for the host's registers, an AXI4 port for memory."""

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, DomainRenamer, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vtakit.hw.control.counters import Counters
from vtakit.hw.control.registers import WORD_BITS, Registers
from vtakit.hw.control.supervisor import Supervisor
from vtakit.hw.control.watchdog import Watchdog
from vtakit.hw.core import Core
from vtakit.hw.interfaces import INDEX_BITS, axi_lite, axi_read, axi_write
from vtakit.hw.isa.insns import ISA_VERSION, MEMORIES, Stage
from vtakit.hw.isa.regs import ADDRESS_BITS, CYCLE_CAUSES, IDENTITY, REGISTERS, pack_config
from vtakit.hw.params import CoreParams

TOP_NAME = "vta"
_INCREMENTING = 1
CONSTANT_PINS = {"id": (1, 0), "burst": (2, _INCREMENTING), "lock": (1, 0)}  # of AXI4, without the channel: width and value
# AXI4 signals that the register `attributes` gives, without the channel: widths.
ATTRIBUTES = {field.name: field.width for register in REGISTERS if register.name == "attributes" for field in register.fields}


def pins(params: CoreParams) -> dict[str, wiring.Member]:
    """Return the accelerator's pins but clock and reset."""
    members: dict[str, wiring.Member] = {}
    for prefix, signature, flow in (
        ("s_axil_", axi_lite(ADDRESS_BITS), In), ("m_axi_", axi_read(params), Out), ("m_axi_", axi_write(params), Out),
    ):
        for channel, member in signature.members.items():
            outward = (flow is Out) == (member.flow is Out)
            to, back = (Out, In) if outward else (In, Out)
            widths = {name: field.width for name, field in member.signature.members["payload"].shape}
            members |= {f"{prefix}{channel}{name}": to(width) for name, width in widths.items()}
            members |= {f"{prefix}{channel}valid": to(1), f"{prefix}{channel}ready": back(1)}
    members |= {"s_axil_awprot": In(3), "s_axil_arprot": In(3), "m_axi_rid": In(1), "m_axi_bid": In(1)}
    for channel in ("ar", "aw"):
        members |= {f"m_axi_{channel}{name}": Out(width) for name, (width, _) in CONSTANT_PINS.items()}
        members |= {f"m_axi_{channel}{name}": Out(width) for name, width in ATTRIBUTES.items()}
        members |= {f"m_axi_{channel}size": Out(3)}
    return members | {"irq": Out(1)}


def constants(params: CoreParams) -> dict[str, int]:
    """Return what the registers read as that say what the accelerator is."""
    bus = params.bus_bytes_log2 | params.outstanding << 8 | params.address_bits << 16 | (not params.counters) << 24
    return {"identity": IDENTITY, "version": ISA_VERSION[1] | ISA_VERSION[0] << 16, "features": int(params.features),
            "config": pack_config(params.cfg), "bus": bus}


class Top(wiring.Component):
    """Registers, supervisor, counters and core.

    Members
    -------
    s_axil_…    an AXI4-Lite subordinate: the registers of `hw.isa.regs`
    m_axi_…     an AXI4 manager: incrementing bursts of whole beats, one ID
    irq         a level: a program has ended, or memory does not answer, and the host wants to know
    """

    def __init__(self, params: CoreParams) -> None:
        self._params = params
        super().__init__(pins(params))

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        settings = {
            "insn_addr": params.address_bits, "insn_count": INDEX_BITS,
            **{f"base_{kind.name.lower()}": params.address_bits for kind in MEMORIES},
            "window_low": params.address_bits, "window_high": params.address_bits + 1,
        }
        control = {"irq_enable": 1, "timeout": WORD_BITS, "attributes": sum(ATTRIBUTES.values())}
        registers = Registers(settings | control, {"attributes": params.attributes})
        supervisor, watchdog, counters, core = Supervisor(), Watchdog(WORD_BITS), Counters(stages=params.counters), Core(params)
        pin_reset, core_reset = Signal(name="pin_reset", init=1, reset_less=True), Signal(name="core_reset", init=1)
        m.d.sync += pin_reset.eq(ResetSignal())
        m.d.control += core_reset.eq(supervisor.clear)
        for domain, reset, blocks in (
            ("control", pin_reset, {
                "registers": registers, "supervisor": supervisor, "counters": counters, "watchdog": watchdog}),
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
            m.d.comb += Cat(getattr(self, f"m_axi_{channel}{name}") for name in ATTRIBUTES).eq(registers.attributes)

        m.d.comb += [getattr(core, name).eq(getattr(registers, name)) for name in settings]
        m.d.comb += [
            watchdog.limit.eq(registers.timeout), watchdog.watches.eq(supervisor.busy), supervisor.late.eq(watchdog.late),
            registers.busy.eq(supervisor.busy), supervisor.start.eq(registers.start), supervisor.reset.eq(registers.reset),
            core.start.eq(supervisor.go), core.stop.eq(supervisor.stop),
            *(getattr(supervisor, n).eq(getattr(core, n)) for n in ("ended", "drained", "fault", "fault_index", "fault_stage")),
            counters.enable.eq(supervisor.busy), counters.clear.eq(registers.clear_counters | registers.reset),
            *(getattr(counters, f"cause_{s.name.lower()}").eq(getattr(core, f"activity_{s.name.lower()}").cause) for s in Stage),
        ]
        told = Signal()
        m.d.control += [told.eq((told & ~registers.acknowledge) | supervisor.told), self.irq.eq(told & registers.irq_enable)]
        self._watch(m, watchdog, core)
        words = {register.name: register.words for register in REGISTERS}
        values: dict[str, Value] = {
            **{name: Const(value, WORD_BITS * words[name]) for name, value in constants(params).items()},
            "status": Cat(supervisor.busy, supervisor.done, supervisor.error != 0), "irq_pending": told,
            "error": Cat(supervisor.error, supervisor.error_stage), "error_insn": supervisor.error_index,
            "cycles": counters.cycles,
            **{name: getattr(counters, name) for s in Stage for name in (f"{s.name.lower()}_{cause}" for cause in CYCLE_CAUSES)},
        }
        m.d.comb += [getattr(registers, name).eq(value) for name, value in values.items()]
        return m

    def _watch(self, m: Module, watchdog: Watchdog, core: Core) -> None:
        """Show the watchdog what memory does."""
        channels = {"ar": core.read.ar, "r": core.read.r, "aw": core.write.aw, "w": core.write.w, "b": core.write.b}
        moves = {name: channel.valid & channel.ready for name, channel in channels.items()}
        m.d.comb += [
            watchdog.ar.eq(moves["ar"]), watchdog.aw.eq(moves["aw"]), watchdog.b.eq(moves["b"]),
            watchdog.r.eq(moves["r"] & core.read.r.payload.last), watchdog.moves.eq(Cat(moves.values()).any()),
            watchdog.asks.eq(core.read.ar.valid | core.write.aw.valid | core.write.w.valid),
        ]

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
