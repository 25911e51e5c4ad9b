"""REQUANT as an expression of one accumulator and the words of its parameters."""

from collections.abc import Callable, Sequence

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import maximum, minimum
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import REQUANT_PARAMS, REQUANT_WORD_BITS
from vtakit.hw.isa.requant import BYTE_BITS, WORD_BYTES, rescaled, table_place

WIDE = "int64"  # each step stays within 51 bits


def requantized(cfg: VTAConfig, value: Expr, words: Sequence[Expr]) -> Expr:
    """Return ``min(max(rescaled(value, …), low), high)``, exact, as WIDE; see `vtakit.hw.isa.requant`.

    value : int32
    words : the three of the lane, int32, as `vtakit.hw.isa.codec.encode_requant` packs them
    """
    of = {}
    for place in REQUANT_PARAMS.place(cfg):
        number, at = divmod(place.offset, REQUANT_WORD_BITS)
        of[place.field.name] = _parameter(words[number], at, place.width, signed=place.low < 0)
    scaled = rescaled(value.astype(WIDE), of["bias"], of["multiplier"], of["shift"], of["zero_point"])
    return minimum(maximum(scaled, of["low"]), of["high"])


def looked_up(result: Expr, table: Callable[[Expr, Expr, Expr], Expr], rows: int, columns: int) -> Expr:
    """Return the byte that a result of REQUANT chooses from a table, as a signed number.

    table : the word in an element, a row and a column of it; an element has so many rows and columns
    """
    word, byte = table_place(result.astype("int32"))
    found = table(word // (rows * columns), word // columns % rows, word % columns)
    last = BYTE_BITS * (WORD_BYTES - 1)
    signed: Expr = found << last - BYTE_BITS * byte >> last
    return signed


def _parameter(word: Expr, at: int, width: int, *, signed: bool) -> Expr:
    bits = word.dtype.bits
    if signed:
        return ((word << bits - at - width) >> bits - width).astype(WIDE)
    return ((word >> at) & (1 << width) - 1).astype(WIDE)
