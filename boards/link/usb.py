"""A link's bytes over full-speed USB: a serial port (CDC-ACM) at a pair of pins. The device is that of luna-usb."""

import re
import warnings
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Module, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.fifo import AsyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from vtakit.base.errors import needs
from vtakit.boards.link.protocol import FLAG

PACKAGES = ("luna-usb", "usb-protocol")  # the device, and its descriptors
USB, USB_IO = "usb", "usb_io"  # domains, as luna names them: 12 MHz, one clock a bit, and 48 MHz, which samples the pins
USB_MHZ, USB_IO_MHZ = 12, 48
VENDOR, PRODUCT = 0x1209, 0x0001  # pid.codes' pair for tests; who ships a board asks for one of its own
MANUFACTURER, NAME = "vtakit", "vtakit board"
_DEPTH = 16  # of the queues between the clocks
_RESET_CLOCKS = 60  # of USB, 5 µs; the shortest reset of a host takes 10 ms, and the longest SE0 inside a packet 0.2 µs
_BY_ADDRESS = re.compile(r"(USB\w+Endpoint)_(\d{6,})")
PINS = wiring.Signature({
    "d_p_i": In(1), "d_n_i": In(1), "d_p_o": Out(1), "d_n_o": Out(1), "drive": Out(1), "pull_up": Out(1),
})


class UsbSerial(wiring.Component):
    """A USB device whose bytes go to a link in the domain `sync`. Domains `usb` and `usb_io` must be in step, outputs of one PLL.

    A reset of the bus resets the device whole: address, configuration, data toggles, and the bytes that wait for the host.
    The FLAG that ends a frame ends a USB transfer, so a host has each reply at once.

    Members
    -------
    pins : ``Out``            D+ and D-, driven while `drive`, and the pull-up of D+
    received : ``Out(stream)``
    send : ``In(stream)``
    """

    def __init__(self) -> None:
        super().__init__({"pins": Out(PINS), "received": Out(stream.Signature(8)), "send": In(stream.Signature(8))})

    def elaborate(self, platform: object) -> Module:
        m, pins = Module(), self.pins
        plus, minus = (SimpleNamespace(i=Signal(name=f"{name}_i"), o=Signal(name=f"{name}_o"), oe=Signal(name=f"{name}_oe"))
                       for name in ("d_p", "d_n"))
        pull_up = SimpleNamespace(o=Signal(name="pull_up_o"))
        device = _device(SimpleNamespace(d_p=plus, d_n=minus, pullup=pull_up))
        m.d.comb += [
            plus.i.eq(pins.d_p_i), minus.i.eq(pins.d_n_i), pins.d_p_o.eq(plus.o), pins.d_n_o.eq(minus.o),
            pins.drive.eq(plus.oe), pins.pull_up.eq(pull_up.o), device.connect.eq(1),
        ]
        resets = self._resets(m)
        m.submodules.device = ResetInserter(resets)(device)
        self._cross(m, device)
        return m

    def _resets(self, m: Module) -> dict[str, Signal]:
        """Return the signals, by domain, that are high while the host resets the bus: both lines are low for long."""
        low, count = Signal(), Signal(range(_RESET_CLOCKS + 1))
        resets = {USB: Signal(name="bus_reset"), USB_IO: Signal(name="bus_reset_io")}
        m.submodules.low = FFSynchronizer(~self.pins.d_p_i & ~self.pins.d_n_i, low, o_domain=USB)
        m.submodules.reset_io = FFSynchronizer(resets[USB], resets[USB_IO], o_domain=USB_IO)
        m.d[USB] += resets[USB].eq(count == _RESET_CLOCKS)
        with m.If(~low):
            m.d[USB] += count.eq(0)
        with m.Elif(count != _RESET_CLOCKS):
            m.d[USB] += count.eq(count + 1)
        return resets

    def _cross(self, m: Module, device: Any) -> None:
        """Join the device's streams to the link's over queues."""
        came, leaves = device.rx, device.tx
        m.submodules.received = received = AsyncFIFOBuffered(width=8, depth=_DEPTH + 1, w_domain=USB, r_domain="sync")
        m.submodules.leaving = leaving = AsyncFIFOBuffered(width=9, depth=_DEPTH + 1, w_domain="sync", r_domain=USB)
        outside = Signal(init=1)  # the last byte was a FLAG: another one begins a frame
        flag = Signal()
        m.d.comb += [
            received.w_data.eq(came.payload), received.w_en.eq(came.valid), came.ready.eq(received.w_rdy),
            self.received.payload.eq(received.r_data), self.received.valid.eq(received.r_rdy),
            received.r_en.eq(self.received.ready),
            flag.eq(self.send.payload == FLAG), leaving.w_data.eq(Cat(self.send.payload, flag & ~outside)),
            leaving.w_en.eq(self.send.valid), self.send.ready.eq(leaving.w_rdy),
            leaves.payload.eq(leaving.r_data[:8]), leaves.last.eq(leaving.r_data[8]), leaves.valid.eq(leaving.r_rdy),
            leaving.r_en.eq(leaves.ready),
        ]
        with m.If(self.send.valid & self.send.ready):
            m.d.sync += outside.eq(flag)


def stable_names(text: str) -> str:
    """Return a netlist without names that depend on the process: luna numbers a second endpoint by its address in memory."""
    numbers: dict[str, int] = {}
    return _BY_ADDRESS.sub(lambda found: f"{found[1]}_{numbers.setdefault(found[0], len(numbers) + 2)}", text)


def serial_device() -> Any:
    """Return luna's class of CDC-ACM devices. Raises `VtakitError` where luna-usb is not installed."""
    with needs("a link over USB", "fpga"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # luna uses records of Amaranth 0.4
        from luna.full_devices import USBSerialDevice
    return USBSerialDevice


def _device(bus: SimpleNamespace) -> Any:
    """Return the device at a pair of pins."""
    return serial_device()(
        bus=bus, idVendor=VENDOR, idProduct=PRODUCT, manufacturer_string=MANUFACTURER, product_string=NAME, serial_number="1")
