"""Quantization to four, two and one bits: rounding, sensitivity, accuracy, and execution on narrow accelerators."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from quantized_support import Layers, assert_same_bytes, onnxruntime_of, random_network
from support import module

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.bounds import bounds_of
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.passes.quantized.form import integer_form
from vtakit.compiler.graph.reference import reference
from vtakit.compiler.ir.dtypes import dtype
from vtakit.compiler.quantize.errors import QuantizeError
from vtakit.compiler.quantize.weights import integers, least_scale, most_of, quantized_weights
from vtakit.hw.isa.config import NAMED
from vtakit.runtime import cli
from vtakit.runtime.module import Module
from vtakit.runtime.placement import PlacementWarning
from vtakit.runtime.vta.part import VtaPart

RNG = np.random.default_rng(4)
TINY = replace(NAMED["tiny"], log_inp_buff_size=9, log_acc_buff_size=12)
NARROW = {4: replace(TINY, log_wgt_width=2), 2: replace(TINY, log_wgt_width=1)}  # by bits of weights
SMALL = replace(TINY, log_inp_width=2, log_wgt_width=2)  # activations and weights of four bits


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("bits", [4, 2, 1])
def test_the_scale_is_that_of_least_square_error(bits, axis):
    """Compare each channel's error with that of a brute-force search over 400 scales."""
    weight = (RNG.standard_normal((5, 4, 3, 3)) * RNG.uniform(0.01, 3, (5, 4, 1, 1))).astype(np.float32)
    found = quantized_weights(weight, axis, 0.1, None, None, bits=bits)
    rows = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1) if axis is not None else weight.reshape(1, -1)
    real = np.moveaxis(found.real, axis or 0, 0).reshape(len(rows), -1)
    assert np.abs(found.numbers).max() == most_of(bits)
    for row, made in zip(rows.astype(np.float64), real, strict=True):
        steps = np.abs(row).max() / most_of(bits) * np.linspace(0.05, 1, 400)
        if bits == 1:
            errors = [np.sum((row - np.where(row < 0, -step, step)) ** 2) for step in steps]
        else:
            errors = [np.sum((row - np.clip(np.rint(row / step), -most_of(bits), most_of(bits)) * step) ** 2) for step in steps]
        assert np.sum((row - made) ** 2) <= 1.03 * min(errors)


def test_weights_of_one_bit_are_signs():
    assert integers(np.array([-3.0, -0.0, 0.0, 0.2]), 1).tolist() == [-1, 1, 1, 1]
    assert least_scale(np.zeros((2, 3), np.float32), 0, 0.1, None, bits=1).max() < 1e-9


@pytest.mark.parametrize("bits", [4, 2, 1])
@pytest.mark.parametrize("name", ["random", "residual"])
def test_models_of_few_bits_are_the_same_in_onnxruntime(bits, name):
    """Networks without residuals finer than four sums, whose rounding may differ (docs/quantization.md, "Fewer bits")."""
    net = random_network(0, 6, norms=False) if name == "random" else residual_network()
    made = vtakit.quantize(net.model("N"), net.inputs(4), evaluation=net.inputs(1), weights=bits).model
    known = {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}
    numbers = [array for array in known.values() if array.dtype == np.int8 and array.ndim]
    assert max(np.abs(array).max() for array in numbers) == most_of(bits)
    assert_same_bytes(made, {"x": net.inputs(3, seed=1)})


@pytest.mark.parametrize("bits", [4, 2, 1])
@pytest.mark.parametrize("seed", range(2))
def test_random_networks_run_in_one_launch(seed, bits):
    net = random_network(seed, 6, norms=bool(seed % 2))
    made = vtakit.quantize(net.model("N"), net.inputs(4), evaluation=net.inputs(1), weights=bits).model
    given = net.inputs(1, seed=9)
    wanted = reference(integer_form(import_model(made, batch=1)), given)
    for config in (config for device_bits, config in NARROW.items() if bits <= device_bits):
        module = vtakit.compile(made, "vta", batch=1, config=config)
        assert len(module.image.parts_of(VtaPart)) == 1
        for got, want in zip(module.run({"x": given}).values(), wanted, strict=True):
            assert np.array_equal(got, want)


