"""Arrays in a device's memory."""

from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.runtime.opencl.devices import Device, failing, find, pyopencl

Array = npt.NDArray[Any]


class DeviceArray:
    """A row-major array in a device's memory: what functions for that device take without a copy.

    shape, dtype : of the elements
    memory       : the device's buffer, of at least one byte
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> None:
        self.device = device
        # Pages of it that nobody touches take no memory; its address stands for the device's memory where arrays are compared.
        self.shadow: Array = np.empty(shape, dtype)
        cl = pyopencl()
        with failing(f"an array of {self.shadow.nbytes} bytes on {device.title}"):
            self.memory = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, max(1, self.shadow.nbytes))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.shadow.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.shadow.dtype

    @property
    def nbytes(self) -> int:
        """Size in bytes of all elements."""
        return int(self.shadow.nbytes)

    def numpy(self) -> Array:
        """Return a copy in the host's memory, once all that was begun before has ended."""
        found = np.empty(self.shape, self.dtype)
        if found.nbytes:
            with self.device.lock, failing(f"reading {self!r}"):
                pyopencl().enqueue_copy(self.device.queue, found.reshape(-1).view(np.uint8), self.memory)
        return found

    def assign(self, array: Array) -> None:
        """Copy an array of the same shape and type to the device."""
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ValueError(f"{self!r} takes {self.dtype}{list(self.shape)}, got {array.dtype}{list(array.shape)}")
        if array.nbytes:
            with self.device.lock, failing(f"writing {self!r}"):
                given = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                pyopencl().enqueue_copy(self.device.queue, self.memory, given)

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} on {self.device.name}>"


def device_array(array: Array, device: str | Device = "opencl") -> DeviceArray:
    """Return a copy of a NumPy array in a device's memory."""
    opened = device if isinstance(device, Device) else find(device)
    found = DeviceArray(array.shape, array.dtype, opened)
    found.assign(array)
    return found
