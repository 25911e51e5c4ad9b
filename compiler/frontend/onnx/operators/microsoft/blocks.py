"""Products of what onnxruntime's quantizers write: activations quantized when the model runs, weights in 8 or 4 bits.

A dynamic LSTM is read as that of the weights that its integers stand for: its activations stay in floats, which is nearer to the
model before quantization than onnxruntime's own result.
"""

from typing import Any

import numpy as np

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.frontend.onnx.operators.microsoft.quantized import DOMAIN
from vtakit.compiler.frontend.onnx.operators.recurrent import lstm
from vtakit.compiler.graph.ir import Array, Value

_MOST_BITS = 8


def _integers_to_float(n: OnnxNode, a: Value, b: Value, scale: Value, zeros: tuple[Value | None, Value | None],
                       bias: Value | None) -> Value:
    """``(a - a_zero) @ (b - b_zero) * scale + bias``."""
    whole = n.apply("matmul_integer", a, b, *zeros)
    y = n.apply("mul", n.apply("cast", whole, to=str(scale.type.dtype)), scale)
    return y if bias is None else n.apply("add", y, bias)


@converts("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_matmul(n: OnnxNode) -> Value:
    a, scale, zero = n.all("dynamic_quantize_linear", n[0])
    return _integers_to_float(n, a, n[1], n.apply("mul", scale, n[2]), (zero, n.maybe(3)), n.maybe(4))


@converts("MatMulIntegerToFloat", domain=DOMAIN)
def integers_to_float(n: OnnxNode) -> Value:
    scales = [n[2], n[3]]
    if n[2].type.size > 1:  # one for each row
        scales[0] = n.apply("reshape", n[2], shape=(n[2].type.size, 1))
    return _integers_to_float(n, n[0], n[1], n.apply("mul", *scales), (n.maybe(4), n.maybe(5)), n.maybe(6))


@converts("DynamicQuantizeLSTM", domain=DOMAIN)
def dynamic_lstm(n: OnnxNode) -> Any:
    """Weights are [directions, operands, 4 cells], a scale and a zero point for each direction or each of its columns."""
    def real(at: int, scale: int) -> Value:
        def shaped(number: int) -> Value:
            value = n[number]
            return n.apply("reshape", value, shape=(n.shape(at)[0], 1, value.type.size // n.shape(at)[0]))
        whole = n.apply("sub", n.apply("cast", n[at], to="int32"), n.apply("cast", shaped(scale + 1), to="int32"))
        found = n.apply("mul", n.apply("cast", whole, to="float32"), shaped(scale))
        return n.apply("transpose", found, perm=(0, 2, 1))
    n.inputs[1], n.inputs[2] = real(1, 8), real(2, 10)
    return lstm(n)


@converts("MatMulNBits", domain=DOMAIN)
def blocks_of_bits(n: OnnxNode) -> Value:
    """``A @ B.T + bias``, B [N, K] in 2, 4 or 8 bits with a scale for each block along K; known weights are unpacked at once."""
    n.reads("N", "K", "bits", "block_size", "accuracy_level", weight_prepacked=0)  # the level is what is enough
    rows, columns, bits, size = (int(n.required(word)) for word in ("N", "K", "bits", "block_size"))
    if n.has(4) or bits not in (2, 4, 8):
        raise n.unsupported("with g_idx" if n.has(4) else f"of {bits} bits")
    count = -(-columns // size)

    def unpacked(given: Array, per: int) -> Array:
        """Integers of a row of bytes, the first in the low bits."""
        lanes = np.arange(0, _MOST_BITS, bits, dtype=np.uint8)
        found: Array = (given.reshape(rows, -1)[..., None] >> lanes) & np.uint8((1 << bits) - 1)
        return found.reshape(rows, -1)[:, :per]
    whole = unpacked(n.constant(1).view(np.uint8), count * size)
    scale = n.constant(2).reshape(rows, count)
    if n.has(3):
        given = n.constant(3)
        zero = given.reshape(rows, count) if given.dtype.kind == "f" or given.dtype.name == "bfloat16" else unpacked(given, count)
    else:
        zero = np.full((rows, count), 1 << bits - 1, np.uint8)
    real = (whole.reshape(rows, count, size).astype(np.float32) - zero.astype(np.float32)[..., None]) * scale.astype(
        np.float32)[..., None]
    weights = np.ascontiguousarray(real.reshape(rows, count * size)[:, :columns].T)
    y = n.apply("matmul", n[0], n.value(weights.astype(scale.dtype), str(n.dtype(2))))
    return n.apply("add", y, n[5]) if n.has(5) else y
