"""Networks whose layers have few bits: which of them may be bit-serial, which are, and that every byte stays."""

import numpy as np
import pytest
from codegen_cases import HERE, LEVELS, X86
from integer_nets import Integers, inputs_of, random_network
from quantized_support import Layers
from quantized_support import assert_same_bytes as assert_all_int8_values
from support import raises

import vtakit
from vtakit.compiler.codegen.llvm.machines import machine_of
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.graph.compile import compile_graph
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import check
from vtakit.compiler.graph.passes.bit_serial import BitForm, bit_form, bits_pay
from vtakit.compiler.graph.passes.packed_bytes import pack_bytes
from vtakit.compiler.graph.reference import reference
from vtakit.compiler.nn.conv.bit_weights import Encoding
from vtakit.compiler.schedule.decisions import DecisionError
from vtakit.runtime.cpu.target import Cpu, image_of
from vtakit.runtime.module import Module

ARITHMETIC = "arithmetic"
LEVEL = LEVELS[HERE[-1]]
KINDS = {  # weights, and bounds of activations
    "one bit by one": ((-1, 1), (0, 1)), "one bit by two": ((-1, 1), (0, 3)), "two by two": ((-1, 0, 1), (-1, 1)),
    "without signs": ((0, 1, 2, 3), (0, 3)), "four by four": ((-7, 4, 0, 2), (-7, 7)),
}


def ops(graph):
    return [node.op for node in graph.nodes]


def arithmetic_of(decisions):
    """The layers that were asked, with what they got."""
    return {layer: one.chosen for layer, one in decisions if one.name == ARITHMETIC}


def packed_as(graph, form, machine=None):
    """The graph in blocks, its layers of few bits in a form: "bytes", "bits", "mixed", or None for the default."""
    decisions = ModelDecisions()
    packed = pack_bytes(graph, decisions, machine)
    if form is not None:
        layers = arithmetic_of(decisions)
        asked = {layer: {ARITHMETIC: form if form != "mixed" else ("bytes", "bits")[at % 2]} for at, layer in enumerate(layers)}
        decisions = ModelDecisions(asked)
        packed = pack_bytes(graph, decisions, machine)
    check(packed)
    return packed, arithmetic_of(decisions)


def assert_same_bytes(graph, packed, target=LEVEL):
    given = inputs_of(graph)
    got = Module(image_of(compile_graph(packed, CpuKernels(target)), Cpu.adopt(target), "")).run(given)
    wanted = reference(graph, *given.values(), nodes=lambda node, operands: [1 / (1 + np.exp(-operands[0]))])
    for (name, _), want in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_array_equal(got[name], want)


@pytest.mark.parametrize("form", ["bytes", "bits", "mixed"])
@pytest.mark.parametrize("kind", KINDS)
def test_random_networks(kind, form):
    values, bounds = KINDS[kind]
    made = 0
    for seed in range(3):
        graph = random_network(seed, values=values, bounds=bounds)
        packed, chosen = packed_as(graph, form)
        assert (ops(packed).count("conv_bits") == [*chosen.values()].count("bits"))
        made += len(chosen)
        assert_same_bytes(graph, packed)
    assert made > 2


def small_network(values, bounds):
    """Strides, dilations, pads that are no zeros, a residual, pools and a product; channels that fill no block."""
    net = Integers(seed=1, values=values, bounds=bounds)
    x = net.conv(net.input(2, 3, 14, 14), 32, 3, 2)
    y = net.conv(x, 40, 3)
    z = net.conv(y, 64, 3, 2, skip=net.conv(x, 64, 1, 2), fill=1)
    z = net.conv(net.max_pool(z, 2, 2), 72, 3, dilation=2, low=-128)
    return net.finish(net.dense(net.reshape(net.max_pool(z, 2, 2), 2, 72), 10))


@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize("kind", KINDS)
def test_a_network_on_each_level(kind, level):
    graph = small_network(*KINDS[kind])
    packed, chosen = packed_as(graph, "bits", machine_of(LEVELS[level]))
    assert len(chosen) == 5
    assert ops(packed).count("pack_bits") == 5
    assert_same_bytes(graph, packed, LEVELS[level])


def test_convolutions_that_read_the_same_share_its_planes():
    net = Integers(values=(-1, 1), bounds=(0, 1))
    x = net.conv(net.input(1, 3, 8, 8), 32, 1)
    packed, _ = packed_as(net.finish(net.conv(x, 32, 3), net.conv(x, 16, 3, 2), net.conv(x, 32, 1)), "bits")
    assert ops(packed).count("conv_bits") == 3
    assert ops(packed).count("pack_bits") == 2  # with pads and without


def test_sums_that_are_given_away():
    """In int32, less what counting makes them too large by."""
    net = Integers(values=(-1, 0, 1), bounds=(-1, 2))
    x = net.conv(net.input(1, 4, 6, 6), 24, 3, low=-1)
    weight = net.builder.constant(net.rng.integers(-1, 2, (16, 24, 3, 3)).astype(np.int8))
    sums = net.builder.one("conv_integer", x, weight, attrs={"pads": (1,) * 4}, name="sums")
    graph = net.builder.finish([("sums", sums)])
    packed, chosen = packed_as(graph, "bits")
    assert chosen == {"sums": "bits"}
    assert "unblock_sums" in ops(packed)
    assert_same_bytes(graph, packed)


