"""Element types and quantized numbers."""

import numpy as np

from vtakit.compiler.frontend.tflite.nodes import TfliteNode, converts
from vtakit.compiler.ir.dtypes import FLOAT32


@converts("QUANTIZE", "DEQUANTIZE", "DENSIFY")
def quantize(n: TfliteNode) -> None:
    order = n.order(0)
    x = n.value(0, order)
    if n.op == "DEQUANTIZE" and x.type.dtype is not FLOAT32:  # weights in half precision
        x = n.apply("cast", x, to="float32")
    n.put(x, order=order)


@converts("FAKE_QUANT")
def fake_quant(n: TfliteNode) -> None:
    """x rounded to what integers of some bits can say. Source: TensorFlow Lite, kernels/fake_quant.cc."""
    o, order = n.options("FakeQuantOptions"), n.order(0)
    low, high, most = float(o.Min()), float(o.Max()), (1 << o.NumBits()) - 1
    if o.NarrowRange() or not (low <= 0 <= high and low < high and o.NumBits() <= 8):
        n.unsupported(f"of {o.NumBits()} bits from {low} to {high}{' in a narrow range' if o.NarrowRange() else ''}")
    scale = (high - low) / most
    zero = int(np.clip(np.rint(-low / scale), 0, most))
    words = n.build.constant(np.float32(scale), name="scale"), n.build.constant(np.uint8(zero), name="zero")
    q = n.apply("quantize_linear", n.value(0, order), *words, axis=0, dtype="uint8")
    if most < 255:
        q = n.apply("clip", q, n.build.constant(np.uint8(0)), n.build.constant(np.uint8(most)))
    n.put(n.apply("dequantize_linear", q, *words, axis=0), order=order)


@converts("CAST")
def cast(n: TfliteNode) -> None:
    kind, both = n.result().kind, n.complex(0)
    if kind is None:
        n.unsupported(f"to {n.result().type_name}")
    if both is not None:  # their real parts
        n.put_raw(n.apply("cast", both[0], to=str(kind)))
        return
    order = n.order(0)
    n.put_raw(n.apply("cast", n.raw(0, order), to=str(kind)), order=order)
