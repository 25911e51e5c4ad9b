"""Values of 1 to 32 bits in bytes: packed from a byte's low bits up, signed, little-endian."""

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def wrap(values: Ints, bits: int) -> Ints:
    """The low `bits` bits of each value, read as two's complement."""
    half = 1 << (bits - 1)
    return ((values + half) & ((1 << bits) - 1)) - half


def unpack(data: Bytes, bits: int) -> Ints:
    """The signed values of `bits` bits each that `data` holds."""
    if bits >= 8:
        return data.view(f"<i{bits // 8}").astype(np.int64)
    single = np.unpackbits(data, bitorder="little").reshape(-1, bits).astype(np.int64)
    return wrap((single << np.arange(bits)).sum(axis=1), bits)


def pack(values: npt.NDArray[np.signedinteger[Any]], bits: int) -> Bytes:
    """The bytes that hold the low `bits` bits of each value."""
    flat = values.reshape(-1)
    if bits >= 8:
        return flat.astype(f"<i{bits // 8}").view(np.uint8)
    single = (flat[:, None] >> np.arange(bits, dtype=flat.dtype)) & 1
    return np.packbits(single.astype(np.uint8).reshape(-1), bitorder="little")
