"""Pools of windows."""

from typing import Any

import numpy as np

from vtakit.compiler.frontend.torch.nodes import AtenNode, converts
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Value


def each(given: Any, count: int) -> tuple[int, ...]:
    """Return a number for each spatial dimension, where one may stand for all."""
    numbers = tuple(given) if isinstance(given, tuple) else (given,)
    return numbers * count if len(numbers) == 1 else numbers


def _window(n: AtenNode, count: int) -> dict[str, Any]:
    """The attributes of a pool; without a stride that of the kernel."""
    kernel = each(n["kernel_size"], count)
    pads = each(n["padding"], count)
    return {
        "kernel_shape": kernel, "strides": each(n["stride"] or kernel, count), "pads": (*pads, *pads),
        "ceil_mode": n["ceil_mode"],
    }


def _batched(n: AtenNode, x: Value, count: int) -> Value:
    """With a batch and channels before the spatial dimensions, one of which a pool may lack."""
    return x if len(x.type.shape) == count + 2 else n.reshape(x, (1, *x.type.shape))


@converts("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool(n: AtenNode) -> list[Value | None]:
    count = 3 if "3d" in n.op else 2
    x = _batched(n, n.value("self"), count)
    y = n.apply("max_pool", x, dilations=each(n["dilation"], count), **_window(n, count))
    return [n.reshape(y, n.type.shape), None]


@converts("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def average_pool(n: AtenNode) -> Value:
    """The mean of each window; with divisor_override its sum by another number, zero pads included."""
    count = int(n.op.removeprefix("aten.avg_pool")[0])
    x, window, divisor = _batched(n, n.value("self"), count), _window(n, count), n.operands.get("divisor_override")
    if divisor is None:
        y = n.apply("average_pool", x, count_include_pad=n["count_include_pad"], **window)
        return n.reshape(y, n.type.shape)
    if n["ceil_mode"]:
        n.unsupported("with divisor_override and ceil_mode")
    y = n.apply("average_pool", x, count_include_pad=True, **window)
    return n.reshape(n.apply("mul", y, n.like(int(np.prod(window["kernel_shape"])) / divisor, y)), n.type.shape)


def _bounds(size: int, out: int) -> list[tuple[int, int]]:
    """First and end of each window along a dimension; neighbours may overlap."""
    return [(at * size // out, -(-(at + 1) * size // out)) for at in range(out)]


@converts("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default", "adaptive_avg_pool1d.default")
def adaptive_average_pool(n: AtenNode) -> Value:
    """A pool where all windows are equal; else a product with a matrix of shares for each dimension."""
    x, wanted = n.value("self"), n["output_size"]
    sizes = x.type.shape[-len(wanted):]
    if not any(size % out for size, out in zip(sizes, wanted, strict=True)):
        kernel = tuple([size // out for size, out in zip(sizes, wanted, strict=True)])
        y = n.apply("average_pool", _batched(n, x, len(wanted)), kernel_shape=kernel, strides=kernel)
        return n.reshape(y, n.type.shape)
    for size, out in zip(sizes, wanted, strict=True):  # the dimension goes last, and in the end all are where they were
        shares = np.zeros((size, out), numpy_dtype(x.type.dtype))
        for at, (first, end) in enumerate(_bounds(size, out)):
            shares[first:end, at] = 1 / (end - first)
        rank = len(x.type.shape)
        front = rank - len(wanted)
        x = n.apply("transpose", x, perm=(*range(front), *range(front + 1, rank), front))
        rows = n.reshape(x, (x.type.size // size, size))
        x = n.reshape(n.apply("matmul", rows, n.build.constant(shares, name=n.name)), (*x.type.shape[:-1], out))
    return x


@converts("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def adaptive_max_pool(n: AtenNode) -> list[Value | None]:
    """The greatest of each window, dimension by dimension; short windows read their last element again."""
    x, wanted = n.value("self"), n["output_size"]
    for at, out in enumerate(wanted):
        axis = len(x.type.shape) - len(wanted) + at
        bounds = _bounds(x.type.shape[axis], out)
        longest = max(end - first for first, end in bounds)
        places = np.array([[min(first + step, end - 1) for step in range(longest)] for first, end in bounds], np.int64)
        x = n.apply("gather", x, n.build.constant(places, name=n.name), axis=axis)
        x = n.apply("reduce_max", x, axes=(axis + 1,), keepdims=False)
    return [x, None]
