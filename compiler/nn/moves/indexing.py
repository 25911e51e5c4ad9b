"""Operators whose indices are data. An index outside of its dimension is taken as the nearest one inside."""

from collections.abc import Callable, Sequence

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import INT32
from vtakit.compiler.ir.expr import Expr, Load, Var
from vtakit.compiler.ir.ops import all_of, binary, maximum, minimum, select
from vtakit.compiler.ir.stmt import Allocate, For, If, Stmt, Store, While, seq
from vtakit.compiler.ir.values import const, wrap
from vtakit.compiler.ir.walk import map_stmt, substitute
from vtakit.compiler.nn.common import Shape, axis_of, dims, made, same_dtype
from vtakit.compiler.nn.registry import Kind, OperatorError, operator
from vtakit.compiler.te.compose import extern
from vtakit.compiler.te.tensor import Tensor


def _check_indices(indices: Tensor, what: str) -> None:
    if not indices.dtype.is_int:
        raise OperatorError(f"{what} takes indices of integers, got {indices.dtype}")


def within(index: Expr, extent: int) -> Expr:
    """An index counted from the start, from the end if it is negative, and inside."""
    if index.dtype.code == "uint":
        return minimum(index, extent - 1).astype("int32")
    counted = select(index < 0, index + extent, index)
    found: Expr = maximum(minimum(counted, extent - 1), 0).astype("int32")
    return found


def cell_at(place: Expr, extent: int) -> Expr:
    """The index of a place that is a whole number in floating point, inside. The integer of NaN may be any: it is clamped too."""
    found: Expr = maximum(minimum(maximum(minimum(place, extent - 1), 0).astype("int32"), extent - 1), 0)
    return found


def _check_not_empty(x: Tensor, axis: int, indices: Tensor, what: str) -> None:
    if not dims(x)[axis] and all(dims(indices)):
        raise OperatorError(f"{what}: axis {axis} of shape {dims(x)} has no elements to take")


@operator("gather", kind=Kind.INJECTIVE)
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Return the elements at indices along an axis, which the indices' shape replaces. Source: ONNX Gather."""
    at_axis = axis_of(axis, x.ndim, "gather")
    _check_indices(indices, "gather")
    _check_not_empty(x, at_axis, indices, "gather")
    shape = (*dims(x)[:at_axis], *dims(indices), *dims(x)[at_axis + 1:])
    end = at_axis + indices.ndim
    return made(shape, lambda *at: x(
        *at[:at_axis], within(indices(*at[at_axis:end]), dims(x)[at_axis]), *at[end:]), "gather")


@operator("gather_elements", kind=Kind.INJECTIVE)
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """For each index the element with it as its place along an axis, elsewhere where the index stands. Source: ONNX."""
    at_axis = axis_of(axis, x.ndim, "gather_elements")
    _check_indices(indices, "gather_elements")
    if indices.ndim != x.ndim:
        raise OperatorError(f"gather_elements: indices {dims(indices)} have not the dimensions of data {dims(x)}")
    _check_not_empty(x, at_axis, indices, "gather_elements")
    return made(dims(indices), lambda *at: x(
        *at[:at_axis], within(indices(*at), dims(x)[at_axis]), *at[at_axis + 1:]), "gather_elements")


