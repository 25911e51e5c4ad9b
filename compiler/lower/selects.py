"""Selects that guard a read: they become if_then_else, which evaluates one side."""

from collections.abc import Iterable
from itertools import islice

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.iters import IterVar
from vtakit.compiler.ir.ops import negate
from vtakit.compiler.ir.values import const
from vtakit.compiler.ir.walk import map_expr, subexpressions

MOST_NODES = 64  # of a condition that is taken to say something of an index
MOST_LOOKS = 10_000  # at expressions within the selects of one body; what is not looked at is taken to need its guard


def safe_selects(body: tuple[Expr, ...], axes: Iterable[IterVar]) -> tuple[Expr, ...]:
    """A stage's expressions, with if_then_else for each select that reads what may be outside of a tensor.

    ``select(i >= 1, A[i - 1], 0)``  ->  ``if_then_else(i >= 1, A[i - 1], 0)``; ``select(A[i] > 0, A[i], 0)`` stays, as does all
    that may be evaluated whatever its condition says: only that becomes vectors.
    """
    if not any(isinstance(node, ir.Select) for e in body for node in subexpressions(e)):
        return body
    selects = _Selects(axes)
    return tuple([map_expr(e, selects.expr) for e in body])


class _Selects:
    def __init__(self, axes: Iterable[IterVar]) -> None:
        self.analyzer = Analyzer()
        self.looks = MOST_LOOKS
        self._anywhere: dict[int, Expr] = {}  # found to be safe under no condition, by identity: selects share their parts
        for axis in axes:
            if axis.dom is not None:
                self.analyzer.bind(axis.var, axis.dom)

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, ir.Select) and not (self.is_safe(e.true) and self.is_safe(e.false)):
            return ir.IfThenElse(e.condition, e.true, e.false)
        return e

    def is_safe(self, e: Expr) -> bool:
        """Return whether all reads are certain to be within their tensors, and no integer is divided by what may be 0."""
        return self._is_safe(e, self._anywhere)

    def _is_safe(self, e: Expr, safe: dict[int, Expr]) -> bool:
        """As `is_safe`; `safe` are objects found to be so where the same conditions hold."""
        if id(e) in safe:
            return True
        self.looks -= 1
        if self.looks < 0:  # conditions within conditions, which all have to be looked at for each way through them
            return False
        if isinstance(e, ir.IfThenElse) and len([*islice(subexpressions(e.condition), MOST_NODES)]) < MOST_NODES:
            with self.analyzer.given(e.condition):
                then = self._is_safe(e.true, {})
            with self.analyzer.given(negate(e.condition)):
                return then and self._is_safe(e.condition, {}) and self._is_safe(e.false, {})
        if isinstance(e, ir.ProducerLoad) and not all(map(self.is_within, e.indices, e.tensor.shape)):
            return False
        if isinstance(e, ir.FloorDiv | ir.FloorMod | ir.TruncDiv | ir.TruncMod) and e.dtype.is_int:
            lo, hi = self.analyzer.bounds(e.b)
            if lo <= 0 <= hi:
                return False
        if not all(self._is_safe(child, safe) for child in e.children()):
            return False
        safe[id(e)] = e
        return True

    def is_within(self, index: Expr, extent: Expr) -> bool:
        return self.analyzer.prove(const(0, index.dtype) <= index) and self.analyzer.prove(index < extent)
