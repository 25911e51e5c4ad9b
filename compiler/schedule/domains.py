"""Extents of a stage's axes, and the derivation of axes from each other; only what folds at once is simplified."""

from collections.abc import Mapping

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar, Range
from vtakit.compiler.ir.ops import all_of, minimum
from vtakit.compiler.ir.values import TRUE, const, int_value, wrap
from vtakit.compiler.schedule.data import StageData
from vtakit.compiler.schedule.relations import Fuse, Singleton, Split


def ceildiv(a: Expr, b: Expr) -> Expr:
    """a / b rounded up."""
    if a is b or int_value(b) == 1:
        return a if int_value(b) == 1 else const(1, a.dtype)
    return (a + (b - 1)) // b


def extents(stage: StageData) -> dict[IterVar, Expr]:
    """The extent of every axis of a stage, as if it were computed whole; an axis whose operation gives it none is left out."""
    found: dict[IterVar, Expr] = {axis: axis.dom.extent for axis in stage.op.root_iter_vars if axis.dom}
    for relation in stage.relations:
        match relation:
            case Split(parent=parent, outer=outer, inner=inner, factor=factor, nparts=nparts):
                whole = found.get(parent)
                if whole is None:
                    continue
                if factor is not None:
                    found[inner] = _at_most(factor, whole)
                    found[outer] = ceildiv(whole, found[inner])
                else:
                    assert nparts is not None
                    found[outer] = _at_most(nparts, whole)
                    found[inner] = ceildiv(whole, found[outer])
            case Fuse(outer=outer, inner=inner, fused=fused):
                if outer in found and inner in found:
                    found[fused] = found[outer] * found[inner]
            case Singleton(iter=axis):
                found[axis] = wrap(1)
    return found


def _at_most(asked: Expr, whole: Expr) -> Expr:
    """A split's factor: no more than the extent where both are numbers (and at least 1, for an extent of 0)."""
    if int_value(asked) is None or int_value(whole) is None:
        return asked
    return minimum(asked, const(max(1, int_value(whole) or 0), whole.dtype))


def roots_from_leaves(stage: StageData, values: dict[IterVar, Expr], sizes: Mapping[IterVar, Expr]) -> Expr:
    """Fill in `values`, given for the loops, for all axes; return the condition under which all are within their domains.

    The domains of axes that the operation has are taken with their first values; those of others start at 0.
    """
    condition: Expr = TRUE
    roots = {id(axis): axis.dom for axis in stage.op.root_iter_vars}
    for relation in reversed(stage.relations):
        match relation:
            case Split(parent=parent, outer=outer, inner=inner):
                if outer not in values:
                    continue
                value = values[outer] * sizes[inner] + values[inner]
                if not _covers_exactly(sizes[outer], sizes[inner], sizes[parent]):
                    condition = all_of(condition, value < sizes[parent])
                values[parent] = value
            case Fuse(outer=outer, inner=inner, fused=fused):
                if fused in values:
                    values[outer] = values[fused] // sizes[inner]
                    values[inner] = values[fused] % sizes[inner]
    for axis in [*values]:
        dom: Range | None = roots.get(id(axis))
        if dom is not None and stage.position(axis) < 0:
            values[axis] = values[axis] + dom.min
    return condition


def _covers_exactly(outer: Expr, inner: Expr, whole: Expr) -> bool:
    a, b, c = int_value(outer), int_value(inner), int_value(whole)
    if a is not None and b is not None and c is not None:
        return a * b == c
    return a == 1 and bool(inner == whole)


def leaves_from_roots(stage: StageData, values: dict[IterVar, Expr], sizes: Mapping[IterVar, Expr]) -> None:
    """Fill in `values`, given for axes of the operation counted from 0, for all axes made of them."""
    for relation in stage.relations:
        match relation:
            case Split(parent=parent, outer=outer, inner=inner):
                if parent in values:
                    values[outer] = values[parent] // sizes[inner]
                    values[inner] = values[parent] % sizes[inner]
            case Fuse(outer=outer, inner=inner, fused=fused):
                if outer in values and inner in values:
                    values[fused] = values[outer] * sizes[inner] + values[inner]
            case Singleton(iter=axis):
                values[axis] = wrap(0)
