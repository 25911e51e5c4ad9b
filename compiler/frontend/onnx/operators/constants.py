"""Operators whose results are known when the model is compiled."""

import math
from typing import Any

import numpy as np

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Value
from vtakit.compiler.ir.dtypes import dtype

_MOST_BYTES = 1 << 26  # size of a constant that is computed while the model is read


def filled(n: OnnxNode, shape: tuple[int, ...], number: Any, kind: np.dtype[Any]) -> Value:
    """A constant of one number: a small one as it is, a large one made when the model runs."""
    if min(shape, default=0) < 0:
        raise n.unsupported(f"of the shape {list(shape)}, which has a negative size")
    return n.apply("expand", n.value(np.asarray(number, kind)), shape=shape)


def _check_size(n: OnnxNode, count: int, kind: np.dtype[Any]) -> None:
    """Raise UnsupportedError for a constant of too many elements."""
    if count * kind.itemsize > _MOST_BYTES:
        raise n.unsupported(f"of {count:,} elements, a constant of more than {_MOST_BYTES:,} bytes: store it in the model")


@converts("Constant")
def constant(n: OnnxNode) -> Value:
    for name in ("value_float", "value_floats"):
        if n.attr(name) is not None:
            return n.value(np.asarray(n.attr(name), np.float32))
    for name in ("value_int", "value_ints"):
        if n.attr(name) is not None:
            return n.value(np.asarray(n.attr(name), np.int64))
    if n.attr("value") is None:
        raise n.unsupported("of a value that is no tensor of numbers")
    return n.value(n.required("value"))


@converts("ConstantOfShape")
def constant_of_shape(n: OnnxNode) -> Value:
    value = n.attr("value", np.zeros(1, np.float32))
    return filled(n, n.ints(0), value.reshape(-1)[0], value.dtype)


@converts("Shape")
def shape(n: OnnxNode) -> Value:
    return n.value(np.asarray(n.shape(0)[n.attr("start", 0):n.attr("end")], np.int64))


@converts("Size")
def size(n: OnnxNode) -> Value:
    return n.value(np.asarray(n[0].type.size, np.int64))


@converts("Range")
def arange(n: OnnxNode) -> Value:
    start, limit, delta = (n.constant(at).reshape(-1)[0] for at in range(3))
    if not delta:
        raise n.unsupported("with a step of 0")
    if np.issubdtype(start.dtype, np.integer):  # in Python's integers, which do not overflow
        numbers = range(int(start), int(limit), int(delta))
        _check_size(n, len(numbers), start.dtype)
        return n.value(np.array(numbers, start.dtype))
    count = max(0, math.ceil((limit - start) / delta))
    _check_size(n, count, start.dtype)
    return n.value((np.arange(count) * delta + start).astype(start.dtype))


@converts("EyeLike")
def eye_like(n: OnnxNode) -> Value:
    kind = numpy_dtype(n.kind("dtype", n.dtype(0)))
    if n.ndim(0) != 2:
        raise n.unsupported(f"of the shape {list(n.shape(0))}, which is no matrix")
    _check_size(n, math.prod(n.shape(0)), kind)
    return n.value(np.eye(n.shape(0)[0], n.shape(0)[1], k=n.attr("k", 0), dtype=kind), dtype(kind))
