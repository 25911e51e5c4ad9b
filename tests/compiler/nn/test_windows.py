"""Pooling, resizing, sampling, recurrent layers and transforms, against NumPy and onnxruntime."""

from itertools import product

import numpy as np
import pytest
from nn_support import check, floats, integers, onnx_run, placeholders, run, run_group

from vtakit.compiler.nn.operators import find

WINDOWS = [
    {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
    {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": True},
    {"kernel_shape": (3, 2), "pads": (1, 0, 2, 1), "dilations": (2, 1)},
    {"kernel_shape": (5, 5), "strides": (3, 3), "pads": (2, 2, 2, 2), "ceil_mode": True},
]


@pytest.mark.parametrize("window", WINDOWS)
def test_pooling(window):
    x = floats(1, 3, 13, 11)
    given = placeholders((x,))
    words = {name: int(value) if isinstance(value, bool) else value for name, value in window.items()}
    made = [find("max_pool").define(*given, **window), *find("max_pool_with_indices").define(*given, **window),
            *[find("average_pool").define(*given, count_include_pad=count, **window) for count in (False, True)]]
    want = (onnx_run("MaxPool", x, **words), *onnx_run("MaxPool", x, outputs=2, **words),
            *[onnx_run("AveragePool", x, count_include_pad=count, **words) for count in (0, 1)])
    check(tuple(run_group([x], given, made)), want)


def test_pooling_in_other_dimensions_and_types():
    x = floats(2, 3, 20)
    check(run("max_pool", x, kernel_shape=(4,), strides=(3,)), onnx_run("MaxPool", x, kernel_shape=(4,), strides=(3,)))
    whole = integers(-100, 100, (1, 2, 6, 6), "int8")
    pads = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
    check(run("max_pool", whole, **pads), onnx_run("MaxPool", whole, **pads))
    for p in (1, 2, 3):
        check(run("lp_pool", x, kernel_shape=(3,), p=p), onnx_run("LpPool", x, kernel_shape=(3,), p=p))
    image = floats(2, 20, 7, 5)
    for name, op in (("global_average_pool", "GlobalAveragePool"), ("global_max_pool", "GlobalMaxPool")):
        check(run(name, image), onnx_run(op, image))
    check(run("global_lp_pool", image), onnx_run("GlobalLpPool", image))
    check(run("max_pool_with_indices", image, kernel_shape=(2, 2), storage_order=1),
          onnx_run("MaxPool", image, outputs=2, kernel_shape=(2, 2), storage_order=1))


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
def test_resize(coordinates):
    x = floats(1, 2, 5, 7)
    given = placeholders((x,))
    sizes = (1, 2, 8, 4)
    words = [{"mode": "linear"}, {"mode": "cubic"}, {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": True}]
    words += [{"mode": "nearest", "nearest_mode": kind} for kind in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")]
    made = [find("resize").define(*given, sizes=sizes, coordinates=coordinates, **word) for word in words]
    want = [onnx_run("Resize", x, None, None, np.array(sizes), coordinate_transformation_mode=coordinates, **{
        name: int(value) if isinstance(value, bool) else value for name, value in word.items()}) for word in words]
    check(tuple(run_group([x], given, made)), tuple(want), atol=1e-5)


def test_resize_by_scales_and_of_a_part():
    x = floats(1, 2, 5, 7)
    scales = np.array([1, 1, 1.7, 0.6], np.float32)
    want = onnx_run("Resize", x, None, scales, mode="linear")
    check(run("resize", x, sizes=want.shape, scales=scales.tolist(), mode="linear"), want)
    roi = np.array([0, 0, 0.2, 0.3, 1, 1, 1.4, 0.8], np.float32)
    words = {"mode": "linear", "extrapolation_value": 9.0}
    want = onnx_run("Resize", x, roi, None, np.array([1, 2, 4, 4]), coordinate_transformation_mode="tf_crop_and_resize", **words)
    check(run("resize", x, sizes=(1, 2, 4, 4), roi=roi.tolist(), coordinates="tf_crop_and_resize", **words), want)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample(mode):
    x, grid = floats(2, 3, 5, 6), floats(2, 4, 4, 2, seed=1) * np.float32(1.2)
    given = placeholders((x, grid))
    words = [{"mode": mode, "padding_mode": padding, "align_corners": align} for padding, align in
             product(("zeros", "border", "reflection"), (False, True) if mode == "linear" else (False,))]
    made = [find("grid_sample").define(*given, **word) for word in words]
    want = tuple(onnx_run("GridSample", x, grid, **{**word, "align_corners": int(word["align_corners"])}) for word in words)
    check(tuple(run_group([x, grid], given, made)), want, atol=1e-4)


def test_affine_grid():
    theta = floats(2, 2, 3)
    for align in (False, True):
        want = onnx_run("AffineGrid", theta, np.array([2, 3, 4, 5]), align_corners=int(align))
        check(run("affine_grid", theta, size=(2, 3, 4, 5), align_corners=align), want)


def test_fourier_transforms():
    signal = floats(2, 9, 2)
    turned = signal[..., 0] + 1j * signal[..., 1]
    for inverse in (False, True):
        want = (np.fft.ifft if inverse else np.fft.fft)(turned, axis=1)
        check(run("dft", signal, axis=1, inverse=inverse), np.stack([want.real, want.imag], -1).astype(np.float32))
    want = np.fft.rfft(signal[..., 0], 12, axis=1)
    got = run("dft", signal[..., :1].copy(), axis=1, length=12, onesided=True)
    check(got, np.stack([want.real, want.imag], -1).astype(np.float32))
    for length in (12, 11):
        want = np.fft.irfft(got[..., 0] + 1j * got[..., 1], length, axis=1)[..., None].astype(np.float32)
        check(run("dft", got, axis=1, length=length, inverse=True, onesided=True), want)


def recurrent(gates: int, directions: int, more: int = 0) -> list:
    """Operands of a layer of 5 steps, 2 sequences, 4 inputs and 19 units, as ONNX orders them."""
    units = 19
    width = gates * units
    parts = [floats(5, 2, 4), floats(directions, width, 4, seed=1) / 2, floats(directions, width, units, seed=2) / 4,
             floats(directions, 2 * width, seed=3), None, floats(directions, 2, units, seed=4)]
    return parts + [floats(directions, 2, units, seed=5), floats(directions, 3 * units, seed=6)][:more]


@pytest.mark.parametrize(("op", "gates", "more", "direction", "words"), [
    ("LSTM", 4, 0, "forward", {}), ("LSTM", 4, 2, "bidirectional", {}), ("LSTM", 4, 1, "reverse", {"clip": 0.5}),
    ("LSTM", 4, 0, "forward", {"input_forget": 1}), ("GRU", 3, 0, "forward", {}),
    ("GRU", 3, 0, "bidirectional", {"linear_before_reset": 1}), ("RNN", 1, 0, "reverse", {}),
    ("RNN", 1, 0, "forward", {"activations": ["Relu"]}),
])
def test_recurrent_layers(op, gates, more, direction, words):
    operands = recurrent(gates, 2 if direction == "bidirectional" else 1, more)
    want = onnx_run(op, *operands, outputs=3 if op == "LSTM" else 2, opset=17, hidden_size=19, direction=direction, **words)
    given = [*operands[:4], *operands[5:]]  # without the lengths of sequences
    check(run(op.lower(), *given, direction=direction, **words), want, atol=1e-5)


def test_a_layer_without_bias_or_state():
    x, w, r, *_ = recurrent(3, 1)
    check(run("gru", x, w, r), onnx_run("GRU", x, w, r, outputs=2, opset=17, hidden_size=19), atol=1e-5)
