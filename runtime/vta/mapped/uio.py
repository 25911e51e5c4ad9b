"""A device of the kernel's UIO: its registers, and its interrupt as a file that is read."""

import errno
import fcntl
import os
import select
import sys
from contextlib import suppress
from pathlib import Path

from vtakit.runtime.vta.mapped.kernel import attribute, failure, listed, number, open_file, root_of
from vtakit.runtime.vta.mapped.page import Page
from vtakit.sim.faults import DeviceError

_COUNT_BYTES = 4  # of the number of interrupts that a read gives
_MS = 1000
_CURE = "load the overlay of `vtakit vivado`, and boot the kernel with uio_pdrv_genirq.of_id=generic-uio"


class Events:
    """Interrupts of a UIO device.

    The kernel masks the interrupt when it comes, and `enable` unmasks it. One that is pending then comes at once: it is a level.
    """

    def __init__(self, name: str, file: int) -> None:
        self._name, self._file = name, file
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)

    def enable(self) -> bool:
        """Unmask the interrupt; False if the device has none."""
        try:
            os.write(self._file, (1).to_bytes(_COUNT_BYTES, sys.byteorder))
        except OSError as error:
            if error.errno in (errno.EIO, errno.ENOSYS, errno.EINVAL):
                return False
            raise self._gone(error) from None
        return True

    def wait(self, timeout_s: float) -> bool:
        """Wait for an interrupt; False if none has come in time."""
        if not any(event & select.POLLIN for _, event in self._poll.poll(max(timeout_s, 0) * _MS)):
            return False
        try:
            os.read(self._file, _COUNT_BYTES)
        except OSError as error:
            raise self._gone(error) from None
        return True

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def _gone(self, error: OSError) -> DeviceError:
        return DeviceError(f"device {self._name!r} gives no interrupts any more: {os.strerror(error.errno or 0)}; was its "
                           "overlay removed?")


def find_uio(name: str, place: str) -> Path:
    """Return the path of a UIO device: `place` is one, or what the device is called, such as "vta".

    Raises DeviceError if there is none.
    """
    if "/" in place:
        path = Path(place)
        if not path.exists():
            found = listed(root_of(path) / "sys" / "class" / "uio")
            raise DeviceError(f"device {name!r} cannot be opened: there is no {place}; this machine has UIO devices: {found}; "
                              f"{_CURE}")
        return path
    folder = Path("/sys/class/uio")
    for each in sorted(folder.glob("*")):
        if place in (each.name, attribute(each / "name")):
            return Path("/dev") / each.name
    raise DeviceError(f"device {name!r} cannot be opened: no UIO device is called {place!r:.40}; this machine has: "
                      f"{listed(folder)}; {_CURE}")


class Uio:
    """A UIO device, open and locked: `Registers`.

    name    of the device, in messages
    size    bytes of registers that its first map must have

    Raises DeviceError if it cannot be opened, is open in another program, or has fewer registers.
    """

    def __init__(self, name: str, path: Path, size: int) -> None:
        self.name, self.path, self.root = name, path, root_of(path)
        self._require_bitstream()
        self._file = open_file(name, path, os.O_RDWR | os.O_SYNC, _CURE)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise DeviceError(f"device {name!r} cannot be opened: {path} is open in another program") from None
            first = self.root / "sys" / "class" / "uio" / path.name / "maps" / "map0"
            has = number(name, first / "size")
            if has < size:
                raise DeviceError(f"device {name!r} cannot be opened: {path} has 0x{has:x} bytes of registers, and 0x{size:x} "
                                  "are needed: is it another device?")
            try:
                self._page = Page(name, self._file, size)
            except (OSError, ValueError) as error:
                what = f"the registers of {path} cannot be mapped: {error}"
                raise DeviceError(f"device {name!r} cannot be opened: {what}") from None
        except BaseException:
            os.close(self._file)
            raise
        self.read, self.write = self._page.read, self._page.write

    def events(self) -> Events | None:
        """Return its interrupts, or None if it has none."""
        try:
            found = Events(self.name, open_events(self.path))
        except OSError as error:
            raise failure(self.name, self.path, error) from None
        if found.enable():
            return found
        found.close()
        return None

    def close(self) -> None:
        """Unmap the registers and unlock the device."""
        self._page.close()
        with suppress(OSError):
            os.close(self._file)

    def _require_bitstream(self) -> None:
        """Refuse an FPGA without a bitstream: an access to registers that are not there would end this process."""
        states = [attribute(path) for path in sorted((self.root / "sys" / "class" / "fpga_manager").glob("*/state"))]
        if states and "operating" not in states:
            raise DeviceError(f"device {self.name!r} cannot be opened: the FPGA has no bitstream, its state is "
                              f"{states[0]!r:.40}; load the overlay of `vtakit vivado`")


def open_events(path: Path) -> int:
    """Return a descriptor of the file that a device's interrupts are read from."""
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)
