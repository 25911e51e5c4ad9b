"""REQUANT as an expression: what it makes of one accumulator and the words of its parameters."""

from collections.abc import Sequence

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.ops import maximum, minimum
from vtakit.compiler.ir.values import const
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.insns import REQUANT_PARAMS, REQUANT_WORD_BITS

WIDE = "int64"  # no step of it leaves 63 bits


def requantised(cfg: VTAConfig, value: Expr, words: Sequence[Expr]) -> Expr:
    """``min(max(((value + bias) * multiplier + half >> shift) + zero_point, low), high)``, exact, as WIDE.

    value : int32
    words : the three of the lane, int32, as `vtakit.hw.isa.codec.encode_requant` packs them
    """
    of = {}
    for place in REQUANT_PARAMS.place(cfg):
        number, at = divmod(place.offset, REQUANT_WORD_BITS)
        of[place.field.name] = _parameter(words[number], at, place.width, signed=place.low < 0)
    shift = of["shift"]
    half = (const(1, WIDE) << (maximum(shift, 1) - 1)) * minimum(shift, 1)
    product = (value.astype(WIDE) + of["bias"]) * of["multiplier"]
    return minimum(maximum((product + half >> shift) + of["zero_point"], of["low"]), of["high"])


def _parameter(word: Expr, at: int, width: int, *, signed: bool) -> Expr:
    bits = word.dtype.bits
    if signed:
        return ((word << bits - at - width) >> bits - width).astype(WIDE)
    return ((word >> at) & (1 << width) - 1).astype(WIDE)
