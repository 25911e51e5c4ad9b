"""The warning for a model of which nothing runs on the accelerator."""

from vtakit.compiler.graph.vta.place import OTHERWISE, UNQUANTIZED
from vtakit.hw.isa.published import VTAKIT, Isa
from vtakit.runtime.target import Image
from vtakit.runtime.vta.part import VtaPart

QUANTIZE = "vtakit quantize MODEL --calibration SAMPLES.npz -o INT8.onnx"


def warning(image: Image, isa: Isa = VTAKIT) -> str:
    """Return one sentence if nothing runs on the accelerator, with what to do; "" otherwise."""
    if image.parts_of(VtaPart):
        return ""
    lead, reasons = f"nothing of the model {image.name!r} runs on the accelerator", {each.reason for each in image.left}
    if UNQUANTIZED in reasons:
        return (f"{lead}: the model computes in floating point and the accelerator in int8; quantize it first "
                f"({QUANTIZE}), then give INT8.onnx instead")
    if OTHERWISE in reasons:
        return (f"{lead}: the model is quantized otherwise than the accelerator computes, in 8 bits with zero points, a "
                f"layer being a product, a residual sum and an activation; quantize its float model ({QUANTIZE})")
    if isa.published:
        return (f"{lead}: with the instruction set {isa} it runs no convolution or matrix product of the model; quantize with "
                "--power-of-two, or add an ability that the device has, such as +mul")
    return f"{lead}: it has no convolution or matrix product in int8 that the accelerator can run"
