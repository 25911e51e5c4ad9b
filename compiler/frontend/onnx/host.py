"""ONNX operators in NumPy: those whose results' shapes their data decide, those that move elements, and those of sequences.

They run between compiled parts (`vtakit.runtime.stages`), and fold constants when a model is read. A sequence is a list, an empty
optional is None. Results may be views of operands; nobody changes either.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.graph.ir import Array


@dataclass(frozen=True, slots=True)
class Call:
    """A node as its operator sees it.

    version : of the operator set
    outputs : number of results that are named
    """

    op: str
    name: str
    version: int
    attrs: Mapping[str, Any]
    outputs: int = 1

    def wrong(self, why: str) -> ModelError:
        """Return the error for operands that do not fit."""
        return ModelError(f"node {self.name!r} ({self.op}): {why}")


HostOperator = Callable[..., Sequence[Any]]
HOST: dict[str, HostOperator] = {}
DECIDED = frozenset(("Compress", "NonMaxSuppression", "NonZero", "Unique"))  # the data decide the shape of the result


def host(*ops: str) -> Callable[[HostOperator], HostOperator]:
    """Register the function of operators: a Call and the operands, None for one that is not given, to the results."""
    def register(function: HostOperator) -> HostOperator:
        HOST.update(dict.fromkeys(ops, function))
        return function
    return register


def ints(array: Array) -> tuple[int, ...]:
    """Return the elements of an array as integers."""
    return tuple([int(each) for each in array.reshape(-1)])


@host("NonZero")
def nonzero(call: Call, x: Array) -> list[Array]:
    places = np.nonzero(x) if x.ndim else np.nonzero(x.reshape(1))[:0]
    if not x.ndim:
        return [np.zeros((0, int(bool(x))), np.int64)]
    return [np.stack(places).astype(np.int64, copy=False)]


@host("Compress")
def compress(call: Call, x: Array, condition: Array) -> list[Array]:
    axis = call.attrs.get("axis")
    data = x.reshape(-1) if axis is None else x
    kept, at = np.flatnonzero(condition), axis or 0
    if kept.size and kept[-1] >= data.shape[at]:
        raise call.wrong(f"its condition takes element {kept[-1]} of {data.shape[at]}")
    return [np.take(data, kept, at)]


@host("Unique")
def unique(call: Call, x: Array) -> list[Array]:
    axis = call.attrs.get("axis")
    data = x.reshape(-1) if axis is None else x
    at = 0 if axis is None else axis
    _, first, inverse, counts = np.unique(data, return_index=True, return_inverse=True, return_counts=True, axis=at,
                                          equal_nan=False)
    inverse = inverse.reshape(-1)
    if not call.attrs.get("sorted", 1):
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        first, inverse, counts = first[order], rank[inverse], counts[order]
    whole = [each.astype(np.int64, copy=False) for each in (first, inverse, counts)]
    return [np.take(data, first, at), *whole][:call.outputs]


@host("NonMaxSuppression")
def non_max_suppression(
    call: Call, boxes: Array, scores: Array, most: Array | None = None, overlap: Array | None = None, least: Array | None = None,
) -> list[Array]:
    """Return (batch, class, box) of the boxes that are kept: best first, none that overlaps a better one too much."""
    limit = int(most.reshape(-1)[0]) if most is not None and most.size else 0
    threshold = np.float32(overlap.reshape(-1)[0] if overlap is not None and overlap.size else 0)
    floor = None if least is None or not least.size else least.reshape(-1)[0]
    corners = _corners(boxes.astype(np.float32, copy=False), bool(call.attrs.get("center_point_box", 0)))
    found = [
        (batch, kind, box) for batch in range(scores.shape[0] if limit > 0 else 0) for kind in range(scores.shape[1])
        for box in _kept(corners[batch], scores[batch, kind], limit, threshold, floor)
    ]
    return [np.array(found, np.int64).reshape(-1, 3)]


def _corners(boxes: Array, centered: bool) -> Array:
    """Return boxes as (y low, x low, y high, x high)."""
    if centered:
        x, y, width, height = (boxes[..., at] for at in range(4))
        half_w, half_h = width / np.float32(2), height / np.float32(2)
        return np.stack([y - half_h, x - half_w, y + half_h, x + half_w], -1)
    low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    return np.concatenate([low, high], -1)


def _kept(corners: Array, scores: Array, limit: int, threshold: Any, floor: Any) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    if floor is not None:
        order = order[scores[order] > floor]
    areas = np.prod(corners[:, 2:] - corners[:, :2], -1, dtype=np.float32)
    kept: list[int] = []
    while order.size and len(kept) < limit:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        sides = np.minimum(corners[order, 2:], corners[best, 2:]) - np.maximum(corners[order, :2], corners[best, :2])
        shared = np.where((sides > 0).all(-1), np.prod(sides, -1, dtype=np.float32), np.float32(0))
        union = areas[order] + areas[best] - shared
        counts = (shared > 0) & (areas[order] > 0) & (areas[best] > 0) & (union > 0)
        ratio = np.divide(shared, union, out=np.zeros_like(shared), where=counts)
        order = order[~(counts & (ratio > threshold))]
    return kept


@host("Range")
def arange(call: Call, start: Array, limit: Array, delta: Array) -> list[Array]:
    first, end, step = (each.reshape(-1)[0] for each in (start, limit, delta))
    if not step:
        raise call.wrong("its step is 0")
    if np.issubdtype(first.dtype, np.integer):
        return [np.array(range(int(first), int(end), int(step)), first.dtype)]
    count = max(0, math.ceil((end - first) / step))
    return [(np.arange(count) * step + first).astype(first.dtype)]


@host("ConstantOfShape")
def constant_of_shape(call: Call, shape: Array) -> list[Array]:
    value = call.attrs.get("value", np.zeros(1, np.float32)).reshape(-1)
    return [np.full(ints(shape), value[0], value.dtype)]


@host("Reshape")
def reshape(call: Call, x: Array, shape: Array) -> list[Array]:
    sizes = list(ints(shape))
    if not call.attrs.get("allowzero", 0):
        sizes = [x.shape[at] if size == 0 and at < x.ndim else size for at, size in enumerate(sizes)]
    if sizes.count(-1) == 1:
        rest = math.prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = x.size // rest if rest else 0
    if math.prod(sizes) != x.size or min(sizes, default=0) < 0:
        raise call.wrong(f"{x.size} elements of the shape {list(x.shape)} are not those of {list(ints(shape))}")
    return [x.reshape(sizes)]


@host("Expand")
def expand(call: Call, x: Array, shape: Array) -> list[Array]:
    return [np.broadcast_to(x, np.broadcast_shapes(x.shape, ints(shape)))]


@host("Tile")
def tile(call: Call, x: Array, repeats: Array) -> list[Array]:
    return [np.tile(x, ints(repeats))]


@host("Squeeze")
def squeeze(call: Call, x: Array, axes: Array | None = None) -> list[Array]:
    given = call.attrs.get("axes") if axes is None else ints(axes)
    return [np.squeeze(x, None if given is None else tuple(given))]


@host("Unsqueeze")
def unsqueeze(call: Call, x: Array, axes: Array | None = None) -> list[Array]:
    return [np.expand_dims(x, tuple(call.attrs["axes"]) if axes is None else ints(axes))]


@host("Slice")
def strided_slice(call: Call, x: Array, *given: Array | None) -> list[Array]:
    if call.version < 10:
        starts, ends, axes, steps = call.attrs["starts"], call.attrs["ends"], call.attrs.get("axes"), None
    else:
        starts, ends, axes, steps = (None if each is None else ints(each) for each in (*given, None, None)[:4])
    assert starts is not None
    assert ends is not None
    found: list[slice] = [slice(None)] * x.ndim
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis, step = axes[at] if axes is not None else at, steps[at] if steps is not None else 1
        size = x.shape[axis]
        low, high = (0, size) if step > 0 else (-1, size - 1)
        first, last = (min(max(n + size if n < 0 else n, low), high) for n in (start, end))
        found[axis] = slice(max(first, 0), None if last < 0 else last, step) if first >= 0 else slice(0, 0)
    return [x[tuple(found)]]


@host("Split")
def split(call: Call, x: Array, sizes: Array | None = None) -> list[Array]:
    axis = call.attrs.get("axis", 0)
    given = call.attrs.get("split") if sizes is None else ints(sizes)
    if given is None:
        count = call.attrs.get("num_outputs", call.outputs)
        part = -(-x.shape[axis] // count)
        given = [min(part, max(0, x.shape[axis] - at * part)) for at in range(count)]
    if sum(given) != x.shape[axis]:
        raise call.wrong(f"parts of {list(given)} are not the extent {x.shape[axis]} of axis {axis}")
    return list(np.split(x, np.cumsum(given)[:-1], axis))


@host("Pad")
def pad(call: Call, x: Array, pads: Array, value: Array | None = None, axes: Array | None = None) -> list[Array]:
    given, mode = ints(pads), call.attrs.get("mode", "constant")
    where = range(x.ndim) if axes is None else [axis % x.ndim for axis in ints(axes)]
    around = [(0, 0)] * x.ndim
    for at, axis in enumerate(where):
        around[axis] = given[at], given[at + len(where)]
    cut = x[tuple([slice(max(0, -a), size - max(0, -b)) for (a, b), size in zip(around, x.shape, strict=True)])]
    wide = [(max(0, a), max(0, b)) for a, b in around]
    if mode != "constant":
        return [np.pad(cut, wide, mode={"reflect": "reflect", "edge": "edge", "wrap": "wrap"}[mode])]  # type: ignore[call-overload]
    filler = x.dtype.type(0) if value is None or not value.size else value.reshape(-1)[0]
    result = np.full([size + a + b for (a, b), size in zip(wide, cut.shape, strict=True)], filler, x.dtype)
    result[tuple([slice(a, a + size) for (a, _), size in zip(wide, cut.shape, strict=True)])] = cut
    return [result]


@host("Trilu")
def trilu(call: Call, x: Array, k: Array | None = None) -> list[Array]:
    diagonal = 0 if k is None else ints(k)[0]
    return [np.triu(x, diagonal) if call.attrs.get("upper", 1) else np.tril(x, diagonal)]


@host("Identity")
def identity(call: Call, x: Any) -> list[Any]:
    return [x]
