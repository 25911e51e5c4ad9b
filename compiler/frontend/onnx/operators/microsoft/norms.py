"""Normalization with the sum before it, and the embeddings of BERT."""

from typing import Any

import numpy as np

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.frontend.onnx.operators.microsoft.quantized import DOMAIN
from vtakit.compiler.frontend.onnx.operators.normalize import layer_norm
from vtakit.compiler.graph.ir import Value

_EPSILON = 1e-12  # onnxruntime's default of these operators

converts("LayerNormalization", domain=DOMAIN)(layer_norm)  # as onnxruntime calls ONNX's own in models of opset 7 to 16


@converts("SimplifiedLayerNormalization", domain=DOMAIN)
def simplified(n: OnnxNode) -> Any:
    """RMS normalization; its second result, 1 / deviation, is not read."""
    _only(n, 1)
    n.reads("axis", "epsilon", stash_type=1)
    return n.apply("rms_norm", n[0], n[1], axis=n.attr("axis", -1), epsilon=n.attr("epsilon", 1e-5))


def _only(n: OnnxNode, *kept: int) -> None:
    """Raise Unsupported if a node is asked for other results than its first and those of some numbers."""
    asked = [at for at, name in enumerate(n.outputs) if name and at and at not in kept]
    if asked:
        raise n.unsupported(f"with its result {asked[0]}")


@converts("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip(n: OnnxNode) -> list[Value | None]:
    """The layer norm, or RMS norm, of a sum of two values and a bias; the sum is the fourth result."""
    _only(n, 3)
    n.reads("epsilon")
    simple = n.op.startswith("SkipSimplified")
    beta, bias = (None, n.maybe(3)) if simple else (n.maybe(3), n.maybe(4))
    both = n.apply("add", n[0], n[1])
    if bias is not None:
        both = n.apply("add", both, bias)
    epsilon = n.attr("epsilon", _EPSILON)
    if simple:
        y = n.apply("rms_norm", both, n[2], axis=-1, epsilon=epsilon)
    else:
        y = n.all("layer_norm", both, n[2], beta, axis=-1, epsilon=epsilon)[0]
    return [y, None, None, both]


@converts("EmbedLayerNormalization", domain=DOMAIN)
def embedding(n: OnnxNode) -> list[Value | None]:
    """Rows of tables of words, places and kinds, added and normalized; then how many tokens a mask has, and the sum."""
    n.reads("epsilon", mask_index_type=(0, 1))
    batch, length = n.shape(0)
    total = n.apply("gather", n[2], n[0], axis=0)
    places = n[8] if n.has(8) else n.value(np.arange(length, dtype=np.int32).reshape(1, length))
    total = n.apply("add", total, n.apply("gather", n[3], places, axis=0))
    if n.has(4):
        kinds = n[1] if n.has(1) else n.value(np.zeros((1, length), np.int32))
        total = n.apply("add", total, n.apply("gather", n[4], kinds, axis=0))
    y = n.all("layer_norm", total, n[5], n[6], axis=-1, epsilon=n.attr("epsilon", _EPSILON))[0]
    if n.has(7) and n.attr("mask_index_type", 1):
        count = n.apply("reduce_sum", n.apply("cast", n[7], to="int32"), axes=(1,), keepdims=False)
    else:
        count = n.value(np.zeros(batch, np.int32))
    return [y, count, total]
