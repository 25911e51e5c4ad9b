"""Reductions: sums, products, extremes and combinations of one's own."""

import inspect
import math
from collections.abc import Callable
from functools import cache
from typing import Any

from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.dtypes import dtype as dtype_of
from vtakit.compiler.ir.expr import CommReducer, Expr, Reduce, Var
from vtakit.compiler.ir.iters import IterKind, IterVar
from vtakit.compiler.ir.ops import maximum, minimum, select
from vtakit.compiler.ir.values import TRUE, const, wrap
from vtakit.compiler.ir.walk import free_vars
from vtakit.compiler.te.errors import ExpressionError


def max_value(dtype: str | DType) -> Expr:
    """The greatest value of a type; of a floating-point type infinity."""
    return _extreme(dtype, 1)


def min_value(dtype: str | DType) -> Expr:
    """The least value of a type; of a floating-point type minus infinity."""
    return _extreme(dtype, -1)


def infinity(dtype: str | DType) -> Expr:
    """Positive infinity of a floating-point type. Raises ExpressionError for any other."""
    kind = dtype_of(dtype)
    if not kind.is_float:
        raise ExpressionError(f"{kind} has no infinity: use te.max_value({str(kind)!r})")
    return const(math.inf, kind)


def _extreme(of: str | DType, sign: int) -> Expr:
    kind = dtype_of(of)
    return const(sign * math.inf if kind.is_float else kind.max if sign > 0 else kind.min, kind)


class Reducer:
    """A commutative, associative combination of values, to be applied over axes.

    ``reducer(value, axis=k)``; a combination of several values takes and gives tuples. Without an axis it combines two
    values: ``max(a, b)``.
    """

    def __init__(self, combine: Callable[..., Any], identity: Callable[..., Any], name: str) -> None:
        self.name = name
        self._combine, self._identity = combine, identity
        self._of = cache(self._for_types)

    def _for_types(self, kinds: tuple[DType, ...]) -> CommReducer:
        lhs = tuple([Var("x" if len(kinds) == 1 else f"x{at}", kind) for at, kind in enumerate(kinds)])
        rhs = tuple([Var("y" if len(kinds) == 1 else f"y{at}", kind) for at, kind in enumerate(kinds)])
        one = len(kinds) == 1
        parts = (lhs[0], rhs[0]) if one else (lhs, rhs)
        result = self._values(self._call(self._combine, "combination", *parts), kinds, "combination")
        identity = self._values(self._call(self._identity, "identity", *map(str, kinds)), kinds, "identity")
        return CommReducer(self.name, lhs, rhs, result, identity)

    def _call(self, function: Callable[..., Any], what: str, *args: Any) -> Any:
        try:
            inspect.signature(function).bind(*args)
        except TypeError as error:
            need = "two partial results" if what == "combination" else f"{len(args)} {'type' if len(args) == 1 else 'types'}"
            raise ExpressionError(f"the {what} of reducer {self.name!r} is called with {need}: {error}") from None
        return function(*args)

    def _values(self, given: Any, kinds: tuple[DType, ...], what: str) -> tuple[Expr, ...]:
        values = given if isinstance(given, tuple | list) else (given,)
        if len(values) != len(kinds):
            raise ExpressionError(f"reducer {self.name!r} combines {len(kinds)} values, but its {what} has {len(values)}")
        found = []
        for value, kind in zip(values, kinds, strict=True):
            e = const(value, kind) if isinstance(value, int | float) else wrap(value)
            if e.dtype is not kind:
                raise ExpressionError(
                    f"the {what} of reducer {self.name!r} has {e} of {e.dtype} where the value reduced is of {kind}: "
                    f"use .astype('{kind}')"
                )
            found.append(e)
        return tuple(found)

    def __call__(self, value: Any, *more: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
        """The combination of `value` over an axis or several; `where` a condition holds; starting from `init`, not the identity.

        axis, where and init may also be given in this order, as in ``sum(A[k], k)``. Other values that follow are combined
        with the first, as in ``max(a, b)``.

        Raises ExpressionError for an axis that is none of a reduction.
        """
        if more and not any(isinstance(a, IterVar) for a in (more[0] if isinstance(more[0], tuple | list) else more[:1])):
            if axis is not None or where is not None or init is not None:
                truth = f"{self.name} of {len(more) + 1} values"
                raise ExpressionError(f"{truth}: an axis, a condition or a first value goes with one")
            return self._fold(value, *more)
        if len(more) > 3 or any(item is not None for item in (axis, where, init)[:len(more)]):
            raise ExpressionError(f"{self.name} takes one value, its axis, where and init, and each once")
        axis, where, init = (*more, *(axis, where, init)[len(more):])
        axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
        for a in axes:
            if not isinstance(a, IterVar) or a.kind is not IterKind.REDUCE:
                raise ExpressionError(f"{self.name} over {a!r}: the axis of a reduction is made by te.reduce_axis((0, n))")
        if not axes or len({id(a) for a in axes}) != len(axes):
            raise ExpressionError(f"{self.name} over axes {[a.name for a in axes]}: give at least one axis, and each once")
        source = tuple(map(wrap, value if isinstance(value, tuple | list) else (value,)))
        if any(e.dtype.is_bool for e in source) and self.name in ("sum", "prod"):
            raise ExpressionError(f"{self.name} of a condition, {source[0]}: say in which type to count, with .astype('int32')")
        combiner = self._of(tuple([e.dtype for e in source]))
        condition = TRUE if where is None else wrap(where)
        if not condition.dtype.is_bool:
            raise ExpressionError(f"{self.name} where {condition} of {condition.dtype}: give a condition")
        first = () if init is None else self._values(init, tuple([e.dtype for e in source]), "init")
        for e in first:
            if used := free_vars(e) & {a.var for a in axes}:
                raise ExpressionError(f"init of {self.name} depends on the axis {used.pop()} that it reduces over")
        values = tuple([Reduce(combiner, source, axes, condition, at, first) for at in range(len(source))])
        return values if isinstance(value, tuple | list) else values[0]

    def _fold(self, *values: Any) -> Any:
        """Two or more values combined, without an axis."""
        found = values[0]
        for value in values[1:]:
            found = self._combine(found, value)
        return found

    def __repr__(self) -> str:
        return f"Reducer({self.name})"


def comm_reducer(fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce") -> Reducer:
    """A reduction of one's own.

    fcombine(x, y)     : two partial results as one; tuples of values if there are several
    fidentity(*dtypes) : what changes nothing, one a value
    """
    return Reducer(fcombine, fidentity, name)


sum = Reducer(lambda x, y: x + y, lambda t: const(0, t), "sum")
prod = Reducer(lambda x, y: x * y, lambda t: const(1, t), "prod")
max = Reducer(maximum, min_value, "max")
min = Reducer(minimum, max_value, "min")
greatest = Reducer(lambda x, y: select(y > x, y, x), min_value, "greatest")  # max that passes over NaN, in one instruction of x86
