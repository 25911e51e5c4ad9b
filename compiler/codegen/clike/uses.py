"""Questions about an expression's text: what is worth a name, what may be evaluated for nothing."""

from collections import Counter
from itertools import islice

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.walk import subexpressions

_CHEAP = 12  # nodes of an expression that is evaluated rather than jumped around


def harmless(e: ir.Expr) -> bool:
    """Return whether evaluating it costs little and reads nothing."""
    found = [*islice(subexpressions(e), _CHEAP + 1)]
    return len(found) <= _CHEAP and not any(isinstance(x, ir.Load | ir.Call | ir.Let | ir.IfThenElse) for x in found)


def uses(exprs: tuple[ir.Expr, ...]) -> "Counter[int]":
    """Return how many places each object stands in."""
    found: Counter[int] = Counter()
    stack = [*exprs]
    while stack:
        node = stack.pop()
        found[id(node)] += 1
        if found[id(node)] == 1:
            stack += node.children()
    return found
