"""Matching of a stage's expression against that of a tensor intrinsic, operand by operand."""

from collections.abc import Callable, Mapping
from typing import Any

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.expr import Expr, Var
from vtakit.compiler.ir.values import const, value_of
from vtakit.compiler.ir.walk import free_vars, subexpressions, substitute
from vtakit.compiler.te.tensor import Tensor

COMMUTE = (ir.Add, ir.Mul, ir.Min, ir.Max, ir.BitAnd, ir.BitOr, ir.BitXor, ir.EQ, ir.NE, ir.And, ir.Or)


class Operand:
    """A tensor of a stage that an operand of the intrinsic stands for.

    base : the index of the part's first element, one a dimension, in terms of the block's iterators
    dims : for each dimension of the intrinsic's operand the tensor's dimension that it is, or None if it has one element
    """

    def __init__(self, tensor: Tensor, base: tuple[Expr, ...], dims: tuple[int | None, ...]) -> None:
        self.tensor, self.base, self.dims = tensor, base, dims

    def same_as(self, other: "Operand", analyzer: Analyzer) -> bool:
        return self.tensor == other.tensor and self.dims == other.dims and all(map(analyzer.prove_equal, self.base, other.base))


class Match:
    """Bindings of the intrinsic's operands and parameters, so far."""

    def __init__(self, analyzer: Analyzer, axes: frozenset[Var], params: tuple[Var, ...]) -> None:
        self.analyzer, self.axes, self.params = analyzer, axes, params
        self.operands: dict[Tensor, Operand] = {}
        self.values: dict[Var, Expr] = {}

    def expr(self, have: Expr, want: Expr) -> bool:
        """Return whether `have`, in terms of the intrinsic's axes and the block's iterators, matches the intrinsic's `want`."""
        if isinstance(want, Var) and want in self.params:
            return have.dtype is want.dtype and self._param(want, have)
        if have.dtype is not want.dtype:
            return False
        if isinstance(want, ir.ProducerLoad):
            return isinstance(have, ir.ProducerLoad) and self._load(have, want)
        if have.dtype.is_int and not _reads(have) and not _reads(want):
            return self.analyzer.prove_equal(have, want)
        if type(have) is not type(want):
            return False
        pairs = [*zip(have.children(), want.children(), strict=False)]
        if not pairs:
            return ir.same(have, want)
        if len(have.children()) != len(want.children()) or not _same_rest(have, want):
            return False
        if isinstance(have, COMMUTE) and isinstance(want, COMMUTE):
            return self._either(lambda: self._all(pairs), lambda: self.expr(have.b, want.a) and self.expr(have.a, want.b))
        return self._all(pairs)

    def _all(self, pairs: list[tuple[Expr, Expr]]) -> bool:
        return all(self.expr(a, b) for a, b in pairs)

    def _either(self, first: Callable[[], bool], second: Callable[[], bool]) -> bool:
        before = dict(self.operands), dict(self.values)
        if first():
            return True
        self.operands, self.values = before
        return second()

    def _param(self, param: Var, value: Expr) -> bool:
        if free_vars(value) & self.axes:
            return False
        known = self.values.setdefault(param, value)
        return known is value or ir.same(known, value)

    def _load(self, have: ir.ProducerLoad, want: ir.ProducerLoad) -> bool:
        """Return whether the dimensions along which the axes move agree, in their order; other dimensions stand still.

        A dimension whose index is read from tensors may be anywhere in the operand: its index is the intrinsic's and a number.
        """
        still = {axis: const(0, axis.dtype) for axis in self.axes}
        gathered = [[dim for dim, index in enumerate(load.indices) if _reads(index)] for load in (have, want)]
        if len(gathered[0]) != len(gathered[1]):
            return False
        base = [self.analyzer.simplify(substitute(index, still)) for index in have.indices]
        dims: list[int | None] = [None] * len(want.indices)
        for dim, at in zip(*gathered, strict=True):
            index, base[dim], dims[at] = *_split(have.indices[dim]), dim
            if not self.expr(index, want.indices[at]):
                return False
        moving = [
            (dim, self.analyzer.simplify(index - first))
            for dim, (index, first) in enumerate(zip(have.indices, base, strict=True))
            if dim not in gathered[0] and free_vars(index) & self.axes
        ]
        moving = [(dim, part) for dim, part in moving if not self.analyzer.prove_equal(part, 0)]
        wanted = [(dim, index) for dim, index in enumerate(want.indices)
                  if dim not in gathered[1] and not self.analyzer.prove_equal(index, 0)]
        if len(moving) != len(wanted):
            return False
        for (dim, part), (at, index) in zip(moving, wanted, strict=True):
            first = self.analyzer.simplify(substitute(index, still))  # the intrinsic may begin in the middle of its operand
            if not self.analyzer.prove_equal(part, index - first):
                return False
            base[dim], dims[at] = self.analyzer.simplify(base[dim] - first), dim
        operand = Operand(have.tensor, tuple(base), tuple(dims))
        known = self.operands.setdefault(want.tensor, operand)
        return known is operand or known.same_as(operand, self.analyzer)


def _split(index: Expr) -> tuple[Expr, Expr]:
    """An index without the number that is added last, and the number."""
    if isinstance(index, ir.Add) and value_of(index.b) is not None:
        return index.a, index.b
    return index, const(0, index.dtype)


def _reads(e: Expr) -> bool:
    return any(isinstance(node, ir.ProducerLoad | ir.Load) for node in subexpressions(e))


def _same_rest(a: Expr, b: Expr) -> bool:
    """Return whether the fields other than operands agree, such as a call's name or a number of lanes."""
    def rest(e: Expr) -> Mapping[str, Any]:
        return {f: v for f in e.fields if isinstance(v := getattr(e, f), str | int | bool)}
    return rest(a) == rest(b)
