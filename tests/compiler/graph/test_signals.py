"""Products of two computed matrices on the accelerator: attention in its forms, of any shape, with the CPU's bytes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from integer_nets import Integers
from model_support import module_of, vta_image

from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph, Value
from vtakit.runtime.module import Module
from vtakit.runtime.vta.part import VtaPart


class Attention(Integers):
    """Integer networks of tokens."""

    def rows(self, x: Value, outs: int) -> Value:
        """Rows of tokens [N, T, C] multiplied by constant weights."""
        images, tokens, channels = x.type.shape
        made = self.dense(self.reshape(x, images * tokens, channels), outs)
        return self.reshape(made, images, tokens, outs)

    def split(self, x: Value, heads: int, *, turned: bool = False) -> Value:
        """[N, T, C] as [N, heads, T, C / heads], or with the last two dimensions in the other order."""
        images, tokens, channels = x.type.shape
        made = self.reshape(x, images, tokens, heads, channels // heads)
        return self.moved("transpose", made, perm=(0, 2, 3, 1) if turned else (0, 2, 1, 3))

    def moved(self, op: str, x: Value, **attrs: Any) -> Value:
        """A value moved."""
        return self.builder.one(op, x, attrs=attrs, name=self._name(op))

    def multiplied(self, a: Value, b: Value) -> Value:
        """The product of two computed matrices, requantized with one factor."""
        sums = self.builder.one("matmul_integer", a, b, name=self._name("product"))
        channels = sums.type.shape[1]
        numbers = [np.full(channels, each, np.int32) for each in (
            self.rng.integers(-99, 99), self.rng.integers(1 << 14, 1 << 16), 15 + int(np.log2(74 * np.sqrt(a.type.shape[-1]))))]
        return self.builder.one("requantize", sums, *map(self._of, numbers), attrs={
            "zero_point": int(self.rng.integers(-9, 9)), "low": -128, "high": int(self.rng.integers(90, 128))},
            name=self._name("requantize"))

    def softened(self, x: Value) -> Value:
        """A softmax between two products, which the CPU computes."""
        return self.quantized(self.builder.one("softmax", self.dequantized(x), attrs={"axis": -1}, name=self._name("softmax")))


def attention(
    images: int, tokens: int, heads: int, depth: int, *, fused: bool = False, soft: bool = True, seed: int = 0,
) -> Graph:
    """Self-attention with the products around it, and a table."""
    net, width = Attention("attention", seed), heads * depth
    x = net.input(images, tokens, 24)
    if fused:
        whole = net.rows(x, 3 * width)
        parts = [net.moved("slice", whole, starts=(at * width,), ends=((at + 1) * width,), axes=(2,)) for at in range(3)]
    else:
        parts = [net.rows(x, width) for _ in "qkv"]
    scores = net.multiplied(net.split(parts[0], heads), net.split(parts[1], heads, turned=True))
    shown = net.multiplied(net.softened(scores) if soft else scores, net.split(parts[2], heads))
    joined = net.reshape(net.moved("transpose", shown, perm=(0, 2, 1, 3)), images, tokens, width)
    return net.finish(net.lookup(net.rows(joined, 20)), joined, scores)


def compared(graph: Graph, config: str = "default", device: str = "fsim") -> Module:
    """Run a graph on the accelerator; every output is the CPU's and the definition's."""
    rng = np.random.default_rng(7)
    given = {value.name: rng.normal(0, 3, value.type.shape).astype(np.float32) for value in graph.inputs}
    want, exact = module_of(graph).run(given), evaluate_graph(graph, *[given[value.name] for value in graph.inputs])
    image, soft = vta_image(graph, config), any(node.op == "softmax" for node in graph.nodes)  # whose last bits differ
    with Module(image, device) as module:
        found = module.run(given)
    for (name, array), defined in zip(want.items(), exact, strict=True):
        assert soft or np.array_equal(array, defined), name
        assert np.array_equal(found[name], array), name
    return Module(image, "fsim")


SHAPES = [
    (1, 16, 1, 16), (1, 64, 3, 32), (1, 65, 2, 16), (2, 17, 2, 16), (3, 32, 1, 48), (1, 20, 2, 12), (2, 5, 3, 8), (1, 1, 2, 16),
]


@pytest.mark.parametrize(("images", "tokens", "heads", "depth"), SHAPES)
def test_attention_has_the_cpus_bytes(images: int, tokens: int, heads: int, depth: int) -> None:
    graph = attention(images, tokens, heads, depth, fused=tokens % 2 == 0, seed=tokens)
    module = compared(graph)
    if tokens > 1:
        assert module.placement.share_of_macs == 1


def test_products_in_a_row_are_one_launch() -> None:
    module = compared(attention(1, 32, 2, 16, soft=False))
    assert module.placement.share_of_macs == 1
    assert sum(["matmul_integer" in layer.ops for part in module.image.parts_of(VtaPart) for layer in part.layers]) == 2


@pytest.mark.parametrize("sizes", [((16, 32), (32, 16)), ((20, 24), (24, 5)), ((3, 16, 32), (3, 32, 10))])
def test_products_of_what_the_cpu_makes(sizes: Sequence[tuple[int, ...]]) -> None:
    net = Attention()
    a, b = (net.input(*shape, name=f"x{at}") for at, shape in enumerate(sizes))
    assert compared(net.finish(net.multiplied(a, b))).placement.share_of_macs == 1


@pytest.mark.parametrize(("config", "reason"), [("b2x16", "lie in blocks of 2 images"), ("w4", "weights of 4 bits")])
def test_other_devices_leave_them_to_the_cpu(config: str, reason: str) -> None:
    net = Attention(values=range(-8, 8))
    x = net.input(1, 16, 16)
    graph = net.finish(net.multiplied(net.rows(x, 16), net.moved("transpose", net.rows(x, 16), perm=(0, 2, 1))))
    placement = compared(graph, config).placement
    assert placement.share_of_macs is not None
    assert placement.share_of_macs < 1
    assert any(reason in each.reason for each in placement.left)


def test_zero_points_of_both_matrices_are_the_cpus() -> None:
    net = Attention()
    x, zero = net.input(1, 16, 16), net.builder.constant(np.int8(3))
    a, b = net.rows(x, 16), net.moved("transpose", net.rows(x, 16), perm=(0, 2, 1))
    sums = net.builder.one("matmul_integer", a, b, zero, zero, name="product")
    placement = compared(net.finish(net.requantized(sums, 300, "end"))).placement
    assert any("zero points" in each.reason for each in placement.left)


@pytest.mark.parametrize("device", ["fsim", "rtl"])
def test_a_small_device_has_the_same_bytes(device: str) -> None:
    assert compared(attention(1, 10, 2, 8), "tiny", device).placement.share_of_macs == 1