@pytest.mark.parametrize("seed", range(3))
def test_random_networks_of_few_bits_throughout_run_in_one_launch(seed):
    """GEMM brings residuals to ACC, since ACC_8BIT loads bytes only."""
    net, given = random_network(seed, 6, norms=bool(seed % 2)), random_network(seed, 6).inputs(1, seed=9)
    for weights, activations in ((4, 4), (2, 2)):
        made = vtakit.quantize(
            net.model("N"), net.inputs(4), evaluation=net.inputs(1), weights=weights, activations=activations).model
        wanted = reference(integer_form(import_model(made, batch=1)), given)
        module = vtakit.compile(made, "vta", batch=1, config=SMALL)
        assert len(module.image.parts_of(VtaPart)) == 1
        for found in (module, vtakit.compile(made, batch=1)):
            for got, want in zip(found.run({"x": given}).values(), wanted, strict=True):
                assert np.array_equal(got, want)


def residual_network() -> Layers:
    """Depthwise and dense convolutions around a residual, a pool, and a classifier."""
    net = Layers(3, size=8)
    x = net.pool(net.relu(net.conv("x", 8)))
    y = net.relu(net.conv(net.relu(net.conv(x, 8)), 8, groups=8))
    net.classifier(net.relu(net.sum(net.conv(y, 8, 1), x)), 6)
    return net


@pytest.mark.rtl
@pytest.mark.parametrize(("bits", "activations", "keep", "config"), [
    (4, 8, 0, NARROW[4]), (4, 8, 3, NARROW[4]), (8, 8, 0, NARROW[4]), (2, 8, 0, NARROW[2]), (2, 8, 2, NARROW[2]),
    (1, 8, 0, NARROW[2]), (4, 4, 0, SMALL), (4, 4, 2, SMALL), (1, 2, 0, SMALL),
])
def test_the_hardware_gives_the_bytes_of_numpy(bits, activations, keep, config):
    net = residual_network()
    made = vtakit.quantize(net.model("N"), net.inputs(8), weights=bits, activations=activations, keep=keep).model
    module = vtakit.compile(made, "vta", batch=1, config=config)
    assert len(module.image.parts_of(VtaPart)) == 1
    graph = integer_form(import_model(made, batch=1))
    with Module(module.image, "rtl") as hardware:
        for seed in range(2):
            given = net.inputs(1, seed=20 + seed)
            assert np.array_equal(hardware.run({"x": given})["y"], reference(graph, given)[0])


@pytest.mark.parametrize(("bits", "keep"), [(4, 1), (4, 3), (2, 1), (2, 5)])
@pytest.mark.parametrize("name", ["residual", "random"])
def test_layers_that_keep_eight_bits_run_digit_by_digit(name, bits, keep):
    """A network of mixed precision is one launch, and the bytes are NumPy's: transposed and depthwise layers, too."""
    net = random_network(2, 6, norms=False) if name == "random" else residual_network()
    made = vtakit.quantize(net.model("N"), net.inputs(8), weights=bits, keep=keep)
    module = vtakit.compile(made.model, "vta", batch=1, config=NARROW[bits])
    assert len(module.image.parts_of(VtaPart)) == 1
    assert not any("do not fit" in left.reason for left in module.image.left)
    graph = integer_form(import_model(made.model, batch=1))
    for seed in range(3):
        given = net.inputs(1, seed=seed)
        for got, want in zip(module.run({"x": given}).values(), reference(graph, given), strict=True):
            assert np.array_equal(got, want)


def test_kept_weights_are_two_digits_of_four_bits():
    """Weights beside those of four bits end at 119, and at -127; all take 127 where no layer has fewer bits, or two."""
    net = residual_network()

    def most(**bits: int) -> tuple[int, int]:
        made = vtakit.quantize(net.model("N"), net.inputs(4), **bits).model
        known = [numpy_helper.to_array(each) for each in made.graph.initializer]
        numbers = [array for array in known if array.dtype == np.int8 and array.ndim]
        return min(array.min() for array in numbers), max(array.max() for array in numbers)
    low, high = most(weights=4, keep=3)
    assert -127 <= low < -119
    assert 100 < high <= 119
    assert most(weights=2, keep=3)[1] > 119
    assert most()[1] > 119


def test_activations_that_a_device_does_not_hold_are_the_processors():
    net = residual_network()
    made = vtakit.quantize(net.model("N"), net.inputs(4), weights=4).model
    with pytest.warns(PlacementWarning, match="nothing of the model"):
        module = vtakit.compile(made, "vta", batch=1, config=SMALL)
    assert not module.image.parts_of(VtaPart)
    reasons = [left.reason for left in module.image.left]
    assert "it reads numbers from -128 to 127, and this device's activations have 4 bits" in reasons


