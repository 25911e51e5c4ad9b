"""Helpers of the definitions: static shapes, axes, broadcasting, and the sentences of their errors."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from vtakit.compiler.ir.expr import Expr
from vtakit.compiler.ir.values import const, int_value
from vtakit.compiler.nn.registry import OperatorError
from vtakit.compiler.te.language import compute
from vtakit.compiler.te.tensor import Tensor

Shape = tuple[int, ...]


def dims(x: Tensor) -> Shape:
    """The extents of a tensor. Raises OperatorError for one that is not a number."""
    found = [int_value(extent) for extent in x.shape]
    if None in found:
        raise OperatorError(f"tensor {x} has a size that is not known: operators take tensors of fixed shapes")
    return tuple([extent for extent in found if extent is not None])


def size(x: Tensor) -> int:
    """Return the number of elements of a tensor."""
    return prod(dims(x))


def made(shape: Sequence[int], value: Callable[..., Any], name: str, **options: Any) -> Tensor:
    """`compute` of one tensor."""
    found: Tensor = compute(tuple(shape), value, name=name, **options)
    return found


def axis_of(axis: int, ndim: int, what: str) -> int:
    """An axis counted from 0; a negative one counts from the end. Raises OperatorError beyond either end."""
    if not -ndim <= axis < ndim:
        raise OperatorError(f"{what}: axis {axis} of a tensor of {ndim} dimensions: give {-ndim} to {ndim - 1}")
    return axis % ndim


def axes_of(axes: Sequence[int] | None, ndim: int, what: str) -> tuple[int, ...]:
    """Distinct axes in ascending order; all of them for None."""
    if axes is None:
        return tuple(range(ndim))
    found = sorted([axis_of(axis, ndim, what) for axis in axes])
    if len(set(found)) != len(found):
        raise OperatorError(f"{what}: axes {list(axes)} name one twice")
    return tuple(found)


def broadcast_shape(what: str, *shapes: Shape) -> Shape:
    """The shape that NumPy's rule gives: aligned at the end, an extent of 1 repeats. Raises OperatorError where they differ."""
    ndim = max(map(len, shapes))
    found = []
    for column in zip(*[(1,) * (ndim - len(shape)) + shape for shape in shapes], strict=True):
        sizes = {extent for extent in column if extent != 1}
        if len(sizes) > 1:
            raise OperatorError(f"{what}: shapes {' and '.join(map(str, shapes))} do not broadcast")
        found.append(sizes.pop() if sizes else 1)
    return tuple(found)


def broadcast_read(x: Tensor, at: Sequence[Any]) -> Expr:
    """The element that stands at an index of a shape that `x` broadcasts to."""
    last = at[len(at) - x.ndim:]
    found: Expr = x(*[0 if extent == 1 else index for index, extent in zip(last, dims(x), strict=True)])
    return found


def flattened(at: Sequence[Any], shape: Sequence[int]) -> Expr:
    """The place of an element, row by row, in a tensor of a shape; 0 in one without dimensions."""
    place: Any = const(0, "int32")
    for index, extent in zip(at, shape, strict=True):
        place = place * extent + index
    found: Expr = place
    return found


def unflattened(place: Expr, shape: Sequence[int]) -> list[Expr]:
    """The index of the element at a place: the inverse of `flattened`."""
    found: list[Expr] = []
    for extent in reversed(shape[1:]):
        found.append(place % extent)
        place = place // extent
    return [place, *reversed(found)] if shape else []


def same_dtype(what: str, *tensors: Tensor) -> None:
    """Raise OperatorError unless all have one type."""
    kinds = list(dict.fromkeys([str(x.dtype) for x in tensors]))
    if len(kinds) > 1:
        raise OperatorError(f"{what}: operands have types {', '.join(kinds)}: convert them to one with cast")
