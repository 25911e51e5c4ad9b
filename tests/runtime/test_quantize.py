"""`vtakit.quantize` and its command: what it makes of models, how near that is, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from model_support import model
from onnx import helper
from quantized_support import Layers, onnxruntime_of, quantum_of

import vtakit
from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.passes.quantized.form import integer_form
from vtakit.compiler.graph.reference import reference
from vtakit.compiler.quantize.errors import QuantizeError
from vtakit.runtime import cli
from vtakit.runtime.accuracy import Compared
from vtakit.runtime.quantize import Quantized

N = helper.make_node


def residual_network() -> Layers:
    """Normalized convolutions, a residual, a shortcut with weights, and a classifier."""
    net = Layers(3, size=8)
    x = net.relu(net.norm(net.conv("x", 12)))
    y = net.relu(net.norm(net.conv(x, 12)))
    x = net.relu(net.sum(net.norm(net.conv(y, 12)), x))
    y = net.conv(net.relu(net.conv(x, 16, 3, 2)), 16)
    net.classifier(net.relu(net.sum(y, net.conv(x, 16, 1, 2))), 6)
    return net


NET = residual_network()
FLOAT, SAMPLES = NET.model("N"), NET.inputs(24)


@pytest.fixture(scope="module")
def made() -> Quantized:
    return vtakit.quantize(FLOAT, SAMPLES, evaluation=NET.inputs(40, seed=5))


def test_the_model_is_plain_onnx_with_its_names(made):
    onnx.checker.check_model(made.model, full_check=True)
    kinds = [node.op_type for node in made.model.graph.node]
    assert "BatchNormalization" not in kinds
    assert kinds.count("Conv") == 6
    assert [info.name for info in made.model.graph.input] == ["x"]
    assert [info.name for info in made.model.graph.output] == ["y"]
    assert made.model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    before = {name for node in FLOAT.graph.node for name in node.output}
    assert {value.name for value in made.accuracy.values} <= before | {"x"}


def test_what_quantize_returns_is_compiled_by_its_model(made):
    with pytest.raises(ModelError, match=r"got Quantized: give its \.model"):
        vtakit.compile(made)


def test_accuracy_is_told_by_value(made):
    accuracy = made.accuracy
    assert accuracy.samples == 40
    assert accuracy.agreement["y"] >= 0.95
    (y,) = [value for value in accuracy.values if value.name == "y"]
    assert y.decibels > 25
    assert [value.decibels for value in accuracy.worst(4)] == sorted(value.decibels for value in accuracy.values)[:4]
    plain = json.loads(json.dumps(accuracy.to_dict()))
    assert plain["agreement"] == accuracy.agreement
    assert plain["worst"][0] == accuracy.worst(1)[0].name
    assert accuracy.left == []
    assert "same class" in str(made)


def test_signal_to_noise_is_that_of_onnxruntime_too(made):
    """The float model and the quantized one, both run by onnxruntime, on the same samples."""
    real, quantized, x = onnxruntime_of(FLOAT), onnxruntime_of(made.model), NET.inputs(40, seed=5)
    (a,), (b,) = real.run(None, {"x": x}), quantized.run(None, {"x": x})
    (y,) = [value for value in made.accuracy.values if value.name == "y"]
    assert y.decibels == pytest.approx(10 * np.log10(np.sum(a**2) / np.sum((a - b) ** 2)), abs=0.5)


def test_it_compiles_to_integers_alone(made):
    graph = integer_form(import_model(made.model))
    kinds = [node.op for node in graph.nodes]
    assert kinds.count("scaled_add") == 2
    assert kinds[0] == "quantize_linear"
    assert kinds[-1] == "dequantize_linear"
    assert set(kinds[1:-1]) == {"conv_integer", "scaled_add", "requantize", "sum_pool", "reshape", "matmul_integer"}
    module, session = vtakit.compile(made.model), onnxruntime_of(made.model)
    off = []
    for x in NET.inputs(30, seed=7)[:, None]:
        got = module.run({"x": x})["y"]
        np.testing.assert_array_equal(got, reference(graph, x)[0])
        off.append(np.rint(np.abs(got - session.run(None, {"x": x})[0]) / quantum_of(made.model)))
    assert np.max(off) <= 1


def test_without_integers_it_is_what_onnxruntime_computes(made):
    module, session, x = vtakit.compile(made.model, integer=False), onnxruntime_of(made.model), SAMPLES[:1]
    floats = {"conv", "conv_blocked"}
    assert any(floats & {*layer.ops} for layer in module.image.layers)  # a kept module in integers is not taken for it
    np.testing.assert_allclose(module.run({"x": x})["y"], session.run(None, {"x": x})[0], atol=1e-5)


def test_bias_correction_keeps_the_mean():
    """One layer of few weights and data that is positive, where rounding the weights moves the mean of the sums."""
    rng = np.random.default_rng(1)
    weight = (rng.standard_normal((8, 2, 3, 3)) * np.where(np.arange(18) == 4, 20, 1).reshape(1, 2, 3, 3)).astype(np.float32)
    ports = [("x", "f4", ("N", 2, 8, 8))], [("y", "f4", ("N", 8, 8, 8))]
    proto = model([N("Conv", ["x", "w"], ["y"], pads=[1] * 4)], *ports, {"w": weight})
    x = rng.random((16, 2, 8, 8)).astype(np.float32)
    (real,) = onnxruntime_of(proto).run(None, {"x": x})
    moved = []
    for correct in (False, True):
        (y,) = onnxruntime_of(vtakit.quantize(proto, x, bias_correction=correct).model).run(None, {"x": x})
        moved.append(np.abs((y - real).mean((0, 2, 3))).max())
    assert moved[1] < 0.3 * moved[0]


def test_both_operands_of_a_product_of_computed_matrices_have_no_zero_point():
    """Random weights: onnxruntime computes the same, the accelerator multiplies them, and floating point is nearer."""
    rng = np.random.default_rng(3)
    weights = {name: rng.standard_normal((24, 24), np.float32) / 5 for name in "qkv"}
    nodes = [N("MatMul", ["x", name], [f"{name}0"]) for name in "qkv"] + [
        N("Transpose", ["k0"], ["k1"], perm=[0, 2, 1]), N("MatMul", ["q0", "k1"], ["s"], name="scores"),
        N("Softmax", ["s"], ["p"], axis=-1), N("MatMul", ["p", "v0"], ["y"], name="context")]
    proto = model(nodes, [("x", "f4", ("N", 16, 24))], [("y", "f4", ("N", 16, 24))], weights)
    x = rng.standard_normal((8, 16, 24), np.float32)
    real = vtakit.compile(proto, batch=8).run({"x": x})["y"]
    off = []
    for matrices in (True, False):
        made = vtakit.quantize(proto, x, matrices=matrices)
        found = vtakit.compile(made.model, batch=8).run({"x": x})["y"]
        off.append(float(np.abs(found - real).mean()))
        (other,) = onnxruntime_of(made.model).run(None, {"x": x})
        known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in made.model.graph.initializer}
        assert np.abs(found - other).max() <= 1.01 * known.get("y_scale", 1e-5)  # a softmax may round otherwise
        assert not matrices or not any(known[f"{name}_zero_point"].any() for name in ("q0", "k1", "p", "v0"))
        there = vtakit.compile(made.model, "vta", batch=1)
        assert (there.placement.share_of_macs == 1) is matrices
        assert np.array_equal(there.run({"x": x[:1]})["y"], vtakit.compile(made.model, batch=1).run({"x": x[:1]})["y"])
    assert off[1] < off[0]


def test_what_cannot_be_quantized_stays_in_floating_point():
    net = Layers(0, size=6)
    x = net.conv("x", 4)
    x = net.add("Sin", [x], net.shapes[x])
    x = net.concat(net.conv(x, 4), x)
    net.conv(x, 3)
    made = vtakit.quantize(net.model("N"), net.inputs(4))
    assert made.accuracy.left == ["Sin sin1"]
    assert made.accuracy.reasons == {"Sin sin1": "Sin has no integer form"}
    onnx.checker.check_model(made.model, full_check=True)
    kinds = [node.op for node in integer_form(import_model(made.model)).nodes]
    assert kinds.count("conv_integer") == 3
    assert kinds.count("sin") == kinds.count("concat") == 1
    assert kinds.count("quantize_linear") == 2  # of the input, and of what the sigmoid makes
    x = net.inputs(1)
    got, (want,) = vtakit.compile(made.model).run({"x": x})["y"], onnxruntime_of(made.model).run(None, {"x": x})
    assert np.abs(got - want).max() <= 1.01 * quantum_of(made.model)


def test_functions_of_each_element_and_products_are_integers():
    """As of a block of MobileNet v3: a hard swish, and channels multiplied by a hard sigmoid of their means."""
    net = Layers(0, size=8)
    x = net.conv("x", 8)
    x = net.add("HardSwish", [x], net.shapes[x])
    gate = net.conv(net.add("GlobalAveragePool", [x], (1, 8, 1, 1)), 8, 1)
    gate = net.add("HardSigmoid", [gate], net.shapes[gate])
    net.conv(net.add("Mul", [x, gate], net.shapes[x]), 4)
    made = vtakit.quantize(net.model("N"), net.inputs(8))
    assert made.accuracy.left == []
    kinds = [node.op for node in integer_form(import_model(made.model)).nodes]
    assert kinds.count("lookup") == 2
    assert kinds.count("mul_integer") == 1
    assert kinds.count("conv_integer") == 3
    x = net.inputs(4, seed=3)
    session = onnxruntime_of(made.model)
    module = vtakit.compile(made.model)
    for each in x[:, None]:
        off = np.abs(module.run({"x": each})["y"] - session.run(None, {"x": each})[0])
        assert off.max() <= 1.01 * quantum_of(made.model)


def test_what_follows_a_relu_has_a_zero_point_and_twice_the_levels():
    made, plain = (vtakit.quantize(FLOAT, SAMPLES, symmetric=symmetric) for symmetric in (False, True))
    zeros = {t.name: int(onnx.numpy_helper.to_array(t)) for t in made.model.graph.initializer if t.name.endswith("_zero_point")}
    assert list(zeros.values()).count(-127) >= 4
    assert not any(onnx.numpy_helper.to_array(t).any() for t in plain.model.graph.initializer if t.name.endswith("_zero_point"))
    inner = [[value.decibels for value in each.accuracy.values if value.op == "Relu"] for each in (made, plain)]
    assert np.mean(inner[0]) > np.mean(inner[1]) + 1.5


def test_reasons_are_said_by_layer():
    net = Layers(0, size=6)
    x = net.conv("x", 4)
    net.constants["axes"] = np.array([1])
    x = net.add("Softmax", [x], net.shapes[x], axis=1)
    net.conv(net.add("Sin", [x], net.shapes[x]), 3)
    made = vtakit.quantize(net.model("N"), net.inputs(4))
    assert list(made.accuracy.reasons.values()) == ["Softmax has no integer form", "Sin has no integer form"]
    assert "1 node stays in floating point, since Softmax has no integer form: Softmax" in str(made)
    assert made.accuracy.to_dict()["reasons"] == made.accuracy.reasons


def test_a_generator_is_in_integers_from_rows_to_images():
    """Batch normalization and Relu behind the reshape of a product are part of the product."""
    net = Layers(4, size=1)
    net.shapes["x"] = (1, 10)
    weights, bias = net.weights(6 * 3 * 2, 10, fan_in=10), net.weights(6 * 3 * 2, fan_in=1)
    net.constants["shape"] = np.array([-1, 6, 3, 2])
    x = net.add("Gemm", ["x", weights, bias], (1, 36), transB=1)
    x = net.relu(net.norm(net.add("Reshape", [x, "shape"], (1, 6, 3, 2))))
    x = net.conv_transpose(x, 3)
    net.add("Tanh", [x], net.shapes[x])
    proto, rng = net.model("N"), np.random.default_rng(0)
    samples = rng.standard_normal((8, 10)).astype(np.float32)
    made = vtakit.quantize(proto, samples)
    assert made.accuracy.left == ["Tanh tanh5"]
    assert [node.op for node in integer_form(import_model(made.model)).nodes] == [
        "quantize_linear", "matmul_integer", "requantize", "reshape", "conv_transpose_integer", "requantize", "dequantize_linear",
        "tanh"]
    (y,) = [value for value in made.accuracy.values if value.name == "y"]
    assert y.decibels > 25
    x = samples[:1]
    got, (want,) = vtakit.compile(made.model).run({"x": x})["y"], onnxruntime_of(made.model).run(None, {"x": x})
    np.testing.assert_allclose(got, want, atol=1e-6)
    (real,) = onnxruntime_of(proto).run(None, {"x": x})  # onnxruntime, which folded nothing
    assert np.abs(got - real).max() < 0.1


@pytest.mark.parametrize("shape", [[-1, 36], [-1, 3, 4, 3], [0, 6, -1, 2]])
def test_reshapes_to_other_channels_keep_their_batch_norm(shape):
    net = Layers(4, size=1)
    net.shapes["x"] = (1, 10)
    x = net.add("Gemm", ["x", net.weights(36, 10, fan_in=10)], (1, 36), transB=1)
    net.constants["shape"] = np.array(shape)
    x = net.norm(net.add("Reshape", [x, "shape"], (1, *[3 if size == -1 else size for size in shape[1:]])))
    net.relu(x)
    samples = np.random.default_rng(0).standard_normal((4, 10)).astype(np.float32)
    made = vtakit.quantize(net.model("N"), samples)
    (real,), (got,) = (onnxruntime_of(proto).run(None, {"x": samples[:1]}) for proto in (net.model("N"), made.model))
    assert np.abs(got - real).max() < 0.3


def test_a_residual_finer_than_the_sums_is_added_on_its_own():
    """A shortcut of small numbers beside a convolution of large weights."""
    node = [N("Conv", ["x", "w"], ["a"]), N("Conv", ["a", "v"], ["b"]), N("Add", ["b", "a"], ["y"])]
    weights = {"w": np.full((4, 4, 1, 1), 1e-4, np.float32), "v": np.full((4, 4, 1, 1), 900, np.float32)}
    proto = model(node, [("x", "f4", ("N", 4, 5, 5))], [("y", "f4", ("N", 4, 5, 5))], weights)
    x = np.random.default_rng(0).standard_normal((8, 4, 5, 5)).astype(np.float32)
    made = vtakit.quantize(proto, x)
    kinds = [node.op for node in integer_form(import_model(made.model)).nodes]
    assert "scaled_add" not in kinds
    assert {value.name for value in made.accuracy.values} == {"x", "a", "b", "y"}
    assert made.accuracy.worst(1)[0].decibels > 20


@pytest.mark.parametrize("method", ["max", "percentile", "entropy"])
def test_other_ranges(method):
    net = Layers(1, size=6)
    net.relu(net.conv("x", 4))
    made = vtakit.quantize(net.model("N"), net.inputs(6), method=method)
    assert all(value.decibels > 15 for value in made.accuracy.values)


def test_a_model_of_a_fixed_batch_and_an_old_opset():
    net = Layers(1, size=6)
    net.relu(net.norm(net.conv("x", 4)))
    proto = net.model(4)
    proto.opset_import[0].version = 9
    made = vtakit.quantize(proto, net.inputs(8))
    assert made.accuracy.samples == 8
    assert made.model.opset_import[0].version == 13
    with pytest.raises(QuantizeError, match=r"^calibration: 6 samples are no whole number of the model's batches of 4$"):
        vtakit.quantize(proto, net.inputs(6))


def plain() -> onnx.ModelProto:
    net = Layers(1, size=6)
    net.conv("x", 4)
    return net.model("N")


X = np.zeros((2, 3, 6, 6), np.float32)
NO_ARRAYS = (f"the calibration {__file__!r} is not an .npz file of numbers, or it is damaged (File is not a zip file): "
             "write it with numpy.savez")
WANTED = "input 'x' is float32[samples, 3, 6, 6]"
NAN = X.copy()
NAN[1, 2, 3, 4] = np.nan


@pytest.mark.parametrize(("calibration", "options", "message"), [
    (X[:, :2], {}, f"calibration: {WANTED}, got the shape [2, 2, 6, 6]: the first dimension counts samples"),
    (X[0], {}, f"calibration: {WANTED}, got the shape [3, 6, 6]: the first dimension counts samples"),
    (X.astype("f8"), {}, f"calibration: {WANTED}, got float64: convert it with .astype('float32')"),
    (X[:0], {}, f"calibration: {WANTED}, got the shape [0, 3, 6, 6], which is empty: give some samples"),
    (NAN, {}, "calibration: input 'x' has nan at [1, 2, 3, 4]: ranges need finite numbers"),
    ({}, {}, "calibration lacks the input 'x'"),
    ({"x": X, "z": X}, {}, "calibration: the model has no input 'z'; known: x"),
    ("none.npz", {}, "cannot read the calibration 'none.npz': No such file or directory"),
    (__file__, {}, NO_ARRAYS),
    (X, {"method": "least"}, "method='least' is no way to choose a range: known: entropy, max, mse, percentile"),
    (X, {"evaluation": X[:, :2]},
     f"evaluation: {WANTED}, got the shape [2, 2, 6, 6]: the first dimension counts samples"),
], ids=lambda value: None)
def test_arrays_and_options_that_do_not_fit(calibration, options, message):
    with pytest.raises(QuantizeError) as raised:
        vtakit.quantize(plain(), calibration, **options)
    assert str(raised.value) == message


def test_models_that_cannot_be_quantized():
    relu = model([N("Relu", ["x"], ["y"])], [("x", "f4", ("N", 3))], [("y", "f4", ("N", 3))])
    with pytest.raises(QuantizeError) as raised:
        vtakit.quantize(relu, np.ones((2, 3), np.float32))
    assert str(raised.value) == ("the model 'net' has nothing to quantize: no Conv, ConvTranspose, Gemm or MatMul with constant "
                                 "weights on float32 data")
    with pytest.raises(QuantizeError) as raised:
        vtakit.quantize(vtakit.quantize(plain(), X).model, X)
    what = "it has 2 nodes such as QuantizeLinear: give the float model"
    assert str(raised.value) == f"the model 'net' is quantized already, {what}"
    two = model([N("Add", ["x", "z"], ["y"])], [("x", "f4", ("N", 3)), ("z", "f4", ("N", 3))], [("y", "f4", ("N", 3))])
    with pytest.raises(QuantizeError, match=r"^calibration: the model has 2 inputs; give a dict of arrays by their names: "):
        vtakit.quantize(two, np.ones((2, 3), np.float32))
    with pytest.raises(QuantizeError, match=r"^calibration: the inputs have different numbers of samples: 'x' 2, 'z' 3$"):
        vtakit.quantize(two, {"x": np.ones((2, 3), np.float32), "z": np.ones((3, 3), np.float32)})


def test_a_value_of_the_float_model_that_is_no_number_is_told():
    weights = np.ones((4, 3, 3, 3), np.float32)
    log = model([N("Log", ["x"], ["l"]), N("Conv", ["l", "w"], ["y"])], [("x", "f4", ("N", 3, 6, 6))],
                [("y", "f4", ("N", 4, 4, 4))], {"w": weights})
    with pytest.raises(QuantizeError) as raised:
        vtakit.quantize(log, np.full((2, 3, 6, 6), -1, np.float32))
    assert str(raised.value) == ("the float model makes nan of the samples, in the value 'l' (Log) at [0, 0, 0, 0]: ranges need "
                                 "finite numbers")


@pytest.mark.parametrize("method", ["mse", "max", "percentile", "entropy"])
def test_samples_next_to_nothing_are_zeros(method):
    found = vtakit.quantize(plain(), np.full_like(X, 1e-42), method=method)
    module = vtakit.compile(found.model, batch=2)
    assert np.array_equal(module.run({"x": np.full_like(X, 1e-42)})["y"], module.run({"x": X})["y"])


@pytest.mark.parametrize(("inputs", "weights"), [(1e-12, 1), (1e-27, 1), (1, 1e-14), (1e-5, 1e-11), (1e20, 1), (1e-29, 1e25)])
def test_tiny_and_huge_networks_lose_no_more_than_others(inputs, weights):
    rng = np.random.default_rng(0)
    numbers = {"w": rng.standard_normal((8, 3, 3, 3)) * weights / 5, "b": rng.standard_normal(8) * weights * inputs,
               "v": rng.standard_normal((8, 8, 3, 3)) * weights / 9}
    nodes = [N("Conv", ["x", "w", "b"], ["c"]), N("Relu", ["c"], ["r"]), N("Conv", ["r", "v"], ["y"])]
    net = model(nodes, [("x", "f4", ("N", 3, 8, 8))], [("y", "f4", ("N", 8, 4, 4))],
                {name: array.astype(np.float32) for name, array in numbers.items()})
    x = (rng.standard_normal((4, 3, 8, 8)) * inputs).astype(np.float32)
    found = vtakit.quantize(net, x)
    assert all(value.decibels > 30 for value in found.accuracy.values)
    got = vtakit.compile(found.model, batch=4).run({"x": x})["y"]
    want = vtakit.compile(net, batch=4).run({"x": x})["y"]
    assert np.abs(got - want).max() < 0.05 * np.abs(want).max()


def test_constants_may_be_numbers_of_nodes():
    """As PyTorch's exporter writes bounds and shapes."""
    weights = {"w": np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)}
    nodes = [
        N("Constant", [], ["low"], value_float=0.0), N("Constant", [], ["high"], value_float=6.0),
        N("Constant", [], ["rows"], value_ints=[0, -1]), N("Conv", ["x", "w"], ["c"]), N("Clip", ["c", "low", "high"], ["r"]),
        N("Reshape", ["r", "rows"], ["y"]),
    ]
    net = model(nodes, [("x", "f4", ("N", 3, 6, 6))], [("y", "f4", ("N", 64))], weights)
    found = vtakit.quantize(net, X)
    assert found.accuracy.left == []
    assert {value.name for value in found.accuracy.values} == {"x", "r", "y"}


