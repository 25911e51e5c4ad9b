"""Device "board:PORT": a board of vtakit at a serial port."""

from contextlib import ExitStack

from vtakit.boards.known import BAUD
from vtakit.hw.isa.config import VTAConfig
from vtakit.runtime.vta.device import Device
from vtakit.runtime.vta.link.port import LinkPort
from vtakit.runtime.vta.link.progress import shown
from vtakit.runtime.vta.link.serial_line import SerialTransport, check_port, patience_s
from vtakit.runtime.vta.registers import RegisterDevice
from vtakit.sim.api import integer, keywords
from vtakit.sim.faults import DeviceError

PLACE = "/dev/ttyUSB0"
_LEAST_BAUD, _MOST_BAUD = 9600, 12_000_000


def open_device(config: VTAConfig, name: str, place: str, *, baud: int = BAUD) -> Device:
    """The accelerator on the board at a serial port, with this configuration; its option is the one after `place`.

    baud    bits a second, as the bitstream was built for
    """
    if not _LEAST_BAUD <= integer("baud", baud) <= _MOST_BAUD:
        raise DeviceError(f"baud must be from {_LEAST_BAUD} to {_MOST_BAUD}, not {baud}")
    line = SerialTransport(place, name, baud)
    with ExitStack() as stack:
        stack.callback(line.close)
        device = RegisterDevice(name, LinkPort(line, name, patience_s=patience_s(baud), progress=shown(name)), config)
        stack.pop_all()
    return device


def check_place(name: str, place: str) -> None:
    """Raise `DeviceError` if there is no such port."""
    check_port(place, name)


OPTIONS = keywords(open_device)
