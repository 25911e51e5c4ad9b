"""A board's FPGA with a pin for each signal, for a simulation."""

import hashlib
from pathlib import Path

from amaranth.back import verilog
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from vtakit.boards.link.link import Link
from vtakit.boards.link.uart import Uart
from vtakit.boards.memory.pins import ChipRegisters
from vtakit.boards.memory.signals import chip_pins
from vtakit.boards.shell.crossing import MEMORY
from vtakit.boards.shell.shell import Shell, ShellParams, in_memory
from vtakit.hw.top import TOP_NAME
from vtakit.hw.verilog import no_garbage_collection
from vtakit.hw.verilog import source_hash as core_hash

MEMORY_CLOCK, MEMORY_RESET = f"{MEMORY}_clk", f"{MEMORY}_rst"
_SOURCES = ("link", "memory", "shell")  # folders of boards/


class SerialBoard(wiring.Component):
    """A shell with a link at a serial line of `divisor` clocks a bit.

    Members
    -------
    rx, tx : the serial line
    memory_clk, memory_rst : the memory's clock and reset, where it has its own; the chip's pins change with that one
    the pins of the chip, `ready`, `irq`
    """

    def __init__(self, params: ShellParams, divisor: int) -> None:
        self._params, self._divisor = params, divisor
        members = {"ready": Out(1), "irq": Out(1), "rx": In(1, init=1), "tx": Out(1, init=1)}
        clock = {MEMORY_CLOCK: In(1), MEMORY_RESET: In(1)} if params.two_clocks else {}
        super().__init__(members | clock | chip_members(params))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if self._params.two_clocks:
            m.domains += (domain := ClockDomain(MEMORY))
            m.d.comb += [domain.clk.eq(getattr(self, MEMORY_CLOCK)), domain.rst.eq(getattr(self, MEMORY_RESET))]
        m.submodules.shell = shell = Shell(self._params)
        m.submodules.link = link = Link(self._params.core)
        m.submodules.uart = uart = Uart(self._divisor)
        join_link(m, link, uart, shell)
        join_chip(m, self, shell, self._params)
        m.d.comb += [self.ready.eq(shell.ready), self.irq.eq(shell.irq), uart.rx_pin.eq(self.rx), self.tx.eq(uart.tx_pin)]
        return m


def join_link(m: Module, link: Link, uart: Uart, shell: Shell) -> None:
    """Join a link to its line and to the shell."""
    connect(m, uart.received, link.rx)
    connect(m, link.tx, uart.send)
    for name in ("registers", "read", "write"):
        connect(m, getattr(link, name), getattr(shell, name))


def chip_members(params: ShellParams) -> dict[str, wiring.Member]:
    """Return the pins of the chip as members."""
    pins = chip_pins(params.dram).members
    return {name: member.flow(member.shape, init=member.init) for name, member in pins.items()}


def join_chip(m: Module, board: wiring.Component, shell: Shell, params: ShellParams) -> None:
    """Join a board's pins of the chip to those of its shell, over registers."""
    pins = ChipRegisters(params.dram)
    m.submodules.pins = in_memory(params, pins)
    connect(m, shell.chip, pins.inside)
    for name, member in chip_pins(params.dram).members.items():
        mine, theirs = getattr(board, name), getattr(pins.chip, name)
        m.d.comb += mine.eq(theirs) if member.flow is Out else theirs.eq(mine)


def to_verilog(board: wiring.Component) -> str:
    """Return a board as Verilog, for `vtakit.sim.board.build`."""
    with no_garbage_collection():
        return str(verilog.convert(board, name=TOP_NAME, emit_src=False))


def source_hash(params: ShellParams, divisor: int) -> str:
    """Return the hash of what decides a board's Verilog: parameters, source, and the versions that write it."""
    digest = hashlib.sha256(f"{core_hash(params.core)} {params} {divisor}".encode())
    folder = Path(__file__).parents[1]
    for path in sorted(path for part in _SOURCES for path in (folder / part).rglob("*.py")):
        digest.update(f"\0{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
