"""Detection of linear expressions in some variables, and of inequalities that bound one of them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vtakit.compiler.arith.analyzer import Analyzer
from vtakit.compiler.arith.linear import Extreme, Leaf, Linear, Product, Quotient, mentions
from vtakit.compiler.arith.ranges import is_index
from vtakit.compiler.arith.sets import Relaxed, claims, conjuncts
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.iters import Range
from vtakit.compiler.ir.walk import free_vars


class Coefficients(NamedTuple):
    """``e = sum of coefficients[i] * vars[i], plus base``; no part mentions the variables."""

    coefficients: tuple[Expr, ...]
    base: Expr


class Ends(NamedTuple):
    """The least and the greatest value; None where a condition sets no end."""

    min: Expr | None
    max: Expr | None


def linear_coefficients(e: Expr, variables: Sequence[Var], analyzer: Analyzer) -> Coefficients | None:
    """The coefficients of variables in an index expression, symbolic ones too; None if it is not linear in them."""
    if not is_index(e.dtype):
        return None
    atoms = [analyzer.leaf(var) for var in variables]
    found: list[Linear] = [Linear({}, 0) for _ in atoms]
    x = analyzer.linear(e)
    base = Linear({}, x.const)
    for atom, value in x.terms.items():
        if not mentions(atom, atoms):
            base = base.plus(Linear({atom: value}, 0))
            continue
        parts = list(atom.factors) if isinstance(atom, Product) else [atom]
        var = next((part for part in parts if part in atoms), None)
        if var is None:
            return None
        parts.remove(var)
        if any(mentions(part, atoms) for part in parts):
            return None
        one = Linear({}, value)
        for part in parts:
            one = analyzer.multiply(one, Linear({part: 1}, 0))
        at = atoms.index(analyzer.leaf(var.expr)) if isinstance(var, Leaf) else -1
        found[at] = found[at].plus(one)
    return Coefficients(tuple(analyzer.emit(one, e.dtype) for one in found), analyzer.emit(base, e.dtype))


def deduce_bound(
    var: Var, condition: Expr, analyzer: Analyzer, relax: Mapping[Var, Range] | None = None,
) -> Ends | None:
    """The values of a variable for which a condition holds, whatever values the relaxed variables have in their ranges.

    The condition is a comparison of index expressions or a conjunction of such, in which the variable stands once, within
    sums, products by constants, quotients by constants, minima and maxima. None if no interval is found for certain; the
    interval found may be smaller than the set of values only because of a variable that stands in several places.
    """
    moved = Relaxed(relax or {}, analyzer)
    least: list[Linear] = []
    greatest: list[Linear] = []
    for x in claims(condition, analyzer):
        if x is None or not _solve(x, analyzer.leaf(var), analyzer, moved, least, greatest):
            return None
    low = None if not least else least[0] if len(least) == 1 else analyzer.extreme(least, True)
    high = None if not greatest else greatest[0] if len(greatest) == 1 else analyzer.extreme(greatest, False)
    return Ends(
        None if low is None else analyzer.emit(low, var.dtype), None if high is None else analyzer.emit(high, var.dtype)
    )


def clip_bounds(condition: Expr, variables: Sequence[Var], analyzer: Analyzer) -> dict[Var, Ends] | None:
    """The interval of each variable in a conjunction of comparisons that mention one of them each; None if it is none such."""
    found: dict[Var, Expr | None] = dict.fromkeys(variables)
    for part in conjuncts(condition):
        used = [var for var in variables if var in free_vars(part)]
        if len(used) != 1:
            return None
        before = found[used[0]]
        found[used[0]] = part if before is None else ir.And(before, part)
    ends: dict[Var, Ends] = {}
    for var, own in found.items():
        one = Ends(None, None) if own is None else deduce_bound(var, own, analyzer)
        if one is None:
            return None
        ends[var] = one
    return ends


def _solve(
    x: Linear, var: Leaf, analyzer: Analyzer, moved: Relaxed, least: list[Linear], greatest: list[Linear],
) -> bool:
    """Adds the ends of `var` for which ``x >= 0``."""
    holding = [atom for atom in x.terms if mentions(atom, [var])]
    if len(holding) != 1:
        return False
    atom = holding[0]
    coefficient = x.terms[atom]
    rest = Linear({one: value for one, value in x.terms.items() if one is not atom}, x.const)
    if isinstance(atom, Extreme) and atom.greatest == (coefficient < 0):
        return all(_solve(rest.plus(arg, coefficient), var, analyzer, moved, least, greatest) for arg in atom.args)
    worst = moved.ends(rest)[0]
    if worst is None:
        return False
    end = analyzer.divide_by(worst, abs(coefficient))  # of the atom: at least -end, or at most end
    if atom is var:
        if coefficient > 0:
            least.append(end.scaled(-1))
        else:
            greatest.append(end)
        return True
    if isinstance(atom, Quotient) and atom.by:
        if coefficient > 0:
            return _solve(atom.dividend.plus(end, atom.by), var, analyzer, moved, least, greatest)
        upper = end.scaled(atom.by).shifted(atom.by - 1)
        return _solve(upper.plus(atom.dividend, -1), var, analyzer, moved, least, greatest)
    return False


