"""Reference of integer networks, in plain NumPy: the oracle for every target, which must give the same bytes.

Nothing here is shared with the operators' definitions. Sums of products run in float64, which is exact as long as they stay below
2**53; those of int8 stay below 2**31.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.ir import Array, Graph, Node, Value
from vtakit.compiler.nn.numbers.fixed import requantized

Meaning = Callable[..., Array]


def reference(graph: Graph, *inputs: Array, nodes: Callable[[Node, Sequence[Array]], Sequence[Array]] | None = None) -> (
        tuple[Array, ...]):
    """The graph's outputs, in order, for an array for each of its inputs.

    nodes : computes what NumPy is no oracle for, such as a softmax, from a node and its operands

    Raises GraphError for an operator that has no meaning here, unless `nodes` is given.
    """
    known: dict[Value, Array] = {**graph.constants, **dict(zip(graph.inputs, inputs, strict=True))}
    for node in graph.nodes:
        operands = [known[value] for value in node.reads]
        if node.op in MEANING:
            made: Sequence[Array] = [evaluated(node, operands)]
        elif nodes is not None:
            made = nodes(node, operands)
        else:
            raise GraphError(f"{node!r}: the reference has the operators of networks in integers: {', '.join(MEANING)}; "
                             "give `nodes` for others")
        known |= dict(zip(node.outputs, made, strict=True))
    return tuple([known[value] for _, value in graph.outputs])


def evaluated(node: Node, operands: Sequence[Array]) -> Array:
    """Return the result of a node whose operator is in `MEANING`, for these operands."""
    places = iter(operands)
    given = [None if value is None else next(places) for value in node.inputs]
    return np.ascontiguousarray(MEANING[node.op](*given, **node.attrs)).reshape(node.outputs[0].type.shape)


def _channels(vector: Array, ndim: int) -> Array:
    """One number for each channel, to be broadcast over [N, C, D...]."""
    return vector.astype(np.int64).reshape(-1, *[1] * (ndim - 2))


def _windows(x: Array, kernel: Sequence[int], strides: Sequence[int] | None, pads: Sequence[int] | None,
             dilations: Sequence[int] | None = None, fill: float = 0) -> Array:
    """[N, C, O..., K...]: what a window reads at each of its places."""
    count = len(kernel)
    steps, spread, around = strides or (1,) * count, dilations or (1,) * count, pads or (0,) * 2 * count
    wide = np.pad(x, [(0, 0), (0, 0), *zip(around[:count], around[count:], strict=True)], constant_values=fill)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, spread, strict=True)]
    found = np.lib.stride_tricks.sliding_window_view(wide, reach, axis=tuple(range(2, 2 + count)))
    whole = slice(None)
    cells: tuple[slice, ...] = (whole, whole, *[slice(None, None, s) for s in steps], *[slice(None, None, d) for d in spread])
    return found[cells]


def _conv(x: Array, weight: Array, x_zero: Array | None = None, weight_zero: Array | None = None, *,
          strides: Sequence[int] | None = None, pads: Sequence[int] | None = None, dilations: Sequence[int] | None = None,
          groups: int = 1, fill: int = 0) -> Array:
    count = x.ndim - 2
    data, w = _less(x, x_zero, 1), _less(weight, weight_zero, 0)
    windows = _windows(data, weight.shape[2:], strides, pads, dilations, fill)
    out = windows.shape[2:2 + count]
    columns = np.moveaxis(windows, 1, 1 + count)  # [N, O..., C, K...]
    parts = []
    for kernels, channels in zip(np.split(w, groups), np.split(columns, groups, axis=1 + count), strict=True):
        rows = channels.reshape(-1, prod(kernels.shape[1:])).astype(np.float64)
        parts.append((rows @ kernels.reshape(len(kernels), -1).T.astype(np.float64)).reshape(len(x), prod(out), -1))
    found = np.concatenate(parts, axis=-1)
    return np.moveaxis(found, -1, 1).reshape(len(x), -1, *out).astype(np.int32)


def _less(x: Array, zero: Array | None, axis: int) -> Array:
    """Quantized numbers less their zero point: one, or one for each index of an axis."""
    if zero is None:
        return x.astype(np.int32)
    shape = [1] * x.ndim
    if zero.size > 1:
        shape[axis] = zero.size
    found: Array = x.astype(np.int32) - zero.astype(np.int32).reshape(shape)
    return found


def _conv_transpose(
    x: Array, weight: Array, *, strides: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None, groups: int = 1, output_padding: Sequence[int] | None = None, zero: int = 0,
) -> Array:
    x, count = x.astype(np.int32) - zero, x.ndim - 2
    steps, spread, around = strides or (1,) * count, dilations or (1,) * count, pads or (0,) * 2 * count
    more, kernel, sizes = output_padding or (0,) * count, weight.shape[2:], x.shape[2:]
    whole = [(size - 1) * s + (k - 1) * d + 1 + extra + max(0, -front) + max(0, -back) for size, s, k, d, extra, front, back in
             zip(sizes, steps, kernel, spread, more, around[:count], around[count:], strict=True)]
    found = np.zeros((len(x), weight.shape[1] * groups, *whole), np.int64)
    for g, (data, w) in enumerate(zip(np.split(x, groups, axis=1), np.split(weight, groups), strict=True)):
        channels = slice(g * weight.shape[1], (g + 1) * weight.shape[1])
        for at in product(*map(range, kernel)):
            places = [slice(max(0, -front) + i * d, max(0, -front) + i * d + (size - 1) * s + 1, s) for i, d, size, s, front in
                      zip(at, spread, sizes, steps, around[:count], strict=True)]
            kernel_at = w.reshape(*w.shape[:2], -1)[:, :, np.ravel_multi_index(at, kernel)].astype(np.float64)
            pixels = kernel_at.T @ data.reshape(*data.shape[:2], -1).astype(np.float64)
            found[(slice(None), channels, *places)] += pixels.reshape(len(x), -1, *sizes).astype(np.int64)
    cut = [slice(max(0, front), size - max(0, back)) for front, back, size in
           zip(around[:count], around[count:], whole, strict=True)]
    return found[(slice(None), slice(None), *cut)].astype(np.int32)


def _matmul(a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None) -> Array:
    found: Array = _less(a, a_zero, a.ndim - 2).astype(np.float64) @ _less(b, b_zero, b.ndim - 1).astype(np.float64)
    return found.astype(np.int32)


def _sum_pool(x: Array, *, kernel_shape: Sequence[int], strides: Sequence[int] | None = None,
              pads: Sequence[int] | None = None, fill: int = 0) -> Array:
    last = tuple(range(-len(kernel_shape), 0))
    found: Array = _windows(x.astype(np.int32), kernel_shape, strides, pads, fill=fill).sum(last, dtype=np.int32)
    return found


def _max_pool(x: Array, *, kernel_shape: Sequence[int], strides: Sequence[int] | None = None, pads: Sequence[int] | None = None,
              dilations: Sequence[int] | None = None, ceil_mode: bool = False) -> Array:
    count, least = len(kernel_shape), np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    around = list(pads or (0,) * 2 * count)
    if ceil_mode:  # further places behind; a window that begins there is no window
        steps, spread = strides or (1,) * count, dilations or (1,) * count
        for at in range(count):
            size, step, reach = x.shape[2 + at], steps[at], (kernel_shape[at] - 1) * spread[at] + 1
            room = size + around[at] + around[at + count] - reach
            places = -(-room // step) + 1
            places -= (places - 1) * step >= size + around[at]
            around[at + count] += (places - 1) * step - room if places * step > room else 0
    found: Array = _windows(x, kernel_shape, strides, around, dilations, least).max(tuple(range(-count, 0)))
    return found


def _requantize(acc: Array, bias: Array, multiplier: Array, shift: Array, *, zero_point: int = 0, low: int = -128,
                high: int = 127) -> Array:
    add, by, down = (_channels(vector, acc.ndim) for vector in (bias, multiplier, shift))
    return requantized(acc, add, by, down, zero_point, low, high).astype(np.int8)


def _scaled_add(acc: Array, skip: Array, scale: Array) -> Array:
    found: Array = acc + skip * _channels(scale, acc.ndim)
    return found.astype(np.int32)


def _scaled_sum(a: Array, b: Array, a_scale: Array, b_scale: Array) -> Array:
    found: Array = a * _channels(a_scale, a.ndim) + b * _channels(b_scale, a.ndim)
    return found.astype(np.int32)


def _mul_integer(a: Array, b: Array, *, a_zero: int = 0, b_zero: int = 0) -> Array:
    return (a.astype(np.int32) - a_zero) * (b.astype(np.int32) - b_zero)


def _along(parameter: Array, x: Array, axis: int, block_size: int) -> Array:
    if block_size:
        return np.repeat(parameter, block_size, axis)[(slice(None),) * (axis % x.ndim) + (slice(x.shape[axis]),)]
    shape = [1] * x.ndim
    if parameter.size > 1:
        shape[axis] = parameter.size
    return parameter.reshape(shape)


def _quantize(
    x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0, dtype: Any = "uint8",
) -> Array:
    kind = np.dtype(str(dtype)) if zero is None else zero.dtype
    ends = np.iinfo(kind)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = np.rint(x.astype(np.float32) / _along(scale, x, axis, block_size).astype(np.float32))
    moved = found if zero is None else found + _along(zero, x, axis, block_size).astype(np.float32)
    return np.clip(moved, ends.min, ends.max).astype(kind)


def _dequantize(x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0) -> Array:
    whole = x.astype(np.int32) if zero is None else x.astype(np.int32) - _along(zero, x, axis, block_size).astype(np.int32)
    found: Array = whole.astype(scale.dtype) * _along(scale, x, axis, block_size)
    return found


def _pad(x: Array, value: Array | None = None, *, pads: Sequence[int], mode: str = "constant") -> Array:
    around = [*zip(pads[:x.ndim], pads[x.ndim:], strict=True)]
    cut = x[tuple([slice(max(0, -front), size - max(0, -back)) for (front, back), size in zip(around, x.shape, strict=True)])]
    wide = [(max(0, front), max(0, back)) for front, back in around]
    if mode == "constant":
        return np.pad(cut, wide, constant_values=0 if value is None else value.reshape(())[()])
    if mode == "reflect":
        return np.pad(cut, wide, mode="reflect")
    return np.pad(cut, wide, mode="edge") if mode == "edge" else np.pad(cut, wide, mode="wrap")


def _resize(x: Array, *, sizes: Sequence[int], scales: Sequence[float] | None = None, mode: str = "nearest",
            coordinates: str = "half_pixel", nearest_mode: str = "round_prefer_floor", **_: Any) -> Array:
    if mode != "nearest" or coordinates not in COORDINATES:
        known = ", ".join(COORDINATES)
        raise GraphError(f"the reference resizes by the nearest element, by {known}; not {mode} by {coordinates}")
    for axis, (new, old) in enumerate(zip(sizes, x.shape, strict=True)):
        scale = new / old if scales is None else float(scales[axis])
        if new != old or scale != 1:
            place = ROUNDING[nearest_mode](COORDINATES[coordinates](np.arange(new, dtype=np.float64), scale, old, new))
            x = np.take(x, np.clip(place, 0, old - 1).astype(int), axis=axis)
    return x


ROUNDING: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda p: np.ceil(p - 0.5), "round_prefer_ceil": lambda p: np.floor(p + 0.5), "floor": np.floor,
    "ceil": np.ceil,
}
COORDINATES: dict[str, Callable[[Array, float, int, int], Array]] = {
    "asymmetric": lambda i, scale, old, new: i / scale,
    "half_pixel": lambda i, scale, old, new: (i + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda i, scale, old, new: (i + 0.5) / scale - 0.5 if new > 1 else i * 0,
    "align_corners": lambda i, scale, old, new: i * ((old - 1) / (old * scale - 1) if new > 1 else 0.0),
}


def _slice(x: Array, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None,
           steps: Sequence[int] | None = None) -> Array:
    found = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes or range(len(starts)), starts, ends, steps or (1,) * len(starts), strict=True):
        size = x.shape[axis]
        low, high = (0, size) if step > 0 else (-1, size - 1)
        first, last = (min(max(n + size if n < 0 else n, low), high) for n in (start, end))
        found[axis] = slice(first, None if last < 0 else last, step)
    return x[tuple(found)]


def _depth_to_space(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    images, channels, rows, columns = x.shape
    apart = (blocksize, blocksize, -1) if mode == "DCR" else (-1, blocksize, blocksize)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return x.reshape(images, *apart, rows, columns).transpose(order).reshape(
        images, channels // blocksize**2, rows * blocksize, columns * blocksize)


MEANING: Mapping[str, Meaning] = {
    "conv_integer": _conv, "conv_transpose_integer": _conv_transpose, "matmul_integer": _matmul, "sum_pool": _sum_pool,
    "scaled_add": _scaled_add, "scaled_sum": _scaled_sum, "requantize": _requantize, "max_pool": _max_pool,
    "concat": lambda *parts, axis: np.concatenate(parts, axis), "pad": _pad, "resize": _resize, "slice": _slice,
    "reshape": lambda x, shape: x.reshape(shape), "transpose": lambda x, perm=None: np.transpose(x, perm),
    "quantize_linear": _quantize, "dequantize_linear": _dequantize, "mul_integer": _mul_integer,
    "depth_to_space": _depth_to_space,
    "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "clip": lambda x, low=None, high=None: np.clip(x, low, high),
    "cast": lambda x, to: x.astype(np.dtype(str(to))), "expand": lambda x, shape: np.broadcast_to(x, shape),
    "lookup": lambda x, table: table[x.astype(np.int32) + 128], "to_int8": lambda x: (x.astype(np.int32) - 128).astype(np.int8),
    "to_uint8": lambda x: (x.astype(np.int32) + 128).astype(np.uint8),
}
