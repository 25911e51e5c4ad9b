"""Quantized numbers: the operators `torch.ops.quantized_decomposed` that PT2E writes, and fake quantization.

PyTorch multiplies by the reciprocal of a scale where ONNX divides by it; results in the middle between two integers may differ.
"""

import numpy as np

from vtakit.compiler.frontend.torch.nodes import AtenNode, converts
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Value
from vtakit.compiler.ir.dtypes import FLOAT32, DType, dtype

_SPACE = "quantized_decomposed"
_KINDS = tuple(dtype(name) for name in ("int8", "uint8", "int16", "uint16"))


def _parameter(n: AtenNode, name: str, kind: DType) -> Value | None:
    """A scale, or zero points, as a value of a type: constants stay constants. None for a zero point that is not given."""
    given = n[name]
    if given is None:
        return None
    known = n.build.constants.get(given) if isinstance(given, Value) else np.asarray(given)
    if known is None:
        return n.cast(given, kind)
    if kind.is_int and known.size and not kind.min <= known.min() <= known.max() <= kind.max:
        n.unsupported(f"with a zero point of {kind} from {known.min()} to {known.max()}")
    return n.build.constant(known.astype(numpy_dtype(kind)), name=f"{n.name}.{name}")


def _quantized(n: AtenNode, x: Value, kind: DType, scale: str, zero: str, axis: int) -> Value:
    """x as integers of a type from `quant_min` to `quant_max`."""
    if kind not in _KINDS:
        n.unsupported(f"to {kind}")
    y = n.apply("quantize_linear", n.cast(x, FLOAT32), _parameter(n, scale, FLOAT32), _parameter(n, zero, kind), axis=axis,
                dtype=str(kind))
    low, high = n["quant_min"], n["quant_max"]
    return y if (low, high) == (kind.min, kind.max) else n.apply("clip", y, n.like(low, y), n.like(high, y))


def _dequantized(n: AtenNode, q: Value, scale: str, zero: str, axis: int) -> Value:
    return n.apply("dequantize_linear", q, _parameter(n, scale, FLOAT32), _parameter(n, zero, q.type.dtype), axis=axis)


@converts(f"{_SPACE}.quantize_per_tensor.default", f"{_SPACE}.quantize_per_tensor.tensor")
def quantize_per_tensor(n: AtenNode) -> Value:
    return _quantized(n, n.value("input"), n.type.dtype, "scale", "zero_point", 0)


@converts(f"{_SPACE}.dequantize_per_tensor.default", f"{_SPACE}.dequantize_per_tensor.tensor")
def dequantize_per_tensor(n: AtenNode) -> Value:
    return n.cast(_dequantized(n, n.value("input"), "scale", "zero_point", 0), n.type.dtype)


@converts(f"{_SPACE}.quantize_per_channel.default")
def quantize_per_channel(n: AtenNode) -> Value:
    return _quantized(n, n.value("input"), n.type.dtype, "scales", "zero_points", n["axis"])


@converts(f"{_SPACE}.dequantize_per_channel.default")
def dequantize_per_channel(n: AtenNode) -> Value:
    return n.cast(_dequantized(n, n.value("input"), "scales", "zero_points", n["axis"]), n.type.dtype)


def _bits(n: AtenNode) -> DType:
    """The integer type that holds the numbers of a fake quantization."""
    for kind in _KINDS:
        if kind.min <= n["quant_min"] and n["quant_max"] <= kind.max:
            return kind
    n.unsupported(f"to integers from {n['quant_min']} to {n['quant_max']}")


def _fake(n: AtenNode, axis: int) -> Value:
    """x rounded to what integers can say, in floating point."""
    q = _quantized(n, n.value("self"), _bits(n), "scale", "zero_point", axis)
    return n.cast(_dequantized(n, q, "scale", "zero_point", axis), n.type.dtype)


@converts("fake_quantize_per_tensor_affine.default", "fake_quantize_per_tensor_affine.tensor_qparams")
def fake_quantize_per_tensor(n: AtenNode) -> Value:
    return _fake(n, 0)


@converts("fake_quantize_per_channel_affine.default")
def fake_quantize_per_channel(n: AtenNode) -> Value:
    return _fake(n, n["axis"])
