"""Comparisons of quotients, which the prover takes apart by multiplying with the divisor."""

from vtakit.compiler.arith.analyzer import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr


def certainly_below(analyzer: Analyzer, e: Expr, end: Expr) -> bool:
    """Whether ``e < end`` is certain; ``a // b < c`` is taken for ``a < c * b`` where b is at least 0 (a divisor is not 0)."""
    if analyzer.prove(e < end):
        return True
    if isinstance(e, ir.FloorDiv) and analyzer.prove(e.b >= 0):
        return certainly_below(analyzer, e.a, end * e.b)
    return False
