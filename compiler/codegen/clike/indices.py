"""Integers as indices: what they are made of, and whether they can be negative."""

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.values import cast, value_of

DIVISIONS = (ir.FloorDiv, ir.FloorMod, ir.TruncDiv, ir.TruncMod)
_LINEAR = (ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max)


def scalar_of(e: ir.Expr) -> ir.Expr:
    """Return the value in each lane of a broadcast; another expression as it is."""
    return e.value if isinstance(e, ir.Broadcast) else e


def is_index(e: ir.Expr, indices: set[ir.Var]) -> bool:
    """Return whether it is made of loop variables, sizes and constants only, so that it does not overflow."""
    if e.dtype.code != "int" or e.dtype.bits < 32:
        return False
    match e:
        case ir.IntImm():
            return True
        case ir.Var():
            return e in indices
        case ir.Cast():
            return e.value.dtype.bits <= e.dtype.bits and is_index(e.value, indices)
        case ir.Binary():
            linear = isinstance(e, _LINEAR) or (isinstance(e, DIVISIONS) and value_of(scalar_of(e.b)) is not None)
            return linear and is_index(e.a, indices) and is_index(e.b, indices)
        case ir.Ramp():
            return is_index(e.base, indices) and is_index(e.stride, indices)
        case ir.Broadcast():
            return is_index(e.value, indices)
    return False

def non_negative(e: ir.Expr, indices: set[ir.Var]) -> bool:
    """Return whether an index is certain to be at least 0."""
    match e:
        case ir.IntImm():
            return e.value >= 0
        case ir.Var():
            return e in indices
        case ir.Add() | ir.Mul():
            return is_index(e, indices) and non_negative(e.a, indices) and non_negative(e.b, indices)
        case ir.Min() | ir.FloorDiv() | ir.TruncDiv():
            return non_negative(e.a, indices) and non_negative(e.b, indices)
        case ir.Max():
            return non_negative(e.a, indices) or non_negative(e.b, indices)
        case ir.FloorMod():
            return non_negative(e.b, indices)
        case ir.Cast():
            return e.value.dtype.bits <= e.dtype.bits and e.dtype.code == "int" and non_negative(e.value, indices)
        case ir.Ramp():
            return is_index(e, indices) and non_negative(e.base, indices) and non_negative(e.stride, indices)
        case ir.Broadcast():
            return non_negative(e.value, indices)
    return False


def narrowed(e: ir.Expr) -> ir.Expr:
    """Return an index in 32 bits, in which it is certain to fit where memory has less than 2**31 elements."""
    if e.dtype.bits == 32:
        return e
    if isinstance(e, ir.Cast):
        return narrowed(e.value)
    if isinstance(e, ir.IntImm | ir.Var):
        return cast(e, INT32)
    return e.rebuild(narrowed)
