"""A serial port as the line to a board."""

import errno
import os
import time
from contextlib import suppress
from pathlib import Path

import serial
from serial.tools import list_ports

from vtakit.boards.known import BAUD
from vtakit.boards.link.protocol import BUFFER_BYTES
from vtakit.sim.faults import DeviceError

_LOOK_S = 0.02  # of a read of the port, between looks at the clock
_WRITE_S = 2.0  # for the operating system to take what is sent
_MOST_LISTED = 8


class SerialTransport:
    """A `Transport` over the serial port at `path`, which no other program can open meanwhile.

    name    of the device, in messages

    Raises `DeviceError` if there is no such port, or it cannot be used.
    """

    def __init__(self, path: str, name: str, baud: int = BAUD) -> None:
        self._name = name
        check_port(path, name)
        try:
            self._port = serial.Serial(path, baud, timeout=_LOOK_S, write_timeout=_WRITE_S, exclusive=True)
        except (OSError, ValueError) as error:  # of which pyserial's own are kinds
            raise DeviceError(f"device {name!r} cannot be opened: {_unopened(path, error)}; {_listing()}") from None
        # An FTDI chip keeps what it has for 16 ms unless it is told not to. pyserial can tell it on Linux only, and drivers of
        # other chips refuse: the link is slower there, and no less right.
        with suppress(AttributeError, NotImplementedError, OSError, ValueError):
            self._port.set_low_latency_mode(True)

    def send(self, data: bytes) -> None:
        """Hand bytes over."""
        try:
            self._port.write(data)
        except OSError as error:
            raise self._gone(error) from None

    def receive(self, most: int, timeout_s: float) -> bytes:
        """Return what has come, or wait for it."""
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                data: bytes = self._port.read(1)
                if data:
                    more: bytes = self._port.read(min(self._port.in_waiting, most - 1))
                    return data + more
                if time.monotonic() >= deadline:
                    return b""
        except OSError as error:
            raise self._gone(error) from None

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def clock(self) -> float:
        """The time in seconds."""
        return time.monotonic()

    def close(self) -> None:
        """Let go of the port."""
        self._port.close()

    def _gone(self, error: OSError) -> DeviceError:
        return DeviceError(f"the serial port of device {self._name!r} is gone: {_reason(error)}; is the board unplugged?")


def check_port(path: str, name: str) -> None:
    """Raise `DeviceError` if `path` is that of no file."""
    if os.path.isabs(path) and not os.path.exists(path):
        raise DeviceError(f"device {name!r} cannot be opened: there is no {path}; {_listing()}")


def patience_s(baud: int) -> float:
    """The time without a reply after which requests are sent again: twice what fits a board's buffer, and an adapter's delay."""
    return 0.2 + 2 * BUFFER_BYTES * 10 / baud


def _unopened(path: str, error: Exception) -> str:
    """Why a port could not be opened, and what would help."""
    number = getattr(error, "errno", None)
    if os.path.exists(path) and (number == errno.EISDIR or (number is None and isinstance(error, serial.SerialException))):
        return f"{path} is no serial port"
    if number == errno.EACCES:
        with suppress(OSError, KeyError, NotImplementedError):
            return f"you may not use {path}: add your user to group {Path(path).group()!r}, and log in again"
    return _reason(error)


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    if number == errno.EAGAIN:
        return "it is open in another program"
    return str(error) if number is None else os.strerror(number)


def _listing() -> str:
    """The serial ports of this machine, as text."""
    ports = sorted(port.device for port in list_ports.comports())
    if not ports:
        return "this machine has no serial port"
    more = f" and {len(ports) - _MOST_LISTED} more" if len(ports) > _MOST_LISTED else ""
    return f"this machine has {', '.join(ports[:_MOST_LISTED])}{more}"
