"""Content of a board's FPGA: the core, its memory's controller, a link to a host, and a self-test."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, DomainRenamer, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.boards.host_map import BOARD_IDENTITY, BOARD_VERSION, HOST_ADDRESS_BITS
from vtakit.boards.memory.chips import Chip
from vtakit.boards.memory.controller import OUTSTANDING, SdramController
from vtakit.boards.memory.signals import chip_pins
from vtakit.boards.shell.arbiter import Arbiter
from vtakit.boards.shell.crossing import MEMORY, AxiCrossing
from vtakit.boards.shell.host_registers import HostRegisters
from vtakit.boards.shell.selftest import SelfTest
from vtakit.hw.dram import Dram
from vtakit.hw.interfaces import axi_lite, axi_read, axi_write
from vtakit.hw.isa.regs import ADDRESS_BITS
from vtakit.hw.params import CoreParams
from vtakit.hw.top import Top


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellParams:
    """Parameters of a shell.

    core          the core's
    chip          SDRAM chip at the pins
    mhz           the clock of all but the memory
    memory_mhz    the clock of the memory and its controller; None: that of all else, and no crossing lies between them
    test_bytes    memory that the self-test writes and compares at power-up; None: all; 0: none
    self_test     False: there is no self-test, and the host has the board at once
    """

    core: CoreParams
    chip: Chip
    mhz: float
    memory_mhz: float | None = None
    test_bytes: int | None = None
    self_test: bool = True

    @property
    def two_clocks(self) -> bool:
        """Return whether the memory has a clock of its own."""
        return self.memory_mhz is not None

    @property
    def dram(self) -> Dram:
        """The chip behind its controller, in clocks of the memory."""
        return self.chip.timing(self.mhz if self.memory_mhz is None else self.memory_mhz)

    @property
    def power_up_clocks(self) -> int:
        """Clocks of the memory before its first command."""
        return self.chip.clocks(self.chip.power_up, self.mhz if self.memory_mhz is None else self.memory_mhz)

    @property
    def memory_bytes(self) -> int:
        """Size of the memory."""
        return self.dram.capacity_bytes


def host_ports(params: CoreParams) -> dict[str, wiring.Member]:
    """Return the members by which a link acts for a host: registers of `vtakit.boards.host_map`, and memory."""
    return {"registers": Out(axi_lite(HOST_ADDRESS_BITS)), "read": Out(axi_read(params)), "write": Out(axi_write(params))}


class Shell(wiring.Component):
    """All but the host's link, in the domain `sync`; controller and chip in `memory` if they have a clock of their own.

    Members
    -------
    registers, read, write : ``In``   the host's, `host_ports`
    chip : ``Out``                    pins of the SDRAM, one register away: `vtakit.boards.memory.pins`
    irq : ``Out(1)``                  the core's
    ready : ``Out(1)``                the self-test has ended, or the memory is initialised if there is none
    """

    def __init__(self, params: ShellParams) -> None:
        self._params = params
        dram = params.dram
        ports = {name: member.flip() for name, member in host_ports(params.core).items()}
        super().__init__({**ports, "chip": Out(chip_pins(dram)), "irq": Out(1), "ready": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        core_params = params.core
        m.submodules.core = core = Top(core_params)
        controller = SdramController(core_params, params.dram, power_up_clocks=params.power_up_clocks)
        m.submodules.controller = in_memory(params, controller)
        connect(m, controller.chip, flipped(self.chip))
        m.submodules.registers = registers = HostRegisters()
        connect(m, flipped(self.registers), registers.host)
        m.submodules.arbiter = arbiter = Arbiter(core_params, 3 if params.self_test else 2, OUTSTANDING)
        initialised = Signal()
        if params.two_clocks:
            m.submodules.crossing = crossing = AxiCrossing(core_params)
            connect(m, arbiter.read, crossing.read)
            connect(m, arbiter.write, crossing.write)
            connect(m, crossing.far_read, controller.read)
            connect(m, crossing.far_write, controller.write)
            m.submodules.initialised = FFSynchronizer(controller.ready, initialised)
        else:
            connect(m, arbiter.read, controller.read)
            connect(m, arbiter.write, controller.write)
            m.d.comb += initialised.eq(controller.ready)
        core_registers, core_read, core_write = core_ports(m, core, core_params)
        host = 1 if params.self_test else 0
        connect(m, core_read, getattr(arbiter, f"read{host + 1}"))
        connect(m, core_write, getattr(arbiter, f"write{host + 1}"))
        # The host's memory accesses wait until the test has ended.
        allowed = ~registers.testing
        connect_channels(m, axi_read(core_params), self.read, getattr(arbiter, f"read{host}"), allowed)
        connect_channels(m, axi_write(core_params), self.write, getattr(arbiter, f"write{host}"), allowed)
        m.d.comb += [
            self.irq.eq(core.irq), registers.board_identity.eq(BOARD_IDENTITY),
            registers.board_version.eq(BOARD_VERSION[0] << 16 | BOARD_VERSION[1]),
            registers.clock_khz.eq(round(1000 * params.mhz)), registers.memory_kib.eq(params.memory_bytes >> 10),
        ]
        if not params.self_test:
            connect(m, registers.core, core_registers)
            m.d.comb += self.ready.eq(initialised)
            return m
        test_bytes = params.memory_bytes if params.test_bytes is None else params.test_bytes
        m.submodules.selftest = test = SelfTest(core_params, params.memory_bytes, test_bytes)
        connect(m, test.read, arbiter.read0)
        connect(m, test.write, arbiter.write0)
        m.d.comb += [
            test.start.eq(initialised), registers.testing.eq(test.testing), self.ready.eq(~test.testing),
            registers.selftest.eq(Cat(
                test.testing, test.memory_tested, test.memory_good, test.gemm_tested, test.gemm_good)),
            registers.selftest_address.eq(test.address), registers.selftest_want.eq(test.want),
            registers.selftest_got.eq(test.got), registers.selftest_errors.eq(test.errors), registers.selftest_core.eq(test.core),
        ]
        # The test has the core's registers until it has ended.
        lite = axi_lite(ADDRESS_BITS)
        with m.If(test.testing):
            connect_channels(m, lite, test.registers, core_registers, Const(1, 1))
        with m.Else():
            connect_channels(m, lite, registers.core, core_registers, Const(1, 1))
        return m


def in_memory(params: ShellParams, part: Any) -> Any:
    """Return a part of the design on the memory's clock."""
    return DomainRenamer(MEMORY)(part) if params.two_clocks else part


