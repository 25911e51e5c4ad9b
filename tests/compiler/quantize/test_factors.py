"""Factors of sums for which integers and float32 round alike, against all sums that there are."""

import numpy as np
import pytest

from vtakit.compiler.nn.numbers.fixed import fixed_point
from vtakit.compiler.quantize.factors import COARSER, PARTS, alike, fused, held, lift, proportion, quotient, short, whole

RNG = np.random.default_rng(0)


def half_up(sums: np.ndarray, factor: float, zero: int = 0) -> np.ndarray:
    """Sums as int8 less the zero point, as the accelerator rounds them."""
    (number,), (shift,) = fixed_point(np.array([factor]), 16, 63)
    return np.clip(sums * number + (1 << shift >> 1) >> shift, -128 - zero, 127 - zero)


def test_no_result_lies_in_the_middle_between_two_integers():
    """Factors are odd numbers of ten bits times a power of two, so that only what is clipped can be a half."""
    ratios = np.exp(np.random.default_rng(5).uniform(-10, 1, 300))
    found = held(ratios)
    assert np.all(np.abs(found / ratios - 1) <= 1 / 512)
    whole, shift = fixed_point(found, 10, 63)
    assert np.all((whole % 2 == 1) & (whole > 512))
    np.testing.assert_array_equal(whole / 2.0**shift, found)
    for factor, down in zip(whole[:20], shift[:20], strict=True):
        sums = np.arange(-(1 << min(int(down), 20)), 1 << min(int(down), 20))
        twice = sums * factor * 2
        halves = sums[(twice >> down << down == twice) & (twice >> down & 1 == 1)]
        assert not np.any(np.abs(halves * (factor / 2.0**down)) < 256)


@pytest.mark.parametrize("zero", [0, -128, 50])
@pytest.mark.parametrize("exponent", [-10, -6, -1])
def test_factors_that_are_alike_round_every_sum_alike(exponent, zero):
    most = 260 << 1 - exponent  # beyond, results are clipped, whatever the zero point
    sums = np.arange(-most, most)
    factors = held(np.ldexp(RNG.uniform(0.5, 1, 60), exponent))
    singles = (factors * RNG.choice([1, 1 - 1e-7, 1 + 3e-7, 1 + 1e-5], 60)).astype(np.float32)
    for factor, single, said in zip(factors, singles, alike(factors, singles, zero), strict=True):
        floats = np.clip(np.rint(sums.astype(np.float32) * single), -128 - zero, 127 - zero)
        assert said == np.array_equal(half_up(sums, factor, zero), floats)


@pytest.mark.parametrize("zero", [0, -128, 90])
def test_fused_layers_have_scales_that_are_alike(zero):
    data, result = np.float32(0.0213), np.float32(0.0371)
    ratios = np.exp(RNG.uniform(np.log(2.0**-10), 0, 500))
    scales = fused(ratios, float(data), float(result), zero)
    factors = held(float(data) * scales.astype(np.float64) / float(result))
    np.testing.assert_allclose(float(data) * scales / float(result), factors, rtol=1e-6)
    assert np.all(alike(factors, data * scales / result, zero))
    assert np.all((factors > ratios * (1 - 1 / 512)) & (factors < ratios * 1.06))


def test_short_factors_lie_around_ratios():
    ratios = np.exp(RNG.uniform(-12, 2, 300))
    found = short(ratios)
    assert np.all(found[0] <= ratios)
    assert np.all(ratios < found[1])
    assert np.all(found[-1] >= 1.99 * found[0])
    assert np.all(np.diff(found, axis=0) > 0)
    mantissas = np.frexp(found)[0] * 8
    np.testing.assert_array_equal(mantissas, np.rint(mantissas))


@pytest.mark.parametrize("number", [4, 5, 6, 7])
def test_lifted_sums_round_half_up_in_floating_point(number):
    """By a margin: errors of a third of a step change no result, whichever way halves are rounded."""
    factor = number / 2.0**13
    sums = np.arange(-40_000 * 8 // number, 40_000 * 8 // number)
    lifted = (sums + lift(np.array([factor]))[0] / PARTS) * factor
    want, step = half_up(sums, factor), 2.0 ** -13 * (number & -number)
    assert np.any(sums * factor % 1 == 0.5)
    for error in (-step / 3, 0, step / 3):
        np.testing.assert_array_equal(np.clip(np.rint(lifted + error), -128, 127), want)
    assert not np.array_equal(np.clip(np.rint(sums * factor), -128, 127), want)


@pytest.mark.parametrize("seed", range(5))
def test_quotients_leave_short_factors_for_every_channel(seed):
    rng = np.random.default_rng(seed)
    ratios, given = np.exp(rng.uniform(-7, -5, 64)), float(np.exp(rng.uniform(-0.7, 0.7)))
    found = quotient(given, ratios)
    assert found is not None
    assert given / COARSER <= found <= given
    factors = short(ratios)[1:]
    assert np.all(np.any(whole(found / factors), 0))
    coarse = np.where(whole(found / factors), factors / ratios, np.inf).min(0)
    assert coarse.mean() < 1.35


def test_a_residual_finer_than_all_factors_has_no_quotient():
    assert quotient(0.01, np.array([0.5, 0.01])) is None


def test_proportions_of_two_scales_are_near_and_small():
    for a, b in np.exp(RNG.uniform(-1, 1, (100, 2))):
        found = proportion(a, b)
        assert found is not None
        assert 1 <= min(found) <= max(found) <= 15
        assert 0.99999 * b <= a / found[0] * found[1] <= COARSER * b
    assert proportion(1.0, 0.05) is proportion(0.05, 1.0) is None
