"""Quantized models in the forms in which PyTorch's two exporters write them: networks in integers, on the accelerator too.

The models are built here, so that the tests need no PyTorch.
"""

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
from quantized_support import dequantized, onnxruntime_of, qdq, quantum_of, weights

import vtakit
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.passes.quantized.form import integer_form
from vtakit.compiler.graph.reference import reference

N = helper.make_node
CONV = [dequantized(), N("Conv", ["a", "w"], ["c"], pads=[1, 1, 1, 1])]
WEIGHTS = weights(4, 4, 3, 3)
RNG = np.random.default_rng(0)
NORM = {"gamma": np.array([0.7, -1.3, 0.2, 1.1], np.float32), "beta": np.array([0.1, -0.2, 0.3, 0.4], np.float32),
        "mean": np.array([0.3, -0.1, 0, 0.2], np.float32), "var": np.array([0.5, 1.5, 0.02, 1], np.float32)}
BATCH_NORM = N("BatchNormalization", ["d", "gamma", "beta", "mean", "var"], ["n"])


def of_bits(nodes: list[NodeProto], constants: dict[str, np.ndarray], low: int | None, high: int, zero: np.ndarray) -> ModelProto:
    """A model whose activations are clipped to fewer numbers before they are dequantized."""
    proto = qdq(nodes, constants | {"z": zero, "high": np.array(high, zero.dtype)} | (
        {} if low is None else {"low": np.array(low, zero.dtype)}))
    ends = ["" if low is None else "low", "high"]
    found = []
    for node in proto.graph.node:
        found.append(node)
        if node.op_type == "QuantizeLinear" and node.input[0] in ("x", "b"):
            name = node.output[0]
            node.output[0] = f"{name}.wide"
            found.append(N("Clip", [f"{name}.wide", *ends], [name]))
    del proto.graph.node[:]
    proto.graph.node.extend(found)
    return proto


def cast(proto: ModelProto) -> ModelProto:
    """A model as the exporter by TorchScript writes it: numbers are cast to the type that they have."""
    found = []
    for node in proto.graph.node:
        found.append(node)
        if node.op_type == "QuantizeLinear":
            name = node.output[0]
            node.output[0] = f"{name}.1"
            found.append(N("Cast", [f"{name}.1"], [name], to=TensorProto.UINT8))
    del proto.graph.node[:]
    proto.graph.node.extend(found)
    return proto


