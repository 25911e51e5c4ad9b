"""Random networks in float32, and what they share, beside onnxruntime."""

import numpy as np
import onnx
import pytest
from model_support import model
from onnx import helper
from quantized_support import Layers, onnxruntime_of, random_network

import vtakit
from vtakit.runtime.cpu import openmp


@pytest.mark.parametrize("seed", range(8))
def test_random_networks(seed):
    net = random_network(seed, 7, norms=bool(seed % 2))
    proto = net.model(2)
    given = {"x": net.inputs(2, seed=seed)}
    module = vtakit.compile(proto, threads=1)
    (wanted,), (got,) = onnxruntime_of(proto).run(None, given), module.run(given).values()
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


def convolutions(shared: bool, kernel: int, channels: int) -> onnx.ModelProto:
    """Three in a row, with the same weights or each with its own."""
    net, x = Layers(0, channels, 14), "x"
    for number in range(3):
        x = net.conv(x, channels, kernel)
        if shared and number:
            net.nodes[-1].input[1:] = net.nodes[0].input[1:]
    return net.model()


@pytest.mark.parametrize(("kernel", "channels"), [(3, 64), (1, 192)])
def test_weights_that_layers_share_are_kept_once(kernel, channels):
    one, three = (vtakit.compile(convolutions(shared, kernel, channels)) for shared in (True, False))
    assert 3 * one.memory.weights_bytes <= 1.01 * three.memory.weights_bytes
    proto, given = convolutions(True, kernel, channels), {"x": Layers(0, channels, 14).inputs(1)}
    (wanted,), (got,) = onnxruntime_of(proto).run(None, given), one.run(given).values()
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("modes", [("edge", "edge"), ("constant", "edge"), ("reflect", "reflect"), ("wrap", "wrap")])
def test_pads_of_pads(modes):
    pads = np.array([0, 0, 0, 0, 0, 0, 2, 2]), np.array([0, 0, 1, 1, 0, 0, 0, 1])
    nodes = [helper.make_node("Pad", ["x", "p"], ["a"], mode=modes[0]), helper.make_node("Abs", ["a"], ["b"]),
             helper.make_node("Pad", ["b", "q"], ["y"], mode=modes[1])]
    proto = model(nodes, [("x", "f4", [3, 17, 13, 14])], [("y", "f4", [3, 17, 16, 18])], dict(zip("pq", pads, strict=True)), 19)
    x = np.random.default_rng(0).standard_normal((3, 17, 13, 14)).astype("f4")
    wanted = np.pad(np.abs(np.pad(x, pads[0].reshape(2, 4).T, modes[0])), pads[1].reshape(2, 4).T, modes[1])
    assert np.array_equal(vtakit.compile(proto).run({"x": x})["y"], wanted)


def test_more_threads_than_an_int_of_c_counts_are_as_many_as_it_can():
    with openmp.Limit(1 << 32):
        assert openmp.threads() > 1
