"""Buffers, memory with a shape, a type and a scope, and reads of their elements."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from vtakit.compiler.ir.base import Expr, changed
from vtakit.compiler.ir.basic import Call, IntImm, StringImm, Var
from vtakit.compiler.ir.dtypes import HANDLE, INT32, DType
from vtakit.compiler.ir.values import wrap


class Buffer:
    """Memory that one name stands for; two are equal only if they are one object.

    shape   : one expression a dimension; () holds one element
    dtype   : of an element; may have lanes
    strides : elements from one index to the next, one a dimension; () means compact, row-major
    scope   : "global", "shared", "local", "warp", or a scope that a target declares ("inp", "wgt", "acc", …)
    align   : bytes that an argument's address is a multiple of, if more than NumPy's arrays give; 0 asks for nothing
    offset  : elements that an argument's data pointer is before the first element
    swizzle : bytes of a row within which 16-byte chunks change places (`vtakit.compiler.ir.layouts`); 0 where none do
    data    : the address, as a variable
    """

    __slots__ = ("align", "data", "dtype", "name", "offset", "scope", "shape", "strides", "swizzle")

    def __init__(
        self, name: str, shape: Sequence[Expr | int], dtype: DType, scope: str = "global", *,
        strides: Sequence[Expr | int] = (), align: int = 0, offset: Expr | None = None, swizzle: int = 0,
    ) -> None:
        self.name, self.dtype, self.scope, self.align, self.swizzle = name, dtype, scope, align, swizzle
        self.shape = tuple(wrap(extent) for extent in shape)
        self.strides = tuple(wrap(stride) for stride in strides)
        self.offset: Expr = IntImm(0, INT32) if offset is None else offset
        self.data = Var(name, HANDLE)
        if self.strides and len(self.strides) != len(self.shape):
            raise ValueError(
                f"buffer {name!r} has {len(self.shape)} dimensions but {len(self.strides)} strides: give one a dimension, or none"
            )

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{self.name}: {self.dtype}[{shape}]" + (f" in {self.scope}" if self.scope != "global" else "")

    def __getitem__(self, indices: "Expr | int | tuple[Expr | int, ...]") -> "Load":
        """Return the element at the indices. Raises ValueError if their number is not that of the dimensions."""
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != len(self.shape):
            raise ValueError(f"buffer {self.name!r} has {len(self.shape)} dimensions, got {len(given)} indices")
        return Load(self, tuple(wrap(index) for index in given))

    def __iter__(self) -> "Iterator[Load]":
        raise TypeError(f"{self} cannot be iterated while a program is being described: read its elements by index")

    def compact_strides(self) -> tuple[Expr, ...]:
        """Return the elements from one index to the next in each dimension: the given strides, or those of row-major order."""
        if self.strides or not self.shape:
            return self.strides
        strides: list[Expr] = [IntImm(1, INT32)]
        for extent in self.shape[:0:-1]:
            strides.insert(0, extent * strides[0])
        return tuple(strides)

    def access_ptr(self, mask: str = "rw", offset: Expr | int = 0) -> Call:
        """Return the address of the element at a row-major `offset`, for an intrinsic.

        mask : "r" if the intrinsic reads the elements from there on, "w" if it writes them, "rw" for both

        Raises ValueError for another `mask`.
        """
        if mask not in ("r", "w", "rw"):
            raise ValueError(f"access_ptr of buffer {self.name!r}: the mask {mask!r} is not 'r', 'w' or 'rw'")
        first = Load(self, tuple(IntImm(0, INT32) for _ in self.shape))
        return Call(HANDLE, "address_of", (first, wrap(offset), StringImm(mask)))


class Load(Expr):
    """An element of a buffer, one index a dimension; a vector if the last index is one, or another index is (a gather)."""

    __slots__ = ("buffer", "indices")

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        self.buffer, self.indices = buffer, indices
        self.dtype = self._dtype_after({})

    def children(self) -> tuple[Expr, ...]:
        """Return the indices."""
        return self.indices

    def rebuild(self, change: Callable[[Expr], Expr]) -> Self:
        """Return the same read with `change` applied to each index; itself if none changed."""
        indices = changed(self.indices, change)
        return self if indices is self.indices else self.replace(indices=indices)

    def _dtype_after(self, parts: dict[str, Any]) -> DType:
        buffer: Buffer = parts.get("buffer", self.buffer)
        indices: tuple[Expr, ...] = parts.get("indices", self.indices)
        return buffer.dtype.with_lanes(max((index.dtype.lanes for index in indices), default=1) * buffer.dtype.lanes)
