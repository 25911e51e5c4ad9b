"""DLPack's structures in ctypes: arrays of other libraries without a copy, and ours for them.

Defined by the DLPack project (dlpack.h, version 0.8, and the Python specification of the array API standard).
"""

import ctypes
from typing import Any, NamedTuple

import numpy as np

from vtakit.compiler.ir.dtypes import DType, dtype
from vtakit.runtime.cpu.packed import numpy_dtype
from vtakit.runtime.cuda.errors import CudaError

CUDA = 2  # of DLDeviceType
_MANAGED = (CUDA, 3, 13)  # memory that a GPU reads: its own, pinned on the host, managed
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}


class _DlDevice(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("number", ctypes.c_int32))


class _DlType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DlTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", _DlDevice), ("ndim", ctypes.c_int32), ("dtype", _DlType),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (("tensor", _DlTensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))

_python = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", _python))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _python))
_raw_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))

_NAME, _USED = b"dltensor", b"used_dltensor"
_given: dict[int, tuple[Any, ...]] = {}  # what must live while another library has an array, by the structure's address


def _delete(managed: Any) -> None:
    _given.pop(ctypes.addressof(managed.contents), None)


def _unclaimed(capsule: int) -> None:
    """A capsule goes that nobody took the array from."""
    if _raw_valid(capsule, _NAME):
        _given.pop(_raw_pointer(capsule, _NAME), None)


_DELETE, _UNCLAIMED = _DELETER(_delete), ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_unclaimed)


class Borrowed(NamedTuple):
    """An array of another library. `owner` keeps its memory; strides are in elements, None for row-major order."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: np.dtype[Any]
    device: tuple[int, int]
    owner: Any


class _Owner:
    """Memory of another library, given back when nothing refers to it."""

    def __init__(self, managed: Any, delete: Any) -> None:
        self.managed, self.delete = managed, delete

    def __del__(self) -> None:
        if self.delete:  # a null pointer to a function is false
            self.delete(self.managed)


def export(address: int, shape: tuple[int, ...], kind: DType, device: tuple[int, int], owner: object) -> Any:
    """Return a capsule of a row-major array; `owner` lives until the library that takes it lets go."""
    sizes = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    steps = [1] * len(shape)
    for at in range(len(shape) - 2, -1, -1):
        steps[at] = steps[at + 1] * shape[at + 1]
    strides = (ctypes.c_int64 * max(1, len(shape)))(*steps)
    code = next(code for code, name in _CODES.items() if name == kind.code)
    managed = _Managed(
        _DlTensor(address, _DlDevice(*device), len(shape), _DlType(code, 8 if kind.is_bool else kind.bits, kind.lanes), sizes,
                  strides, 0), None, _DELETE)
    where = ctypes.addressof(managed)
    _given[where] = (managed, sizes, strides, owner)
    return _new(where, _NAME, ctypes.cast(_UNCLAIMED, ctypes.c_void_p))


def take(capsule: Any, of: str) -> Borrowed:
    """Return the array in a capsule, which is used up. Raises CudaError for what is none, or has elements of another kind."""
    if not _valid(capsule, _NAME):
        raise CudaError(f"the DLPack capsule of {of} holds no array, or another library has taken it")
    managed = ctypes.cast(_pointer(capsule, _NAME), ctypes.POINTER(_Managed))
    tensor = managed.contents.tensor
    _rename(capsule, _USED)
    owner = _Owner(managed, managed.contents.deleter)
    code, bits, lanes = tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes
    try:
        kind = dtype("bool") if _CODES[code] == "bool" else dtype(f"{'bfloat' if code == 4 else _CODES[code]}{bits}")
    except (KeyError, ValueError):
        raise CudaError(f"{of} has elements of DLPack's type {code} with {bits} bits, for which there is no name here") from None
    if lanes != 1:
        raise CudaError(f"{of} has vectors of {lanes} lanes as elements; give their array with one more dimension")
    shape = tuple(tensor.shape[at] for at in range(tensor.ndim))
    strides = tuple(tensor.strides[at] for at in range(tensor.ndim)) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    return Borrowed(address, shape, strides, numpy_dtype(kind), (tensor.device.type, tensor.device.number), owner)


def on_gpu(device: tuple[int, int]) -> bool:
    """Return whether an array is in memory that a GPU reads."""
    return device[0] in _MANAGED
