"""Files of the Linux kernel: devices, their attributes under /sys, and what a failure to open one means."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from vtakit.sim.faults import DeviceError

_MOST_LISTED = 8
_MOST_ATTRIBUTE = 4096  # bytes of an attribute


def root_of(device: Path) -> Path:
    """Return the folder that has `dev` and `sys`: "/" of a device such as /dev/uio0."""
    return device.parent.parent if device.parent.name == "dev" else Path("/")


def attribute(path: Path) -> str | None:
    """Return the text of an attribute, or None if there is none."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_ATTRIBUTE).decode(errors="replace").strip()
    except OSError:
        return None


def number(name: str, path: Path) -> int:
    """Return the number that an attribute holds: decimal, or hexadecimal after 0x.

    Raises DeviceError if there is no such attribute or no such number.
    """
    text = attribute(path)
    try:
        return int(text or "", 0)
    except ValueError:
        what = "is not there" if text is None else f"reads {text!r:.40}, which is no number"
        raise DeviceError(f"device {name!r} cannot be opened: {path} {what}") from None


def open_file(name: str, path: Path, flags: int, cure: str) -> int:
    """Return a descriptor of a device's file.

    cure   what to do if there is no such file

    Raises DeviceError.
    """
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise failure(name, path, error, cure) from None


def failure(name: str, path: Path, error: OSError, cure: str = "") -> DeviceError:
    """Return the error of a device whose file cannot be opened or used."""
    said = f"device {name!r} cannot be opened: "
    if error.errno in (errno.EACCES, errno.EPERM):
        return DeviceError(f"{said}you may not open {path}: run as root, or let a udev rule give it to your user")
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
        return DeviceError(f"{said}there is no {path}{f'; {cure}' if cure else ''}")
    return DeviceError(f"{said}{path}: {os.strerror(error.errno or 0)}")


def listed(folder: Path) -> str:
    """Return the entries of a class of devices as text: names, and what each says that it is called."""
    found = [*_entries(folder)]
    more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
    return f"{', '.join(found[:_MOST_LISTED])}{more}" if found else "none"


def _entries(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*")):
        called = attribute(path / "name")
        yield f"{path.name} ({called})" if called else path.name
