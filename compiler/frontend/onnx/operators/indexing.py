"""Operators that take elements from places which other tensors name, or put them there."""

import numpy as np

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value


@converts("Gather")
def gather(n: OnnxNode) -> Value:
    return n.apply("gather", n[0], n[1], axis=n.attr("axis", 0))


@converts("GatherElements")
def gather_elements(n: OnnxNode) -> Value:
    return n.apply("gather_elements", n[0], n[1], axis=n.attr("axis", 0))


@converts("GatherND")
def gather_nd(n: OnnxNode) -> Value:
    return n.apply("gather_nd", n[0], n[1], batch_dims=n.attr("batch_dims", 0))


@converts("Scatter", "ScatterElements")
def scatter_elements(n: OnnxNode) -> Value:
    return n.apply("scatter_elements", n[0], n[1], n[2], axis=n.attr("axis", 0), reduction=n.attr("reduction", "none"))


@converts("ScatterND")
def scatter_nd(n: OnnxNode) -> Value:
    return n.apply("scatter_nd", n[0], n[1], n[2], reduction=n.attr("reduction", "none"))


@converts("OneHot")
def one_hot(n: OnnxNode) -> Value:
    return n.apply("one_hot", n[0], n[2], depth=int(n.constant(1).reshape(-1)[0]), axis=n.attr("axis", -1))


@converts("TopK")
def top_k(n: OnnxNode) -> tuple[Value, ...]:
    k = n.required("k") if n.version < 10 else n.ints(1)[0]
    return n.all("top_k", n[0], k=k, axis=n.attr("axis", -1), largest=bool(n.attr("largest", 1)))


@converts("Compress")
def compress(n: OnnxNode) -> Value:
    axis, kept = n.attr("axis"), np.flatnonzero(n.constant(1))
    data = n[0] if axis is not None else n.apply("reshape", n[0], shape=(n[0].type.size,))
    return n.apply("gather", data, n.value(kept.astype(np.int64)), axis=axis or 0)
