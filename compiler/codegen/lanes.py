"""Vector indices whose lanes are a constant distance apart."""

from typing import NamedTuple

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.ops import binary
from vtakit.compiler.ir.values import value_of


class Lanes(NamedTuple):
    """An index whose lanes are ``base + stride * lane``."""

    base: ir.Expr
    stride: ir.Expr
    lanes: int


def lanes_of(e: ir.Expr) -> Lanes | None:
    """Return an index as base and stride if it is one sum of ramps and broadcasts, else None."""
    match e:
        case ir.Ramp():
            return Lanes(e.base, e.stride, e.lanes)
        case ir.Broadcast():
            return Lanes(e.value, ir.IntImm(0, e.value.dtype), e.lanes)
        case ir.Add() | ir.Sub():
            a, b = lanes_of(e.a), lanes_of(e.b)
            if a and b:
                return Lanes(binary(type(e), a.base, b.base), binary(type(e), a.stride, b.stride), a.lanes)
        case ir.Mul():
            a, b = lanes_of(e.a), lanes_of(e.b)
            if a and b and value_of(b.stride) == 0:
                return Lanes(binary(ir.Mul, a.base, b.base), binary(ir.Mul, a.stride, b.base), a.lanes)
            if a and b and value_of(a.stride) == 0:
                return Lanes(binary(ir.Mul, b.base, a.base), binary(ir.Mul, b.stride, a.base), a.lanes)
    return None
