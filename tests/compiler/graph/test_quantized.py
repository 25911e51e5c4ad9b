"""Quantized models as networks in integers: what they become, and that they compute what onnxruntime does, and the reference."""


import numpy as np
import pytest
from model_support import model, module_of
from onnx import ModelProto, helper
from quantized_support import Layers, dequantized, onnxruntime_of, qdq, quantized, quantum_of, random_network, weights

from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph, Node
from vtakit.compiler.graph.passes.fold import fold_constants
from vtakit.compiler.graph.passes.quantized.form import integer_form
from vtakit.compiler.graph.passes.quantized.scales import Fixed, skip_factors, sum_factors
from vtakit.compiler.graph.reference import MEANING, evaluated, reference
from vtakit.compiler.ir.dtypes import dtype

N = helper.make_node
INT8 = dtype("int8")
INTEGER = {
    "conv_integer", "conv_transpose_integer", "matmul_integer", "sum_pool", "scaled_add", "scaled_sum", "requantize", "max_pool",
    "concat", "pad", "resize", "reshape", "transpose", "slice", "lookup", "mul_integer",
}


def graph_of(proto: ModelProto) -> Graph:
    return integer_form(import_model(proto))


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def of_float(node: Node, operands: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The results of one node, by the interpreter."""
    build = Builder("one")
    values = iter([build.constant(each) for each in operands])
    made = build.add(node.op, *[None if value is None else next(values) for value in node.inputs], attrs=node.attrs)
    return evaluate_graph(build.finish([(value.name, value) for value in made]))


def resnet(seed: int = 0) -> Layers:
    """Two stages of residual blocks, the second with a strided shortcut of its own."""
    net = Layers(seed, size=16)
    x = net.pool(net.relu(net.conv("x", 16, 5)), kernel=3)
    y = net.sum(net.conv(net.relu(net.conv(x, 16)), 16), x)
    x = net.relu(y)
    y = net.conv(net.relu(net.conv(x, 24, stride=2)), 24)
    net.classifier(net.relu(net.sum(y, net.conv(x, 24, 1, 2))))
    return net


def mobilenet(seed: int = 0) -> Layers:
    """Inverted bottlenecks: wide, depthwise, narrow without an activation."""
    net = Layers(seed, size=16)
    x = net.relu(net.conv("x", 8, 3, 2), six=True)
    for stride in (1, 2):
        wide = net.relu(net.conv(x, 32, 1), six=True)
        y = net.conv(net.relu(net.conv(wide, 32, 3, stride, groups=32), six=True), 8, 1)
        x = net.sum(y, x) if stride == 1 else y
    net.classifier(net.relu(net.conv(x, 40, 1), six=True))
    return net


REAL = {"resnet": resnet, "mobilenet": mobilenet}


@pytest.mark.parametrize("name", [*REAL, "random 0", "random 1"])
def test_machine_code_and_the_reference_give_the_same_bytes(name):
    net = REAL[name]() if name in REAL else random_network(int(name.split()[1]), 4)
    graph = graph_of(quantized(net.model(), net.inputs(2)))
    assert set(ops(graph)) <= INTEGER | {"quantize_linear", "dequantize_linear"}
    assert ops(graph).count("quantize_linear") == ops(graph).count("dequantize_linear") == 1
    module = module_of(graph)
    for x in net.inputs(2, seed=9):
        (want,) = reference(graph, x[None])
        np.testing.assert_array_equal(module.run({"x": x[None]})["y"], want)


@pytest.mark.parametrize("name", REAL)
def test_networks_are_within_a_quantum_of_onnxruntime(name):
    """On 99.9 % of the outputs, whether onnxruntime optimises or not."""
    net = REAL[name]()
    proto = quantized(net.model(), net.inputs(6))
    graph, given = graph_of(proto), net.inputs(100, seed=1)[:, None]
    got = np.concatenate([reference(graph, x)[0] for x in given])
    for optimised in (True, False):
        session = onnxruntime_of(proto, optimised=optimised)
        off = np.abs(got - np.concatenate([session.run(None, {"x": x})[0] for x in given]))
        assert np.mean(np.rint(off / quantum_of(proto)) > 1) <= 0.001


WIDE = {"symmetric": False, "per_channel": False}
# As onnxruntime quantizes: (activations and weights, format, options).
WAYS = [
    ("S8S8", "QDQ", {}), ("U8S8", "QDQ", {"symmetric": False}), ("U8S8", "QOperator", {"symmetric": False}),
    ("U8U8", "QDQ", WIDE), ("U8U8", "QOperator", WIDE), ("S8S8", "QOperator", {"symmetric": False}),
]


@pytest.mark.parametrize("seed", range(12))
def test_each_layer_of_random_networks_is_within_a_quantum_of_onnxruntime(seed):
    """Each from onnxruntime's own bytes: in small random networks one that differs makes others differ by more."""
    net = random_network(seed)
    types, form, options = WAYS[seed % len(WAYS)]
    proto = quantized(net.model(), net.inputs(4), types=types, form=form, **options)
    graph = fold_constants(graph_of(proto), evaluate=evaluate_graph)
    given = [output.name for output in proto.graph.output]
    names = {node.name: node.output[0] for node in proto.graph.node
             if node.op_type in ("QuantizeLinear", "QGemm") or "QLinear" in node.op_type}
    proto.graph.output.extend([helper.make_empty_tensor_value_info(name) for name in names.values() if name not in given])
    session = onnxruntime_of(proto, optimised=form == "QDQ")
    off = []
    for x in net.inputs(2, seed=1):
        theirs = dict(zip([output.name for output in proto.graph.output], session.run(None, {"x": x[None]}), strict=True))
        known = {**graph.constants, graph.inputs[0]: x[None]}
        for node in graph.nodes:
            if node.op not in MEANING:  # what onnxruntime's quantizer leaves in floating point
                (known[node.outputs[0]],) = of_float(node, [known[value] for value in node.reads])
                continue
            known[node.outputs[0]] = evaluated(node, [known[value] for value in node.reads])
            there = theirs.get(names.get(node.outputs[0].name, ""))
            if node.outputs[0].type.dtype is INT8 and there is not None and there.shape == node.outputs[0].type.shape:
                want = there.astype(int) - (128 if there.dtype == np.uint8 else 0)
                off.append(np.abs(known[node.outputs[0]].astype(int) - want).reshape(-1))
                known[node.outputs[0]] = want.astype(np.int8)
    every = np.concatenate(off)
    assert len(off) > 8
    assert every.max() <= 1
    assert every.mean() <= 0.01


CONV = [dequantized(), N("Conv", ["a", "w"], ["c"], pads=[1, 1, 1, 1])]
WEIGHTS = weights(4, 4, 3, 3)
FINE = WEIGHTS | {"ws": WEIGHTS["ws"] / 20}  # so that a residual is many accumulators
BOUNDS = {"low": np.float32(-0.3), "high": np.float32(1.2)}
PATTERNS: dict[str, tuple[ModelProto, list[str]]] = {
    "relu": (qdq([*CONV, N("Relu", ["c"], ["b"])], WEIGHTS), ["conv_integer", "requantize"]),
    "clip": (qdq([*CONV, N("Clip", ["c", "low", "high"], ["b"])], WEIGHTS | BOUNDS), ["conv_integer", "requantize"]),
    "bias": (qdq([dequantized(), N("DequantizeLinear", ["iq", "is"], ["i"], axis=0), N("Conv", ["a", "w", "i"], ["b"])],
                 WEIGHTS | {"iq": np.array([900, -4, 77, 0], np.int32), "is": np.full(4, 3e-4, np.float32)}),
             ["conv_integer", "requantize"]),
    "float bias": (qdq([*CONV, N("Add", ["c", "i"], ["b"])], WEIGHTS | {"i": np.ones((4, 1, 1), np.float32)}),
                   ["conv_integer", "requantize"]),
    "residual": (qdq([*CONV, N("Add", ["c", "a"], ["d"]), N("Relu", ["d"], ["b"])], FINE),
                 ["conv_integer", "scaled_add", "requantize"]),
    "residual in front": (qdq([*CONV, N("Add", ["a", "c"], ["b"])], FINE), ["conv_integer", "scaled_add", "requantize"]),
    "sum": (qdq([
        N("Relu", ["a"], ["r"]), N("QuantizeLinear", ["r", "sr", "z"], ["rq"]), N("DequantizeLinear", ["rq", "sr", "z"], ["a2"]),
        N("Add", ["a", "a2"], ["b"])], {"sr": np.float32(0.011)}), ["sum_pool", "requantize", "scaled_sum", "requantize"]),
    "transposed": (qdq([dequantized(1), N("ConvTranspose", ["a", "w"], ["b"], strides=[2, 2])], weights(4, 3, 2, 2, axis=1)),
                   ["conv_transpose_integer", "requantize"]),
    "one scale": (qdq([dequantized(), N("ConvTranspose", ["a", "w"], ["b"], group=2)], weights(4, 3, 2, 2, axis=None)),
                  ["conv_transpose_integer", "requantize"]),
    "rows": (qdq([dequantized(1), N("MatMul", ["a", "w"], ["b"])], weights(6, 5, axis=1)),
             ["reshape", "matmul_integer", "requantize", "reshape"]),
    "torch's weights": (qdq([N("QuantizeLinear", ["wf", "ws", "wz"], ["wq"], axis=0), *CONV, N("Relu", ["c"], ["b"])], {
        "wf": np.random.default_rng(3).standard_normal((4, 4, 3, 3)).astype(np.float32) / 9, "ws": WEIGHTS["ws"],
        "wz": WEIGHTS["wz"]}), ["conv_integer", "requantize"]),
    "turned weights": (qdq([N("Flatten", ["a"], ["f"]), dequantized(), N("Transpose", ["w"], ["t"], perm=[1, 0]),
                            N("Gemm", ["f", "t"], ["g"], alpha=0.5), N("Reshape", ["g", "s"], ["b"])],
                           weights(7, 144) | {"s": np.array([1, 7, 1, 1])}),
                       ["reshape", "matmul_integer", "requantize", "reshape"]),
    "mean": (qdq([N("AveragePool", ["a"], ["b"], kernel_shape=[3, 2], strides=[2, 1])], scale=0.047), ["sum_pool", "requantize"]),
    "mean with its pads": (qdq([N("AveragePool", ["a"], ["b"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)]),
                           ["sum_pool", "requantize"]),
    "mean of all": (qdq([N("ReduceMean", ["a"], ["b"], axes=[2, 3])]), ["sum_pool", "requantize"]),
    "moves": (qdq([N("MaxPool", ["a"], ["p"], kernel_shape=[2, 2], pads=[0, 0, 1, 1], ceil_mode=1, strides=[2, 2]),
                   N("Pad", ["p", "n"], ["q"]), N("Resize", ["q", "", "twice"], ["r"], mode="nearest"),
                   N("Concat", ["r", "r"], ["b"], axis=1)],
                  {"n": np.array([0, 0, 1, 0, 0, 0, 0, 2]), "twice": np.array([1, 1, 1.5, 2], np.float32)}, scale=0.03),
              ["max_pool", "pad", "resize", "concat"]),
    "another scale": (qdq([N("MaxPool", ["a"], ["b"], kernel_shape=[2, 2])]), ["max_pool", "sum_pool", "requantize"]),
    "pool behind": (qdq([*CONV, N("Relu", ["c"], ["r"]), N("MaxPool", ["r"], ["b"], kernel_shape=[2, 2])], WEIGHTS),
                    ["conv_integer", "requantize", "max_pool"]),
    "clips of clips": (qdq([*CONV, N("Clip", ["c", "low", "high"], ["d"]), N("Relu", ["d"], ["b"])], WEIGHTS | BOUNDS),
                       ["conv_integer", "requantize"]),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name):
    proto, want = PATTERNS[name]
    graph, session = graph_of(proto), onnxruntime_of(proto)
    assert ops(graph) == ["quantize_linear", *want, "dequantize_linear"]
    for seed in range(3):
        x = np.random.default_rng(seed).normal(0, 1.5, (1, 4, 6, 6)).astype(np.float32)
        (want_y,), (got,) = session.run(None, {"x": x}), reference(graph, x)
        off = np.rint(np.abs(got - want_y) / quantum_of(proto))
        assert off.max() <= 1
        assert off.mean() < 0.01


# With zero points, and of uint8.
ASYMMETRIC: dict[str, tuple[ModelProto, list[str]]] = {
    "a zero point": (qdq([*CONV, N("Relu", ["c"], ["b"])], WEIGHTS | {"z": np.int8(3)}), ["conv_integer", "requantize"]),
    "uint8": (qdq([*CONV, N("Relu", ["c"], ["b"])], WEIGHTS | {"z": np.uint8(120)}), ["conv_integer", "requantize"]),
    "no zero point of uint8": (qdq([*CONV, N("Clip", ["c", "low", "high"], ["b"])], WEIGHTS | BOUNDS | {"z": np.uint8(0)}),
                               ["conv_integer", "requantize"]),
    "weights with zero points": (
        qdq([*CONV, N("Relu", ["c"], ["b"])], WEIGHTS | {"wz": np.array([0, 0, 0, -1], np.int8), "wq": WEIGHTS["wq"] // 2}),
        ["conv_integer", "requantize"]),
    "wide weights": (
        qdq([dequantized(), N("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1])], WEIGHTS | {
            "wq": (WEIGHTS["wq"].astype(int) + 127).astype(np.uint8), "wz": np.array([99, 128, 140, 120], np.uint8),
            "z": np.uint8(120)}), ["slice", "concat", "conv_integer", "requantize"]),
    "wide weights of groups": (
        qdq([dequantized(), N("Conv", ["a", "w"], ["b"], group=4)], {
            "wq": np.arange(255, 219, -1, dtype=np.uint8).reshape(4, 1, 3, 3), "ws": np.full(4, 0.01, np.float32),
            "wz": np.full(4, 20, np.uint8), "z": np.uint8(120)}),
        ["conv_integer", "conv_integer", "add", "requantize"]),
    "transposed": (
        qdq([dequantized(1), N("ConvTranspose", ["a", "w"], ["b"], strides=[2, 2], pads=[1, 0, 0, 1])],
            weights(4, 3, 2, 2, axis=1) | {"z": np.int8(-30)}), ["conv_transpose_integer", "requantize"]),
    "residual": (qdq([*CONV, N("Add", ["c", "a"], ["d"]), N("Relu", ["d"], ["b"])], FINE | {"z": np.uint8(100)}),
                 ["conv_integer", "scaled_add", "requantize"]),
    "mean with its pads": (
        qdq([N("AveragePool", ["a"], ["b"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)], {"z": np.uint8(7)}),
        ["sum_pool", "requantize"]),
    "moves": (qdq([N("MaxPool", ["a"], ["p"], kernel_shape=[2, 2], pads=[0, 0, 1, 1]), N("Pad", ["p", "n"], ["q"]),
                   N("Concat", ["q", "q"], ["b"], axis=1)],
                  {"n": np.array([0, 0, 1, 0, 0, 0, 0, 2]), "z": np.uint8(99)}, scale=0.03), ["max_pool", "pad", "concat"]),
    "another scale": (qdq([N("MaxPool", ["a"], ["b"], kernel_shape=[2, 2])], {"z": np.uint8(99)}),
                      ["max_pool", "sum_pool", "requantize"]),
    "square": (qdq([N("Mul", ["a", "a"], ["b"])], {"z": np.uint8(99)}), ["lookup"]),
    "swish": (qdq([N("Sigmoid", ["a"], ["s"]), N("QuantizeLinear", ["s", "ss", "z"], ["sq"]),
                   N("DequantizeLinear", ["sq", "ss", "z"], ["t"]), N("Mul", ["a", "t"], ["b"])],
                  {"ss": np.float32(1 / 255), "z": np.uint8(0)}), ["lookup"]),
    "gelu": (qdq([N("Div", ["a", "root"], ["u"]), N("Erf", ["u"], ["e"]), N("Add", ["e", "one"], ["f"]),
                  N("Mul", ["a", "f"], ["g"]), N("Mul", ["g", "half"], ["b"])], {
                      "root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}),
             ["lookup"]),
    "leaky relu": (qdq([N("LeakyRelu", ["a"], ["b"], alpha=0.2)], {"z": np.int8(-5)}), ["lookup"]),
    "gates": (qdq([N("GlobalAveragePool", ["a"], ["p"]), N("QuantizeLinear", ["p", "ss", "z"], ["pq"]),
                   N("DequantizeLinear", ["pq", "ss", "z"], ["m"]), N("HardSigmoid", ["m"], ["h"]),
                   N("QuantizeLinear", ["h", "ss", "z"], ["hq"]), N("DequantizeLinear", ["hq", "ss", "z"], ["g"]),
                   N("Mul", ["g", "a"], ["b"])], {"ss": np.float32(1 / 100), "z": np.uint8(80)}),
              ["sum_pool", "requantize", "lookup", "mul_integer", "requantize"]),
}


@pytest.mark.parametrize("name", ASYMMETRIC)
def test_zero_points_and_uint8(name):
    proto, want = ASYMMETRIC[name]
    graph, session = fold_constants(graph_of(proto), evaluate=evaluate_graph), onnxruntime_of(proto)
    assert ops(graph) == ["quantize_linear", *want, "dequantize_linear"]
    module = module_of(graph)
    for seed in range(3):
        x = np.random.default_rng(seed).normal(0, 1.5, (1, 4, 6, 6)).astype(np.float32)
        (want_y,), (got,) = session.run(None, {"x": x}), reference(graph, x)
        np.testing.assert_array_equal(module.run({"x": x})["y"], got)
        off = np.rint(np.abs(got - want_y) / quantum_of(proto))
        assert off.max() <= 1
        assert off.mean() < 0.01


def test_uint8_inputs_and_outputs_stay_uint8():
    """What stands between them is int8, 128 less."""
    params = {"sa": np.float32(0.03), "sb": np.float32(0.05), "z": np.uint8(110)}
    proto = model([N("QLinearConv", ["x", "sa", "z", "wq", "ws", "wz", "sb", "z"], ["c"], pads=[1, 1, 1, 1]),
                   N("MaxPool", ["c"], ["y"], kernel_shape=[2, 2])],
                  [("x", "u1", (1, 4, 6, 6))], [("y", "u1", (1, 4, 5, 5))], WEIGHTS | params)
    graph = graph_of(proto)
    assert ops(graph) == ["to_int8", "conv_integer", "requantize", "max_pool", "to_uint8"]
    x = np.random.default_rng(0).integers(0, 256, (1, 4, 6, 6)).astype(np.uint8)
    (got,), (want,) = reference(graph, x), onnxruntime_of(proto).run(None, {"x": x})
    assert got.dtype == np.uint8
    assert np.abs(got.astype(int) - want).max() <= 1
    np.testing.assert_array_equal(module_of(graph).run({"x": x})["y"], got)


LEFT = {
    "scales along the inputs": qdq([dequantized(1), N("Conv", ["a", "w"], ["b"])], weights(4, 4, 3, 3, axis=1)),
    "float weights": qdq([N("Conv", ["a", "w"], ["b"])], {"w": np.ones((2, 4, 1, 1), np.float32)}),
    "mean of what is inside": qdq([N("AveragePool", ["a"], ["b"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])]),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_stays_in_floating_point(name):
    before = import_model(LEFT[name])
    assert set(ops(integer_form(before))) == set(ops(before))


# Sums that are not quantized are integers too; what follows them is not.
HALF = {
    "sigmoid": qdq([*CONV, N("Sigmoid", ["c"], ["b"])], WEIGHTS | {"z": np.uint8(100)}),
    "a function of two values": qdq([*CONV, N("Max", ["c", "a"], ["b"])], WEIGHTS),
    "a residual finer than the sums": qdq([*CONV, N("Add", ["c", "a"], ["b"])], WEIGHTS | {"ws": np.full(4, 3, np.float32)}),
    "groups": qdq([dequantized(), N("Conv", ["a", "w"], ["c"], group=2), N("Tanh", ["c"], ["b"])],
                  weights(6, 2, 3, 3) | {"z": np.int8(-7)}),
    "transposed": qdq([dequantized(1), N("ConvTranspose", ["a", "w"], ["c"], strides=[2, 2]), N("Tanh", ["c"], ["b"])],
                      weights(4, 3, 2, 2, axis=1) | {"z": np.int8(-7)}),
    "rows": qdq([dequantized(1), N("MatMul", ["a", "w"], ["c"]), N("Tanh", ["c"], ["b"])],
                weights(6, 5, axis=1) | {"z": np.uint8(99)}),
    "bias of a product": qdq([N("Flatten", ["a"], ["f"]), dequantized(), N("Gemm", ["f", "w", "i"], ["g"], transB=1, alpha=0.5),
                              N("Tanh", ["g"], ["t"]), N("Reshape", ["t", "s"], ["b"])],
                             weights(7, 144) | {"s": np.array([1, 7, 1, 1]), "i": np.arange(-3, 4, dtype=np.float32) / 5}),
}


@pytest.mark.parametrize("name", HALF)
def test_sums_that_are_not_quantized_are_integers(name):
    proto = HALF[name]
    graph, before = graph_of(proto), import_model(proto)
    (sums,) = {"conv_integer", "conv_transpose_integer", "matmul_integer"} & set(ops(graph))
    assert not {"conv", "conv_transpose", "matmul", "gemm"} & set(ops(graph))
    after = ops(graph)[ops(graph).index(sums):]
    assert after[1] == "dequantize_linear"
    known = {node.op for node in before.nodes}
    assert set(after[2:]) <= known | {"reshape", "add"}
    module = module_of(graph)
    for seed in range(3):
        x = np.random.default_rng(seed).normal(0, 1.5, (1, 4, 6, 6)).astype(np.float32)
        got, (want,) = module.run({"x": x})["y"], onnxruntime_of(proto, optimised=False).run(None, {"x": x})
        assert np.rint(np.abs(got - want) / quantum_of(proto)).max() <= 1
        assert np.mean(np.abs(got - want) > 0.5 * quantum_of(proto)) < 0.01


def test_a_value_that_is_given_too_stays_and_is_what_the_rest_is_made_of():
    proto = qdq([*CONV, N("Relu", ["c"], ["b"])], WEIGHTS)
    proto.graph.output.append(helper.make_tensor_value_info("c", 1, [1, 4, 6, 6]))
    assert ops(graph_of(proto)) == [
        "quantize_linear", "conv_integer", "dequantize_linear", "relu", "quantize_linear", "dequantize_linear"]


def test_models_in_quantized_operators():
    net = resnet(1)
    proto = quantized(net.model(), net.inputs(4), form="QOperator")
    first = next(node for node in proto.graph.node if node.op_type == "QLinearConv")
    nodes = [N("QuantizeLinear", ["x", *first.input[1:3]], ["xq"]),
             N("QLinearConv", ["xq", *first.input[1:]], ["c"], pads=[2] * 4),
             N("DequantizeLinear", ["c", *first.input[6:8]], ["y"])]
    inner = model(nodes, [("x", "f4", (1, 3, 16, 16))], [("y", "f4", (1, 16, 16, 16))])
    inner.graph.initializer.extend([each for each in proto.graph.initializer if each.name in first.input])
    graph, x = graph_of(inner), net.inputs(1)
    assert ops(graph) == ["quantize_linear", "conv_integer", "requantize", "dequantize_linear"]
    (want,), (got,) = onnxruntime_of(inner).run(None, {"x": x}), reference(graph, x)
    assert np.mean(np.abs(got - want) > 0.5 * quantum_of(inner)) < 0.01


def test_a_pass_without_anything_quantized_changes_nothing():
    graph = import_model(resnet().model())
    assert integer_form(graph) is graph


@pytest.mark.parametrize("seed", range(4))
def test_factors_of_sums_are_as_near_as_they_say(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        a, b = np.exp(rng.uniform(-4, 1, 2))
        found = sum_factors(a, b, a + b)
        assert found is not None
        p, q, unit = found
        assert 127 * (abs(p * unit - a) + abs(q * unit - b)) <= 0.25 * (a + b)
        assert max(p, q) <= 32767


def test_factors_out_of_reach():
    assert sum_factors(1.0, 1e-9, 1.0) is None
    assert skip_factors(np.array([0.5, 1e-3]), 0.7, 1.0) is None  # 1.4 accumulators
    assert skip_factors(np.array([1e-4, 1e-3]), 0.7, 1.0) is not None
    assert Fixed.of(np.array([70000.0]), np.zeros(1)) is None
    assert Fixed.of(np.ones(1), np.array([2.0**31])) is None


def test_the_reference_names_an_operator_that_it_lacks():
    graph = graph_of(LEFT["float weights"])
    with pytest.raises(GraphError, match=r"^conv 'b?c?' -> .*: the reference has the operators of networks in integers: "):
        reference(graph, np.zeros((1, 4, 6, 6), np.float32))


def test_the_reference_takes_the_greatest_of_floats_too():
    """Before the first layer in integers, or behind the last."""
    proto = model([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], pads=[1, 1, 0, 0], strides=[2, 2])],
                  [("x", "f4", (1, 3, 5, 7))], [("y", "f4", (1, 3, 3, 4))], {})
    x = -1 - np.random.default_rng(0).random((1, 3, 5, 7), np.float32)
    assert np.array_equal(reference(graph_of(proto), x)[0], onnxruntime_of(proto).run(None, {"x": x})[0])