@operator("gather_nd", kind=Kind.INJECTIVE)
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Slices at index tuples, which lie along the last dimension of the indices. Source: ONNX GatherND."""
    _check_indices(indices, "gather_nd")
    count = dims(indices)[-1] if indices.ndim else 0
    if not indices.ndim or batch_dims >= indices.ndim or batch_dims + count > x.ndim or (
            dims(x)[:batch_dims] != dims(indices)[:batch_dims]):
        raise OperatorError(f"gather_nd: indices {dims(indices)} with {batch_dims} batch dimensions do not fit data {dims(x)}")
    lead = indices.ndim - 1

    def read(*at: Expr) -> Expr:
        picked = [within(indices(*at[:lead], part), dims(x)[batch_dims + part]) for part in range(count)]
        found: Expr = x(*at[:batch_dims], *picked, *at[lead:])
        return found
    return made((*dims(indices)[:-1], *dims(x)[batch_dims + count:]), read, "gather_nd")


@operator("one_hot", kind=Kind.INJECTIVE)
def one_hot(indices: Tensor, values: Tensor, *, depth: int, axis: int = -1) -> Tensor:
    """values[1] at the place along a new axis that an index names (counted from the end if negative), else values[0]."""
    at_axis = axis_of(axis, indices.ndim + 1, "one_hot")
    if dims(values) != (2,) or depth < 1:
        raise OperatorError(f"one_hot of depth {depth}: values {dims(values)}: give a depth of at least 1, and two values")

    def read(*at: Expr) -> Expr:
        index = indices(*at[:at_axis], *at[at_axis + 1:]).astype("int64")
        place = select(index < 0, index + depth, index)
        return select(binary(ir.EQ, place, at[at_axis].astype("int64")), values(1), values(0))
    return made((*dims(indices)[:at_axis], depth, *dims(indices)[at_axis:]), read, "one_hot")


_COMBINE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "none": lambda old, new: new, "add": lambda old, new: old + new, "mul": lambda old, new: old * new,
    "max": maximum, "min": minimum,
}


def loops(shape: Sequence[int], body: Callable[..., Stmt]) -> Stmt:
    """Loops over all indices of a shape around a statement."""
    variables = [Var(f"i{at}") for at in range(len(shape))]
    found = body(*variables)
    for variable, extent in zip(reversed(variables), reversed(shape), strict=True):
        found = For(variable, wrap(extent), found)
    return found


def _scattered(
    x: Tensor, others: tuple[Tensor, ...], shape: Shape, place: Callable[..., tuple[Expr, ...]], reduction: str, name: str,
) -> Tensor:
    """A copy of x in which updates, the last of the other tensors, are put one after another.

    shape : over which the updates run       place(buffers, *at) : where the update at an index goes
    """
    if reduction not in _COMBINE:
        raise OperatorError(f"{name}: reduction={reduction!r}: give one of {', '.join(_COMBINE)}")
    same_dtype(name, x, others[-1])

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        out = outs[0]

        def put(*at: Expr) -> Stmt:
            where = place(ins[1:], *at)
            old, new = Load(out, where), Load(ins[-1], at)
            return Store(out, where, _COMBINE[reduction](old, new))
        copy = loops(dims(x), lambda *at: Store(out, at, Load(ins[0], at)))
        return seq(copy, loops(shape, put)) if all(shape) else copy
    found: Tensor = extern(dims(x), [x, *others], body, name=name, dtype=x.dtype)
    return found


@operator("scatter_elements", kind=Kind.OPAQUE)
def scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    """x with updates put where the indices say along an axis, in order, or combined with what is there. Source: ONNX."""
    at_axis = axis_of(axis, x.ndim, "scatter_elements")
    _check_indices(indices, "scatter_elements")
    if dims(indices) != dims(updates) or indices.ndim != x.ndim:
        raise OperatorError(f"scatter_elements: indices {dims(indices)} and updates {dims(updates)} do not fit data {dims(x)}")

    def place(ins: list[Buffer], *at: Expr) -> tuple[Expr, ...]:
        return (*at[:at_axis], within(Load(ins[0], at), dims(x)[at_axis]), *at[at_axis + 1:])
    return _scattered(x, (indices, updates), dims(indices), place, reduction, "scatter_elements")


@operator("scatter_nd", kind=Kind.OPAQUE)
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """x with slices put at index tuples, in order, or combined with what is there. Source: ONNX ScatterND."""
    _check_indices(indices, "scatter_nd")
    lead, count = dims(indices)[:-1], dims(indices)[-1] if indices.ndim else 0
    if not indices.ndim or count > x.ndim or dims(updates) != (*lead, *dims(x)[count:]):
        raise OperatorError(f"scatter_nd: indices {dims(indices)} and updates {dims(updates)} do not fit data {dims(x)}")

    def place(ins: list[Buffer], *at: Expr) -> tuple[Expr, ...]:
        first = [within(Load(ins[0], (*at[:len(lead)], const(part, "int32"))), dims(x)[part]) for part in range(count)]
        return (*first, *at[len(lead):])
    return _scattered(x, (indices, updates), dims(updates), place, reduction, "scatter_nd")


@operator("top_k", kind=Kind.OPAQUE)
def top_k(x: Tensor, *, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k greatest (or least) along an axis in order, and their int64 indices; of equal ones the first comes first.

    Elements are inserted where they belong among the best so far. Source: ONNX TopK, sorted.
    Raises OperatorError if the axis has not k elements.
    """
    at_axis = axis_of(axis, x.ndim, "top_k")
    extent = dims(x)[at_axis]
    if not 0 <= k <= extent:
        raise OperatorError(f"top_k: {k} elements of the {extent} along axis {axis}: give 0 to {extent}")
    shape = (*dims(x)[:at_axis], k, *dims(x)[at_axis + 1:])
    if not k:
        return made(shape, lambda *at: x(*at), "top_k"), made(shape, lambda *at: const(0, "int64"), "places")
    others = (*dims(x)[:at_axis], *dims(x)[at_axis + 1:])

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        return loops(others, lambda *at: _insertions(ins[0], outs, at_axis, extent, k, largest, at))
    values, places = extern([shape, shape], [x], body, name="top_k", dtype=[x.dtype, "int64"])
    return values, places


def _insertions(
    x: Buffer, outs: list[Buffer], axis: int, extent: int, k: int, largest: bool, others: tuple[Expr, ...],
) -> Stmt:
    """Put the elements of a line, one after another, where they belong among the k best so far; most belong nowhere."""
    values, places = outs
    slot = Buffer("slot", (wrap(1),), INT32)
    here, zero, j = Load(slot, (wrap(0),)), wrap(0), Var("j")

    def at(place: Expr) -> tuple[Expr, ...]:
        return (*others[:axis], place, *others[axis:])

    def ahead(place: Expr) -> Expr:
        """Return whether element j comes before the element kept at a place; of equal ones the first comes first."""
        new, old = Load(x, at(j)), Load(values, at(place))
        return binary(ir.LT, old, new) if largest else binary(ir.LT, new, old)
    before = maximum(here - 1, 0)
    move = seq(
        Store(values, at(here), Load(values, at(before))), Store(places, at(here), Load(places, at(before))),
        Store(slot, (zero,), here - 1),
    )
    insert = seq(
        Store(slot, (zero,), minimum(j, k - 1)),
        While(all_of(here > 0, ahead(before)), move),
        Store(values, at(here), Load(x, at(j))), Store(places, at(here), j.astype("int64")),
    )
    first = For(j, wrap(k), insert)
    return Allocate(slot, first if k == extent else seq(first, _rest(j, k, extent, insert, ahead)))


def _rest(j: Var, k: int, extent: int, insert: Stmt, ahead: Callable[[Expr], Expr]) -> Stmt:
    """The elements behind the first k, which are inserted if they come before the last one that is kept."""
    after = Var("after")
    whole = If(ahead(wrap(k - 1)), insert)
    return For(after, wrap(extent - k), map_stmt(whole, on_expr=lambda e: substitute(e, {j: after + k})))
