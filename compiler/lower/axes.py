"""Relations of a stage's loops to its axes: extents down the relations, values up, and guards for uneven splits."""

from collections.abc import Collection, Iterable, Mapping

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.arith.sets import Interval
from vtakit.compiler.ir.expr import LT, Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.ops import minimum
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.ir.walk import divides
from vtakit.compiler.schedule.relations import Fuse, Relation, Singleton, Split


def children(relation: Relation) -> tuple[IterVar, ...]:
    """The axes that a relation makes."""
    match relation:
        case Split():
            return relation.outer, relation.inner
        case Fuse():
            return (relation.fused,)
        case Singleton():
            return (relation.iter,)


def parents(relation: Relation) -> tuple[IterVar, ...]:
    """The axes that a relation takes."""
    match relation:
        case Split():
            return (relation.parent,)
        case Fuse():
            return relation.outer, relation.inner
        case Singleton():
            return ()


def coming_from(relations: Iterable[Relation], roots: Collection[IterVar]) -> set[IterVar]:
    """The axes that come from any of the given ones, those included."""
    found = set(roots)
    for relation in relations:
        if any(axis in found for axis in parents(relation)):
            found.update(children(relation))
    return found


def leading_to(relations: Iterable[Relation], leaves: Collection[IterVar]) -> set[IterVar]:
    """The axes from which any of the given ones comes, those included."""
    found = set(leaves)
    for relation in reversed([*relations]):
        if any(axis in found for axis in children(relation)):
            found.update(parents(relation))
    return found


