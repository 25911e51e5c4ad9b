"""Building tensor expressions: inputs, axes, and tensors computed element by element."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vtakit.base.errors import one_of
from vtakit.compiler.ir.dtypes import INT32, INT64, DType, dtype
from vtakit.compiler.ir.expr import (
    Binary,
    Expr,
    FloorDiv,
    FloorMod,
    Reduce,
    ShiftLeft,
    ShiftRight,
    TruncDiv,
    TruncMod,
    Var,
)
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.ir.values import const, int_value, wrap
from vtakit.compiler.ir.walk import free_vars, subexpressions
from vtakit.compiler.te.errors import ExpressionError
from vtakit.compiler.te.operation import ComputeOp, PlaceholderOp
from vtakit.compiler.te.tensor import NO_ATTRS, Tensor

THREAD_TAGS = (*[f"{index}Idx.{dim}" for index in ("block", "thread") for dim in "xyz"], "vthread", "cthread")


def var(name: str = "v", dtype: str | DType = INT32) -> Var:
    """A number that is known when the program runs: a signed integer is a size, at least 0; other types are plain parameters."""
    kind = _dtype(dtype)
    return Var(_name(name), kind, size=kind.code == "int")


def size_var(name: str = "size", dtype: str | DType = INT32) -> Var:
    """A size, at least 0, that is known when the program runs. Raises ExpressionError for a type that is no signed integer."""
    kind = _dtype(dtype)
    if kind.code != "int":
        raise ExpressionError(f"the size {name!r} cannot have type {kind}: a size is an int32 or int64")
    return Var(_name(name), kind, size=True)


def _name(given: Any) -> str:
    if not isinstance(given, str):
        raise ExpressionError(f"the name of a variable is {given!r}: give a string")
    return given


def placeholder(shape: Any, dtype: str | DType = "float32", name: str = "placeholder") -> Tensor:
    """A tensor that the caller gives.

    shape : numbers and sizes, one a dimension; () for a scalar
    Raises ExpressionError for an extent that is no integer or is negative.
    """
    return PlaceholderOp(name, extents(shape, name), _dtype(dtype)).output(0)


def compute(
    shape: Any, fcompute: Callable[..., Any], name: str = "compute", tag: str = "", attrs: Mapping[str, Any] | None = None,
) -> Any:
    """A tensor of a shape by the expression of each element; several tensors if `fcompute` gives a tuple.

    ``compute((m, n), lambda y, x: A[y, x] + 1)``: the parameters of `fcompute` name the axes.
    Raises ExpressionError if their number is not that of the dimensions, or a reduction is only a part of the expression.
    """
    dims = extents(shape, name)
    axis = tuple([
        IterVar(Var(label, extent.dtype), Range(const(0, extent.dtype), extent), IterKind.DATA)
        for label, extent in zip(_axis_names(fcompute, len(dims), name), dims, strict=True)
    ])
    given = fcompute(*[a.var for a in axis])
    if isinstance(given, tuple | list):
        body = tuple([_body(item, name) for item in given])
        if not body:
            raise ExpressionError(f"compute {name!r} gives no value: its function returned an empty {type(given).__name__}")
    else:
        body = (_body(given, name),)
    _check_body(name, axis, body)
    op = ComputeOp(name, axis, body, tag, NO_ATTRS if attrs is None else attrs)
    return op.outputs if isinstance(given, tuple | list) else op.output(0)


def reduce_axis(dom: Any, name: str = "rv") -> IterVar:
    """An axis to sum over, or to reduce in another way: ``reduce_axis((0, n))`` goes from 0 to n - 1.

    The ends may be expressions of the axes of the tensor that is reduced.
    """
    return IterVar(Var(name, INT32 if (rng := _range(dom, name)) is None else rng.extent.dtype), rng, IterKind.REDUCE)


def thread_axis(dom: Any = None, tag: str = "", name: str = "") -> IterVar:
    """One of a GPU's indices, or a virtual thread, to bind loops to: ``thread_axis("threadIdx.x")``, ``thread_axis((0, 32), …)``.

    Raises ExpressionError for an unknown tag.
    """
    if isinstance(dom, str):
        dom, tag, name = None, dom, tag or name
    if not tag:
        raise ExpressionError(f"thread_axis needs the tag of a thread index: one of {', '.join(THREAD_TAGS)}")
    if tag not in THREAD_TAGS:
        raise ExpressionError(f"{tag!r} is no thread index: {one_of(THREAD_TAGS, tag)}")
    rng = None if dom is None else _range(dom if isinstance(dom, tuple | list | Range) else (0, dom), tag)
    return IterVar(Var(name or tag, INT32), rng, IterKind.THREAD, tag)


def extents(shape: Any, name: str) -> tuple[Expr, ...]:
    """The extents of a shape as expressions of one integer type; a single number is the shape of a vector."""
    if isinstance(shape, Sequence) and not isinstance(shape, str):
        dims = [_extent(value, at, name) for at, value in enumerate(shape)]
    else:
        dims = [_extent(shape, 0, name)]
    return tuple(dims)


def _extent(value: Any, at: int, name: str) -> Expr:
    try:
        e = wrap(value)
    except TypeError:
        raise ExpressionError(f"extent {at} of {name!r} is {value!r}: give an integer or a size (te.var)") from None
    if not e.dtype.is_int:
        raise ExpressionError(f"extent {at} of {name!r} is {e} of {e.dtype}: give an integer or a size (te.var)")
    number = int_value(e)
    if number is not None and number < 0:
        raise ExpressionError(f"extent {at} of {name!r} is {number}: an extent is at least 0")
    if e.dtype in (INT32, INT64):
        return e
    if number is None:
        raise ExpressionError(f"extent {at} of {name!r} is {e} of {e.dtype}: sizes are int32 or int64")
    return wrap(number)


def _range(dom: Any, name: str) -> Range:
    if isinstance(dom, Range):
        return dom
    if not isinstance(dom, tuple | list) or len(dom) != 2:
        raise ExpressionError(f"the domain of axis {name!r} is {dom!r}: give its first value and its end, as in (0, n)")
    begin, end = map(wrap, dom)
    extent = end - begin
    if not extent.dtype.is_int:
        raise ExpressionError(f"the domain of axis {name!r} is ({begin}, {end}) of {extent.dtype}: its ends are integers")
    number = int_value(extent)
    if number is None and extent.dtype not in (INT32, INT64):
        raise ExpressionError(f"the domain of axis {name!r} is ({begin}, {end}) of {extent.dtype}: its ends are int32 or int64; "
                              "convert them with .astype('int32')")
    if number is not None and number < 0:
        raise ExpressionError(f"the domain of axis {name!r} ends at {end}, before its first value {begin}")
    return Range(begin if begin.dtype is extent.dtype else begin.astype(extent.dtype), extent)


def _dtype(of: str | DType) -> DType:
    try:
        return dtype(of)
    except ValueError as error:
        raise ExpressionError(str(error)) from None


def _axis_names(fcompute: Callable[..., Any], ndim: int, name: str) -> list[str]:
    """The names of a compute's axes: those of the function's parameters, i0, i1 … for those of ``*args``."""
    if not callable(fcompute):
        raise ExpressionError(f"compute {name!r} takes a function of its indices, got {fcompute!r}")
    params = inspect.signature(fcompute).parameters.values()
    names = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    if any(p.kind is p.VAR_POSITIONAL for p in params):
        names += [f"i{at}" for at in range(len(names), ndim)]
    if len(names) != ndim:
        dims = f"{ndim} dimension{'' if ndim == 1 else 's'}"
        count = f"{len(names)} parameter{'' if len(names) == 1 else 's'}"
        raise ExpressionError(f"compute {name!r} has {dims}, but its function has {count}: give it one a dimension, or *indices")
    return names


def _body(value: Any, name: str) -> Expr:
    if value is None:
        raise ExpressionError(f"compute {name!r} gives no value: its function returned None; does it lack a return?")
    return wrap(value)


def _check_defined(name: str, node: Expr) -> None:
    """Refuse what has no value whatever it is computed from."""
    count = int_value(node.b) if isinstance(node, Binary) and node.dtype.is_int else None
    if count is None:
        return
    assert isinstance(node, Binary)
    if isinstance(node, FloorDiv | FloorMod | TruncDiv | TruncMod) and count == 0:
        raise ExpressionError(f"compute {name!r} has {node}, a division by the constant 0")
    if isinstance(node, ShiftLeft | ShiftRight) and not 0 <= count < node.dtype.bits:
        most = node.dtype.bits - 1
        raise ExpressionError(f"compute {name!r} has {node}, a shift of {node.dtype} by {count}: the count is within 0 to {most}")


def _check_body(name: str, axis: tuple[IterVar, ...], body: tuple[Expr, ...]) -> None:
    """Refuse reductions that are a part of an expression, or several reductions in one operation."""
    for e in body:
        inner = e.children() if isinstance(e, Reduce) else (e,)
        nested = next((node for part in inner for node in subexpressions(part) if isinstance(node, Reduce)), None)
        if nested is not None:
            raise ExpressionError(
                f"compute {name!r} uses a reduction within an expression, {nested}: a reduction is the whole value of a "
                "tensor, so compute it as a tensor of its own and read that tensor here"
            )
        for node in subexpressions(e):
            _check_defined(name, node)
    reductions = [e for e in body if isinstance(e, Reduce)]
    if not reductions:
        return
    first = reductions[0]
    same = all(e.combiner is first.combiner and e.axes == first.axes and e.source == first.source for e in reductions)
    if len(reductions) != len(body) or not same or [e.value_index for e in reductions] != [*range(len(body))]:
        raise ExpressionError(
            f"compute {name!r} has {len(body)} values that are not the values of one reduction, in order: return what one "
            "reducer gives, or compute each in a tensor of its own"
        )
    taken = {a.var for a in axis}
    for reduced in first.axes:
        if reduced.dom is None:
            raise ExpressionError(f"axis {reduced.name!r} of the reduction in compute {name!r} has no domain")
        outside = [v for end in reduced.dom for v in free_vars(end) if not v.size and v not in taken]
        if any(v in {other.var for other in first.axes} for v in outside):
            raise ExpressionError(
                f"the domain of axis {reduced.name!r} in compute {name!r} depends on another axis of the reduction: only "
                "axes of the tensor may stand in it; give the whole range and a where= condition"
            )

