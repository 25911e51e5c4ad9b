"""Arrays in a device's memory."""

import ctypes
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from vtakit.compiler.ir.dtypes import dtype as ir_dtype
from vtakit.runtime.cuda import dlpack
from vtakit.runtime.cuda.device import CudaDevice, Device, cuda_device
from vtakit.runtime.cuda.devices import find
from vtakit.runtime.cuda.errors import CudaError

Array = npt.NDArray[Any]


class Memory:
    """Memory of a device, given back when nothing refers to it."""

    def __init__(self, device: Device, size: int, what: str) -> None:
        self.device, self.size = device, size
        self.address = device.allocate(size, what)

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            try:
                self.device.free(self.address)
            except Exception:  # the process ends, or the device has failed: its memory is gone either way
                return


class DeviceArray:
    """A row-major array in a device's memory: what functions and models for that device take without a copy.

    Other libraries take it by `__dlpack__` or `__cuda_array_interface__`; NumPy by `numpy()`, a copy.

    shape, dtype : of the elements, dtype as NumPy has it
    address      : of the first element
    owner        : what keeps the memory
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, device: str | Device = "cuda", *, address: int | None = None,
                 owner: object = None) -> None:
        self.shape, self.dtype, self.device = tuple(map(int, shape)), np.dtype(dtype), find(device)
        if address is None:
            memory = Memory(self.device, self.nbytes, f"an array of {self.dtype}{list(self.shape)}")
            address, owner = memory.address, memory
        self.address, self.owner = address, owner

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes of all elements."""
        return int(self.size * self.dtype.itemsize)

    def numpy(self) -> Array:
        """Return a copy in the host's memory, once all that was begun before has ended."""
        found = np.empty(self.shape, self.dtype)
        self.device.read(self.address, _bytes(found))
        return found

    def assign(self, given: Any) -> None:
        """Copy an array of the same shape and type, of NumPy or of this device, into it."""
        source = given if isinstance(given, DeviceArray) else np.asarray(given)
        if tuple(source.shape) != self.shape or source.dtype != self.dtype:
            raise CudaError(f"{self!r} takes {self.dtype}{list(self.shape)}, got {source.dtype}{list(source.shape)}")
        if isinstance(source, DeviceArray):
            self.device.copy(self.address, source.address, self.nbytes)
        else:
            self.device.write(self.address, _bytes(np.ascontiguousarray(source)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"{self!r} is in the device's memory: NumPy gets a copy")
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not isinstance(self.device, CudaDevice):
            raise AttributeError(f"{self!r} is in no GPU's memory")
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False), "version": 3, "strides": None,
                "stream": 1}  # the legacy default stream

    def __dlpack_device__(self) -> tuple[int, int]:
        if not isinstance(self.device, CudaDevice):
            raise BufferError(f"{self!r} is in memory that no other library reads: take a copy with numpy()")
        return dlpack.CUDA, self.device.number

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
        """Return a capsule for another library. What this device has begun ends first if `stream` is another than its own."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"{self!r} is not on DLPack's device {tuple(dl_device)}")
        if copy:
            raise BufferError(f"{self!r} is given without a copy")
        if stream not in (None, -1, 0, 1):
            self.device.finish()
        return dlpack.export(self.address, self.shape, ir_dtype(self.dtype), self.__dlpack_device__(), self)

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} on {self.device.name}>"


def phantom(array: DeviceArray) -> Array:
    """Return a NumPy array with a device array's shape, type and address, for checks of arguments; never read its elements."""
    if not array.size:
        return np.empty(array.shape, array.dtype)
    memory = memoryview((ctypes.c_uint8 * array.nbytes).from_address(array.address))
    found: Array = np.frombuffer(memory, np.uint8).view(array.dtype).reshape(array.shape)
    return found


def device_array(given: Any, device: str | Device = "cuda") -> DeviceArray:
    """Return an array in a device's memory.

    An array of NumPy is copied. One that is in a GPU's memory already, of torch, CuPy or another library with DLPack, is not.

    Raises CudaError if there is no such device, or the array cannot be there.
    """
    found = borrowed(given)
    if found is not None:
        return found
    array = np.ascontiguousarray(np.asarray(given))
    made = DeviceArray(np.shape(given), array.dtype, device)
    made.assign(array.reshape(made.shape))
    return made


def borrowed(given: Any) -> DeviceArray | None:
    """Return an array of another library that is in a GPU's memory as one of ours, without a copy; None for any other."""
    if isinstance(given, DeviceArray):
        return given
    if isinstance(given, np.ndarray) or not hasattr(given, "__dlpack_device__"):
        return _by_interface(given)
    kind, number = given.__dlpack_device__()
    if not dlpack.on_gpu((int(kind), int(number))):
        return None
    name = type(given).__name__
    found = dlpack.take(given.__dlpack__(stream=1), name)
    return _adopted(found.address, found.shape, found.strides, found.dtype, int(number), found.owner, name)


def _by_interface(given: Any) -> DeviceArray | None:
    interface = getattr(given, "__cuda_array_interface__", None)
    if not isinstance(interface, dict):
        return None
    kind = np.dtype(interface["typestr"])
    strides = interface.get("strides")
    steps = None if strides is None else tuple(step // kind.itemsize for step in strides)
    return _adopted(int(interface["data"][0]), tuple(interface["shape"]), steps, kind, 0, given, type(given).__name__)


def _adopted(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, kind: np.dtype[Any], number: int, owner: object,
    name: str,
) -> DeviceArray:
    if strides is not None:
        step = 1
        for size, given in zip(reversed(shape), reversed(strides), strict=True):
            if size > 1 and given != step:
                raise CudaError(f"a {name} of shape {list(shape)} has strides of {list(strides)} elements, and arrays here are "
                                "row-major: make a contiguous copy of it")
            step *= size
    return DeviceArray(shape, kind, cuda_device(number), address=address, owner=owner)


def _bytes(array: Array) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
