"""A UART: bytes on two wires, eight data bits, no parity, one stop bit."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import cdc, stream, wiring
from amaranth.lib.wiring import In, Out

from vtakit.base.errors import VtakitError
from vtakit.boards.known import BAUD

_LEAST_DIVISOR = 4  # below it the middle of a bit is no longer inside it
_MOST_ERROR = 0.02  # of the rate: the last of ten bits is still met in its middle half


def divisor_of(clock_hz: float, baud: int = BAUD) -> int:
    """The cycles of one bit.

    Raises `VtakitError` if the clock cannot make the rate.
    """
    divisor = round(clock_hz / baud)
    if divisor < _LEAST_DIVISOR or abs(clock_hz / divisor / baud - 1) > _MOST_ERROR:
        raise VtakitError(f"a clock of {clock_hz / 1e6:g} MHz makes no {baud} baud: a bit takes {clock_hz / baud:.2f} cycles and "
                          f"must take a whole number from {_LEAST_DIVISOR} up, within {_MOST_ERROR:.0%}")
    return divisor


class Uart(wiring.Component):
    """Receives and sends; `divisor` is the cycles of one bit.

    A byte that has come is offered for one cycle: a UART cannot wait. A byte without its stop bit is dropped.

    Members
    -------
    rx_pin : ``In(1)``
    tx_pin : ``Out(1)``
    received : ``Out(stream)``
    send : ``In(stream)``
    """

    def __init__(self, divisor: int) -> None:
        if divisor < _LEAST_DIVISOR:
            raise ValueError(f"divisor must be at least {_LEAST_DIVISOR}, got {divisor}")
        self._divisor = divisor
        super().__init__({
            "rx_pin": In(1, init=1), "tx_pin": Out(1, init=1),
            "received": Out(stream.Signature(8)), "send": In(stream.Signature(8)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._receive(m)
        self._send(m)
        return m

    def _receive(self, m: Module) -> None:
        line, before = Signal(init=1), Signal(init=1)
        m.submodules.synchroniser = cdc.FFSynchronizer(self.rx_pin, line, init=1)
        left = Signal(range(self._divisor))  # cycles to the middle of the next bit
        bits = Signal(range(11))  # to come
        taken = Signal(9)
        m.d.sync += [self.received.valid.eq(0), before.eq(line)]
        m.d.comb += self.received.payload.eq(taken[:8])
        with m.If(bits == 0), m.If(before & ~line):  # an edge: a line that stays low has no bytes
            m.d.sync += [bits.eq(10), left.eq(self._divisor // 2 - 1)]
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Else():
            m.d.sync += [left.eq(self._divisor - 1), bits.eq(bits - 1), taken.eq(Cat(taken[1:], line))]
            with m.If((bits == 10) & line):  # no start bit: a glitch
                m.d.sync += bits.eq(0)
            with m.If(bits == 1):
                m.d.sync += [self.received.valid.eq(line), taken.eq(taken[1:])]

    def _send(self, m: Module) -> None:
        left = Signal(range(self._divisor))
        bits = Signal(range(11))
        leaving = Signal(10, init=~0)
        m.d.comb += [self.tx_pin.eq(leaving[0]), self.send.ready.eq(bits == 0)]
        with m.If(bits == 0), m.If(self.send.valid):
            m.d.sync += [leaving.eq(Cat(Const(0, 1), self.send.payload, Const(1, 1))), bits.eq(10), left.eq(self._divisor - 1)]
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Else():
            m.d.sync += [left.eq(self._divisor - 1), bits.eq(bits - 1), leaving.eq(Cat(leaving[1:], Const(1, 1)))]
