"""The values that an index takes at the ends of the loops that it is a sum of."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from vtakit.compiler.arith import Analyzer, linear_coefficients
from vtakit.compiler.arith.comparisons import at_most
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.ops import all_of, any_of, negate
from vtakit.compiler.ir.values import int_value, value_of
from vtakit.compiler.ir.walk import free_vars, subexpressions, substitute
from vtakit.compiler.lower.verify.program import Program


class Taken(NamedTuple):
    """The least and the greatest value that an index certainly takes where `some` hold, which are not known to."""

    least: Expr
    greatest: Expr
    some: list[Expr]


def linear_ends(
    index: Expr, firsts: Mapping[Var, Expr], lasts: Mapping[Var, Expr], analyzer: Analyzer,
) -> tuple[Expr, Expr] | None:
    """The least and the greatest value while each variable takes its first and its last one; None if the index is no such sum."""
    variables = list(firsts)
    found = linear_coefficients(index, variables, analyzer)
    if found is None or free_vars(found.base) & set(variables):
        return None
    least, greatest = {}, {}
    for var, coefficient in zip(variables, found.coefficients, strict=True):
        ends, up = (firsts[var], lasts[var]), analyzer.prove(coefficient >= 0)
        if not up and not analyzer.prove(coefficient <= 0):
            return None
        least[var], greatest[var] = ends if up else ends[::-1]
    return substitute(index, least), substitute(index, greatest)


def outside(program: Program, taken: Taken, extent: Expr) -> Iterator[tuple[Expr, Expr | None]]:
    """Those of the two values that are not known to be from 0 to below the extent.

    Each with what must hold so that it is, or that it is not taken; None if it is outside whenever it is taken.
    """
    a, free = program.analyzer, Analyzer()
    with a.given(all_of(*taken.some)):
        values = [a.simplify(value) for value in taken[:2]]
        conditions = [a.simplify(values[0] >= 0), a.simplify(values[1] < extent)]
    for value, condition in zip(values, conditions, strict=True):
        if value_of(condition) == 0:
            yield value, None
            return
        if value_of(condition) is None:
            others = [negate(e) for e in taken.some]
            yield value, any_of(at_most(condition), *[other for other in others if not _follows(free, condition, other)])


def is_of_sizes(program: Program, e: Expr) -> bool:
    """Return whether the sizes of a call alone decide a condition. A divisor must be a constant, as it may be 0."""
    divisors = [node.b for node in subexpressions(e) if isinstance(node, ir.FloorDiv | ir.FloorMod)]
    return free_vars(e) <= program.sizes and all(map(int_value, divisors))


def _follows(a: Analyzer, condition: Expr, other: Expr) -> bool:
    with a.given(other):
        return a.prove(condition)
