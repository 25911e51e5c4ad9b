"""Small networks as onnxruntime's optimizer, converter and quantizers write them; benchmarks/tool_files.py has whole ones."""

import importlib.util
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from model_support import model, network
from onnx import helper

ROOT = Path(__file__).parents[3]
RNG = np.random.default_rng(31)
WIDTH, HEADS, LENGTH = 16, 2, 6


@pytest.fixture(scope="module")
def tools():
    """The script that makes the files."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(ROOT / "benchmarks")
        yield loaded()


def loaded():
    """benchmarks/tool_files.py as a module."""
    spec = importlib.util.spec_from_file_location("tool_files", ROOT / "benchmarks" / "tool_files.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["tool_files"] = made
    spec.loader.exec_module(made)
    return made


def block():
    """A block of a transformer: attention, a layer norm, GELU made of Erf, and a norm again."""
    node, nodes, known = helper.make_node, [], {}

    def weight(name, *shape):
        known[name] = (RNG.standard_normal(shape) / shape[0] ** 0.5).astype("f4")
        return name
    for word in "qkv":
        perm = [0, 2, 3, 1] if word == "k" else [0, 2, 1, 3]
        nodes += [node("MatMul", ["x", weight(f"w{word}", WIDTH, WIDTH)], [f"{word}1"]),
                  node("Add", [weight(f"b{word}", WIDTH), f"{word}1"], [f"{word}2"]),
                  node("Reshape", [f"{word}2", "split"], [f"{word}3"]), node("Transpose", [f"{word}3"], [f"{word}4"], perm=perm)]
    known |= {"split": np.array([0, 0, HEADS, WIDTH // HEADS]), "join": np.array([0, 0, WIDTH]),
              "scale": np.float32((WIDTH // HEADS) ** 0.5), "root": np.float32(2**0.5), "one": np.float32(1),
              "half": np.float32(0.5)}
    nodes += [
        node("MatMul", ["q4", "k4"], ["s1"]), node("Div", ["s1", "scale"], ["s2"]), node("Softmax", ["s2"], ["s3"], axis=-1),
        node("MatMul", ["s3", "v4"], ["c1"]), node("Transpose", ["c1"], ["c2"], perm=[0, 2, 1, 3]),
        node("Reshape", ["c2", "join"], ["c3"]), node("MatMul", ["c3", weight("wo", WIDTH, WIDTH)], ["o1"]),
        node("Add", ["o1", weight("bo", WIDTH)], ["o2"]), node("Add", ["o2", "x"], ["r1"]),
        node("LayerNormalization", ["r1", weight("g1", WIDTH), weight("n1", WIDTH)], ["h"], axis=-1),
        node("MatMul", ["h", weight("w1", WIDTH, 32)], ["f1"]), node("Add", ["f1", weight("b1", 32)], ["f2"]),
        node("Div", ["f2", "root"], ["e1"]), node("Erf", ["e1"], ["e2"]), node("Add", ["e2", "one"], ["e3"]),
        node("Mul", ["f2", "e3"], ["e4"]), node("Mul", ["e4", "half"], ["e5"]),
        node("MatMul", ["e5", weight("w2", 32, WIDTH)], ["f3"]),
        node("Add", ["f3", weight("b2", WIDTH)], ["f4"]), node("Add", ["f4", "h"], ["r2"]),
        node("LayerNormalization", ["r2", weight("g2", WIDTH), weight("n2", WIDTH)], ["y"], axis=-1),
    ]
    return model(nodes, [("x", "f4", [1, LENGTH, WIDTH])], [("y", "f4", [1, LENGTH, WIDTH])], known)


def images():
    proto = network()
    for port in (*proto.graph.input, *proto.graph.output):
        port.type.tensor_type.shape.dim[0].dim_value = 1
    return proto


NETWORKS = {"images": (images, (1, 3, 16, 16)), "block": (block, (1, LENGTH, WIDTH))}
HOW = {
    "basic": lambda t: t.BASIC, "extended": lambda t: t.EXTENDED, "float16": lambda t: t.halved,
    "float16, extended": lambda t: t.after(t.halved, t.EXTENDED), "dynamic": lambda t: t.dynamic,
    "dynamic, extended": lambda t: t.after(t.dynamic, t.EXTENDED), "static QDQ": lambda t: t.static("QDQ"),
    "static QDQ, extended": lambda t: t.after(t.static("QDQ"), t.EXTENDED), "static QOperator": lambda t: t.static("QOperator"),
}
FUSED = {("images", "extended"): "FusedConv", ("block", "extended"): "FusedMatMul, Gelu, SkipLayerNormalization"}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("tool", HOW)
def test_a_file_runs_and_is_right(tools, tmp_path, name, tool):
    make, shape = NETWORKS[name]
    source, target = tmp_path / "source.onnx", tmp_path / "target.onnx"
    onnx.save(make(), source)
    samples = [{"x": RNG.standard_normal(shape).astype("f4")} for _ in range(4)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of onnxruntime's tools, and of nodes that vtakit sorts
        HOW[tool](tools)(source, target, samples)
        quantized = any(word in tool for word in ("dynamic", "static"))
        text, right = tools.judged(target, source, samples, quantized, 5e-3 if "float16" in tool else 1e-5)
    assert right, text
    if (name, tool) in FUSED:
        assert FUSED[name, tool] in tools.special(onnx.load(target))


def test_a_difference_is_relative(tools):
    assert tools.difference([np.array([1.0, 2.0])], [np.array([1.0, 2.0])]) == 0
    assert tools.difference([np.array([3.0, 4.5])], [np.array([3.0, 4.0])]) == pytest.approx(0.1)
