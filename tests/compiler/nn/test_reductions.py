"""Reductions, normalization and losses, against NumPy and onnxruntime."""

import numpy as np
import pytest
from nn_support import check, floats, integers, onnx_run, placeholders, run, run_group

from vtakit.compiler.nn.operators import find

X = floats(3, 5, 64)
REDUCTIONS = {
    "reduce_sum": np.sum, "reduce_mean": np.mean, "reduce_max": np.max, "reduce_min": np.min, "reduce_prod": np.prod,
    "reduce_l1": lambda x, **k: np.abs(x).sum(**k), "reduce_l2": lambda x, **k: np.sqrt((x * x).sum(**k)),
    "reduce_sum_square": lambda x, **k: (x * x).sum(**k), "reduce_log_sum_exp": lambda x, **k: np.log(np.exp(x).sum(**k)),
}


@pytest.mark.parametrize("name", sorted(REDUCTIONS))
def test_reductions_along_any_axes(name):
    x = X / 4 if name == "reduce_prod" else X
    cases = [((2,), True), ((1,), False), ((0, 2), True), (None, False), ((), True)]
    if name == "reduce_prod":
        cases = cases[:3]
    given = placeholders((x,))
    made = [find(name).define(*given, axes=axes, keepdims=keepdims) for axes, keepdims in cases]
    got = run_group([x], given, made)
    for result, (axes, keepdims) in zip(got, cases, strict=True):
        want = REDUCTIONS[name](x, axis=axes, keepdims=keepdims)
        check(result, np.asarray(want, np.float32), rtol=1e-4, atol=1e-4)


def test_reductions_of_integers_and_of_nothing():
    x = integers(-9, 9, (4, 7), "int32")
    check(run("reduce_sum", x, axes=(1,)), x.sum(1, keepdims=True, dtype=np.int32))
    check(run("reduce_max", x, axes=(0,), keepdims=False), x.max(0))
    check(run("reduce_min", x > 0, axes=(1,), keepdims=False), (x > 0).min(1))
    check(run("reduce_max", x > 8, axes=(1,), keepdims=False), (x > 8).max(1))
    check(run("reduce_sum", floats(2, 0, 3), axes=(1,)), np.zeros((2, 1, 3), np.float32))
    check(run("reduce_log_sum", np.abs(X), axes=(1,)), np.log(np.abs(X).sum(1, keepdims=True)))


def test_log_sum_exp_does_not_overflow():
    x = np.array([[1000.0, 1000.0], [-1000.0, -1000.0], [-np.inf, -np.inf], [np.inf, 0.0]], np.float32)
    want = np.array([1000 + np.log(2), -1000 + np.log(2), -np.inf, np.inf], np.float32)
    check(run("reduce_log_sum_exp", x, axes=(1,), keepdims=False), want)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("last", [False, True])
def test_places_of_extremes(name, last):
    x = integers(0, 3, (4, 9, 5), "int32").astype(np.float32)
    for axis in (0, 1, -1):
        want = onnx_run({"argmax": "ArgMax", "argmin": "ArgMin"}[name], x, axis=axis, keepdims=0, select_last_index=int(last))
        check(run(name, x, axis=axis, keepdims=False, select_last_index=last), want)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_a_nan_is_the_extreme_as_in_numpy(name):
    x = floats(4, 70)
    x[1, 60] = x[2, 3] = x[2, 40] = np.nan
    x[3] = np.inf if name == "argmin" else -np.inf
    check(run(name, x, axis=1, keepdims=False), getattr(np, name)(x, 1))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(axis):
    given = placeholders((X,))
    made = [find(name).define(*given, axis=axis) for name in ("softmax", "log_softmax", "hardmax")]
    want = tuple(onnx_run(op, X, axis=axis) for op in ("Softmax", "LogSoftmax", "Hardmax"))
    check(tuple(run_group([X], given, made)), want)


def test_softmax_of_great_numbers_and_of_odd_lengths():
    x = floats(2, 1001) * 1000
    check(run("softmax", x), onnx_run("Softmax", x))


def test_softmax_of_float16_rounds_each_step_as_onnx_does():
    x = (floats(6, 40) * 4).astype(np.float16)
    exponentials = np.exp(x - x.max(1, keepdims=True))
    sums = exponentials.astype(np.float32).sum(1, keepdims=True).astype(np.float16)
    np.testing.assert_array_equal(run("softmax", x, axis=1), exponentials / sums)


def test_softmax_of_more_than_float16_can_count():
    x = np.zeros((1, 65600), np.float16)
    np.testing.assert_array_equal(run("softmax", x, axis=1), np.full_like(x, 1 / 65600))


