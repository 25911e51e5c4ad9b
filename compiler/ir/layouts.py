"""Swizzled layouts: chunks of 16 bytes that change places, so that a column of them lies in different banks of shared memory.

Bits 4 and up of a byte's place are combined by exclusive or with bits 7 and up: one bit for rows of 32 bytes, two for 64, three
for 128. This is the hardware's own swizzle for bulk copies and matrix descriptors (PTX ISA, "Shared memory matrix layout").
"""

from vtakit.compiler.ir.expr import BitAnd, BitXor, Expr, Ramp, ShiftLeft, ShiftRight
from vtakit.compiler.ir.ops import binary
from vtakit.compiler.ir.values import const

CHUNK = 16  # bytes that stay together
ROW = 128  # bytes: one of each of the banks
SWIZZLES = (32, 64, 128)
ALIGNMENT = 8 * ROW  # bytes, of a swizzled buffer: the hardware swizzles by bits of the address


def swizzled(index: Expr, swizzle: int, bytes_: int) -> Expr:
    """Return the place of the element `index`, or of the elements of a ramp within one chunk.

    swizzle : bytes of a row, one of `SWIZZLES`; bytes_ : of an element. Raises ValueError for a ramp that is no chunk's part.
    """
    if isinstance(index, Ramp):
        if index.lanes * bytes_ > CHUNK or int(getattr(index.stride, "value", 0)) != 1:
            raise ValueError(f"{index} are more than {CHUNK} bytes, and {CHUNK} bytes in a row stay together if it is swizzled")
        return Ramp(swizzled(index.base, swizzle, bytes_), index.stride, index.lanes)
    chunk, row = (CHUNK // bytes_).bit_length() - 1, (ROW // bytes_).bit_length() - 1
    kind = index.dtype
    bits = binary(BitAnd, binary(ShiftRight, index, const(row, kind)), const(swizzle // CHUNK - 1, kind))
    return binary(BitXor, index, binary(ShiftLeft, bits, const(chunk, kind)))


def swizzled_place(at: int, swizzle: int, bytes_: int) -> int:
    """Return the place of an element as a number."""
    chunk, row = CHUNK // bytes_, ROW // bytes_
    return at ^ (at // row % (swizzle // CHUNK) * chunk)