FORMS = {
    "TorchScript": cast(qdq([
        dequantized(), N("ConstantOfShape", ["four"], ["zeros"]), N("Cast", ["zeros"], ["whole"], to=TensorProto.INT32),
        N("DequantizeLinear", ["iq", "is", "whole"], ["i"], axis=0), N("Conv", ["a", "w", "i"], ["c"], pads=[1] * 4),
        N("Relu", ["c"], ["b"])],
        WEIGHTS | {"four": np.array([4]), "iq": np.array([900, -4, 77, 0], np.int32), "is": np.full(4, 3e-4, np.float32),
                   "z": np.uint8(113)})),
    "7 bits": of_bits([*CONV, N("Relu", ["c"], ["b"])], WEIGHTS, None, 127, np.uint8(60)),
    "4 bits": of_bits([*CONV, N("Relu", ["c"], ["b"])], WEIGHTS, -8, 7, np.int8(-1)),
    "clipped weights": qdq([
        N("QuantizeLinear", ["wf", "ws", "wz"], ["wide"], axis=0), N("Clip", ["wide", "low", "high"], ["wq"]), *CONV,
        N("Relu", ["c"], ["b"])],
        {"wf": RNG.standard_normal((4, 4, 3, 3)).astype(np.float32), "ws": np.full(4, 0.011, np.float32),
         "wz": np.zeros(4, np.int8), "low": np.int8(-127), "high": np.int8(127)}),
    "training": qdq([  # ConvBn2d of torch.ao.nn.intrinsic.qat: weights are quantized times gamma / sigma
        *CONV, N("Div", ["c", "factor"], ["e"]), N("Add", ["e", "i"], ["d"]), BATCH_NORM, N("Relu", ["n"], ["b"])],
        WEIGHTS | NORM | {"factor": (NORM["gamma"] / np.sqrt(NORM["var"] + 1e-5)).reshape(1, 4, 1, 1),
                          "i": RNG.standard_normal((1, 4, 1, 1)).astype(np.float32), "z": np.uint8(120)}),
    "normalization": qdq([dequantized(), N("Conv", ["a", "w"], ["d"]), BATCH_NORM, N("Relu", ["n"], ["b"])],
                         WEIGHTS | NORM | {"z": np.int8(3)}),
    "a channel that training pruned": qdq([dequantized(), N("Conv", ["a", "w"], ["d"]), BATCH_NORM, N("Relu", ["n"], ["b"])],
                                           WEIGHTS | NORM | {"gamma": np.array([1, 0, 2, 3], np.float32), "z": np.int8(3)}),
    "subtracted": qdq([*CONV, N("Sub", ["i", "c"], ["b"])], WEIGHTS | {"i": np.full((4, 1, 1), 0.3, np.float32)}),
    "a factor of a product": qdq([dequantized(1), N("MatMul", ["a", "w"], ["c"]), N("Mul", ["f", "c"], ["b"])],
                                 weights(6, 5, axis=1) | {"f": np.array([2, -1, 0.5, 1, 3], np.float32)}),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_layer_is_in_integers_on_both_targets(name):
    proto = FORMS[name]
    graph = integer_form(import_model(proto))
    kinds = [node.op for node in graph.nodes if node.op not in ("reshape", "clip")]
    assert kinds in (["quantize_linear", sums, "requantize", "dequantize_linear"] for sums in ("conv_integer", "matmul_integer"))
    cpu, vta = vtakit.compile(proto), vtakit.compile(proto, "vta", config="tiny")
    assert (vta.placement.launches, vta.placement.share_of_macs) == (1, 1)
    for seed in range(3):
        x = np.random.default_rng(seed).normal(0, 1.5, (1, 4, 6, 6)).astype(np.float32)
        (want,), got = onnxruntime_of(proto, optimised=False).run(None, {"x": x}), cpu.run({"x": x})["y"]
        assert got.tobytes() == vta.run({"x": x})["y"].tobytes()
        if "clip" not in [node.op for node in graph.nodes]:
            np.testing.assert_array_equal(got, reference(graph, x)[0])
        off = np.rint(np.abs(got - want) / quantum_of(proto))
        assert off.max() <= 1
        assert off.mean() < 0.01


def test_numbers_that_are_read_before_they_are_clipped_stay():
    proto = of_bits([*CONV, N("Relu", ["c"], ["b"])], WEIGHTS, None, 127, np.uint8(60))
    proto.graph.output.append(helper.make_tensor_value_info("xq.wide", TensorProto.UINT8, [1, 4, 6, 6]))
    module = vtakit.compile(proto)
    x = np.random.default_rng(0).normal(0, 1.5, (1, 4, 6, 6)).astype(np.float32)
    y, wide = onnxruntime_of(proto, optimised=False).run(None, {"x": x})
    got = module.run({"x": x})
    np.testing.assert_array_equal(got["xq.wide"], wide)
    assert wide.max() > 127
    assert np.abs(got["y"] - y).max() <= 1.5 * quantum_of(proto)


def test_a_mean_by_a_factor_below_0_stays_in_floating_point():
    """There are no weights whose signs could change."""
    proto = qdq([N("GlobalAveragePool", ["a"], ["c"]), N("Mul", ["c", "f"], ["b"])],
                {"f": np.array([1, -1, 2, 3], np.float32).reshape(1, 4, 1, 1)})
    assert "requantize" not in [node.op for node in integer_form(import_model(proto)).nodes]
    x = np.random.default_rng(0).normal(0, 1.5, (1, 4, 6, 6)).astype(np.float32)
    got, (want,) = vtakit.compile(proto).run({"x": x})["y"], onnxruntime_of(proto, optimised=False).run(None, {"x": x})
    assert np.abs(got - want).max() <= 1.5 * quantum_of(proto)
