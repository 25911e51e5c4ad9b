"""The values that generated code may have: what stays within its type needs no wrapping, an index within its extent no check."""

import operator
from typing import NamedTuple

from vtakit.compiler.ir import expr as ir


class Code(NamedTuple):
    """Python text of an atom or in brackets, and for integers and bools the least and greatest value."""

    text: str
    low: float = 0
    high: float = 1


def interval(kind: type[ir.Binary], a: Code, b: Code, bits: int) -> tuple[float, float]:
    """The values that an integer operation may have, before wrapping."""
    if kind in (ir.Add, ir.Sub, ir.Mul):
        compute = operator.add if kind is ir.Add else operator.sub if kind is ir.Sub else operator.mul
        ends = [compute(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return min(ends), max(ends)
    if kind in (ir.Min, ir.Max):
        pick = min if kind is ir.Min else max
        return pick(a.low, b.low), pick(a.high, b.high)
    if kind in (ir.FloorMod, ir.TruncMod) and b.low > 0 and (a.low >= 0 or kind is ir.FloorMod):
        return 0, min(b.high - 1, a.high) if a.low >= 0 else b.high - 1
    if kind in (ir.FloorDiv, ir.TruncDiv) and b.low > 0:
        ends = [int(x) // int(y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return min(*ends, *([-(int(-a.low) // int(b.low))] if a.low < 0 else [])), max(ends) + (a.low < 0 and kind is ir.TruncDiv)
    if kind is ir.BitAnd and b.low >= 0:
        return 0, b.high
    if kind in (ir.BitOr, ir.BitXor) and a.low >= 0 and b.low >= 0:
        return 0, (1 << max(int(a.high).bit_length(), int(b.high).bit_length())) - 1
    if kind is ir.ShiftRight:
        return min(a.low, 0), max(a.high, 0)
    if kind in (ir.BitAnd, ir.BitOr, ir.BitXor):  # of values within the type
        return (0, (1 << bits) - 1) if a.low >= 0 and b.low >= 0 else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return -(1 << 2 * bits), 1 << 2 * bits
