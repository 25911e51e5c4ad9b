"""Convolutions of few channels in networks: which are packed by pixels, for whom, in how many cycles, with the CPU's bytes."""

import numpy as np
import pytest
from integer_nets import Integers, inputs_of
from model_support import module_of
from support import raises

from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.vta.compile import compile_parts, decide_parts
from vtakit.compiler.graph.vta.region import Launch
from vtakit.compiler.schedule.decisions import DecisionError
from vtakit.runtime.module import Module
from vtakit.runtime.target import Image
from vtakit.runtime.vta.part import VtaPart
from vtakit.runtime.vta.target import Vta, image_of_parts
from vtakit.sim.checker import check_program


def compiled(graph: Graph, given: dict | None = None, config: str = "default") -> tuple[Image, dict[str, list[int]]]:
    """A graph for the accelerator, every program proven, and the pixels of its layers' blocks."""
    target, decisions = Vta.make(config=config).ready(graph.name), ModelDecisions(given)

    def check(launch: Launch) -> None:
        assert check_program(launch.program) == []
    parts = compile_parts(graph, CpuKernels(target.processor), target, check=check, decisions=decisions)
    return image_of_parts(parts, target), {layer: each.chosen for layer, each in decisions if each.name == "pixels"}


def packed(graph: Graph, config: str = "default") -> tuple[Image, dict[str, list[int]]]:
    """The same, with the most pixels in a block, whether that is faster or not."""
    target, decisions = Vta.make(config=config).ready(graph.name), ModelDecisions()
    decide_parts(graph, CpuKernels(target.processor), target, decisions)
    able = {layer: each.candidates for layer, each in decisions if each.name == "pixels"}
    return compiled(graph, {layer: {"pixels": max(ways, key=np.prod)} for layer, ways in able.items()}, config)


def cycles(image: Image, given: dict) -> int:
    with Module(image, "cycle") as module:
        module.run(given)
        return sum(counters["cycles"] for counters in module.counters)


def same(graph: Graph, image: Image, device: str = "fsim") -> None:
    """Every output is the CPU's."""
    given = inputs_of(graph)
    with Module(image, device) as module:
        got = module.run(given)
    for name, array in module_of(graph).run(given).items():
        np.testing.assert_array_equal(got[name], array)


def before_the_cpu(outs: int, size: int, kernel: int = 3) -> Graph:
    net = Integers("last")
    return net.finish(net.conv(net.conv(net.input(1, 16, size, size), 64, 1), outs, kernel, name="head"))


def within(outs: int, size: int, kernel: int = 3) -> Graph:
    net = Integers("within")
    x = net.conv(net.conv(net.input(1, 16, size, size), 64, 1), outs, kernel, name="head")
    return net.finish(net.conv(x, 32))


@pytest.mark.parametrize(("graph", "pixels", "most"), [
    (before_the_cpu(1, 28), [4, 4], 0.55), (before_the_cpu(4, 28), [2, 2], 0.6), (before_the_cpu(20, 28), [2, 2], 0.8),
    (before_the_cpu(36, 28), [2, 2], 0.9), (before_the_cpu(100, 28), [2, 2], 0.96), (before_the_cpu(1, 28, 5), [4, 4], 0.3),
    (within(1, 28), [4, 4], 0.7), (within(20, 28), [2, 2], 0.88), (within(36, 28), [2, 2], 0.94),
], ids=lambda value: value.name if isinstance(value, Graph) else "")
def test_packed_convolutions_take_fewer_cycles_and_the_same_bytes(graph, pixels, most):
    """The whole network's cycles: the layers beside the convolution are the same."""
    image, chosen = compiled(graph)
    assert chosen["head"] == pixels
    same(graph, image)
    plain, _ = compiled(graph, {layer: {"pixels": [1, 1]} for layer in chosen})
    same(graph, plain)
    assert cycles(image, inputs_of(graph)) < most * cycles(plain, inputs_of(graph))


@pytest.mark.parametrize("outs", [1, 3, 5, 20, 33])
def test_results_that_several_read(outs):
    """The CPU, convolutions, a pool, a residual, a concatenation, and a later launch."""
    net = Integers("shared", seed=outs)
    x = net.conv(net.input(2, 24, 13, 14), outs, 3, stride=2, fill=3, name="head")
    pooled, after = net.max_pool(x, 2, 2), net.conv(x, outs, 1, skip=x)
    later = net.conv(net.quantized(net.builder.one("sigmoid", net.dequantized(after))), outs, 3, skip=x)
    graph = net.finish(x, pooled, net.concat(x, after), later, net.conv(net.concat(x, after), 8, 1))
    image, chosen = packed(graph)
    assert ("head" in chosen) is (outs < 16)  # a later launch reads it, as one piece
    same(graph, image)


def test_within_one_launch_blocks_that_lie_apart_are_read_by_every_operator():
    net = Integers("apart", seed=3)
    x = net.conv(net.input(2, 24, 12, 14), 20, 3, name="head")
    pooled, small = net.max_pool(x, 2, 2), net.resize(x, 2)
    added = net.conv(net.conv(x, 20, 3, name="next"), 20, 1, skip=x)
    graph = net.finish(x, net.conv(pooled, 8), net.concat(x, added), small, net.deconv(x, 8), net.mean(x), net.sum(x, added))
    image, chosen = compiled(graph, {"head": {"pixels": [2, 2]}, "next": {"pixels": [4, 1]}})
    assert {"head", "next"} <= set(chosen)
    assert not [left for left in image.left if left.op == "conv_integer"]
    assert len(image.parts_of(VtaPart)) == 1
    same(graph, image)


def test_parts_of_a_packed_layer_have_its_name_and_its_products_once():
    image, _ = compiled(within(20, 28))
    (part,) = image.parts_of(VtaPart)
    found = [(layer.names[0], layer.macs) for layer in part.layers if "head" in layer.names]
    assert [name for name, _ in found] == ["head"] * 3
    assert sorted(macs for _, macs in found) == [0, 0, 28 * 28 * 20 * 64 * 9]


def test_on_the_rtl():
    net = Integers("line", seed=5)
    x = net.conv(net.input(1, 8, 9, 11), 1, 3, name="head")
    graph = net.finish(x, net.conv(x, 4, 3))
    image, chosen = packed(graph, config="tiny")
    assert "head" in chosen
    same(graph, image)
    same(graph, image, "rtl")


def test_a_wrong_decision_is_refused():
    with raises(DecisionError, "layer 'head': decision 'pixels' is [5, 5], which is no candidate …"):
        compiled(before_the_cpu(1, 28), {"head": {"pixels": [5, 5]}})
    _, chosen = compiled(before_the_cpu(16, 28))
    assert not chosen
    _, chosen = compiled(before_the_cpu(1, 28, kernel=1))
    assert not chosen
