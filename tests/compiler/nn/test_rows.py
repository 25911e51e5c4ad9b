"""Softmax and norms row by row: one loop over rows that threads share, against NumPy."""

import numpy as np
import pytest
from integer_nets import Integers, inputs_of
from model_support import run_graph

import vtakit
from vtakit import te
from vtakit.compiler.graph.reference import reference
from vtakit.compiler.lower import lower
from vtakit.compiler.nn.cpu.schedule import schedule
from vtakit.compiler.nn.operators import find


def softmax(x, axis=-1):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x, axes=(-1,)):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def log_softmax(x):
    return np.log(softmax(x))


NORMS = {"softmax": softmax, "log_softmax": log_softmax, "layer_norm": layer_norm}
SHAPES = [(128, 1000), (5, 1), (6, 7), (4, 17), (4, 129), (2, 3, 4, 64), (2, 12, 33, 100), (300, 48), (1, 1000), (8, 20000)]


def of(name, shape, **words):
    """(arguments, schedule) of an operator's first result."""
    x = te.placeholder(shape, name="x")
    made = find(name).define(x, **words)
    y = made[0] if isinstance(made, tuple) else made
    return [x, y], schedule([y])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NORMS)
def test_rows(name, shape):
    x = np.random.default_rng(1).standard_normal(shape, np.float32) * 3
    args, s = of(name, shape)
    got = np.full(shape, 77, np.float32)
    vtakit.build(s, args)(x, got)
    np.testing.assert_allclose(got, NORMS[name](x), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", NORMS)
def test_one_loop_is_shared_by_threads(name):
    """All that a row needs is made within it; nothing is as large as the operand."""
    args, s = of(name, (64, 32, 300))
    text = str(lower(s, args))
    assert text.count("parallel(") == 1
    assert "parallel(2048)" in text
    assert "float32[64, 32" not in text.partition("\n")[2]


def test_large_numbers_nan_and_infinity_stay_in_their_rows():
    x = np.zeros((6, 40), np.float32)
    x[0, 3], x[1, 39], x[2] = 1e30, np.nan, -np.inf
    x[3, 0] = np.inf
    args, s = of("softmax", x.shape)
    got = np.empty_like(x)
    vtakit.build(s, args)(x, got)
    np.testing.assert_array_equal(got[0], np.eye(40, dtype=np.float32)[3])
    assert np.isnan(got[1:4]).all()
    np.testing.assert_allclose(got[4:], 1 / 40, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_other_axes_and_large_rows(axis):
    """Along what is no row: the sums of all columns at once, as before."""
    x = np.random.default_rng(1).standard_normal((3, 20, 30), np.float32)
    args, s = of("softmax", x.shape, axis=axis)
    got = np.empty_like(x)
    vtakit.build(s, args)(x, got)
    np.testing.assert_allclose(got, softmax(x, axis), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kernel", [1, 2])
def test_operands_of_a_product_are_made_before_it(kernel):
    """Weights of one channel have as many rows as the result; the product reads them outside any loop over its rows."""
    net = Integers("narrow")
    graph = net.finish(net.deconv(net.input(1, 1, 4, 5), 6, kernel, 1, 0))
    given = inputs_of(graph)
    for got, want in zip(run_graph(graph, *given.values()), reference(graph, *given.values()), strict=True):
        np.testing.assert_array_equal(got, want)
