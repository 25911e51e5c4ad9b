"""Vectors that are longer than a register and no power of two, as parts that are stored one after the other.

LLVM keeps such a vector as single elements wherever it is carried from one iteration of a loop to the next, which makes a tile
of 24 columns some forty times slower than one of 32.
"""

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.llvm.text.types import MOST_LANES
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.base import same
from vtakit.compiler.ir.calls import FLOAT_MATH, FLOAT_PAIRS, FLOAT_TESTS, OTHER_MATH
from vtakit.compiler.ir.ops import binary
from vtakit.compiler.ir.stmt import Store
from vtakit.compiler.ir.values import const
from vtakit.compiler.ir.walk import loads, subexpressions

_BY_ELEMENT = {*FLOAT_MATH, *FLOAT_PAIRS, *FLOAT_TESTS, *OTHER_MATH}


class _Whole(Exception):
    """An expression whose lanes cannot be told apart."""


def pieces(s: Store, target: Target) -> list[Store]:
    """The store as stores of whole registers and a rest; itself if short, a power of two, too long, or not to be parted.

    A register is one of the widest elements that the value is made of: what is loaded of a tile of sums then is what was stored.
    It cannot where the value reads other elements of the memory that it is written to: all lanes are read before any is stored.
    """
    if len(s.indices) != 1 or s.value.dtype.lanes != s.indices[0].dtype.lanes:
        return [s]
    index, kind = s.indices[0], s.buffer.dtype
    lanes = index.dtype.lanes
    widest = max([kind.scalar.bytes, *[load.dtype.scalar.bytes for load in loads(s.value) if load.dtype.lanes == lanes]])
    most = target.vector_bytes // widest
    if kind.lanes > 1 or lanes <= most or lanes.bit_count() == 1 or lanes > MOST_LANES:
        return [s]
    if any(node.dtype.lanes not in (1, lanes) for e in (index, s.value) for node in subexpressions(e)):
        return [s]  # malformed, or a vector of another length within: whoever makes the code of it says so
    mine = [load for load in loads(s.value) if load.buffer.data is s.buffer.data]
    if not all(load.buffer.dtype is kind and same(load.indices[0], index) for load in mine):
        return [s]
    try:
        return [
            s.replace(indices=(_part(index, first, count),), value=_part(s.value, first, count))
            for first in range(0, lanes, most) for count in [min(most, lanes - first)]
        ]
    except _Whole:
        return [s]


def _part(e: ir.Expr, first: int, count: int) -> ir.Expr:
    """Lanes `first` to ``first + count - 1``; a scalar for one."""
    if e.dtype.lanes == 1:
        return e
    match e:
        case ir.Ramp() if e.base.dtype is e.stride.dtype:
            base = binary(ir.Add, e.base, binary(ir.Mul, e.stride, const(first, e.stride.dtype)))
            return base if count == 1 else ir.Ramp(base, e.stride, count)
        case ir.Broadcast():
            return e.value if count == 1 else ir.Broadcast(e.value, count)
        case ir.Load() if e.buffer.dtype.lanes == 1:
            return ir.Load(e.buffer, tuple([_part(index, first, count) for index in e.indices]))
        case ir.Binary():
            return type(e)(_part(e.a, first, count), _part(e.b, first, count))
        case ir.Not():
            return ir.Not(_part(e.a, first, count))
        case ir.Cast():
            return ir.Cast(e.dtype.with_lanes(count), _part(e.value, first, count))
        case ir.Select():
            return ir.Select(*[_part(operand, first, count) for operand in (e.condition, e.true, e.false)])
        case ir.Call() if e.kind == "pure" and e.name in _BY_ELEMENT:
            args = tuple([_part(arg, first, count) for arg in e.args])
            return ir.Call(e.dtype.with_lanes(count), e.name, args, e.kind)
    raise _Whole
