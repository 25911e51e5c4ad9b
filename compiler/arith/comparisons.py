"""Comparisons: of quotients, which the prover takes apart by multiplying with the divisor; and their form for people."""

from vtakit.compiler.arith.analyzer import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr


def certainly_below(analyzer: Analyzer, e: Expr, end: Expr) -> bool:
    """Return whether ``e < end`` is certain. If b >= 0, ``a // b < c`` is proven as ``a < c * b`` (a divisor is not 0)."""
    if analyzer.prove(e < end):
        return True
    if isinstance(e, ir.FloorDiv) and analyzer.prove(e.b >= 0):
        return certainly_below(analyzer, e.a, end * e.b)
    return False


def at_most(e: Expr) -> Expr:
    """``n <= m`` for ``n < m + 1``, as normal form has it: the same, for people."""
    match e:
        case ir.LT(b=ir.Add(a=end, b=ir.IntImm(value=more))) if more >= 1:
            return e.a <= end + (more - 1)
    return e