def ceil_div(a: Expr, b: Expr, analyzer: Analyzer) -> Expr:
    x, y = int_value(a), int_value(b)
    if x is not None and y is not None:
        return const(-(-x // y), a.dtype)
    return analyzer.simplify((a + (b - 1)) // b)


def pass_extents(
    relations: Iterable[Relation], extents: Mapping[IterVar, Expr], threads: Collection[IterVar], analyzer: Analyzer,
) -> dict[IterVar, Expr]:
    """The extent of every axis, from those of the operation's own axes.

    A split's factor or number of parts is not taken larger than the extent that it splits, unless a thread axis (one of
    `threads`, the leaves bound to one) comes from that axis: the launch fixes its extent.
    """
    found = dict(extents)
    relations = [*relations]
    fixed = leading_to(relations, threads)
    for relation in relations:
        match relation:
            case Split():
                whole = found[relation.parent]
                given = relation.factor if relation.factor is not None else relation.nparts
                assert given is not None, "a split has a factor or a number of parts"
                part = _at_most(given, whole, analyzer) if relation.parent not in fixed else given
                rest = ceil_div(whole, part, analyzer)
                found[relation.inner], found[relation.outer] = (part, rest) if relation.factor is not None else (rest, part)
            case Fuse():
                found[relation.fused] = analyzer.simplify(found[relation.outer] * found[relation.inner])
            case Singleton():
                found[relation.iter] = const(1, relation.iter.var.dtype)
    return found


def _at_most(part: Expr, whole: Expr, analyzer: Analyzer) -> Expr:
    """The part, or the whole if that is certainly less; at least 1, so that an empty axis is no division by zero."""
    a, b = int_value(part), int_value(whole)
    if a is not None and b is not None:
        return part if a <= b else const(max(b, 1), whole.dtype)
    if b is not None and analyzer.prove(whole <= part):
        return whole
    return part


def pass_values(
    relations: Iterable[Relation], leaves: Mapping[IterVar, Expr], extents: Mapping[IterVar, Expr],
) -> dict[IterVar, Expr]:
    """The value of every axis, counted from its start, as an expression of the loops' variables."""
    found = dict(leaves)
    for relation in reversed([*relations]):
        match relation:
            case Split():
                found[relation.parent] = found[relation.outer] * extents[relation.inner] + found[relation.inner]
            case Fuse():
                value, width = found[relation.fused], extents[relation.inner]
                if int_value(extents[relation.outer]) == 1 or int_value(width) == 0:  # without iterations nothing is divided
                    found[relation.outer], found[relation.inner] = const(0, value.dtype), value
                else:
                    found[relation.outer], found[relation.inner] = value // width, value % width
            case Singleton():
                pass
    return found


def guards(
    relations: Iterable[Relation], values: Mapping[IterVar, Expr], extents: Mapping[IterVar, Expr], analyzer: Analyzer,
) -> list[Expr]:
    """One condition for each split that covers more than its axis has, unless it is certain to hold.

    Where the normal form of a value divides, the loops' own form is kept, in which all parts of a fused axis divide the same.
    The outer part of a split needs no condition of its own if the whole has one: ``outer * inner_extent <= value < whole``.
    """
    found = []
    kept: set[IterVar] = set()  # axes that the conditions found keep within their extents
    for relation in relations:
        if isinstance(relation, Split):
            if relation.parent in kept:
                kept.add(relation.outer)
                continue
            whole, inner, outer = extents[relation.parent], extents[relation.inner], extents[relation.outer]
            a, b, c = int_value(whole), int_value(inner), int_value(outer)
            if a is not None and b is not None and c is not None:
                if b * c <= a:
                    continue
            elif analyzer.prove(inner * outer <= whole):
                continue
            kept.add(relation.outer)
            value = analyzer.simplify(values[relation.parent])
            if not analyzer.prove(LT(value, whole)):
                found.append((values[relation.parent] if divides(value) else value) < whole)
    return found


def pass_intervals(
    relations: Iterable[Relation], leaves: Mapping[IterVar, Interval], extents: Mapping[IterVar, Expr], analyzer: Analyzer,
) -> dict[IterVar, Interval]:
    """The values that every axis takes, counted from its start, while each loop takes those given."""
    found = dict(leaves)
    for relation in reversed([*relations]):
        match relation:
            case Split():
                outer, inner = found[relation.outer], found[relation.inner]
                factor, whole = extents[relation.inner], extents[relation.parent]
                low = outer.min * factor + inner.min
                high = _least(outer.max * factor + inner.max, whole - 1, analyzer)
                found[relation.parent] = Interval(analyzer.simplify(low), analyzer.simplify(high))
            case Fuse():
                found[relation.outer], found[relation.inner] = _unfuse(found[relation.fused], relation, extents, analyzer)
            case Singleton():
                pass
    return found


def _least(a: Expr, limit: Expr, analyzer: Analyzer) -> Expr:
    """`a`, or the limit where `a` is certainly not below it."""
    x, y = int_value(a), int_value(limit)
    if x is not None and y is not None:
        return minimum(a, limit)
    return limit if analyzer.prove(limit <= a) else a


def _unfuse(fused: Interval, relation: Fuse, extents: Mapping[IterVar, Expr], analyzer: Analyzer) -> tuple[Interval, Interval]:
    """The values of the two axes whose fusion takes those of `fused`."""
    width = extents[relation.inner]
    if int_value(width) == 0:
        return Interval(const(0, width.dtype), const(0, width.dtype)), fused
    outer = Interval(analyzer.simplify(fused.min // width), analyzer.simplify(fused.max // width))
    everything = Interval(const(0, width.dtype), analyzer.simplify(width - 1))
    if fused.min is fused.max:
        inner = analyzer.simplify(fused.min % width)
        return outer, Interval(inner, inner)
    size = analyzer.simplify(fused.max - fused.min + 1)
    count = int_value(size)
    if count is not None and count < 1:  # what a prefetch asks for beyond the end
        return outer, everything
    none = const(0, width.dtype)
    if analyzer.prove_equal(width % size, none) and analyzer.prove_equal(fused.min % size, none):
        start = analyzer.simplify(fused.min % width)  # aligned: it does not go across the end of a row
        return Interval(outer.min, outer.min), Interval(start, analyzer.simplify(start + (size - 1)))
    return outer, everything
