"""OpenCL devices: found by number or name, opened once, with their limits."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from types import ModuleType
from typing import Any

from vtakit.base.errors import VtakitError, needs, one_of
from vtakit.base.text import one_line
from vtakit.cache.place import cache_folder, is_off, temporary_root, trouble
from vtakit.runtime.opencl.signals import handlers_kept

KIND = "opencl"
_CURE = "install the driver of a device, or pip install 'vtakit[opencl]' for one on the processor"


class OpenClError(VtakitError):
    """A device that does not exist or cannot do what was asked, or the failure of one."""


@cache
def pyopencl() -> ModuleType:
    """Return the module pyopencl. Raises VtakitError if it is not installed."""
    if "POCL_CACHE_DIR" not in os.environ:  # pocl keeps the machine code of kernels there
        os.environ["POCL_CACHE_DIR"] = _folder("pocl")
    with needs("target 'opencl'", "opencl"):
        import pyopencl as cl
    return cl


def _folder(kind: str) -> str:
    """Return a folder of the user's cache, or one for this process if that is not to be used."""
    folder = cache_folder(kind)
    try:
        if not is_off() and not trouble(folder):
            return str(folder)
    except OSError:
        pass
    folder = temporary_root() / kind
    folder.mkdir(exist_ok=True)
    return str(folder)


class Device:
    """An open device: its context and a queue in order, which notes the times of what runs.

    lock  : by which threads take turns
    cache : folder of compiled kernels, where the driver keeps none of its own
    """

    def __init__(self, handle: Any, number: int) -> None:
        cl = pyopencl()
        self.handle, self.number = handle, number
        self.name = f"{KIND}:{number}"
        self.lock = RLock()
        self.cache = _folder("opencl")
        with failing(f"{self.title} cannot be opened"):
            self.context = cl.Context([handle])
            self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)

    @property
    def title(self) -> str:
        """Name of the device and its driver, for people."""
        return title_of(self.handle)

    @property
    def threads(self) -> int:
        """Most threads of a block."""
        return int(self.handle.max_work_group_size)

    @property
    def shared_bytes(self) -> int:
        """Size in bytes of the memory that the threads of a block share."""
        return int(self.handle.local_mem_size)

    @property
    def doubles(self) -> bool:
        """Return whether the device computes with 64-bit floats."""
        return "cl_khr_fp64" in self.handle.extensions.split() or bool(self.handle.double_fp_config)

    def __repr__(self) -> str:
        return f"<device {self.name!r}: {self.title}>"


@contextmanager
def failing(what: str) -> Iterator[None]:
    """An error of OpenCL inside becomes an `OpenClError`, or a MemoryError where memory ran out."""
    cl = pyopencl()
    try:
        yield
    except cl.MemoryError as error:
        raise MemoryError(f"{what}: the device has too little memory ({_said(error)})") from None
    except cl.Error as error:
        if getattr(error, "code", 0) == cl.status_code.INVALID_BUFFER_SIZE:
            raise MemoryError(f"{what}: the device has no memory of that size ({_said(error)})") from None
        raise OpenClError(f"{what}: {_said(error)}") from None


def _said(error: Exception) -> str:
    return one_line(str(error))[:2000]


def title_of(handle: Any) -> str:
    """Return the name of a device with that of its platform."""
    return f"{one_line(handle.name).strip()} ({one_line(handle.platform.name).strip()})"


def handles() -> list[Any]:
    """Return all devices of all platforms, graphics processors first. Raises VtakitError without pyopencl."""
    cl = pyopencl()
    try:
        with handlers_kept():
            found = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error:  # no loader, no platform, a platform without devices
        found = []
    return sorted(found, key=lambda device: not device.type & cl.device_type.GPU)


def find(name: str = KIND) -> Device:
    """Return an open device.

    name : "opencl" for the first device, "opencl:1" by its number, "opencl:geforce" by a part of its name

    Raises OpenClError if there is no such device.
    """
    kind, _, which = name.partition(":")
    if kind != KIND:
        raise OpenClError(f"{name!r} is no device of target 'opencl': name one as 'opencl', 'opencl:0' or 'opencl:' and a part "
                          "of its name")
    known = handles()
    if not known:
        raise OpenClError(f"device {name!r}: this machine has no OpenCL device: {_CURE}")
    if which.isdigit():
        if int(which) >= len(known):
            raise OpenClError(f"device {name!r}: there are {len(known)}, {listing(known)}")
        return _opened(int(which))
    found = [at for at, handle in enumerate(known) if which.lower() in title_of(handle).lower()]
    if not found:
        titles = [title_of(handle) for handle in known]
        raise OpenClError(f"device {name!r}: no name has {which!r} in it; {one_of(titles, which)}")
    return _opened(found[0])


def listing(known: list[Any]) -> str:
    """Return the devices with their numbers."""
    return ", ".join(f"{KIND}:{at} {title_of(handle)}" for at, handle in enumerate(known))


@cache
def _opened(number: int) -> Device:
    return Device(handles()[number], number)
