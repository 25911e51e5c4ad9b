"""Transposed convolutions of data with a zero point, and pixels from channels, on the accelerator."""

from typing import Any

import numpy as np
import pytest
from integer_nets import Integers
from model_support import module_of, vta_image

from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph, Value
from vtakit.runtime.module import Module
from vtakit.runtime.placement import Placement


def compared(graph: Graph, config: str = "default", device: str = "fsim") -> Placement:
    """Run a graph on the accelerator; every output is the CPU's and the definition's."""
    rng = np.random.default_rng(7)
    given = {value.name: rng.normal(0, 3, value.type.shape).astype(np.float32) for value in graph.inputs}
    want, exact = module_of(graph).run(given), evaluate_graph(graph, *[given[value.name] for value in graph.inputs])
    image = vta_image(graph, config)
    with Module(image, device) as module:
        found = module.run(given)
    for (name, array), defined in zip(want.items(), exact, strict=True):
        assert np.array_equal(array, defined), name
        assert np.array_equal(found[name], array), name
    return module.placement


def deconv(net: Integers, x: Value, outs: int, kernel: int, stride: int, pad: int, zero: int, **attrs: Any) -> Value:
    """A transposed convolution of data with a zero point."""
    groups = attrs.get("groups", 1)
    weights = net.builder.constant(net.rng.integers(-99, 100, (x.type.shape[1], outs // groups, kernel, kernel), np.int8))
    sums = net.builder.one("conv_transpose_integer", x, weights, name="deconv", attrs={
        "strides": (stride,) * 2, "pads": (pad,) * 4, "zero": zero, **attrs})
    return net.requantized(sums, 60 * np.sqrt(x.type.shape[1]), "deconv.requantize")


@pytest.mark.parametrize(("channels", "outs", "kernel", "stride", "pad", "attrs"), [
    (8, 20, 2, 2, 0, {}), (20, 16, 4, 2, 1, {}), (8, 5, 3, 3, 0, {}), (16, 8, 5, 2, 2, {"output_padding": (1, 1)}),
    (32, 32, 4, 2, 1, {"groups": 2}), (6, 8, 2, 2, 0, {"dilations": (3, 3), "pads": (1, 1, 1, 1)}), (8, 8, 3, 1, 1, {}),
])
def test_a_zero_point_of_a_transposed_convolutions_data(
    channels: int, outs: int, kernel: int, stride: int, pad: int, attrs: dict[str, Any],
) -> None:
    net = Integers()
    x = net.conv(net.input(1, 5, 7, 6), channels, low=-128)
    placement = compared(net.finish(deconv(net, x, outs, kernel, stride, pad, -37, **attrs)))
    assert (placement.share_of_macs, placement.launches) == (1, 1)


@pytest.mark.parametrize("config", ["tiny", "tiny_b2", "blk8"])
def test_a_zero_point_on_other_devices(config: str) -> None:
    net = Integers()
    x = net.conv(net.input(2, 3, 5, 5), 9, low=-128)
    compared(net.finish(deconv(net, x, 7, 4, 2, 1, 21)), config)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize(("outs", "kernel", "block", "pad", "fill"), [
    (64, 3, 2, 1, 0), (64, 3, 2, 1, -9), (144, 1, 3, 0, 0), (60, 5, 2, 2, 4), (64, 3, 2, 0, 0),
])
def test_pixels_from_the_channels_of_a_convolution(mode: str, outs: int, kernel: int, block: int, pad: int, fill: int) -> None:
    net = Integers()
    x = net.conv(net.input(1, 5, 7, 6), 20, low=-128)
    made = net.conv(x, outs, kernel, pad=pad, fill=fill, low=-128)
    pixels = net.builder.one("depth_to_space", made, attrs={"blocksize": block, "mode": mode}, name="pixels")
    placement = compared(net.finish(net.conv(pixels, 3)))
    assert (placement.share_of_macs, placement.launches, placement.left) == (1, 1, ())


@pytest.mark.parametrize("config", ["default", "tiny", "tiny_b2"])
def test_pixels_from_channels_by_themselves(config: str) -> None:
    net = Integers()
    x = net.max_pool(net.conv(net.input(2, 5, 8, 8), 64, low=-128))
    pixels = net.builder.one("depth_to_space", x, attrs={"blocksize": 2, "mode": "CRD"}, name="pixels")
    assert compared(net.finish(net.conv(pixels, 3)), config).launches == 1


def test_few_channels_of_pixels_are_left_to_the_cpu() -> None:
    net = Integers()
    made = net.conv(net.input(1, 8, 6, 6), 27, low=-128)
    pixels = net.builder.one("depth_to_space", made, attrs={"blocksize": 3, "mode": "CRD"}, name="pixels")
    (left,) = compared(net.finish(pixels)).left
    assert "lanes" in left.reason


@pytest.mark.parametrize("device", ["fsim", "rtl"])
def test_phases_on_a_small_device(device: str) -> None:
    net = Integers()
    x = net.conv(net.input(1, 3, 4, 4), 8, low=-128)
    pixels = net.builder.one("depth_to_space", net.conv(x, 16, low=-128), attrs={"blocksize": 2, "mode": "CRD"}, name="pixels")
    compared(net.finish(deconv(net, pixels, 5, 2, 2, 0, 11)), "tiny", device)
