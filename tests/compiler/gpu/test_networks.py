"""Whole networks for a GPU: kernels in low form by the interpreter, against onnxruntime; models that pass the verifier."""

import time
from collections import Counter

import gpu_decision_fuzz
import numpy as np
import onnxruntime
import pytest
from gpu_support import A100, network_of, run_network
from model_support import network, run_graph

from vtakit import models
from vtakit.compiler.codegen.gpu.launches import split
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.compile import decide
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.gpu import GpuKernels
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.passes.base import run_passes
from vtakit.compiler.graph.passes.pipeline import passes_for_gpu
from vtakit.compiler.lower.interpreter import interpret
from vtakit.runtime.cpu.evaluate import evaluator
from vtakit.runtime.cpu.target import Cpu


def prepared(model) -> Graph:
    """A model after all passes."""
    evaluate = evaluator(Cpu.host())
    return run_passes(import_model(model, evaluate=evaluate), passes_for_gpu(evaluate))


def test_a_small_residual_network_as_onnxruntime_computes_it():
    model = network()
    x = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)
    (want,) = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    got = run_network(network_of(prepared(model)), {"x": x})
    np.testing.assert_allclose(got["y"], want, rtol=1e-4, atol=1e-5)


def language_model(words: int = 6, width: int = 16, heads: int = 2) -> tuple[Graph, list[np.ndarray]]:
    """A block of a small GPT: an embedding, causal attention, an MLP, each behind a norm, and the scores of the next word."""
    b, rng = Builder("gpt"), np.random.default_rng(0)
    inputs: list[np.ndarray] = []

    def given(name, *shape, low=None):
        array = rng.standard_normal(shape).astype(np.float32) * 0.3 if low is None else rng.integers(0, low, shape)
        inputs.append(array)
        return b.input(name, shape, str(array.dtype))

    def split_heads(value):
        parts = b.one("reshape", value, attrs={"shape": (1, words, heads, width // heads)})
        return b.one("transpose", parts, attrs={"perm": (0, 2, 1, 3)})
    table, mask = given("table", 11, width), given("mask", 1, 1, words, words)
    x = b.one("gather", table, given("tokens", 1, words, low=11))
    normal = b.one("rms_norm", x, given("scale", width))
    q, k, v = (split_heads(b.one("matmul", normal, given(name, width, width))) for name in "qkv")
    scores = b.one("matmul", q, b.one("transpose", k, attrs={"perm": (0, 1, 3, 2)}))
    mixed = b.one("matmul", b.one("softmax", b.one("add", scores, mask), attrs={"axis": -1}), v)
    flat = b.one("reshape", b.one("transpose", mixed, attrs={"perm": (0, 2, 1, 3)}), attrs={"shape": (1, words, width)})
    x = b.one("add", x, b.one("matmul", flat, given("o", width, width)))
    inner = b.one("gelu", b.one("matmul", b.one("rms_norm", x, given("scale2", width)), given("up", width, 4 * width)))
    x = b.one("add", x, b.one("matmul", inner, given("down", 4 * width, width)))
    return b.finish([("scores", b.one("matmul", x, b.one("transpose", table, attrs={"perm": (1, 0)})))]), inputs


def test_a_small_language_model_as_the_processor_computes_it():
    graph, inputs = language_model()
    got = run_network(network_of(graph), {value.name: array for value, array in zip(graph.inputs, inputs, strict=True)})
    np.testing.assert_allclose(got["scores"], run_graph(graph, *inputs)[0], rtol=1e-3, atol=1e-4)


def test_a_recurrent_network_as_the_processor_computes_it():
    b, rng = Builder("net"), np.random.default_rng(0)
    shapes = {"x": (4, 1, 6), "w": (1, 32, 6), "r": (1, 32, 8), "b": (1, 64)}
    values = [b.input(name, shape, "float32") for name, shape in shapes.items()]
    every, *_ = b.add("lstm", *values)
    graph = b.finish([("y", b.one("relu", every))])
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes.values()]
    got = run_network(network_of(graph), dict(zip(shapes, inputs, strict=True)))
    np.testing.assert_allclose(got["y"], run_graph(graph, *inputs)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "size"), [("resnet18", 64), ("mobilenet_v2", 64), ("bert_mini", None), ("lstm", None)])
def test_whole_models_lower_and_pass_the_verifier(name, size):
    """Each kernel of the default schedules keeps the limits of an A100, and splits into launches."""
    graph = prepared(models.build(name, size=size))
    start = time.process_time()
    decide(graph, A100, ModelDecisions())
    scheduled = time.process_time() - start
    code = network_of(graph).code
    assert sum(len(split(kernel).launches) for kernel in code.kernels) >= len(code.kernels)
    assert scheduled < 2.0, f"schedules of {name} took {scheduled:.2f} s"


def test_decisions_of_layers_are_listed_and_taken():
    model = network()
    graph, decisions = prepared(model), ModelDecisions()
    decide(graph, A100, decisions)
    (layer, chosen), *_ = [(layer, made) for layer, made in decisions if made.name == "sums.double_buffer" and layer == "conv1"]
    other = next(form for form in chosen.candidates if form != chosen.chosen)
    given = ModelDecisions({layer: {chosen.name: other}})
    decide(graph, GpuKernels(), given)
    assert next(made.chosen for where, made in given if where == layer and made.name == chosen.name) == other


def test_random_decisions_of_the_kernels_of_a_network():
    tally: Counter[str] = Counter()
    rng = np.random.default_rng(7)
    for group in gpu_decision_fuzz.groups_of(network(), A100):
        gpu_decision_fuzz.check_group(group, A100, interpret, rng, tally, vectors=1)
    assert tally["right"] >= 8
