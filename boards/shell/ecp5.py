"""The ECP5 of a board with SDRAM: shell, link, clocks and pins. No board has run it yet.

A board is data: its `Board` (oscillator, chip, links), and the pins of its platform in amaranth-boards, whose names are the same
on all.
"""

from typing import Any

from amaranth.hdl import ClockDomain, Const, Elaboratable, Instance, Module, Signal
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import connect

from vtakit.boards.known import Board
from vtakit.boards.link.link import Link
from vtakit.boards.link.uart import Uart, divisor_of
from vtakit.boards.link.usb import USB, USB_IO, UsbSerial
from vtakit.boards.memory.controller import check
from vtakit.boards.shell.crossing import MEMORY
from vtakit.boards.shell.pll import dividers, pll, usb_dividers, usb_pll
from vtakit.boards.shell.shell import Shell, ShellParams
from vtakit.hw.params import CoreParams

# Degrees by which the chip's clock is behind the controller's. At 80 MHz a command has 9.4 ns to reach the chip, and stays for
# 3.1 ns behind the chip's clock. If the ways through the pins take 3 to 6 ns together, a word of a read can be taken from 1.4 to
# 1.7 clocks after its command plus the latency until 2.2 to 2.5; the controller takes it after 2. At 60 MHz that is from 1.3 to
# 1.5 until 2.1 to 2.3. Calculated from the datasheets; no board has shown it.
CHIP_CLOCK_DEGREES = 270
CLOCKS = ("core", MEMORY, "chip")  # names of the clocks' nets; that of the core is the link's too, and perhaps the memory's
USB_CLOCKS = (USB, USB_IO)  # and of those of a link over USB, 12 and 48 MHz
_NAMES = {"cke": "clk_en", "cs_n": "cs", "ras_n": "ras", "cas_n": "cas", "we_n": "we"}  # of the shell's pins, on the platform


def check_design(board: Board, core: CoreParams, link: str = "uart") -> None:
    """Raise `VtakitError` for what no design can have: a link, a clock, a rate of the serial line, or a chip.

    All that is known before anything is elaborated is said here, since Amaranth warns of what was begun and left.
    """
    board.check_link(link)
    dividers(board.oscillator_mhz, board.mhz, board.memory_mhz)
    if link == "usb":
        usb_dividers(board.oscillator_mhz)
    else:
        divisor_of(board.mhz * 1e6, board.baud)
    check(core, ShellParams(core=core, chip=board.chip, mhz=board.mhz, memory_mhz=board.memory_mhz).dram)


class Ecp5Board(Elaboratable):
    """A board's whole design, for a platform of amaranth-boards. The registers of the chip's pins are those of the I/O cells.

    link    way to the host, of `vtakit.boards.known.LINKS`
    """

    def __init__(self, board: Board, core: CoreParams, link: str = "uart") -> None:
        check_design(board, core, link)
        self._board, self._link = board, link
        self._params = ShellParams(core=core, chip=board.chip, mhz=board.mhz, memory_mhz=board.memory_mhz)

    def elaborate(self, platform: Any) -> Module:
        m, params, board = Module(), self._params, self._board
        late = clocks(m, platform, board, usb=self._link == "usb")
        m.submodules.shell = shell = Shell(params)
        m.submodules.link = link = Link(params.core)
        line: UsbSerial | Uart
        if self._link == "usb":
            m.submodules.usb_line = line = UsbSerial()
        else:
            m.submodules.uart = line = Uart(divisor_of(board.mhz * 1e6, board.baud))
        connect(m, line.received, link.rx)
        connect(m, link.tx, line.send)
        for name in ("registers", "read", "write"):
            connect(m, getattr(link, name), getattr(shell, name))
        join = self._usb if self._link == "usb" else self._serial
        join(m, platform, line)
        self._chip(m, platform, shell, late)
        return m

    def _serial(self, m: Module, platform: Any, uart: Any) -> None:
        """Join the pins of the serial line."""
        serial = platform.request("uart", dir={"rx": "-", "tx": "-", "rts": "-", "dtr": "-"})
        m.submodules.rx = rx = io.Buffer("i", serial.rx)
        m.submodules.tx = tx = io.Buffer("o", serial.tx)
        m.d.comb += [uart.rx_pin.eq(rx.i), tx.o.eq(uart.tx_pin)]

    def _usb(self, m: Module, platform: Any, device: Any) -> None:
        """Join the pins of the FPGA's own USB connector."""
        names = {"d_p": "-", "d_n": "-", "pullup": "-"}
        usb, pins = platform.request("usb", dir=names), device.pins
        m.submodules.usb_plus = plus = io.Buffer("io", io.SingleEndedPort(usb.d_p.io))
        m.submodules.usb_minus = minus = io.Buffer("io", io.SingleEndedPort(usb.d_n.io))
        m.submodules.usb_pull_up = pull_up = io.Buffer("o", usb.pullup)
        m.d.comb += [
            plus.o.eq(pins.d_p_o), plus.oe.eq(pins.drive), pins.d_p_i.eq(plus.i), pull_up.o.eq(pins.pull_up),
            minus.o.eq(pins.d_n_o), minus.oe.eq(pins.drive), pins.d_n_i.eq(minus.i),
        ]

    def _chip(self, m: Module, platform: Any, shell: Shell, late: Signal) -> None:
        """Join the chip's pins."""
        names = ("clk", "clk_en", "cs", "we", "ras", "cas", "ba", "a", "dq", "dqm")
        chip = platform.request("sdram", dir=dict.fromkeys(names, "-"))
        domain = MEMORY if self._params.two_clocks else "sync"
        m.submodules.chip_clk = clock = io.Buffer("o", chip.clk)
        m.submodules.chip_clk_out = chip_clock(late, clock.o)
        for name in ("cke", "cs_n", "ras_n", "cas_n", "we_n", "ba", "a", "dqm"):
            # The shell's pins have the level of the wire, those of the platform may be inverted.
            port = io.SingleEndedPort(getattr(chip, _NAMES.get(name, name)).io)
            m.submodules[f"chip_{name}"] = pin = io.FFBuffer("o", port, o_domain=domain)
            m.d.comb += pin.o.eq(getattr(shell.chip, name))
        m.submodules.chip_dq = words = io.FFBuffer(
            "io", io.SingleEndedPort(chip.dq.io), i_domain=domain, o_domain=domain)
        m.d.comb += [words.o.eq(shell.chip.dq_o), words.oe.eq(shell.chip.dq_oe), shell.chip.dq_i.eq(words.i)]