def test_a_batch_norm_in_training_mode_is_not_taken_for_one_with_known_statistics():
    numbers = {name: np.ones(4, np.float32) for name in ("s", "b", "m", "v")} | {"w": np.ones((4, 3, 3, 3), np.float32)}
    nodes = [N("Conv", ["x", "w"], ["c"]), N("BatchNormalization", ["c", "s", "b", "m", "v"], ["y", "mm", "vv"], training_mode=1)]
    net = model(nodes, [("x", "f4", ("N", 3, 6, 6))], [("y", "f4", ("N", 4, 4, 4))], numbers)
    found = vtakit.quantize(net, X)
    assert any("BatchNormalization" in each for each in found.accuracy.left)


def test_an_input_may_be_an_output_too():
    proto = plain()
    proto.graph.output.append(proto.graph.input[0])
    found = vtakit.quantize(proto, X)
    alone = vtakit.quantize(plain(), X)
    given = vtakit.compile(found.model, batch=2).run({"x": X})
    assert np.array_equal(given["x"], X)
    assert np.array_equal(given["y"], vtakit.compile(alone.model, batch=2).run({"x": X})["y"])


@pytest.mark.parametrize(("real", "made", "decibels"), [
    ([1.0, np.nan], [1.0, np.nan], 200), ([1.0, np.inf], [1.0, np.inf], 200), ([1.0, np.nan], [1.0, 2.0], -200),
    ([1.0, 2.0], [1.0, np.nan], -200), ([1.0, np.inf], [1.0, 3.0], -200), ([0.0, 0.0], [1.0, 0.0], -200),
    ([10.0, np.nan], [11.0, np.nan], 20),
])
def test_what_is_no_number_in_one_model_alone_is_the_worst(real, made, decibels):
    value = Compared("y", "Conv", 0.1)
    value.add(np.array(real, np.float32), np.array(made, np.float32))
    assert value.decibels == pytest.approx(decibels)


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(plain(), "net.onnx")
    np.savez("data.npz", x=np.random.default_rng(0).standard_normal((4, 3, 6, 6)).astype(np.float32))
    words = ["quantize", "net.onnx", "--calibration", "data.npz", "-o", "int8.onnx"]
    assert cli.main([*words, "--json", "report.json"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "2 values are int8", "next: vtakit compile int8.onnx --target vta -o int8.vtak"]
    report: dict[str, Any] = json.loads(Path("report.json").read_text())
    assert [value["name"] for value in report["values"]] == ["x", "y"]
    assert vtakit.compile("int8.onnx").outputs == {"y": "float32[1, 4, 6, 6]"}


@pytest.mark.parametrize(("words", "message"), [
    (["-o", "net.onnx"], "vtakit quantize: --output 'net.onnx' would replace the model 'net.onnx'; name another file"),
    (["-o", "data.npz"], "vtakit quantize: --output 'data.npz' would replace the calibration 'data.npz'; name another file"),
    (["-o", "int8.onnx", "--method", "mes"],
     "vtakit quantize: --method 'mes' is unknown; did you mean 'mse'? Known: entropy, max, mse, percentile"),
    (["-o", "/dev/full"], "vtakit quantize: cannot write quantized model '/dev/full': No space left on device"),
])
def test_what_the_command_refuses(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(plain(), "net.onnx")
    np.savez("data.npz", x=X + 1)
    assert cli.main(["quantize", "net.onnx", "--calibration", "data.npz", *words]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == message


def test_an_interrupt_leaves_no_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(plain(), "net.onnx")
    np.savez("data.npz", x=X)

    def stopped(*_):
        raise KeyboardInterrupt
    monkeypatch.setattr("vtakit.runtime.quantize._observed", stopped)
    assert cli.main(["quantize", "net.onnx", "--calibration", "data.npz", "-o", "int8.onnx"]) == 2
    assert capsys.readouterr().err == "vtakit quantize: interrupted; nothing was left half-written\n"
    assert not Path("int8.onnx").exists()
