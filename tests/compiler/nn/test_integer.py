"""The operators of networks in integers, against NumPy and against what the device's requantization is defined as."""

import numpy as np
import pytest
from nn_support import integers, placeholders, rng, run, run_group

from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.operators import OperatorError, find
from vtakit.compiler.nn.vta.requantize import Requantize
from vtakit.hw.isa.config import DEFAULT

TARGET = Target(DEFAULT)
INT32 = np.iinfo(np.int32)
SHAPES = [(2, 5, 3, 7), (1, 16, 1, 1), (3, 9), (1, 33, 20)]


def accumulators(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Small and large numbers, and both ends of the type."""
    small = integers(-300, 300, shape, seed=seed)
    large = integers(INT32.min, INT32.max, shape, seed=seed + 1)
    found = np.where(rng(seed).random(shape) < 0.5, small, large).astype(np.int32)
    found.reshape(-1)[:4] = [INT32.min, INT32.max, 0, -1]
    return found


def numbers(channels: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Biases, multipliers and shifts, extremes among them."""
    bias, multiplier = integers(-(1 << 30), 1 << 30, (channels,), seed=seed), integers(0, 1 << 16, (channels,), seed=seed)
    shift = integers(0, 64, (channels,), seed=seed + 1)
    bias[:3], multiplier[:4], shift[:5] = [INT32.min, INT32.max, 0], [0, 65535, 1, 65535], [0, 1, 63, 62, 31]
    return bias, multiplier, shift


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("bounds", [{}, {"low": 0}, {"low": -3, "high": 77, "zero_point": 5}, {"zero_point": -128}], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_requantize_is_the_requantization_of_the_device(shape, bounds, seed):
    x, (bias, multiplier, shift) = accumulators(shape, seed), numbers(shape[1], seed)
    defined = Requantize(target=TARGET, channels=shape[1], bias=bias, multiplier=multiplier, shift=shift, **bounds)
    got = run("requantize", x, bias, multiplier, shift, **bounds)
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got, defined.reference(x))


def test_requantize_rounds_what_lies_in_the_middle_up():
    x = np.arange(-6, 7, dtype=np.int32).reshape(1, 1, 13)
    one = np.ones(1, np.int32)
    got = run("requantize", x, 0 * one, one, one, how="interpreter")
    np.testing.assert_array_equal(got.reshape(-1), np.floor(x.reshape(-1) / 2 + 0.5))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_residual_is_added_channel_by_channel(shape):
    acc = integers(-(1 << 20), 1 << 20, shape)
    skip, other = integers(-128, 128, shape, "int8"), integers(-128, 128, shape, "int8", seed=1)
    scale, second = integers(0, 1 << 20, shape[1:2]), integers(-3000, 3000, shape[1:2], seed=1)

    def each(vector):
        return vector.reshape(-1, *[1] * (len(shape) - 2)).astype(np.int64)
    np.testing.assert_array_equal(run("scaled_add", acc, skip, scale), acc + skip * each(scale))
    np.testing.assert_array_equal(run("scaled_sum", skip, other, scale, second), skip * each(scale) + other * each(second))


@pytest.mark.parametrize(("kernel", "strides", "pads"), [
    ((3, 3), (2, 2), (1, 1, 1, 1)), ((2, 4), (1, 3), (0, 1, 1, 2)), ((11, 13), None, None), ((1, 1), None, None),
    ((1, 1), (2, 2), None),
])
def test_sums_of_windows(kernel, strides, pads):
    x = integers(-128, 128, (2, 3, 11, 13), "int8")
    x[0] = -128
    front = pads or (0, 0, 0, 0)
    wide = np.pad(x.astype(np.int32), ((0, 0), (0, 0), (front[0], front[2]), (front[1], front[3])))
    windows = np.lib.stride_tricks.sliding_window_view(wide, kernel, axis=(2, 3))
    down, across = strides or (1, 1)
    want = windows[:, :, ::down, ::across].sum((-2, -1))
    np.testing.assert_array_equal(run("sum_pool", x, kernel_shape=kernel, strides=strides, pads=pads), want)


@pytest.mark.parametrize(("attributes", "weight"), [
    ({"strides": (2, 2), "pads": (1, 1, 1, 1)}, (4, 3, 4, 4)), ({}, (4, 3, 3, 2)),
    ({"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)}, (4, 3, 3, 3)),
])
def test_transposed_convolutions_in_integers(attributes, weight):
    """Every product placed by hand: out[m, y * stride + k - pad] += x[c, y] * w[c, m, k]."""
    x, w = integers(-128, 128, (1, 4, 5, 6), "int8"), integers(-128, 128, weight, "int8", seed=1)
    got = run("conv_transpose_integer", x, w, **attributes)
    step, pad = attributes.get("strides", (1, 1)), attributes.get("pads", (0, 0, 0, 0))
    want = np.zeros((3, 64, 64), np.int64)
    for c, y, z in np.ndindex(4, 5, 6):
        top, left = y * step[0] + 8 - pad[0], z * step[1] + 8 - pad[1]
        want[:, top:top + weight[2], left:left + weight[3]] += x[0, c, y, z] * w[c].astype(np.int64)
    np.testing.assert_array_equal(got[0], want[:, 8:8 + got.shape[2], 8:8 + got.shape[3]])


@pytest.mark.parametrize("how", ["default", "interpreter"])
def test_a_whole_layer_is_one_group(how):
    """A convolution, a residual and their requantization, computed in tiles of the convolution."""
    x, w = integers(-128, 128, (1, 4, 6, 9), "int8"), integers(-128, 128, (5, 4, 3, 3), "int8", seed=1)
    skip, scale = integers(-128, 128, (1, 5, 6, 9), "int8", seed=2), integers(1, 900, (5,))
    bias, multiplier, shift = integers(-9999, 9999, (5,)), integers(20000, 65536, (5,)), integers(22, 26, (5,))
    tensors = placeholders((x, w, skip, scale, bias, multiplier, shift))
    sums = find("conv_integer").define(tensors[0], tensors[1], pads=(1, 1, 1, 1))
    made = find("requantize").define(find("scaled_add").define(sums, *tensors[2:4]), *tensors[4:], low=0)
    (got,) = run_group([x, w, skip, scale, bias, multiplier, shift], tensors, [made], how)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    acc = np.einsum("nchwij,mcij->nmhw", windows.astype(np.int64), w) + skip * scale.reshape(-1, 1, 1).astype(np.int64)
    layer = Requantize(target=TARGET, channels=5, bias=bias, multiplier=multiplier, shift=shift, low=0)
    np.testing.assert_array_equal(got, layer.reference(acc))


@pytest.mark.parametrize(("name", "operands", "attributes", "message"), [
    ("requantize", [(2, 3, "int8"), (3, "int32"), (3, "int32"), (3, "int32")], {},
     "requantize: accumulators: the type is int32, got int8"),
    ("requantize", [(2, 3, "int32"), (3, "int32"), (2, "int32"), (3, "int32")], {},
     "requantize: (2,) numbers for the 3 channels of (2, 3)"),
    ("requantize", [(2, 3, "int32"), (3, "int32"), (3, "int64"), (3, "int32")], {},
     "requantize: what each channel has of its own: the type is int32, got int64"),
    ("requantize", [(2, 3, "int32"), (3, "int32"), (3, "int32"), (3, "int32")], {"low": 5, "high": 4},
     "requantize: a clip from 5 to 4: give bounds from -128 to 127, the lower first"),
    ("requantize", [(3, "int32"), (3, "int32"), (3, "int32"), (3, "int32")], {},
     "requantize takes data [N, C, D...], got shape (3,)"),
    ("scaled_add", [(2, 3, "int32"), (2, 1, "int8"), (3, "int32")], {}, "scaled_add: shapes (2, 3) and (2, 1) differ"),
    ("scaled_sum", [(2, 3, "uint8"), (2, 3, "int8"), (3, "int32"), (3, "int32")], {}, "scaled_sum: the type is int8, got uint8"),
    ("sum_pool", [(2, 3, 4, "float32")], {"kernel_shape": (2,)}, "sum_pool: the type is int8, got float32"),
    ("conv_transpose_integer", [(1, 2, 4, 4, "int8"), (2, 2, 3, 3, "uint8")], {},
     "conv_transpose_integer: the type is int8, got uint8"),
])
def test_operands_that_do_not_fit(name, operands, attributes, message):
    tensors = placeholders(tuple([np.zeros(shape, kind) for *shape, kind in operands]))
    with pytest.raises(OperatorError) as raised:
        find(name).define(*tensors, **attributes)
    assert str(raised.value) == message
