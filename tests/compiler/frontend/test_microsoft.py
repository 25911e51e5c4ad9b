"""The operators of onnxruntime's quantizer are within a quantum of onnxruntime."""

import numpy as np
import onnxruntime
import pytest
from model_support import model
from onnx import helper, numpy_helper
from support import raises

import vtakit
from vtakit.compiler.frontend.errors import UnsupportedError
from vtakit.compiler.frontend.onnx.importer import import_model

DOMAIN = "com.microsoft"
X, Y, Z = ("x_scale", "x_zero"), ("y_scale", "y_zero"), ("z_scale", "z_zero")
IMAGE, MATRIX = [1, 4, 6, 6], [3, 4]
CASES = {
    "QLinearAdd": (["x", *X, "x2", *Y, *Z], {}, IMAGE),
    "QLinearMul": (["x", *X, "x2", *Y, *Z], {}, IMAGE),
    "QLinearSigmoid": (["x", *X, *Y], {}, IMAGE),
    "QLinearLeakyRelu": (["x", *X, *Y], {"alpha": 0.25}, IMAGE),
    "QLinearSoftmax": (["x", *X, *Y], {"axis": 1, "opset": 13}, IMAGE),
    "QLinearGlobalAveragePool": (["x", *X, *Y], {}, IMAGE),
    "QLinearAveragePool": (["x", *X, *Y], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}, IMAGE),
    "QLinearConcat": ([*Z, "x", *X, "x2", *Y], {"axis": 1}, IMAGE),
    "QLinearWhere": (["which", "x", *X, "x2", *Y, *Z], {}, IMAGE),
    "QGemm": (["x", *X, "w", "w_scale", "w_zero", "b", *Z], {"transB": 1, "alpha": 0.5}, MATRIX),
}


def quantized(rng, op, words, attributes, shape, kind):
    """A model of one node on numbers of a type; no quotient of scales is a fraction that halves are frequent of."""
    low = 0 if kind == "u1" else -128
    constants = {
        "x_scale": np.float32(0.0313), "x_zero": np.array(low + 120, kind),
        "y_scale": np.float32(0.0237), "y_zero": np.array(low + 100, kind),
        "z_scale": np.float32(0.0491), "z_zero": np.array(low + 130, kind), "which": rng.random(IMAGE) < 0.5,
        "w": rng.integers(low, low + 256, (5, 4)).astype(kind), "w_scale": np.float32(0.01), "w_zero": np.array(low + 128, kind),
        "b": rng.integers(-2000, 2000, 5).astype("i4"),
    }
    inputs = [(name, kind, shape) for name in ("x", "x2") if name in words]
    node = helper.make_node(op, words, ["out"], domain=DOMAIN, **attributes)
    used = {name: array for name, array in constants.items() if name in words}
    return model([node], inputs, [("out", kind, [*map(str, range(len(shape)))])], used, domains=[DOMAIN])


@pytest.mark.parametrize("kind", ["i1", "u1"])
@pytest.mark.parametrize("op", CASES)
def test_it_is_within_a_quantum_of_onnxruntime(op, kind):
    rng = np.random.default_rng(11)
    words, attributes, shape = CASES[op]
    proto = quantized(rng, op, words, attributes, shape, kind)
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    given = {info.name: rng.integers(least, most + 1, shape).astype(kind) for info in proto.graph.input}
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)
    got = vtakit.compile(proto).run(given)["out"]
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    difference = np.abs(got.astype(int) - want.astype(int))
    assert difference.max() <= 1
    if op == "QLinearSoftmax":  # onnxruntime's is made of rounded numbers: 10 of 144 values are a quantum from exact ones
        constants = {each.name: numpy_helper.to_array(each).astype(float) for each in proto.graph.initializer}
        powers = np.exp((given["x"] - constants["x_zero"]) * constants["x_scale"])
        exact = np.rint(powers / powers.sum(1, keepdims=True) / constants["y_scale"]) + constants["y_zero"]
        np.testing.assert_array_equal(got, np.clip(exact, least, most))
    else:
        assert np.count_nonzero(difference) <= 0.02 * difference.size
    assert len(np.unique(want)) > 3


def test_a_function_of_the_model_comes_first():
    body = [helper.make_node("Neg", ["a"], ["b"])]
    own = helper.make_function(DOMAIN, "QLinearAdd", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    node = helper.make_node("QLinearAdd", ["x"], ["out"], domain=DOMAIN)
    graph = import_model(model([node], [("x", "f4", [2])], [("out", "f4", [2])], functions=[own], domains=[DOMAIN]))
    assert [each.op for each in graph.nodes] == ["neg"]


def test_what_is_left_of_the_domain_is_told():
    lacking = {"QLinearGlobalAveragePool": {"channels_last": 1}, "QLinearSoftmax": {"opset": 12}, "QEmbedLayerNormalization": {}}
    nodes = [
        helper.make_node(op, ["x", *X, *Y], [f"out{at}"], op, domain=DOMAIN, **words)
        for at, (op, words) in enumerate(lacking.items())
    ]
    known = {"x_scale": np.float32(1), "x_zero": np.int8(0), "y_scale": np.float32(1), "y_zero": np.int8(0)}
    proto = model(nodes, [("x", "i1", IMAGE)], [("out0", "i1", IMAGE)], known, domains=[DOMAIN])
    message = (
        "model 'net' needs what vtakit does not support: QLinearGlobalAveragePool with channels_last=1 (1 node: "
        "'QLinearGlobalAveragePool'); QLinearSoftmax of an operator set before 13 (1 node: 'QLinearSoftmax'); "
        "com.microsoft.QEmbedLayerNormalization (1 node: "
        "'QEmbedLayerNormalization')"
    )
    with raises(UnsupportedError, message):
        import_model(proto)
