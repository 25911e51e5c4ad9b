"""Devices by name."""

from vtakit.runtime.cuda.device import EMULATOR, KIND, Device, cuda_device
from vtakit.runtime.cuda.emulator import emulator
from vtakit.runtime.cuda.errors import CudaError


def find(name: str | Device = KIND) -> Device:
    """Return an open device: "cuda" for the first GPU, "cuda:1" by its number, "emulator".

    Raises CudaError if there is no such device.
    """
    if isinstance(name, Device):
        return name
    if name == EMULATOR:
        return emulator()
    kind, colon, which = str(name).partition(":")
    if kind != KIND or (colon and not which.isdigit()):
        raise CudaError(f"{name!r:.60} is no device of target 'cuda': name a GPU as \"cuda\" or \"cuda:1\", or \"{EMULATOR}\"")
    return cuda_device(int(which or 0))
