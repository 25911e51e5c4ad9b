"""REQUANT as an expression of one accumulator and the words of its parameters."""

from collections.abc import Sequence

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import maximum, minimum
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import REQUANT_PARAMS, REQUANT_WORD_BITS
from vtakit.hw.isa.requant import rescaled

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


def _parameter(word: Expr, at: int, width: int, *, signed: bool) -> Expr:
    bits = word.dtype.bits
    if signed:
        return ((word << bits - at - width) >> bits - width).astype(WIDE)
    return ((word >> at) & (1 << width) - 1).astype(WIDE)
