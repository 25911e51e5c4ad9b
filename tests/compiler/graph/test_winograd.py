"""Winograd's form in a graph: which convolutions take it, and that the values stay those of the interpreter."""

import numpy as np
import pytest

import vtakit
from vtakit import models
from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph, check
from vtakit.compiler.graph.passes.layout import block_layouts
from vtakit.compiler.graph.passes.winograd import winograd_forms

LANES = 4
MACHINE = Machine(vector_bytes=16)


def some(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def network(kernel: int = 3, filters: int = 16, **attrs: object) -> Graph:
    """A first convolution of three channels, and one of blocks after it."""
    b = Builder("net")
    x = b.input("x", (1, 3, 12, 12), "float32")
    y = b.one("relu", b.one("conv", x, b.constant(some(16, 3, 3, 3), name="first"), attrs={"pads": (1,) * 4}, name="first"))
    weight = b.constant(some(filters, 16 // attrs.get("groups", 1), kernel, kernel), name="weight")
    y = b.one("conv", y, weight, attrs={"pads": (kernel // 2,) * 4, **attrs}, name="second")
    return block_layouts(b.finish([("y", y)]), LANES, saved_per_moved=0)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_a_convolution_of_blocks_takes_it_where_it_is_faster():
    """The first one reads channels as they are, and stays."""
    graph = network()
    changed = winograd_forms(graph, MACHINE)
    check(changed)
    assert ops(graph) == ["conv_blocked", "relu", "conv_blocked", "unblock_channels"]
    assert ops(changed) == ["conv_blocked", "relu", "conv_winograd", "unblock_channels"]
    assert [node.name for node in changed.nodes[:3]] == ["first", "", "second"]
    assert [value.type.shape for value in changed.constants] == [(4, 3, 3, 3, 1, 4), (4, 6, 6, 4, 4, 4)]
    given = some(1, 3, 12, 12)
    (got,), (want,) = evaluate_graph(changed, given), evaluate_graph(graph, given)
    assert np.abs(got - want).max() < 1e-5 * np.abs(want).max()


@pytest.mark.parametrize(
    "words", [{"kernel": 5}, {"kernel": 1}, {"strides": (2, 2)}, {"dilations": (2, 1)}, {"groups": 2}], ids=str)
def test_other_convolutions_stay(words):
    graph = network(**words)
    assert "conv_blocked" in ops(graph)
    assert winograd_forms(graph, MACHINE) is graph


def test_weights_that_two_convolutions_read_are_kept_for_the_one_that_stays():
    b = Builder("net")
    x = b.input("x", (1, 16, 12, 12), "float32")
    weight = b.constant(some(16, 16, 3, 3), name="weight")
    y = b.one("conv", x, weight, attrs={"pads": (1,) * 4})
    z = b.one("conv", y, weight, attrs={"strides": (2, 2)})
    changed = winograd_forms(block_layouts(b.finish([("z", z)]), LANES, saved_per_moved=0), MACHINE)
    check(changed)
    assert ops(changed) == ["block_channels", "conv_winograd", "conv_blocked", "unblock_channels"]


@pytest.mark.slow
def test_a_network_with_and_without_it():
    model, given = models.build("resnet18", size=64), models.inputs("resnet18", 1, size=64)
    with_it, without = vtakit.compile(model), vtakit.compile(model, winograd=False)
    assert "conv_winograd" in {op for layer in with_it.image.layers for op in layer.ops}
    assert "conv_winograd" not in {op for layer in without.image.layers for op in layer.ops}
    (got,), (want,) = with_it.run(given).values(), without.run(given).values()
    assert np.abs(got - want).max() < 1e-4 * np.abs(want).max()


def test_a_first_convolution_of_a_volume_stays():
    """Its data has as many dimensions as a plane with channels in blocks."""
    b = Builder("net")
    x = b.input("x", (1, 3, 6, 12, 12), "float32")
    y = b.one("conv", x, b.constant(some(16, 3, 3, 3, 3)), attrs={"pads": (1,) * 6})
    graph = block_layouts(b.finish([("y", y)]), LANES, saved_per_moved=0)
    assert "conv_blocked" in ops(graph)
    assert winograd_forms(graph, MACHINE) is graph
