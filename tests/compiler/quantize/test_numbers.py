"""Ranges, weights and corrections as plain numbers."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from model_support import model
from onnx import helper

from vtakit.compiler.nn.numbers.fixed import fixed_point
from vtakit.compiler.quantize.correction import mean_error
from vtakit.compiler.quantize.factors import PARTS, held, short
from vtakit.compiler.quantize.ranges import BINS, METHODS, Histogram
from vtakit.compiler.quantize.weights import fits_residual, quantized_weights

RNG = np.random.default_rng(0)


def histogram(*parts: np.ndarray) -> Histogram:
    found = Histogram()
    for part in parts:
        found.add(part)
    return found


def rounded(values: np.ndarray, limit: float) -> np.ndarray:
    return np.clip(np.rint(values / (limit / 127)), -127, 127) * (limit / 127)


def test_a_histogram_counts_every_number_whatever_comes_first():
    values = RNG.standard_normal(20000).astype(np.float32)
    order = np.argsort(np.abs(values))
    found = histogram(*np.array_split(values[order], 13))  # each part beyond the range of all before
    assert found.counts.sum() == values.size
    assert found.most == np.abs(values).max()
    assert found.most <= found.width * BINS
    below = np.cumsum(found.counts)[BINS // 8 - 1]
    assert below == np.sum(np.abs(values) < found.width * (BINS // 8))


def test_ranges_of_what_has_outliers():
    values = np.concatenate([RNG.standard_normal(1_000_000), [50.0, -60.0]]).astype(np.float32)
    limits = {name: choose(histogram(values)) for name, choose in METHODS.items()}
    assert limits["max"] == 60
    assert 4 < limits["percentile"] < 6
    errors = {name: np.mean((rounded(values, limit) - values) ** 2) for name, limit in limits.items()}
    assert errors["mse"] == min(errors.values())
    assert limits["entropy"] < 30


@pytest.mark.parametrize("count", [1000, 30_000, 1_000_000])
@pytest.mark.parametrize("share", [0.0, 0.7], ids=["all", "after a Relu"])
def test_the_entropy_of_few_samples_and_many_zeros_clips_little(share, count):
    values = RNG.laplace(size=count).astype(np.float32)
    values[RNG.random(count) < share] = 0
    errors = {name: np.mean((rounded(values, choose(histogram(values))) - values) ** 2) for name, choose in METHODS.items()}
    assert errors["entropy"] < 2 * errors["mse"]  # 3 dB


def test_the_least_error_is_that_of_all_ranges_tried_by_hand():
    values = RNG.laplace(size=100_000).astype(np.float32)
    limit = METHODS["mse"](histogram(values))
    best = min(np.mean((rounded(values, each) - values) ** 2) for each in np.linspace(1, np.abs(values).max(), 200))
    assert np.mean((rounded(values, limit) - values) ** 2) <= 1.02 * best


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("values", [np.zeros(10), np.zeros(0), np.ones(3), np.full(5, 1e-30), np.array([0, 0, 0, 7.0])], ids=str)
def test_ranges_of_odd_data(method, values):
    most = float(np.float32(np.abs(values).max(initial=0)))
    assert 0 <= METHODS[method](histogram(values)) <= most


@pytest.mark.parametrize("axis", [0, 1, None])
def test_weights_are_nearest_in_their_channel(axis):
    weight = (RNG.standard_normal((6, 5, 3, 3)) * RNG.uniform(0.01, 3, (6, 5, 1, 1))).astype(np.float32)
    found = quantized_weights(weight, axis, 0.1, None, None)
    assert found.scale.shape == ((1,) if axis is None else (weight.shape[axis],))
    assert np.abs(found.numbers).max(tuple(at for at in range(4) if at != axis)).min() == 127
    scale = found.scale.reshape([-1 if at == axis else 1 for at in range(4)])
    assert np.all(np.abs(found.real - weight) <= 0.5001 * scale)


def test_weights_of_a_channel_without_any_leave_room_for_its_bias():
    weight = np.zeros((2, 3), np.float32)
    found = quantized_weights(weight, 0, 0.1, np.array([5.0, 0.0]), None)
    assert not found.numbers.any()
    assert 5.0 / (0.1 * found.scale[0]) <= (1 << 23) + 1


def test_a_residual_is_a_whole_number_of_accumulators():
    weight = (RNG.standard_normal((6, 5, 3, 3)) * RNG.uniform(0.01, 3, (6, 1, 1, 1))).astype(np.float32)
    assert fits_residual(weight, 0, 0.02, 0.05)
    assert not fits_residual(weight, 0, 0.02, 1e-4)
    plain, found = (quantized_weights(weight, 0, 0.02, None, skip) for skip in (None, 0.05))
    factor = 0.05 / (0.02 * found.scale.astype(np.float64))
    np.testing.assert_allclose(factor, np.rint(factor), rtol=1e-6)
    assert np.all(found.scale >= plain.scale * 0.999999)
    assert np.all(found.scale <= plain.scale * (1 + 1 / np.rint(factor)) * 1.000001)


@pytest.mark.parametrize("skip", [None, 0.5])
def test_scales_are_where_sixteen_bits_are_exact(skip):
    rng = np.random.default_rng(40)  # of its own, so that the numbers do not depend on the tests before
    weight = (rng.standard_normal((40, 5, 3, 3)) * rng.uniform(0.01, 3, (40, 1, 1, 1))).astype(np.float32)
    data, result, off = np.float64(np.float32(0.021)), np.float64(np.float32(0.037)), []
    for exact in (None, float(result)):
        found = quantized_weights(weight, 0, data, None, skip, exact)
        ratio = data * found.scale.astype(np.float64) / result
        multiplier, shift = fixed_point(ratio, 16, 63)
        off.append(np.mean(np.abs(multiplier / 2.0**shift / ratio - 1)))
        assert np.all(np.abs(found.real - weight).max((1, 2, 3)) <= 0.51 * found.scale)
    assert off[1] < (1e-7 if skip is None else 0.4 * off[0])
    if skip is None:
        # A scale is the float32 next to the exact one, or the one beside that (`fused`): off by 1.5 units in the last place.
        np.testing.assert_allclose(held(ratio), ratio, rtol=1.5 * 2.0**-23)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_weights_of_lifted_sums_have_short_factors(axis):
    """Of those around the finest, the one with the least error in each channel."""
    weight = (RNG.standard_normal((40, 30, 3, 3)) * RNG.uniform(0.01, 3, (40, 30, 1, 1))).astype(np.float32)
    plain = quantized_weights(weight, axis, 0.02, None, None)
    found = quantized_weights(weight, axis, 0.02, None, None, 0.3, lifted=True)
    factors = 0.02 * found.scale.astype(np.float64) / 0.3
    below, above = short(0.02 * plain.scale.astype(np.float64) / 0.3)[:2]
    assert np.all(np.isclose(factors, below, rtol=1e-6) | np.isclose(factors, above, rtol=1e-6))
    others = tuple(at for at in range(4) if at != axis)
    for factor in (below, above):
        scale = (factor * 0.3 / 0.02).reshape([-1 if at == axis else 1 for at in range(4)])
        real = np.clip(np.rint(weight / scale), -127, 127) * scale
        assert np.all(((weight - found.real) ** 2).sum(others) <= 1.001 * ((weight - real) ** 2).sum(others))
    assert found.lift is not None
    assert np.all((found.lift > 0) & (found.lift <= PARTS // 2))


def test_weights_beside_a_residual_have_factors_that_divide_its_quotient():
    weight = (RNG.standard_normal((40, 5, 3, 3)) * RNG.uniform(0.5, 1, (40, 1, 1, 1))).astype(np.float32)
    quotient = 105 / 128
    found = quantized_weights(weight, 0, 0.02, None, 0.3 * quotient, 0.3, lifted=True)
    assert found.lift is not None
    residual = 0.3 * quotient / (0.02 * found.scale.astype(np.float64))
    np.testing.assert_allclose(residual, np.rint(residual), rtol=1e-6)
    odd = quantized_weights(weight, 0, 0.02, None, 0.3 * 0.8123456, 0.3, lifted=True)
    assert odd.lift is None  # no short factor divides such a quotient


def test_a_bias_of_lifted_sums_is_exact_in_float32():
    found = quantized_weights(np.zeros((2, 3), np.float32), 0, 0.1, np.array([5.0, 0.0]), None, 0.3, lifted=True)
    assert 5.0 / (0.1 * found.scale[0]) * PARTS <= 1.15 * (1 << 23)


CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "strided": ("Conv", (1, 4, 9, 8), (6, 4, 3, 5), {"strides": [2, 1], "pads": [1, 0, 2, 3], "dilations": [1, 2]}),
    "groups": ("Conv", (1, 4, 9, 8), (6, 2, 3, 3), {"group": 2}),
    "upper": ("Conv", (1, 2, 9, 8), (3, 2, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
    "lower": ("Conv", (1, 2, 9, 8), (3, 2, 4, 2), {"auto_pad": "SAME_LOWER"}),
    "valid": ("Conv", (1, 2, 9), (3, 2, 4), {"auto_pad": "VALID"}),
    "transposed": ("ConvTranspose", (1, 4, 5, 6), (4, 3, 4, 3), {"strides": [2, 3], "pads": [1, 0, 2, 1], "dilations": [1, 2]}),
    "transposed groups": ("ConvTranspose", (1, 4, 5, 6), (4, 3, 2, 2), {"group": 2, "output_padding": [1, 1], "strides": [2, 2]}),
    "product": ("Gemm", (1, 7), (5, 7), {"transB": 1}),
    "rows": ("MatMul", (1, 3, 7), (7, 5), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_mean_errors_are_the_mean_of_the_convolution_of_both(name):
    op, shape, weight, given = CASES[name]
    mean, error = RNG.standard_normal(shape), RNG.standard_normal(weight)
    node = helper.make_node(op, ["x", "w"], ["y"], **given)
    ndim = len(shape)
    proto = model([node], [("x", "f4", shape)], [("y", "f4", [f"d{at}" for at in range(ndim)])], {"w": error.astype(np.float32)})
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": mean.astype(np.float32)})
    channel = 1 if op.startswith("Conv") else ndim - 1
    want = y.mean(tuple(at for at in range(ndim) if at != channel))
    np.testing.assert_allclose(mean_error(node, mean, error, y.shape), want, atol=1e-5)
