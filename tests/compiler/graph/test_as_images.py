"""Convolutions of bytes over signals and volumes, and transposed ones, as those of images: every byte stays."""

import numpy as np
import pytest
from codegen_cases import HERE, LEVELS

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.compile import compile_graph
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph, check
from vtakit.compiler.graph.passes.as_images import as_images
from vtakit.compiler.graph.passes.packed_bytes import pack_bytes
from vtakit.runtime.cpu.target import Cpu, image_of
from vtakit.runtime.module import Module


def int8(rng, *shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def requantized(b, acc, rng):
    """Sums by random factors that keep most of them within int8."""
    channels = acc.type.shape[1]
    vectors = [b.constant(rng.integers(low, high, channels).astype(np.int32)) for low, high in (
        (-9000, 9000), (1 << 14, 1 << 16), (24, 28))]
    return b.one("requantize", acc, *vectors, attrs={"zero_point": int(rng.integers(-20, 20)), "low": -120, "high": 125})


def assert_same(b: Builder, outputs: dict, level: str = HERE[-1]) -> list[str]:
    """The operators after the pass; the graph and what is packed of it compute the same bytes."""
    graph: Graph = b.finish([*outputs.items()])
    images = as_images(graph)
    packed = pack_bytes(images)
    for changed in (images, packed):
        check(changed)
    rng = np.random.default_rng(5)
    given = {value.name: int8(rng, *value.type.shape) for value in graph.inputs}
    want = evaluate_graph(graph, *given.values())
    got = Module(image_of(compile_graph(packed, CpuKernels(LEVELS[level])), Cpu.adopt(LEVELS[level]), "")).run(given)
    for (name, _), plain, first in zip(graph.outputs, evaluate_graph(images, *given.values()), want, strict=True):
        np.testing.assert_array_equal(plain, first)
        np.testing.assert_array_equal(got[name], first)
    return [node.op for node in images.nodes]


def convolution(b, x, rng, filters, kernel, groups=1):
    """A convolution with random strides, dilations, pads and fill, requantized."""
    count, channels = len(kernel), x.type.shape[1]
    attrs = {"strides": tuple(rng.integers(1, 3, count)), "dilations": tuple(rng.integers(1, 3, count)), "groups": groups,
             "pads": tuple(rng.integers(0, 3, 2 * count)), "fill": int(rng.integers(-9, 9))}
    attrs = {name: tuple(map(int, each)) if isinstance(each, tuple) else each for name, each in attrs.items()}
    weight = b.constant(int8(rng, filters, channels // groups, *kernel))
    return requantized(b, b.one("conv_integer", x, weight, attrs=attrs), rng)


@pytest.mark.parametrize("seed", range(3))
def test_signals(seed):
    """Two convolutions, a table and a sum between, without leaving the images."""
    rng, b = np.random.default_rng(seed), Builder("net")
    x = b.input("x", (1 + seed % 2, (16, 32, 20)[seed], 40), "int8")
    y = convolution(b, x, rng, 32, (5,))
    y = b.one("lookup", y, b.constant(int8(rng, 256)))
    vectors = [b.constant(rng.integers(1, 99, 32).astype(np.int32)) for _ in range(2)]
    y = requantized(b, b.one("scaled_sum", y, y, *vectors), rng)
    y = convolution(b, y, rng, 24 if seed else 32, (3,), groups=(32, 1, 8)[seed])
    ops = assert_same(b, {"y": y})
    assert ops.count("reshape") == 2


@pytest.mark.parametrize("shape", [(40,), (4, 5, 6)])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("op", ["scaled_add", "scaled_sum"])
def test_a_constant_of_the_full_shape(op, first, shape):
    """A constant added to a signal or volume becomes an image like it."""
    rng, b = np.random.default_rng(3), Builder("net")
    kernel, spread = (3,) * len(shape), {"pads": (1,) * 2 * len(shape)}
    sums = b.one("conv_integer", b.input("x", (1, 16, *shape), "int8"), b.constant(int8(rng, 16, 16, *kernel)), attrs=spread)
    y = requantized(b, sums, rng)
    own, scales = b.constant(int8(rng, 1, 16, *shape)), [b.constant(rng.integers(1, 99, 16).astype(np.int32)) for _ in range(2)]
    if op == "scaled_add":
        whole = b.constant(rng.integers(-9999, 9999, sums.type.shape).astype(np.int32))
        y = b.one(op, whole if first else sums, y if first else own, scales[0])
    else:
        y = b.one(op, *((own, y) if first else (y, own)), *scales)
    ops = assert_same(b, {"y": requantized(b, y, rng)})
    assert "reshape" in ops


@pytest.mark.parametrize("seed", range(4))
def test_volumes(seed):
    rng, b = np.random.default_rng(seed), Builder("net")
    x = b.input("x", (1 + seed % 2, (3, 32, 16, 20)[seed], 8, 9, 10), "int8")
    kernel = ((3, 3, 3), (2, 3, 1), (1, 1, 1), (3, 1, 2))[seed]
    y = convolution(b, convolution(b, x, rng, 32, kernel), rng, 16, (1, 1, 1))
    ops = assert_same(b, {"y": y})
    assert ops.count("transpose") == 2


@pytest.mark.parametrize("seed", range(6))
def test_transposed(seed):
    """Kernels that strides divide and others, pads, holes behind, signals, and channels that fill no blocks."""
    rng, b = np.random.default_rng(seed), Builder("net")
    count = 1 if seed == 5 else 2
    channels, filters = ((16, 16), (20, 32), (32, 64), (64, 7), (5, 48), (16, 32))[seed]
    x = b.input("x", (1 + seed % 2, channels, 7, 6)[:2 + count], "int8")
    steps = tuple(map(int, rng.integers(1, 4, count)))
    kernel = tuple(step + int(rng.integers(0, 3)) for step in steps)
    attrs = {"strides": steps, "pads": tuple(map(int, rng.integers(0, 2, 2 * count))), "zero": int(rng.integers(-9, 9)),
             "output_padding": tuple(int(rng.integers(0, step)) for step in steps)}
    y = b.one("conv_transpose_integer", x, b.constant(int8(rng, channels, filters, *kernel)), attrs=attrs)
    y = convolution(b, requantized(b, y, rng), rng, 16, (3,) * count)
    ops = assert_same(b, {"y": y})
    assert "conv_transpose_integer" not in ops
    assert "interleave" in ops


def test_what_stays_as_it_is():
    """Sums of a transposed convolution that are read as they are, dilated ones, and volumes in groups; images alone."""
    rng, b = np.random.default_rng(0), Builder("net")
    x, v = b.input("x", (1, 8, 5, 5), "int8"), b.input("v", (1, 8, 4, 5, 5), "int8")
    sums = b.one("conv_transpose_integer", x, b.constant(int8(rng, 8, 4, 2, 2)), attrs={"strides": (2, 2)})
    dilated = b.one("conv_transpose_integer", x, b.constant(int8(rng, 8, 4, 2, 2)), attrs={"dilations": (2, 2)})
    volume = b.one("conv_integer", v, b.constant(int8(rng, 8, 2, 2, 2, 2)), attrs={"groups": 4})
    ops = assert_same(b, {"sums": sums, "y": requantized(b, dilated, rng), "z": requantized(b, volume, rng)})
    assert ops.count("conv_transpose_integer") == 2
    assert ops.count("conv_integer") == 1
    b = Builder("net")
    graph = b.finish([("y", convolution(b, b.input("x", (1, 8, 9, 9), "int8"), rng, 8, (3, 3)))])
    assert as_images(graph) is graph
