"""What of a network becomes int8, without running anything."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import ModelProto, version_converter
from quantized_support import Layers

from vtakit.compiler.quantize.errors import QuantizeError
from vtakit.compiler.quantize.network import Network, fold_batch_norms
from vtakit.compiler.quantize.parts import Plan, Residual
from vtakit.compiler.quantize.plan import plan_of


def planned(net: Layers, outputs: tuple[str, ...] = (), **options: bool) -> Plan:
    """The plan of a network, some of whose values are outputs too."""
    proto = net.model("N")
    names = {node.output[0]: node for node in proto.graph.node}
    for name in outputs:
        proto.graph.output.add(name=name)
    shapes = {**net.shapes, "y": net.shapes[net.last]}
    network = Network(proto)
    fold_batch_norms(network)
    return plan_of(network, {name: shape for name, shape in shapes.items() if name in names or name == "x"}, **options)


def test_a_chain_is_one_layer():
    net = Layers(0)
    net.relu(net.norm(net.conv("x", 4)))
    assert [*planned(net).values] == ["x", "y"]


def test_the_last_of_two_layers_takes_the_other_as_its_residual():
    net = Layers(0)
    a, b = net.conv("x", 4), net.conv("x", 4)
    net.relu(net.sum(b, a))
    found = planned(net)
    assert [*found.values] == ["x", "t0", "y"]
    assert found.residuals == {2: Residual(1, "t1", "t0")}


def test_a_value_that_is_read_twice_ends_its_layer():
    net = Layers(0)
    a = net.conv("x", 4)
    net.concat(net.relu(a), a)
    found = planned(net)
    assert [*found.values] == ["x", "t0", "t1", "y"]
    assert found.root("t0") == found.root("t1") == found.root("y") != found.root("x")


def test_an_output_within_a_chain_ends_its_layer():
    net = Layers(0)
    net.relu(net.conv("x", 4))
    assert [*planned(net, ("t0",)).values] == ["x", "t0", "y"]


@pytest.mark.parametrize("op", ["Identity", "Dropout", "Flatten", "GlobalMaxPool"])
def test_moves_keep_the_scale(op):
    net = Layers(0)
    x = net.conv("x", 4)
    x = net.add(op, [x], net.shapes[x])
    found = planned(net)
    assert found.root("t0") == found.root("y")
    assert found.whole == {0, 1}


@pytest.mark.parametrize(("op", "attributes"), [
    ("Sigmoid", {}), ("Softmax", {}), ("AveragePool", {"kernel_shape": [3, 3], "pads": [1] * 4}), ("Pad", {"mode": "reflect"}),
    ("ReduceMean", {"axes": [1]}), ("LeakyRelu", {}),
])
def test_what_stays_in_floating_point_reads_int8(op, attributes):
    net = Layers(0)
    x = net.conv("x", 4)
    x = net.add(op, [x, *(["pads"] if op == "Pad" else [])], net.shapes[x], **attributes)
    net.constants["pads"] = np.zeros(8, np.int64)
    found = planned(net)
    assert [*found.values] == ["x", "t0"]
    assert found.made == {"t0"}
    assert found.whole == {0}


def test_a_network_without_weights_has_no_plan():
    net = Layers(0)
    net.relu(net.pool("x"))
    found = planned(net)
    assert set(found.left) == {0, 1}
    assert replace(found, left={}) == Plan()


def test_an_opset_that_cannot_be_brought_up_is_told(monkeypatch):
    net = Layers(0)
    net.conv("x", 4)
    proto = net.model()
    proto.opset_import[0].version = 9

    def convert(model: ModelProto, version: int) -> ModelProto:
        raise RuntimeError("no\nadapter")
    monkeypatch.setattr(version_converter, "convert_version", convert)
    with pytest.raises(QuantizeError, match=r"^the model uses opset 9, and onnx cannot make 13 of it, .*: no adapter$"):
        Network(proto)


def test_products_of_two_computed_matrices_are_int8_unless_told_otherwise():
    net = Layers(0)
    a, b = net.conv("x", 4), net.conv("x", 4)
    net.add("MatMul", [a, b], net.shapes[a])
    assert [*planned(net).values] == ["x", "t0", "t1", "y"]
    left = planned(net, matrices=False)
    assert "y" not in left.values
    assert left.left[2] == "its weights are computed, not constant"


def test_a_resize_of_one_pixel_is_a_move_in_any_mode():
    net = Layers(0)
    x = net.add("GlobalAveragePool", [net.conv("x", 4)], (1, 4, 1, 1))
    net.constants["sizes"] = np.array([1, 4, 5, 5])
    net.add("Resize", [x, "", "", "sizes"], (1, 4, 5, 5), mode="linear")
    found = planned(net)
    assert found.root("t1") == found.root("y")
