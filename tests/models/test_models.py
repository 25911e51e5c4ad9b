"""The networks of vtakit.models: their sizes are those published, ONNX and NumPy agree on them, and so does compiled code."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from support import raises

import vtakit
from vtakit import models
from vtakit.base.errors import VtakitError
from vtakit.models.__main__ import main
from vtakit.models.net import Net, Tensor

# As published and as torchvision counts them; ONNX's LSTM has 5,200 zeros more, a bias for each of two products.
PARAMETERS = {
    "resnet18": 11_689_512, "resnet50": 25_557_032, "mobilenet_v1": 4_231_976, "mobilenet_v2": 3_504_872,
    "dqn": 1_693_362, "dcgan": 12_674_819, "lstm": 19_775_200 + 5_200, "bert_mini": 11_170_560,
}
SIZES = {"resnet18": 64, "resnet50": 64, "mobilenet_v1": 64, "mobilenet_v2": 64}


def onnxruntime_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def weights(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


@pytest.fixture(scope="module")
def resnet18() -> onnx.ModelProto:
    return models.build("resnet18", size=64)


@pytest.mark.parametrize("name", models.NETWORKS)
@pytest.mark.slow
def test_a_network_is_the_published_one_and_compiles(name):
    """Valid ONNX of the published size, with outputs in range; compiled code is within 5e-5 of the largest value of onnxruntime.

    Elements near 0 are no nearer than that: they are sums of products as large as the others', and differ between processors.
    """
    size = SIZES.get(name)
    model = models.build(name, size=size)
    onnx.checker.check_model(model, full_check=True)
    assert models.parameter_count(model) == PARAMETERS[name]
    given = models.inputs(name, 2, size=size)
    (wanted,) = onnxruntime_of(model).run(None, given)
    assert 0.05 < wanted.std() < 5
    module = vtakit.compile(model, batch=2)
    (got,) = module.run(given).values()
    assert np.abs(got - wanted).max() <= 5e-5 * np.abs(wanted).max()
    memory = module.memory
    assert memory.live_bytes <= memory.arena_bytes <= 1.3 * memory.live_bytes


@pytest.mark.parametrize("name", models.NETWORKS)
def test_the_data_that_flowed_is_what_onnxruntime_computes(name):
    network = models.find(name)
    net = Net(name, np.random.default_rng(3))
    size = SIZES.get(name, network.size)
    x = net.input(network.input, network.sample(net.rng, 4, size))
    y = network.layers(net, x)
    (wanted,) = onnxruntime_of(net.model(y)).run(None, {network.input: x.data})
    np.testing.assert_allclose(y.data, wanted, rtol=1e-3, atol=1e-3)


def test_batch_norms_have_the_statistics_of_what_reaches_them():
    seen = []

    class Watched(Net):
        def batch_norm(self, x: Tensor, *, name: str) -> Tensor:
            y = super().batch_norm(x, name=name)
            seen.append((y.data, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]))
            return y
    net = Watched("net", np.random.default_rng(0))
    network = models.find("mobilenet_v2")
    network.layers(net, net.input("image", network.sample(net.rng, 4, 64)))
    assert len(seen) == 52
    for data, scale, shift in seen:
        np.testing.assert_allclose(data.mean(axis=(0, 2, 3)), shift, atol=2e-3)
        np.testing.assert_allclose(data.std(axis=(0, 2, 3)), scale, rtol=0.05)


def test_resnets_have_the_layers_of_torchvision(resnet18):
    """Names and shapes as in the state_dict of torchvision.models.resnet18 and resnet50."""
    shapes = {name: array.shape for name, array in weights(resnet18).items()}
    assert len(shapes) == 20 * 5 + 2  # convolutions, each with a batch norm of four arrays, and the classifier
    assert shapes["conv1.weight"] == (64, 3, 7, 7)
    assert shapes["layer2.0.conv1.weight"] == (128, 64, 3, 3)
    assert shapes["layer2.0.downsample.0.weight"] == (128, 64, 1, 1)
    assert shapes["layer4.1.bn2.running_var"] == (512,)
    assert shapes["fc.weight"] == (1000, 512)
    model = models.build("resnet50", size=32)
    shapes = {name: array.shape for name, array in weights(model).items()}
    assert len(shapes) == 53 * 5 + 2
    assert shapes["layer1.0.downsample.0.weight"] == (256, 64, 1, 1)
    assert shapes["layer3.5.conv2.weight"] == (256, 256, 3, 3)
    assert shapes["layer4.0.conv1.weight"] == (512, 1024, 1, 1)
    strided = {node.name for node in model.graph.node for a in node.attribute if a.name == "strides" and list(a.ints) == [2, 2]}
    assert strided == {"conv1", "maxpool", *(f"layer{k}.0.{word}" for k in (2, 3, 4) for word in ("conv2", "downsample.0"))}


def test_weights_follow_the_seed_and_not_the_size(resnet18):
    again, other = models.build("resnet18", size=96), models.build("resnet18", size=64, seed=1)
    first = weights(resnet18)
    for name, array in weights(again).items():
        np.testing.assert_array_equal(array, first[name])
    assert not np.array_equal(weights(other)["conv1.weight"], first["conv1.weight"])
    assert [d.dim_value for d in again.graph.input[0].type.tensor_type.shape.dim] == [0, 3, 96, 96]
    assert models.build("dqn").SerializeToString() == models.build("dqn").SerializeToString()


def test_what_cannot_be_is_told():
    with raises(VtakitError, "'resnet19' is no network of vtakit.models; did you mean 'resnet18'? Known: "
                             "bert_mini, dcgan, dqn, lstm, mobilenet_v1, mobilenet_v2, resnet18, resnet50"):
        models.build("resnet19")
    with raises(VtakitError, "network 'dqn' has inputs of one size only: leave size out"):
        models.build("dqn", size=64)
    with raises(VtakitError, "network 'resnet18' takes images of 32 pixels a side or more, not 16"):
        models.inputs("resnet18", size=16)
    with raises(VtakitError, "inputs('lstm', batch=0): a batch has at least 1 element"):
        models.inputs("lstm", 0)


def test_the_command_writes_a_file_or_says_what_is_wrong(tmp_path, capsys):
    path = tmp_path / "net.onnx"
    assert main(["dqn", "-o", str(path), "--seed", "5"]) == 0
    assert capsys.readouterr().out == f"{path}: DQN, 1,693,362 parameters\n"
    assert onnx.load(path) == models.build("dqn", seed=5)
    assert main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(models.NETWORKS)
    assert main(["dqn", "-o", str(tmp_path / "no" / "net.onnx")]) == 2
    assert "cannot write the model" in capsys.readouterr().err
    listed = subprocess.run([sys.executable, "-m", "vtakit.models", "x"], capture_output=True, text=True, check=False)
    assert listed.returncode == 2
    assert listed.stderr.startswith("python -m vtakit.models: 'x' is no network of vtakit.models; known: bert_mini, dcgan")
