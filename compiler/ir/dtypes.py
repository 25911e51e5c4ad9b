"""Data types of expressions and buffers: a scalar type and a number of lanes."""

import functools
import re
from dataclasses import dataclass
from typing import Any

from vtakit.base.errors import VtakitError

_SCALARS = {
    **{f"int{bits}": ("int", bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": ("uint", bits) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": ("float", bits) for bits in (16, 32, 64)},
    "bfloat16": ("bfloat", 16),
    "bool": ("bool", 1),
    "handle": ("handle", 64),
    **{f"int{bits}": ("int", bits) for bits in (1, 2, 4)},
    **{f"uint{bits}": ("uint", bits) for bits in (2, 4)},
    **{name: (name, 8) for name in (
        "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    )},
    "float4_e2m1fn": ("float4_e2m1fn", 4),
}


@dataclass(frozen=True, slots=True)
class DType:
    """A scalar type times a number of lanes; written ``float32`` or ``float32x8``.

    code : ``int``, ``uint``, ``float``, ``bfloat``, ``bool`` or ``handle`` (an address), or the name of a storage type: a
           floating-point type of 8 or 4 bits, which is moved and converted, and not computed with (`is_storage`)
    bits : of one lane; what has less than 8 takes a byte in memory, unless a target packs it
    lanes : 1 for a scalar
    """

    code: str
    bits: int
    lanes: int = 1

    def __str__(self) -> str:
        name = self.code if self.code in ("bool", "handle") or self.is_storage else f"{self.code}{self.bits}"
        return name if self.lanes == 1 else f"{name}x{self.lanes}"

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return make, (self.code, self.bits, self.lanes)  # read back from a file it is the one object again

    @property
    def is_int(self) -> bool:
        """Return whether the type is a signed or unsigned integer; a bool is not."""
        return self.code in ("int", "uint")

    @property
    def is_float(self) -> bool:
        """Return whether the type is a floating-point type, bfloat16 included."""
        return self.code in ("float", "bfloat")

    @property
    def is_storage(self) -> bool:
        """Return whether the type is a floating-point type of 8 or 4 bits, whose elements are moved and converted only."""
        return "_" in self.code

    @property
    def is_bool(self) -> bool:
        return self.code == "bool"

    @property
    def bytes(self) -> int:
        """Return the size in bytes of all lanes together."""
        return max(1, self.bits // 8) * self.lanes

    @property
    def scalar(self) -> "DType":
        """The type of one lane."""
        return self if self.lanes == 1 else make(self.code, self.bits, 1)

    def with_lanes(self, lanes: int) -> "DType":
        return self if self.lanes == lanes else make(self.code, self.bits, lanes)

    @property
    def min(self) -> int:
        """The least value of an integer or bool."""
        return -(1 << self.bits - 1) if self.code == "int" else 0

    @property
    def max(self) -> int:
        """The greatest value of an integer or bool."""
        return (1 << self.bits - 1) - 1 if self.code == "int" else (1 << self.bits) - 1


@functools.cache
def _made(code: str, bits: int, lanes: int) -> DType:
    return DType(code, bits, lanes)


def make(code: str, bits: int, lanes: int = 1) -> DType:
    """The one object of that type, so that types can be compared with `is`."""
    return _made(code, bits, lanes)


class DataTypeError(VtakitError, ValueError):
    """A name that is no data type's."""


@functools.cache
def _parse(text: str) -> DType:
    match = re.fullmatch(r"(.+?)(?:x([1-9]\d*))?", text)
    name, lanes = (match[1], int(match[2] or 1)) if match else (text, 1)
    if name not in _SCALARS:
        raise DataTypeError(f"{text!r} is no data type: use one of {', '.join(_SCALARS)}; a vector adds 'x' and its lanes")
    return make(*_SCALARS[name], lanes)


def dtype(of: "str | DType | type | object") -> DType:
    """The data type that a name such as ``"int8"`` or ``"float32x8"``, or a NumPy dtype, means.

    Raises DataTypeError with the list of names for anything else.
    """
    if isinstance(of, DType):
        return of
    if isinstance(of, str):
        return _parse(of)
    return _parse(str(getattr(of, "name", None) or getattr(of, "__name__", of)))


BOOL = make("bool", 1)
INT32 = make("int", 32)
INT64 = make("int", 64)
FLOAT32 = make("float", 32)
HANDLE = make("handle", 64)
