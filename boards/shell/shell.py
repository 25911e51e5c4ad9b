"""Content of a board's FPGA: the core, its memory's controller, a link to a host, and a self-test."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from vtakit.boards.host_map import BOARD_IDENTITY, BOARD_VERSION, HOST_ADDRESS_BITS
from vtakit.boards.memory.chips import Chip
from vtakit.boards.memory.controller import OUTSTANDING, SdramController
from vtakit.boards.memory.signals import chip_pins
from vtakit.boards.shell.arbiter import Arbiter
from vtakit.boards.shell.host_registers import HostRegisters
from vtakit.boards.shell.selftest import SelfTest
from vtakit.hw.interfaces import axi_lite, axi_read, axi_write
from vtakit.hw.isa.regs import ADDRESS_BITS
from vtakit.hw.params import CoreParams
from vtakit.hw.top import Top


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellParams:
    """Parameters of a shell.

    core          the core's
    chip          SDRAM chip at the pins
    mhz           the clock of everything
    test_bytes    memory that the self-test writes and compares at power-up; None: all; 0: none
    self_test     False: there is no self-test, and the host has the board at once
    """

    core: CoreParams
    chip: Chip
    mhz: float
    test_bytes: int | None = None
    self_test: bool = True

    @property
    def memory_bytes(self) -> int:
        """Size of the memory."""
        return self.chip.timing(self.mhz).capacity_bytes


def host_ports(params: CoreParams) -> dict[str, wiring.Member]:
    """Return the members by which a link acts for a host: registers of `vtakit.boards.host_map`, and memory."""
    return {"registers": Out(axi_lite(HOST_ADDRESS_BITS)), "read": Out(axi_read(params)), "write": Out(axi_write(params))}


class Shell(wiring.Component):
    """One clock domain. The host's link is outside.

    Members
    -------
    registers, read, write : ``In``   the host's, `host_ports`
    chip : ``Out``                    pins of the SDRAM, one register away: `vtakit.boards.memory.pins`
    irq : ``Out(1)``                  the core's
    ready : ``Out(1)``                the self-test has ended, or the memory is initialised if there is none
    """

    def __init__(self, params: ShellParams) -> None:
        self._params = params
        dram = params.chip.timing(params.mhz)
        ports = {name: member.flip() for name, member in host_ports(params.core).items()}
        super().__init__({**ports, "chip": Out(chip_pins(dram)), "irq": Out(1), "ready": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m, params = Module(), self._params
        core_params, dram = params.core, params.chip.timing(params.mhz)
        m.submodules.core = core = Top(core_params)
        m.submodules.controller = controller = SdramController(
            core_params, dram, power_up_clocks=params.chip.clocks(params.chip.power_up, params.mhz))
        connect(m, controller.chip, flipped(self.chip))
        m.submodules.registers = registers = HostRegisters()
        connect(m, flipped(self.registers), registers.host)
        m.submodules.arbiter = arbiter = Arbiter(core_params, 3 if params.self_test else 2, OUTSTANDING)
        connect(m, arbiter.read, controller.read)
        connect(m, arbiter.write, controller.write)
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
            m.d.comb += self.ready.eq(controller.ready)
            return m
        test_bytes = params.memory_bytes if params.test_bytes is None else params.test_bytes
        m.submodules.selftest = test = SelfTest(core_params, params.memory_bytes, test_bytes)
        connect(m, test.read, arbiter.read0)
        connect(m, test.write, arbiter.write0)
        m.d.comb += [
            test.start.eq(controller.ready), registers.testing.eq(test.testing), self.ready.eq(~test.testing),
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
