"""Tasks of networks on a processor: one for each kernel, with the decisions of `vtakit decisions`, measured like any other."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import vtakit
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.lower import THREADS
from vtakit.compiler.tune.features import LENGTH
from vtakit.compiler.tune.space import drawn
from vtakit.compiler.tune.task import Task, decided
from vtakit.runtime.cpu.evaluate import evaluator
from vtakit.runtime.cpu.target import Cpu
from vtakit.runtime.source import Options


def network():
    """Two equal convolutions, another one, and a product."""
    rng = np.random.default_rng(0)
    known = {"w1": (16, 16, 3, 3), "w2": (16, 16, 3, 3), "w3": (32, 16, 1, 1), "w4": (32, 10)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first", pads=[1] * 4), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], "second", pads=[1] * 4), helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "w3"], ["e"], "third"), helper.make_node("GlobalAveragePool", ["e"], ["f"], "pool"),
        helper.make_node("Flatten", ["f"], ["g"]), helper.make_node("MatMul", ["g", "w4"], ["y"], "last"),
    ]
    shapes = {"x": [1, 16, 14, 14], "y": [1, 10]}
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)] for name, dims in shapes.items()]
    weights = [numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name) for name, shape in known.items()]
    graph = helper.make_graph(nodes, "small", *ports, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def tasks_of(model, **options):
    target = Cpu.host()
    evaluate = evaluator(target)
    return target, target.tasks(import_model(model, evaluate=evaluate), Options(**options), evaluate)


@pytest.fixture(scope="module")
def model():
    return network()


def test_a_task_has_the_decisions_of_its_layers(model):
    _, tasks = tasks_of(model)
    listed = {}
    for layer, decision in vtakit.decisions(model):
        if "." in decision.name:
            listed.setdefault(layer, {})[decision.name] = decision.chosen
    seen = [layer for each in tasks for layer in each.layers]
    assert len(seen) == len(set(seen))
    for each in tasks:
        assert isinstance(each.task, Task)
        for layer in each.layers:
            assert decided(each.task) == listed[layer]
    left_out = set(listed) - set(seen)
    assert all(set(listed[layer]) <= {THREADS} or layer for layer in left_out)
    assert len({each.task.digest for each in tasks}) == len(tasks)


@pytest.mark.slow
def test_candidates_of_kernels_are_measured_and_right(model):
    target, tasks = tasks_of(model)
    rng = np.random.default_rng(0)
    with target.measurer() as measurer:
        for each in tasks:
            candidates = [decided(each.task), *[drawn(each.task, rng) for _ in range(3)]]
            outcomes = dict(measurer.measure(each.task, candidates))
            assert [outcomes[at].error for at in range(4)] == [""] * 4
            assert each.task.features(candidates[1]).shape == (LENGTH,)


@pytest.mark.slow
def test_decisions_that_were_found_compile(model):
    target, tasks = tasks_of(model)
    rng = np.random.default_rng(1)
    found = {layer: drawn(each.task, rng) for each in tasks for layer in each.layers}
    x = np.random.default_rng(2).standard_normal((1, 16, 14, 14)).astype(np.float32)
    usual, tuned = vtakit.compile(model), vtakit.compile(model, decisions=found)
    np.testing.assert_allclose(tuned.run({"x": x})["y"], usual.run({"x": x})["y"], rtol=1e-3, atol=1e-3)
    cost = target.cost(tuned.image)
    assert cost.total > 0
    assert {layer for names in cost.layers for layer in names} >= {"first", "second", "third", "last"}


def test_digests_tell_kernels_apart_and_do_not_change(model):
    _, tasks = tasks_of(model)
    _, again = tasks_of(onnx.load_from_string(model.SerializeToString()))
    assert [each.task.digest for each in tasks] == [each.task.digest for each in again]
