"""Arithmetic of REQUANT: one statement for Python integers, NumPy arrays, compiled loops and the compiler's expressions."""

from typing import Any

from vtakit.hw.isa.insns import REQUANT_WORD_BITS, TABLE_BYTES

BYTE_BITS = 8
WORD_BYTES = REQUANT_WORD_BITS // BYTE_BITS


def rescaled(x: Any, bias: Any, multiplier: Any, shift: Any, zero_point: Any) -> Any:
    """Return ``((x + bias) * multiplier + half >> shift) + zero_point``, with half = ``2**shift / 2`` rounded down.

    x                                   : 32 bits, signed
    bias … zero_point                   : fields of `vtakit.hw.isa.insns.REQUANT_PARAMS`; all broadcast against x

    The result is exact in 64 bits for each shift from 0 to 63, where half itself would not fit: twice the product is shifted,
    and its last bit rounds. REQUANT then computes ``min(max(result, low), high)``, so high wins where low is above it.
    """
    return (((x + bias) * multiplier * 2 >> shift) + 1 >> 1) + zero_point


def table_place(result: Any) -> tuple[Any, Any]:
    """Return the word of a lookup's table and the byte in it that take the place of a result, from -128 to 127."""
    entry = result + TABLE_BYTES // 2
    return entry // WORD_BYTES, entry % WORD_BYTES