def test_layers_of_many_bits_are_not_asked():
    """Weights or activations of five bits, an activation without bounds, an image's first layer, and groups."""
    for values, bounds in (((-16, 1), (0, 1)), ((-1, 1), (0, 16)), ((-1, 1), (-128, 127))):
        net = Integers(values=values, bounds=bounds)
        assert packed_as(net.finish(net.conv(net.conv(net.input(1, 3, 8, 8), 32, 1), 32, 3, low=-128)), None)[1] == {}
    net = Integers(values=(-1, 1), bounds=(0, 1))
    x = net.conv(net.input(1, 3, 8, 8), 32, 3)
    assert packed_as(net.finish(net.conv(net.conv(x, 32, 3, groups=32), 32, 1, groups=2)), None)[1] == {}


@pytest.mark.parametrize(("weight", "bounds", "fill", "form"), [
    ([-1, 1], (0, 1), 0, BitForm(1, 0, Encoding("bipolar", 1))),
    ([-1, 0, 1], (-1, 1), 0, BitForm(2, -1, Encoding("ternary", 1))),
    ([0, 3], (1, 2), 0, BitForm(2, 0, Encoding("unipolar", 2))),  # pads are less than the data
    ([0, 3], (2, 3), 2, BitForm(1, 2, Encoding("unipolar", 2))),
    ([-7, 6], (-7, 8), -7, BitForm(4, -7, Encoding("ternary", 3))),
    ([-8, 7], (5, 5), 5, BitForm(1, 5, Encoding("signed", 4))),
    ([-9, 7], (0, 1), 0, BitForm(1, 0, Encoding("bipolar", 4))),
    ([-16, 7], (0, 1), 0, None), ([1, -1], (-8, 8), 0, None), ([1, -1], (0, 1), -15, None),
])
def test_the_form_of_a_layer(weight, bounds, fill, form):
    assert bit_form(np.array(weight, np.int8).reshape(-1, 1, 1, 1), bounds, fill) == form


def layer(size, channels, filters, kernel=3):
    """A convolution as a node, with pads."""
    net = Integers()
    net.conv(net.builder.input("x", (1, channels, size, size), "int8"), filters, kernel)
    return next(node for node in net.builder.nodes if node.op == "conv_integer")


@pytest.mark.parametrize(("cpu", "most"), [
    ("haswell", 4), ("znver3", 4), ("znver4", 5), ("znver5", 4), ("icelake-server", 2), ("cascadelake", 0), ("sapphirerapids", 0),
])
def test_the_default_follows_the_processor(cpu, most):
    """The products of a plane and a digit up to which counting bits pays, for a layer of 3 x 3 by 256 channels."""
    node, machine = layer(14, 256, 256), machine_of(Target(X86, cpu))
    pays = [bits_pay(node, BitForm(planes, 0, Encoding("bipolar", 1)), machine) for planes in range(1, 9)]
    assert pays == [True] * most + [False] * (8 - most)


def test_packing_counts_where_there_are_few_products():
    """Planes are packed for 16 filters of single pixels, or for 256 of 3 x 3; words of 16 channels are half full."""
    machine, form = machine_of(Target(X86, "icelake-server")), BitForm(2, 0, Encoding("bipolar", 1))
    assert bits_pay(layer(14, 256, 256), form, machine)
    assert not bits_pay(layer(14, 256, 16, 1), form, machine)
    assert not bits_pay(layer(14, 16, 256), form, machine)


@pytest.fixture(scope="module")
def model():
    net = Layers(3, channels=32, size=12)
    net.relu(net.conv(net.relu(net.conv("x", 64)), 64))
    net.classifier(net.last, 10)
    return vtakit.quantize(net.model(), net.inputs(4), weights=1, activations=2).model, net.inputs(1, 7)


def test_decisions_of_a_quantized_model(model):
    proto, x = model
    found = {name: one for name, one in vtakit.decisions(proto) if one.name == ARITHMETIC}
    assert len(found) >= 2
    assert all(one.candidates == ("bytes", "bits") for one in found.values())
    results = []
    for form in ("bytes", "bits"):
        module = vtakit.compile(proto, decisions={name: {ARITHMETIC: form} for name in found}, cache=False)
        assert ("conv_bits" in module.image.graph) == (form == "bits")
        results.append([*module.run({"x": x}).values()])
    for bytes_, bits in zip(*results, strict=True):
        np.testing.assert_array_equal(bytes_, bits)
    with raises(DecisionError, f"layer {min(found)!r}: decision 'arithmetic' is 'words' … give one of 'bytes', 'bits'"):
        vtakit.compile(proto, decisions={min(found): {ARITHMETIC: "words"}}, cache=False)


def test_the_default_of_a_quantized_model_has_the_bytes_of_onnxruntime(model):
    proto, x = model
    assert_all_int8_values(proto, {"x": x})
