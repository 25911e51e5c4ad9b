"""A board's FPGA with a pin for each signal, for a simulation."""

import hashlib
from pathlib import Path

from amaranth.back import verilog
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from vtakit.boards.link.link import Link
from vtakit.boards.link.uart import Uart
from vtakit.boards.link.usb import PACKAGES as USB_PACKAGES
from vtakit.boards.link.usb import PINS, USB, USB_IO, UsbSerial, stable_names
from vtakit.boards.memory.pins import ChipRegisters
from vtakit.boards.memory.signals import chip_pins
from vtakit.boards.shell.crossing import MEMORY
from vtakit.boards.shell.shell import Shell, ShellParams, in_memory
from vtakit.boards.synth.tools import tool_version
from vtakit.hw.top import TOP_NAME
from vtakit.hw.verilog import no_garbage_collection
from vtakit.hw.verilog import source_hash as core_hash

MEMORY_CLOCK, MEMORY_RESET = f"{MEMORY}_clk", f"{MEMORY}_rst"
# Further clocks of a board with a link over USB, each with the inputs that go with it.
USB_CLOCKS = {f"{USB}_clk": (f"{USB}_rst",), f"{USB_IO}_clk": (f"{USB_IO}_rst", "d_p_i", "d_n_i")}
_SOURCES = ("link", "memory", "shell")  # folders of boards/


class SerialBoard(wiring.Component):
    """A shell with a link: at a serial line of `divisor` clocks a bit, or over USB if `link` is "usb".

    Members
    -------
    rx, tx : the serial line
    those of `vtakit.boards.link.usb.PINS`, usb_clk, usb_rst, usb_io_clk, usb_io_rst : USB, in its place
    memory_clk, memory_rst : the memory's clock and reset, where it has its own; the chip's pins change with that one
    the pins of the chip, `ready`, `irq`
    """

    def __init__(self, params: ShellParams, divisor: int, link: str = "uart") -> None:
        self._params, self._divisor, self._link = params, divisor, link
        serial = {"rx": In(1, init=1), "tx": Out(1, init=1)}
        members = {"ready": Out(1), "irq": Out(1), **(_usb_members() if link == "usb" else serial)}
        clock = {MEMORY_CLOCK: In(1), MEMORY_RESET: In(1)} if params.two_clocks else {}
        super().__init__(members | clock | chip_members(params))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if self._params.two_clocks:
            m.domains += (domain := ClockDomain(MEMORY))
            m.d.comb += [domain.clk.eq(getattr(self, MEMORY_CLOCK)), domain.rst.eq(getattr(self, MEMORY_RESET))]
        m.submodules.shell = shell = Shell(self._params)
        m.submodules.link = link = Link(self._params.core)
        if self._link == "usb":
            m.submodules.usb_line = usb = UsbSerial()
            self._join_usb(m, usb)
            join_link(m, link, usb, shell)
        else:
            m.submodules.uart = uart = Uart(self._divisor)
            m.d.comb += [uart.rx_pin.eq(self.rx), self.tx.eq(uart.tx_pin)]
            join_link(m, link, uart, shell)
        join_chip(m, self, shell, self._params)
        m.d.comb += [self.ready.eq(shell.ready), self.irq.eq(shell.irq)]
        return m

    def _join_usb(self, m: Module, usb: UsbSerial) -> None:
        """Join the pins and the clocks of USB."""
        for name in (USB, USB_IO):
            m.domains += (domain := ClockDomain(name))
            m.d.comb += [domain.clk.eq(getattr(self, f"{name}_clk")), domain.rst.eq(getattr(self, f"{name}_rst"))]
        for name, member in PINS.members.items():
            mine, theirs = getattr(self, name), getattr(usb.pins, name)
            m.d.comb += mine.eq(theirs) if member.flow is Out else theirs.eq(mine)


def _usb_members() -> dict[str, wiring.Member]:
    """Return the pins of USB and its clocks as members."""
    clocks = {f"{name}_{what}": In(1) for name in (USB, USB_IO) for what in ("clk", "rst")}
    return {**clocks, **{name: member.flow(member.shape) for name, member in PINS.members.items()}}


def join_link(m: Module, link: Link, line: Uart | UsbSerial, shell: Shell) -> None:
    """Join a link to its line and to the shell."""
    connect(m, line.received, link.rx)
    connect(m, link.tx, line.send)
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
        return stable_names(verilog.convert(board, name=TOP_NAME, emit_src=False))


def source_hash(params: ShellParams, divisor: int, link: str = "uart") -> str:
    """Return the hash of what decides a board's Verilog: parameters, source, and the versions that write it."""
    device = {package: tool_version(package) for package in USB_PACKAGES} if link == "usb" else ""
    digest = hashlib.sha256(f"{core_hash(params.core)} {params} {divisor} {link} {device}".encode())
    folder = Path(__file__).parents[1]
    for path in sorted(path for part in _SOURCES for path in (folder / part).rglob("*.py")):
        digest.update(f"\0{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
