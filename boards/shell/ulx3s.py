"""The FPGA of a ULX3S: shell, link, clocks and pins. No board has run it yet."""

from typing import Any

from amaranth.hdl import ClockDomain, Const, Elaboratable, Instance, Module, Signal
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import connect

from vtakit.boards.known import Board
from vtakit.boards.link.link import Link
from vtakit.boards.link.uart import Uart, divisor_of
from vtakit.boards.shell.crossing import MEMORY
from vtakit.boards.shell.pll import dividers, pll
from vtakit.boards.shell.shell import Shell, ShellParams
from vtakit.hw.params import CoreParams

# Degrees by which the chip's clock is behind the controller's. At 80 MHz a command has 9.4 ns to reach the chip, and stays for
# 3.1 ns behind the chip's clock. If the ways through the pins take 3 to 6 ns together, a word of a read can be taken from 1.4 to
# 1.7 clocks after its command plus the latency until 2.2 to 2.5; the controller takes it after 2. Calculated from the datasheets;
# no board has shown it.
CHIP_CLOCK_DEGREES = 270
CLOCKS = ("core", MEMORY, "chip")  # names of the clocks' nets; that of the core is the link's too, and perhaps the memory's
_NAMES = {"cke": "clk_en", "cs_n": "cs", "ras_n": "ras", "cas_n": "cas", "we_n": "we"}  # of the shell's pins, on the platform


class Ulx3s(Elaboratable):
    """A board's whole design, for a platform of amaranth-boards. The registers of the chip's pins are those of the I/O cells."""

    def __init__(self, board: Board, core: CoreParams) -> None:
        self._board = board
        self._params = ShellParams(core=core, chip=board.chip, mhz=board.mhz, memory_mhz=board.memory_mhz)

    def elaborate(self, platform: Any) -> Module:
        m, params, board = Module(), self._params, self._board
        late = clocks(m, platform, board)
        m.submodules.shell = shell = Shell(params)
        m.submodules.link = link = Link(params.core)
        m.submodules.uart = uart = Uart(divisor_of(board.mhz * 1e6, board.baud))
        connect(m, uart.received, link.rx)
        connect(m, link.tx, uart.send)
        for name in ("registers", "read", "write"):
            connect(m, getattr(link, name), getattr(shell, name))
        serial = platform.request("uart", dir={"rx": "-", "tx": "-", "rts": "-", "dtr": "-"})
        m.submodules.rx = rx = io.Buffer("i", serial.rx)
        m.submodules.tx = tx = io.Buffer("o", serial.tx)
        m.d.comb += [uart.rx_pin.eq(rx.i), tx.o.eq(uart.tx_pin)]
        self._chip(m, platform, shell, late)
        return m

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


def clocks(m: Module, platform: Any, board: Board) -> Signal:
    """Make the domain `sync` from the board's oscillator, and that of the memory if it has its own.

    Returns the clock of the chip, `CHIP_CLOCK_DEGREES` behind the memory's. Resets end when the PLL has locked.
    """
    out, second, late = (Signal(name=name, attrs={"keep": "true"}) for name in CLOCKS)
    locked = Signal(name="pll_locked")
    m.submodules.oscillator = oscillator = io.Buffer("i", platform.request(platform.default_clk, dir="-"))
    made = dividers(board.oscillator_mhz, board.mhz, board.memory_mhz)
    m.domains.sync = sync = ClockDomain("sync")
    m.submodules.pll = pll(
        made, oscillator.i, out, late, locked, CHIP_CLOCK_DEGREES, None if board.memory_mhz is None else second)
    m.d.comb += sync.clk.eq(out)
    m.submodules.reset = ResetSynchronizer(~locked, domain="sync")
    if board.memory_mhz is not None:
        m.domains += (memory := ClockDomain(MEMORY))
        m.d.comb += memory.clk.eq(second)
        m.submodules.memory_reset = ResetSynchronizer(~locked, domain=MEMORY)
    return late  # nextpnr works out the frequency of both from the oscillator's


def chip_clock(clock: Signal, pin: Signal) -> Instance:
    """An output cell that gives a clock to a pin."""
    return Instance("ODDRX1F", i_SCLK=clock, i_RST=Const(0), i_D0=Const(1), i_D1=Const(0), o_Q=pin)
