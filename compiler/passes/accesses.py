"""Accesses of statements to memory, as the placing of barriers compares them."""

from typing import NamedTuple

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr, Ramp, Var
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.passes.affine import Linear
from vtakit.compiler.passes.places import Place

INF = float("inf")


class Access(NamedTuple):
    """Access of a statement to memory; if `at` is None, to any element from any thread."""

    data: Var
    at: Expr | None
    writes: bool
    bits: int  # of an element: indices of elements of other widths say nothing about each other
    form: Linear | None = None
    ends: tuple[float, float] = (-INF, INF)  # the least and the greatest place of the first element


def row(place: Place) -> Expr | None:
    """Return the index of all elements of a place."""
    if place.count is None or place.count == 1:
        return None if place.count is None else place.index
    return Ramp(place.index, ir.IntImm(1, place.index.dtype), place.count)


def reach(index: Expr) -> int | None:
    """Return the distance of a vector's last lane from the first; None if that is not known or not upwards."""
    if not isinstance(index, Ramp):
        return 0
    stride = int_value(index.stride)
    return stride * (index.lanes - 1) if stride is not None and stride > 0 else None
