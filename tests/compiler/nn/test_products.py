"""Products of matrices and convolutions, of any shape and as quantized numbers, against NumPy and onnxruntime."""

import numpy as np
import pytest
from nn_support import check, floats, integers, onnx_run, run


@pytest.mark.parametrize(("a", "b"), [
    ((70, 90), (90, 130)), ((1, 64), (64, 100)), ((3, 1, 17, 33), (5, 33, 19)), ((9,), (9,)), ((9,), (4, 9, 5)),
    ((2, 6, 9), (9,)), ((12, 40, 16), (12, 16, 40)), ((4, 0), (0, 5)), ((37, 211), (211, 97)),
])
def test_matmul(a, b):
    x, y = floats(*a), floats(*b, seed=1)
    check(run("matmul", x, y), np.asarray(x @ y), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("m", "trans_a", "trans_b"), [(1, False, True), (40, False, True), (50, True, False), (3, True, True)])
def test_gemm(m, trans_a, trans_b):
    a, b = floats(m, 64), floats(64, 70, seed=1)
    given = a.T.copy() if trans_a else a, b.T.copy() if trans_b else b
    for c in (None, floats(70, seed=2), floats(m, 1, seed=2)):
        want = 0.5 * a @ b + (0 if c is None else 2 * c)
        got = run("gemm", *given, c, alpha=0.5, beta=2.0, trans_a=trans_a, trans_b=trans_b)
        check(got, np.asarray(want, np.float32), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["float16", "float64", "int32"])
def test_products_of_other_types(kind):
    x, y = (integers(-5, 5, shape, "int32", seed).astype(kind) for seed, shape in enumerate([(20, 30), (30, 40)]))
    check(run("matmul", x, y), x @ y)


CONVOLUTIONS = [  # data, weights, attributes
    ((1, 3, 37, 35), (16, 3, 7, 7), {"strides": (2, 2), "pads": (3, 3, 3, 3)}),
    ((1, 16, 14, 14), (24, 16, 3, 3), {"pads": (1, 1, 1, 1)}),
    ((1, 32, 7, 7), (40, 32, 1, 1), {}),
    ((1, 20, 32, 32), (36, 20, 1, 1), {}),
    ((1, 8, 15, 15), (12, 8, 1, 1), {"strides": (2, 2)}),
    ((3, 5, 9, 11), (7, 5, 3, 2), {"pads": (0, 1, 2, 3), "dilations": (2, 1)}),
    ((2, 12, 13, 13), (8, 3, 3, 3), {"groups": 4, "pads": (1, 1, 1, 1)}),
    ((1, 8, 28, 28), (32, 4, 3, 3), {"groups": 2}),
    ((1, 6, 29, 31), (12, 1, 3, 3), {"groups": 6, "pads": (1, 1, 1, 1)}),
    ((2, 5, 23, 17), (5, 1, 5, 5), {"groups": 5, "pads": (2, 2, 2, 2), "strides": (2, 2)}),
    ((1, 4, 50), (6, 4, 5), {"pads": (2, 2), "strides": (3,)}),
    ((1, 3, 6, 7, 8), (4, 3, 3, 3, 3), {"pads": (1, 0, 1, 1, 0, 1)}),
    ((1, 4, 3, 3), (2, 4, 3, 3), {}),
]


@pytest.mark.parametrize(("data", "weights", "attributes"), CONVOLUTIONS)
def test_conv(data, weights, attributes):
    x, w = floats(*data), floats(*weights, seed=1)
    words = {"group" if name == "groups" else name: value for name, value in attributes.items()}
    check(run("conv", x, w, **attributes), onnx_run("Conv", x, w, **words), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("data", "weights", "attributes", "output_padding"), [
    ((1, 8, 7, 9), (8, 6, 3, 3), {"strides": (2, 2), "pads": (1, 1, 1, 1)}, (1, 1)),
    ((2, 8, 5, 5), (8, 3, 4, 4), {"strides": (2, 2), "pads": (1, 1, 0, 1), "groups": 2}, None),
    ((1, 4, 6), (4, 5, 3), {"dilations": (2,)}, None),
    ((1, 3, 4, 4), (3, 2, 2, 2), {"strides": (3, 3)}, (2, 1)),
])
def test_conv_transpose(data, weights, attributes, output_padding):
    x, w = floats(*data), floats(*weights, seed=1)
    more = {"output_padding": output_padding} if output_padding else {}
    words = {"group" if name == "groups" else name: value for name, value in (attributes | more).items()}
    check(run("conv_transpose", x, w, **attributes, **more), onnx_run("ConvTranspose", x, w, **words), rtol=1e-4, atol=1e-4)


