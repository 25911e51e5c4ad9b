"""Operators of the domain ai.onnx.ml on numbers: what scikit-learn's and gradient boosting's converters write.

Strings are not read.
"""

from typing import Any

import numpy as np

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Array, Value

DOMAIN = "ai.onnx.ml"


def _listed(n: OnnxNode, what: str) -> tuple[Array, str]:
    """Keys or values of a LabelEncoder, and the kind of their default."""
    for word, kind in (("int64s", "int64"), ("floats", "float")):
        if n.attr(f"{what}_{word}") is not None:
            return np.asarray(n.attr(f"{what}_{word}"), np.int64 if kind == "int64" else np.float32), kind
    found = n.attr(f"{what}_tensor")
    if found is None or found.dtype.kind not in "iuf":
        raise n.unsupported("of strings")
    return found.reshape(-1), "tensor"


@converts("LabelEncoder", domain=DOMAIN)
def label_encoder(n: OnnxNode) -> Value:
    keys, _ = _listed(n, "keys")
    values, kind = _listed(n, "values")
    other: Any = n.attr(f"default_{kind}", {"int64": -1, "float": -0.0, "tensor": None}[kind])
    if other is None:
        other = -1 if values.dtype.kind == "i" else -0.0
    default = np.asarray(other).reshape(-1)[0].astype(values.dtype)
    if n.attr("keys_floats") is not None and n.dtype(0).bits == 64:
        keys = keys.astype(numpy_dtype(n.dtype(0)))
    return n.apply("label_encode", n[0], n.value(keys), n.value(values), n.value(default))


@converts("Binarizer", domain=DOMAIN)
def binarizer(n: OnnxNode) -> Value:
    above = n.apply("greater", n[0], n.like(n.attr("threshold", 0.0), n[0]))
    return n.apply("cast", above, to=str(n.dtype(0)))


@converts("ArrayFeatureExtractor", domain=DOMAIN)
def feature_extractor(n: OnnxNode) -> Value:
    y = n.apply("gather", n[0], n.apply("reshape", n[1], shape=(n[1].type.size,)), axis=n.ndim(0) - 1)
    return y if n.ndim(0) > 1 else n.apply("reshape", y, shape=(1, y.type.size))


@converts("Scaler", domain=DOMAIN)
def scaler(n: OnnxNode) -> Value:
    x = n[0] if n.dtype(0).is_float and n.dtype(0).bits == 32 else n.apply("cast", n[0], to="float32")
    offset, scale = (np.asarray(n.attr(word, default), np.float32) for word, default in (("offset", (0.0,)), ("scale", (1.0,))))
    return n.apply("mul", n.apply("sub", x, n.value(offset)), n.value(scale))


@converts("Normalizer", domain=DOMAIN)
def normalizer(n: OnnxNode) -> Value:
    x = n[0] if n.dtype(0).is_float and n.dtype(0).bits == 32 else n.apply("cast", n[0], to="float32")
    op = {"MAX": "reduce_max", "L1": "reduce_l1", "L2": "reduce_l2"}[n.attr("norm", "MAX")]
    size = n.apply(op, x, axes=(n.ndim(0) - 1,), keepdims=True)
    return n.apply("div", x, n.apply("where", n.apply("equal", size, n.like(0, size)), n.like(1, size), size))
