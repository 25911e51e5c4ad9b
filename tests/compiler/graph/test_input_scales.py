"""Factors of what convolutions read go into their weights (statement 60: scales forward, along several paths, through Relu)."""

import numpy as np
import pytest

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph, Value
from vtakit.compiler.graph.passes.base import run_passes
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu
from vtakit.compiler.graph.passes.scales import fold_input_scales

RNG = np.random.default_rng(1)


def some(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def conv(b: Builder, x: Value, groups: int = 1) -> Value:
    weight = b.constant(some(8, x.type.shape[1] // groups, 3, 3))
    return b.one("conv", x, weight, attrs={"pads": (1, 1, 1, 1), "groups": groups})


def folded(graph: Graph) -> Graph:
    """The graph after all passes, which computes the same."""
    changed = run_passes(graph, passes_for_cpu(evaluate_graph))
    given = [some(*value.type.shape) for value in graph.inputs]
    for got, want in zip(evaluate_graph(changed, *given), evaluate_graph(graph, *given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    return changed


@pytest.mark.parametrize("shape", [(), (1,), (4, 1, 1), (1, 4, 1, 1)], ids=str)
@pytest.mark.parametrize("op", ["mul", "div"])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_factor_before_a_convolution_goes_into_its_weight(groups, op, shape):
    b = Builder("g")
    x = b.input("x", (2, 4, 5, 5), "float32")
    graph = b.finish([("y", conv(b, b.one(op, x, b.constant(some(*shape) + 3)), groups))])
    assert ops(folded(graph)) == ["conv"]


def test_a_factor_goes_along_all_paths_or_none():
    b = Builder("g")
    x = b.input("x", (1, 4, 5, 5), "float32")
    scaled = b.one("mul", b.constant(some(4, 1, 1)), x)
    paths = [("a", conv(b, scaled)), ("b", conv(b, scaled, groups=4))]
    assert ops(folded(b.finish(paths))) == ["conv", "conv"]
    assert ops(folded(b.finish([*paths, ("c", b.one("sigmoid", scaled))]))) == ["mul", "conv", "conv", "sigmoid"]
    assert ops(folded(b.finish([*paths, ("c", scaled)]))) == ["mul", "conv", "conv"]


@pytest.mark.parametrize("op", ["relu", "abs"])
def test_only_factors_above_zero_go_through_a_relu(op):
    stays = ["mul", op, "conv"]
    for factor, wanted in ((some(4, 1, 1) ** 2 + 0.1, [op, "conv"]), (some(4, 1, 1), stays), (0, stays)):
        b = Builder("g")
        x = b.input("x", (1, 4, 5, 5), "float32")
        graph = b.finish([("y", conv(b, b.one(op, b.one("mul", x, b.constant(np.asarray(factor, np.float32))))))])
        assert ops(folded(graph)) == wanted
    b = Builder("g")
    x = b.input("x", (1, 4, 5, 5), "float32")
    scaled = b.one("mul", x, b.constant(np.float32(2)))
    graph = b.finish([("y", conv(b, b.one("relu", scaled))), ("z", b.one("neg", scaled))])
    assert ops(folded(graph)) == ["mul", "relu", "conv", "neg"]


def test_factors_that_are_not_of_channels_stay():
    for shape in ((5, 5), (2, 1, 1, 1), (2, 4, 5, 5), (3, 2, 4, 5, 5)):
        b = Builder("g")
        x = b.input("x", (2, 4, 5, 5), "float32")
        y = b.one("mul", x, b.constant(some(*shape)))
        if y.type.shape == x.type.shape:
            assert ops(folded(b.finish([("y", conv(b, y))]))) == ["mul", "conv"]
    b = Builder("g")
    x, f, w = (b.input(name, shape, "float32") for name, shape in (("x", (1, 4, 5, 5)), ("f", (4, 1, 1)), ("w", (8, 4, 3, 3))))
    assert ops(folded(b.finish([("y", conv(b, b.one("mul", x, f)))]))) == ["mul", "conv"]
    assert ops(folded(b.finish([("y", b.one("conv", b.one("mul", x, b.constant(some(4, 1, 1))), w))]))) == ["mul", "conv"]
    one = b.input("one", (1, 1, 5, 5), "float32")  # which the factor spreads out to four channels
    assert ops(folded(b.finish([("y", conv(b, b.one("mul", one, b.constant(some(4, 1, 1)))))]))) == ["mul", "conv"]


def test_a_graph_without_such_factors_stays():
    b = Builder("g")
    graph = b.finish([("y", conv(b, b.input("x", (1, 4, 5, 5), "float32")))])
    assert str(fold_input_scales(graph)) == str(graph)