@pytest.mark.filterwarnings("ignore:nothing of the model")
def test_layers_without_bounds_are_the_processors_and_no_number_is_cut():
    """Remove one Clip after the other, and feed inputs that need it."""
    net = residual_network()
    made = vtakit.quantize(net.model("N"), net.inputs(4), weights=4, activations=4).model
    clips = [node for node in made.graph.node if node.op_type == "Clip"]
    assert len(clips) == 7
    given = 4 * net.inputs(1, seed=5)
    for clip in clips:
        open_model = onnx.ModelProto()
        open_model.CopyFrom(made)
        open_model.graph.node.remove(clip)
        for node in open_model.graph.node:
            node.input[:] = [clip.input[0] if name == clip.output[0] else name for name in node.input]
        module = vtakit.compile(open_model, "vta", batch=1, config=SMALL)
        assert any("-8 to 7" in left.reason or "-128 to 127" in left.reason or "0 to 127" in left.reason
                   for left in module.image.left), clip.name
        wanted = reference(integer_form(import_model(open_model, batch=1)), given)[0]
        assert np.array_equal(module.run({"x": given})["y"], wanted), clip.name


@pytest.mark.parametrize(("low", "high", "wanted"), [
    (-7.0, 7.0, (-7, 7)), (-7.0, None, (-7, 127)), (0.0, 6.5 - 1e-7, (0, 7)), (-1000.0, 3.0, (-128, 3)), (5.0, -100.0, (-100, 5)),
])
def test_a_clip_before_a_quantization_bounds_it(low, high, wanted):
    """Also next to the middle of two integers, and with contradictory bounds."""
    build = Builder("net")
    bounds = [None if bound is None else build.constant(np.float32(bound)) for bound in (low, high)]
    clip = build.one("clip", build.input("x", (4,), "float32"), *bounds)
    one, zero = build.constant(np.float32(1)), build.constant(np.int8(0))
    made = build.one("quantize_linear", clip, one, zero, attrs={"axis": 0, "block_size": 0, "dtype": "int8"})
    assert bounds_of(build.finish([("y", made)]))[made] == wanted


def test_activations_of_few_bits_are_bounded_in_the_model():
    net = residual_network()
    made = vtakit.quantize(net.model("N"), net.inputs(4), activations=4).model
    nodes = {node.output[0]: node for node in made.graph.node}
    known = {each.name: numpy_helper.to_array(each) for each in made.graph.initializer}
    quantized = [node for node in made.graph.node if node.op_type == "QuantizeLinear"]
    for node in quantized:
        clip = nodes[node.input[0]]
        if clip.op_type in ("MaxPool", "Flatten"):  # of what is bounded already
            continue
        assert clip.op_type == "Clip"
        np.testing.assert_allclose([known[name] / known[node.input[1]] for name in clip.input[1:]], [-7, 7], rtol=1e-6)
    graph = integer_form(import_model(made, batch=1))
    bounds = bounds_of(graph)
    assert set(bounds.values()) <= {(-7, 7), (0, 7)}
    assert len(bounds) == sum(value.type.dtype is dtype("int8") for node in graph.nodes for value in node.outputs)
    with pytest.raises(VtakitError, match="the C runtime moves bytes"):
        vtakit.compile(vtakit.quantize(net.model("N"), net.inputs(4), weights=4, activations=4).model, "vta", batch=1,
                       config=SMALL).export_c("never")


def test_a_layers_loss_is_that_of_the_outputs_with_few_bits_in_it_alone():
    net = residual_network()
    model, samples = net.model("N"), net.inputs(6)
    made = vtakit.quantize(model, samples, weights=2, keep=2).accuracy
    true = onnxruntime_of(model).run(None, {"x": samples})[0].astype(np.float64)
    for layer in made.layers:
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        (node,) = [node for node in changed.graph.node if layer.name in (node.name, node.output[0])]
        (tensor,) = [each for each in changed.graph.initializer if each.name == node.input[1]]
        rounded = quantized_weights(numpy_helper.to_array(tensor), 1 if layer.op == "MatMul" else 0, 1.0, None, None, bits=2).real
        tensor.CopyFrom(numpy_helper.from_array(rounded, tensor.name))
        got = onnxruntime_of(changed).run(None, {"x": samples})[0]
        assert layer.lost_db == pytest.approx(10 * np.log10(np.sum(true**2) / np.sum((got - true) ** 2)), abs=0.05)
    ordered = sorted(made.layers, key=lambda layer: layer.lost_db or 0)
    assert [layer.bits for layer in ordered] == [8, 8] + [2] * (len(ordered) - 2)
    assert made.weight_bytes == sum(layer.weights * layer.bits for layer in made.layers) // 8
    assert json.loads(json.dumps(made.to_dict()))["layers"][0]["name"] == made.layers[0].name