@pytest.mark.parametrize(("exclusive", "reverse"), [(False, False), (True, False), (False, True), (True, True)])
def test_running_sums(exclusive, reverse):
    for axis in (0, 2):
        want = onnx_run("CumSum", X, np.array(axis), exclusive=int(exclusive), reverse=int(reverse))
        check(run("cumsum", X, axis=axis, exclusive=exclusive, reverse=reverse), want)
    check(run("cumprod", X, axis=1), np.cumprod(X, 1))


def test_normalization_over_the_last_axes():
    x, scale, bias = floats(4, 6, 48), floats(48, seed=1), floats(48, seed=2)
    got = run("layer_norm", x, scale, bias)
    check(got[0], onnx_run("LayerNormalization", x, scale, bias))
    check(got[1], x.mean(-1, keepdims=True))
    both = floats(6, 48, seed=1)
    check(run("layer_norm", x, both, axis=1)[0], onnx_run("LayerNormalization", x, both, axis=1))
    check(run("rms_norm", x, scale), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale)


def test_normalization_of_channels():
    x, scale, bias = floats(2, 6, 5, 7), floats(6, seed=1), floats(6, seed=2)
    mean, var = floats(6, seed=3), np.abs(floats(6, seed=4)) + np.float32(0.1)
    check(run("batch_norm", x, scale, bias, mean, var), onnx_run("BatchNormalization", x, scale, bias, mean, var))
    check(run("instance_norm", x, scale, bias), onnx_run("InstanceNormalization", x, scale, bias))
    check(run("lrn", x, size=3, alpha=0.1, beta=0.5), onnx_run("LRN", x, size=3, alpha=0.1, beta=0.5))
    parts = x.reshape(2, 3, 2, 5, 7)
    ends = {"axis": (2, 3, 4), "keepdims": True}
    want = ((parts - parts.mean(**ends)) / np.sqrt(parts.var(**ends) + 1e-5)).reshape(x.shape)
    check(run("group_norm", x, scale, bias, groups=3), want * scale[:, None, None] + bias[:, None, None])
    for p in (1, 2):
        check(run("lp_normalization", x, axis=1, p=p), onnx_run("LpNormalization", x, axis=1, p=p))
    check(run("lp_normalization", np.zeros((2, 3), np.float32)), np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses(reduction):
    scores, target, weight = floats(4, 5, 3), integers(0, 5, (4, 3), "int64"), np.abs(floats(5, seed=1))
    logs = onnx_run("LogSoftmax", scores, axis=1)
    words = {"reduction": reduction, "ignore_index": 2}
    want = onnx_run("NegativeLogLikelihoodLoss", logs, target, weight, **words)
    check(run("nll_loss", logs, target, weight, **words), want)
    check(run("softmax_cross_entropy_loss", scores, target, weight, **words), (want, logs))


def test_einsum():
    a, b = floats(3, 4, 5), floats(3, 5, 6, seed=1)
    check(run("einsum", a, b, equation="bij,bjk->bik"), a @ b)
    check(run("einsum", a, b[0], equation="...j,jk->...k"), a @ b[0])
    check(run("einsum", a, equation="ijk->kj"), a.sum(0).T)
    square = floats(4, 4)
    check(run("einsum", square, equation="ii->i"), np.diag(square))
    check(run("einsum", square, square, equation="ij,ij"), np.asarray(np.sum(square * square)))
    x, y, dots = floats(2, 1, 3), floats(4, 3), "...k,...k"
    check(run("einsum", x, y, equation=dots), np.einsum(dots, x, y))


@pytest.mark.parametrize("centre", [0, 100, 1000, 1e5])
def test_normalization_far_from_zero_is_exact(centre):
    """The deviation is that of the data as they are in float32, whatever the mean."""
    x = (floats(2, 6, 9, 16) + np.float32(centre)).astype("f4")
    ones, zeros = np.ones(6, "f4"), np.zeros(6, "f4")
    wide = x.astype("f8")

    def normal(data: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return (data - data.mean(axes, keepdims=True)) / np.sqrt(data.var(axes, keepdims=True) + 1e-5)
    groups = normal(wide.reshape(2, 3, 2, 9, 16), (2, 3, 4)).reshape(x.shape)
    for name, arrays, words, want in (
        ("layer_norm", (x,), {"axis": -1}, normal(wide, (3,))), ("layer_norm", (x,), {"axis": 1}, normal(wide, (1, 2, 3))),
        ("instance_norm", (x, ones, zeros), {}, normal(wide, (2, 3))), ("group_norm", (x, ones, zeros), {"groups": 3}, groups),
    ):
        got = run(name, *arrays, **words)
        np.testing.assert_allclose(got[0] if isinstance(got, tuple) else got, want, rtol=0, atol=3e-6, err_msg=name)