def clocks(m: Module, platform: Any, board: Board, *, usb: bool = False) -> Signal:
    """Make the domain `sync` from the board's oscillator, that of the memory if it has its own, and by a second PLL those of USB.

    Returns the clock of the chip, `CHIP_CLOCK_DEGREES` behind the memory's. Resets end when all PLLs have locked.
    """
    out, second, late = (Signal(name=name, attrs={"keep": "true"}) for name in CLOCKS)
    locked = Signal(name="pll_locked")
    m.submodules.oscillator = oscillator = io.Buffer("i", platform.request(platform.default_clk, dir="-"))
    made = dividers(board.oscillator_mhz, board.mhz, board.memory_mhz)
    ready = locked
    if usb:
        ready = Signal(name="all_locked")
        m.d.comb += ready.eq(locked & _usb_clocks(m, oscillator.i, board, ready))
    m.domains.sync = sync = ClockDomain("sync")
    m.submodules.pll = pll(
        made, oscillator.i, out, late, locked, CHIP_CLOCK_DEGREES, None if board.memory_mhz is None else second)
    m.d.comb += sync.clk.eq(out)
    m.submodules.reset = ResetSynchronizer(~ready, domain="sync")
    if board.memory_mhz is not None:
        m.domains += (memory := ClockDomain(MEMORY))
        m.d.comb += memory.clk.eq(second)
        m.submodules.memory_reset = ResetSynchronizer(~ready, domain=MEMORY)
    return late  # nextpnr works out the frequency of both from the oscillator's


def _usb_clocks(m: Module, oscillator: Any, board: Board, ready: Signal) -> Signal:
    """Make the domains of USB, whose resets end with `ready`; returns whether their PLL has locked."""
    fed_back, locked = Signal(name="usb_fed_back"), Signal(name="usb_pll_locked")
    slow, fast = (Signal(name=name, attrs={"keep": "true"}) for name in USB_CLOCKS)
    m.submodules.usb_pll = usb_pll(usb_dividers(board.oscillator_mhz), oscillator, fed_back, fast, slow, locked)
    for name, clock in ((USB, slow), (USB_IO, fast)):
        m.domains += (domain := ClockDomain(name))
        m.d.comb += domain.clk.eq(clock)
        m.submodules[f"{name}_reset"] = ResetSynchronizer(~ready, domain=name)
    return locked


def chip_clock(clock: Signal, pin: Signal) -> Instance:
    """An output cell that gives a clock to a pin."""
    return Instance("ODDRX1F", i_SCLK=clock, i_RST=Const(0), i_D0=Const(1), i_D1=Const(0), o_Q=pin)