def test_layers_are_kept_by_name():
    net = residual_network()
    first = vtakit.quantize(net.model("N"), net.inputs(3), weights=4).accuracy.layers
    made = vtakit.quantize(net.model("N"), net.inputs(3), weights=4, keep=[first[1].name, first[-1].name]).accuracy.layers
    assert [layer.bits for layer in made] == [8 if at in (1, len(made) - 1) else 4 for at in range(len(made))]
    assert all(layer.lost_db is None for layer in made)


@pytest.mark.parametrize(("options", "message"), [
    ({"weights": 3}, "weights=3 is no number of bits that weights can have: 8, 4, 2, 1"),
    ({"activations": 1}, "activations=1 is no number of bits that activations can have: 8, 4, 2"),
    ({"weights": 4, "keep": 99}, "keep=99: the model has 5 layers with weights, give 0 to 5"),
    ({"weights": 4.0}, "weights=4.0 is no number of bits"), ({"weights": True}, "weights=True is no number of bits"),
    ({"weights": 4, "keep": 1.5}, "keep=1.5 is a float: give a number of layers, or a list of their names"),
    ({"weights": 4, "keep": -1}, "keep=-1"),
    ({"weights": 4, "keep": ["nothing"]}, "no layer with weights is called 'nothing'"),
])
def test_bits_that_cannot_be(options, message):
    net = residual_network()
    with pytest.raises(QuantizeError, match=message):
        vtakit.quantize(net.model("N"), net.inputs(2), **options)


def test_the_command_keeps_layers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    net = residual_network()
    onnx.save(net.model("N"), "net.onnx")
    np.savez("data.npz", x=net.inputs(4))
    words = ["quantize", "net.onnx", "--calibration", "data.npz", "-o", "small.onnx", "--weights", "4"]
    assert cli.main([*words, "--keep", "1"]) == 0
    said = capsys.readouterr()
    assert "4 layers have weights of 4 bits; 8 bits keep " in said.out + said.err
    assert cli.main([*words, "--keep", "none"]) == 2
    assert "no layer with weights is called 'none'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits of 8x8", "coloured digits of 32x32"])
def test_four_bits_are_as_accurate_as_floating_point(name):
    """Four-bit weights lose at most 1.5 points on the test set; fewer bits lose more."""
    import trained_network  # with scikit-learn, which takes every process a second that does not run this
    import training
    if name == "digits of 8x8":
        data, tested = training.digits()
        weights = trained_network.learnt(name, lambda: [*training.train(data)][-1][0])
        model = module("digits/__main__").export(weights)
    else:
        data, tested = trained_network.images()
        weights = trained_network.learnt(name, lambda: [*trained_network.train(data)][-1])
        model = trained_network.export(weights)

    def accuracy(proto: onnx.ModelProto) -> float:
        logits = vtakit.compile(proto, batch=len(tested.labels)).run({"image": tested.images})["logits"]
        return 100 * float(np.mean(logits.argmax(1) == tested.labels))

    real = accuracy(model)
    assert real > 85
    low = [accuracy(vtakit.quantize(model, data.images[:100], weights=bits).model) for bits in (8, 4, 2, 1)]
    assert low[0] >= real - 0.75
    assert low[1] >= real - 1.5
    assert all(more >= fewer - 1 for more, fewer in pairwise(low))
    assert low[3] > 30  # of ten classes
    kept = vtakit.quantize(model, data.images[:100], weights=4, keep=2).model
    assert accuracy(kept) >= real - 1.5
    image = vtakit.compile(kept, "vta", batch=1, config="w4")
    assert len(image.image.parts_of(VtaPart)) == 1
    assert image.placement.share_of_macs == 1
    one = {"image": tested.images[:1]}
    assert np.array_equal(image.run(one)["logits"], vtakit.compile(kept, batch=1).run(one)["logits"])
