"""What `vtakit.quantize` makes gives the same bytes in integers and in onnxruntime, with its optimisations and without."""

from typing import Any

import numpy as np
import onnx
import pytest
from quantized_support import Layers, assert_same_bytes, onnxruntime_of, random_network

import vtakit
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.passes.quantized.form import integer_form


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
@pytest.mark.slow
def test_outputs_of_real_networks(name):
    """Dozens of layers with random weights, in which one value that differs makes most others differ."""
    proto, given = vtakit.models.build(name, size=32), vtakit.models.inputs(name, 6, size=32)["image"]
    made = vtakit.quantize(proto, given[:2], evaluation=given[:1]).model
    module, session = vtakit.compile(made), onnxruntime_of(made)
    for x in given[2:, None]:
        (got,) = module.run({"image": x}).values()
        assert got.tobytes() == session.run(None, {"image": x})[0].tobytes()
    if name == "resnet18":
        assert_same_bytes(made, {"image": given[2:4]})


@pytest.mark.parametrize("seed", range(5))
def test_random_networks(seed):
    net = random_network(seed, 6, norms=bool(seed % 2))
    made = vtakit.quantize(net.model("N"), net.inputs(4), evaluation=net.inputs(1)).model
    assert_same_bytes(made, {"x": net.inputs(6, seed=1)})


def read_twice() -> Layers:
    """Convolutions whose sums other layers read too, so that they are added as int8."""
    net = Layers(2, size=12)
    a, b = net.conv("x", 8), net.conv("x", 8, 1)
    s = net.relu(net.sum(net.relu(a), net.relu(b)))
    net.concat(net.conv(net.sum(s, a), 4), net.conv(b, 4))
    return net


def pools() -> Layers:
    """Means of as many elements as make halves, and an activation of a value that another layer reads."""
    net = Layers(5, size=12)
    x = net.conv("x", 8)
    y = net.sum(net.pool(net.relu(x), "AveragePool"), net.pool(x, "AveragePool"))
    net.classifier(net.pool(y, "AveragePool", 3, 1))
    return net


@pytest.mark.parametrize(("make", "op"), [(read_twice, "scaled_sum"), (pools, "sum_pool")])
def test_sums_and_means_of_int8(make, op):
    net = make()
    made = vtakit.quantize(net.model("N"), net.inputs(8), evaluation=net.inputs(1)).model
    assert [node.op for node in integer_form(import_model(made)).nodes].count(op) >= 2
    assert_same_bytes(made, {"x": net.inputs(24, seed=1)})


def biases(proto: onnx.ModelProto) -> dict[str, tuple[Any, Any]]:
    """Of each convolution its bias's scale, and the product of its data's and its weights'."""
    known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    makers = {node.output[0]: node for node in proto.graph.node}
    found = {}
    for node in proto.graph.node:
        if node.op_type == "Conv":
            data, weight, bias = (known[makers[name].input[1]] for name in node.input)
            found[node.output[0]] = bias, data * weight
    return found


def test_layers_that_runtimes_take_for_integers_have_biases_in_units_of_their_sums():
    """A runtime that fuses them may not look at the scale of the bias; others have finer ones."""
    net = Layers(0)
    x = net.relu(net.conv("x", 6))
    y = net.conv(x, 6)
    z = net.relu(net.conv(y, 6), six=True)
    net.constants |= {"low": np.float32(-99), "high": np.float32(99)}
    wide = net.conv(z, 6)
    wide = net.add("Clip", [wide, "low", "high"], net.shapes[wide])  # runtimes leave it out
    net.concat(net.sum(net.conv(y, 6), x), wide)
    made = vtakit.quantize(net.model("N"), net.inputs(4), evaluation=net.inputs(1)).model
    units = [(bias / product).mean() for bias, product in biases(made).values()]
    np.testing.assert_allclose(units, [1 / 32, 1, 1 / 32, 1, 1 / 32], rtol=1e-6)
