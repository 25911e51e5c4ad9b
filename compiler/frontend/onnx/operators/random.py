"""Random numbers, the same on each run: those of a seed, or, where a node has none, of its name.

See `vtakit.compiler.nn.numbers.random`.
"""

import zlib

import numpy as np

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value
from vtakit.compiler.ir.dtypes import DType, dtype


def seed_of(n: OnnxNode) -> int:
    """The bits of the seed as a float32; of a node without one, the checksum of its name, in the upper half of 64 bits."""
    given = n.attr("seed")
    return zlib.crc32(n.name.encode()) << 32 if given is None else int(np.float32(given).view(np.uint32))


def _drawn(n: OnnxNode, shape: tuple[int, ...], kind: DType) -> Value:
    if "Uniform" in n.op:
        return n.apply("random_uniform", shape=shape, dtype=str(kind), low=n.attr("low", 0.0), high=n.attr("high", 1.0),
                       seed=seed_of(n))
    return n.apply("random_normal", shape=shape, dtype=str(kind), mean=n.attr("mean", 0.0), scale=n.attr("scale", 1.0),
                   seed=seed_of(n))


@converts("RandomNormal", "RandomUniform")
def drawn(n: OnnxNode) -> Value:
    return _drawn(n, tuple(n.required("shape")), n.kind("dtype", dtype("float32")))


@converts("RandomNormalLike", "RandomUniformLike")
def drawn_like(n: OnnxNode) -> Value:
    return _drawn(n, n.shape(0), n.kind("dtype", n.dtype(0)))


@converts("Bernoulli")
def bernoulli(n: OnnxNode) -> Value:
    """1 as often as an element says, else 0; the function that ONNX gives it has 1 where it should be 0."""
    kind = n.kind("dtype", n.dtype(0))
    wide = n[0] if n.dtype(0).bits >= 32 else n.apply("cast", n[0], to="float32")  # a narrow type has few numbers near 1
    uniform = n.apply("random_uniform", shape=n.shape(0), dtype=str(wide.type.dtype), seed=seed_of(n))
    return n.apply("cast", n.apply("less", uniform, wide), to=str(kind))


@converts("Multinomial")
def multinomial(n: OnnxNode) -> Value:
    """Classes [B, samples] of unnormalized log-probabilities [B, C].

    A class is the place of a uniform number in the running sum of probabilities.
    """
    kind = n.kind("dtype", dtype("int32"))
    batch, classes = n.shape(0)
    count = int(n.attr("sample_size", 1))
    total = n.apply("cumsum", n.apply("softmax", n.apply("cast", n[0], to="float32"), axis=-1), axis=1)
    uniform = n.apply("random_uniform", shape=(batch, count, 1), dtype="float32", seed=seed_of(n))
    beyond = n.apply("greater_or_equal", uniform, n.apply("reshape", total, shape=(batch, 1, classes)))
    found = n.apply("reduce_sum", n.apply("cast", beyond, to="int32"), axes=(2,), keepdims=False)
    found = n.apply("min", found, n.like(classes - 1, found))  # the sum of probabilities may be less than 1
    return found if kind is found.type.dtype else n.apply("cast", found, to=str(kind))