def connect_channels(m: Module, signature: wiring.Signature, manager: Any, subordinate: Any, allowed: Value) -> None:
    """Connect a port's channels while `allowed`, as statements that may stand in a condition.

    Answers pass in any case.
    """
    for name, member in signature.members.items():
        source, sink = getattr(manager, name), getattr(subordinate, name)
        if member.flow is In:
            m.d.comb += [source.valid.eq(sink.valid), source.payload.eq(sink.payload), sink.ready.eq(source.ready)]
        else:
            m.d.comb += [
                sink.valid.eq(source.valid & allowed), sink.payload.eq(source.payload), source.ready.eq(sink.ready & allowed)]


def core_ports(m: Module, core: Top, params: CoreParams) -> tuple[Any, Any, Any]:
    """Return the pins of a core as ports: its registers for a manager, and its read and write ports."""
    found = []
    lite = axi_lite(ADDRESS_BITS).flip()
    for prefix, signature in (("s_axil_", lite), ("m_axi_", axi_read(params)), ("m_axi_", axi_write(params))):
        port = signature.create(path=("core", prefix))
        for name, member in signature.members.items():
            stream, fields = getattr(port, name), dict(member.signature.members["payload"].shape)
            pins = {field: getattr(core, f"{prefix}{name}{field}") for field in (*fields, "valid", "ready")}
            if member.flow is In:  # into the core
                m.d.comb += [pins["valid"].eq(stream.valid), stream.ready.eq(pins["ready"])]
                m.d.comb += [pins[field].eq(stream.payload[field]) for field in fields]
            else:
                m.d.comb += [stream.valid.eq(pins["valid"]), pins["ready"].eq(stream.ready)]
                m.d.comb += [stream.payload[field].eq(pins[field]) for field in fields]
        found.append(port)
    return found[0], found[1], found[2]