def test_columns_back_into_images():
    x, sizes = floats(1, 12, 16), {"strides": (1, 1), "pads": (0, 0, 0, 0)}
    got = run("col2im", x, image_shape=(5, 5), block_shape=(2, 2), **sizes)
    check(got, onnx_run("Col2Im", x, np.array([5, 5]), np.array([2, 2]), **sizes))


def quantized(*shape: int, kind: str = "uint8", seed: int = 0) -> np.ndarray:
    limits = np.iinfo(kind)
    return integers(limits.min, limits.max, shape, kind, seed)


def test_products_of_quantized_numbers():
    a, b = quantized(9, 20), quantized(20, 11, kind="int8", seed=1)
    zeros = np.array(7, "uint8"), integers(-9, 9, (11,), "int8")
    check(run("matmul_integer", a, b, *zeros), onnx_run("MatMulInteger", a, b, *zeros))
    scales = [np.array(number, np.float32) for number in (0.02, 0.03, 1.7)]
    zero = np.array(11, "uint8")
    weights = quantized(20, 11, seed=2)
    given = a, scales[0], zeros[0], weights, scales[1], np.array(100, "uint8"), scales[2], zero
    check(run("qlinear_matmul", *given), onnx_run("QLinearMatMul", *given))


def test_convolutions_of_quantized_numbers():
    x, w = quantized(1, 4, 9, 9), quantized(6, 4, 3, 3, seed=1)
    pads = {"pads": (1, 1, 1, 1)}
    three = np.array(3, "uint8")
    check(run("conv_integer", x, w, three, None, **pads), onnx_run("ConvInteger", x, w, three, **pads))
    kernel, bias = quantized(6, 4, 3, 3, kind="int8", seed=1), integers(-500, 500, (6,), "int32")
    scales = np.array(0.02, np.float32), np.abs(floats(6)) / 10 + np.float32(0.01), np.array(0.9, np.float32)
    zeros = np.array(3, "uint8"), np.zeros(6, "int8"), np.array(9, "uint8")
    given = x, scales[0], zeros[0], kernel, scales[1], zeros[1], scales[2], zeros[2], bias
    got, want = run("qlinear_conv", *given, **pads), onnx_run("QLinearConv", *given, **pads)
    # Both round x * (s / t); onnxruntime multiplies the scales in another order, so a half may fall to the other side.
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
    assert (got != want).mean() < 0.01


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16"])
def test_quantize_and_back(kind):
    x, scale, zero = floats(3, 5, 4) * 20, np.array(0.25, np.float32), np.array(3, kind)
    whole = run("quantize_linear", x, scale, zero)
    check(whole, onnx_run("QuantizeLinear", x, scale, zero, opset=21))
    check(run("dequantize_linear", whole, scale, zero), onnx_run("DequantizeLinear", whole, scale, zero, opset=21))


def test_quantize_by_axis_and_by_block():
    x, steps, zeros = floats(3, 6, 4) * 5, np.abs(floats(6)) + np.float32(0.1), integers(-5, 5, (6,), "int8")
    check(run("quantize_linear", x, steps, zeros, axis=1), onnx_run("QuantizeLinear", x, steps, zeros, axis=1, opset=21))
    blocks = np.abs(floats(3, 3, 4)) + np.float32(0.1)
    words = {"axis": 1, "block_size": 2}
    check(run("quantize_linear", x, blocks, **words), onnx_run("QuantizeLinear", x, blocks, opset=21, **words))
    half = np.array([0.5, 1.5, 2.5, -0.5, 1e9, -1e9], np.float32)
    np.testing.assert_array_equal(run("quantize_linear", half, np.array(1, np.float32), dtype="int8"), [0, 2, 2, 0, 127, -128])
    check(run("dynamic_quantize_linear", x), onnx_run("DynamicQuantizeLinear", x, outputs=3))


def test_the_scale_of_zeros_alone_is_one():
    x = np.zeros(5, "f4")
    check(run("dynamic_quantize_linear", x), onnx_run("DynamicQuantizeLinear", x, outputs=3))
