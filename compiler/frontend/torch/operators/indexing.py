"""Operators that read and write elements at indices."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from vtakit.compiler.frontend.torch.nodes import AtenNode, converts
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Value
from vtakit.compiler.ir.dtypes import dtype

_INT64 = dtype("int64")
_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul"}


def _indexed(n: AtenNode, x: Value, indices: Sequence[Value | None]) -> tuple[Value, Value, int]:
    """Return a tensor whose indexed dimensions are one, the places along it, and where it is.

    Indices that are apart come first, as in NumPy.
    """
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if any(not each.type.dtype.is_int for _, each in given):
        n.unsupported("with an index by a mask")
    if not given:
        n.unsupported("without an index")
    axes = [axis for axis, _ in given]
    shape = x.type.shape
    if axes != list(range(axes[0], axes[0] + len(axes))):
        order = (*axes, *[axis for axis in range(len(shape)) if axis not in axes])
        x, axes = n.apply("transpose", x, perm=order), list(range(len(axes)))
    sizes = x.type.shape[axes[0]:axes[-1] + 1]
    both = np.broadcast_shapes(*[each.type.shape for _, each in given])
    place: Value | None = None
    for size, (_, each) in zip(sizes, given, strict=True):
        at = n.cast(each, _INT64)
        if not n.build.constants.get(at, np.full(1, -1)).min(initial=0) >= 0:
            at = n.apply("where", n.apply("less", at, n.like(0, at)), n.apply("add", at, n.like(size, at)), at)
        place = at if place is None else n.apply("add", n.apply("mul", place, n.like(size, at)), at)
    assert place is not None
    if place.type.shape != both:
        place = n.apply("expand", place, shape=both)
    flat = n.reshape(x, (*x.type.shape[:axes[0]], int(np.prod(sizes)), *x.type.shape[axes[-1] + 1:]))
    return flat, place, axes[0]


@converts("index.Tensor", "_unsafe_index.Tensor")
def index(n: AtenNode) -> Value:
    """Elements at indices along one or several dimensions."""
    x, place, axis = _indexed(n, n.value("self"), n["indices"])
    return n.apply("gather", x, place, axis=axis)


@converts("index_put.default", "_unsafe_index_put.default")
def index_put(n: AtenNode) -> Value:
    """Put elements at indices along some dimensions, or add them to what is there."""
    x = n.value("self")
    rank = len(x.type.shape)
    axes = [axis for axis, each in enumerate(n["indices"]) if each is not None]
    rest = [axis for axis in range(rank) if axis not in axes]
    order = (*axes, *rest)
    front = x if order == tuple(range(rank)) else n.apply("transpose", x, perm=order)
    flat, place, _ = _indexed(n, front, [n["indices"][axis] for axis in axes])
    put = n.cast(n.value("values"), x.type.dtype)
    lead = [axis for axis in rest if axis < axes[0]] if axes == list(range(axes[0], axes[0] + len(axes))) else []
    sizes = [x.type.shape[axis] for axis in rest]
    wanted = (*sizes[:len(lead)], *place.type.shape, *sizes[len(lead):])
    if put.type.shape != wanted:
        put = n.apply("expand", put, shape=wanted)
    if lead:  # the indices' dimensions lie behind those
        count = len(place.type.shape)
        put = n.apply("transpose", put, perm=(
            *range(len(lead), len(lead) + count), *range(len(lead)), *range(len(lead) + count, len(wanted))))
    places = n.reshape(place, (*place.type.shape, 1))
    made = n.apply("scatter_nd", flat, places, put, reduction="add" if n["accumulate"] else "none")
    made = n.reshape(made, front.type.shape)
    return made if front is x else n.apply("transpose", made, perm=tuple(np.argsort(order).tolist()))


@converts("scatter.src", "scatter.value", "scatter_add.default", "scatter_reduce.two", "scatter.reduce", "scatter.value_reduce")
def scatter(n: AtenNode) -> Value:
    """Put elements along a dimension; of several for one place the last, or all combined."""
    x, places = n.value("self"), n.value("index")
    name = "src" if "src" in n.operands else "value"
    put = n.cast(n[name], x.type.dtype)
    if put.type.shape != places.type.shape:  # the tensor may be greater than the indices
        if put.type.shape:
            put = n.apply("slice", put, starts=(0,) * len(places.type.shape), ends=places.type.shape,
                          axes=tuple(range(len(places.type.shape))), steps=(1,) * len(places.type.shape))
        else:
            put = n.apply("expand", put, shape=places.type.shape)
    word = "add" if "scatter_add" in n.op else n.operands.get("reduce")
    if word is not None and (word not in _REDUCTIONS or n.operands.get("include_self") is False):
        n.unsupported(f"with reduce={word!r}{'' if word not in _REDUCTIONS else ' and include_self=False'}")
    if not x.type.shape:
        n.unsupported("of a scalar")
    return n.apply("scatter_elements", x, places, put, axis=n["dim"] % len(x.type.shape),
                   reduction="none" if word is None else _REDUCTIONS[word])


@converts("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(n: AtenNode) -> list[Value | None]:
    """Sums, means or greatest elements of rows of a table, a bag each; where bags begin is known when the model is compiled."""
    weight, words = n.value("weight"), n.value("indices")
    starts = n.build.constants.get(n.value("offsets"))
    if starts is None:
        n.unsupported("whose offsets depend on numbers")
    if n["padding_idx"] is not None and n["padding_idx"] >= 0:
        n.unsupported(f"with padding_idx {n['padding_idx']}")
    ends = [*starts.tolist(), words.type.size]
    if n["include_last_offset"]:
        ends = starts.tolist()
    sizes = {b - a for a, b in pairwise(ends)}
    if len(sizes) != 1 or 0 in sizes or ends[0] != 0 or ends[-1] != words.type.size:
        n.unsupported("of bags of different sizes")
    (size,) = sizes
    rows = n.apply("gather", weight, n.reshape(words, (words.type.size // size, size)), axis=0)
    if n.maybe("per_sample_weights") is not None:
        rows = n.apply("mul", rows, n.reshape(n.value("per_sample_weights"), (*rows.type.shape[:2], 1)))
    op = ("reduce_sum", "reduce_mean", "reduce_max")[n["mode"]]
    return [n.apply(op, rows, axes=(1,), keepdims=False), None, None, None]


@converts("sort.default", "sort.stable")
def sort(n: AtenNode) -> list[Value | None]:
    x = n.value("self")
    if not x.type.shape:
        return [x, n.build.constant(np.zeros((), numpy_dtype(_INT64)), name=n.name)]
    axis = n["dim"] % len(x.type.shape)
    return list(n.all("top_k", x, k=x.type.shape[axis], axis=axis, largest=n["descending"]))
