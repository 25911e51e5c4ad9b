"""Tasks of networks on a processor: one for each kernel, with the decisions of `vtakit decisions`, measured like any other."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import vtakit
from vtakit import te
from vtakit.compiler.frontend.onnx.importer import import_model
from vtakit.compiler.graph.lower import THREADS
from vtakit.compiler.lower.errors import VerifyError
from vtakit.compiler.lower.verify import limits as verifier
from vtakit.compiler.schedule.decisions import Decisions
from vtakit.compiler.tune import loops
from vtakit.compiler.tune.features import LENGTH
from vtakit.compiler.tune.sketch import expression
from vtakit.compiler.tune.space import drawn
from vtakit.compiler.tune.task import Task, decided
from vtakit.runtime.cpu.evaluate import evaluator
from vtakit.runtime.cpu.target import Cpu
from vtakit.runtime.source import Options
from vtakit.runtime.tune.bench import CpuMeasurer
from vtakit.runtime.tune.binary import Port
from vtakit.runtime.tune.crew import Limits
from vtakit.runtime.tune.network import Network, covered
from vtakit.runtime.tune.records import Record, Records
from vtakit.runtime.tune.subject import Caches, Subject


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
    choices = {layer for layer, each in vtakit.decisions(model)
               if len(each.candidates) > 1 and each.name != THREADS and not each.name.endswith(".parallel")}
    assert choices & set(listed) <= set(seen)
    assert len({each.task.digest for each in tasks}) == len(tasks)


def test_the_verifier_knows_the_targets_limits_and_sees_parallel_loops_that_run_as_serial_ones(model, monkeypatch):
    _, tasks = tasks_of(model)
    task = tasks[0].task
    assert task.lower(decided(task))
    with monkeypatch.context() as patch:
        patch.setattr(type(task.kernels), "limits", verifier.Limits(vector_bytes=1))
        with pytest.raises(VerifyError, match="vector"):
            task.lower(decided(task))
    seen = []
    monkeypatch.setattr(loops, "verify", lambda function, limits: seen.append(str(function)))
    runs = [str(each.task.lower(decided(each.task) | {THREADS: False})) for each in tasks if THREADS in decided(each.task)]
    assert runs
    assert sum("parallel" in whole for whole in seen) >= 2  # a loop of one iteration is none
    assert not any("parallel" in run for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_candidates_of_kernels_are_measured_and_right(model, threads):
    target = Cpu.host()
    evaluate = evaluator(target)
    tasks = target.tasks(import_model(model, evaluate=evaluate), Options(), evaluate, threads)
    rng = np.random.default_rng(0)
    with CpuMeasurer(threads=threads, limits=Limits(compile_s=60, run_s=60)) as measurer:
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
    for cost in target.costs([usual.image, tuned.image]):
        assert cost.total > 0
        assert {layer for names in cost.layers for layer in names} >= {"first", "second", "third", "last"}
        assert 0.2 * cost.total < sum(cost.layers.values()) < 5 * cost.total


def test_what_one_thread_cannot_tell_keeps_its_default(model):
    """On one thread, a kernel that threads do not share is as fast as one that they do; on two the decision is searched."""
    target, tasks = tasks_of(model)
    evaluate = evaluator(target)
    both = target.tasks(import_model(model, evaluate=evaluate), Options(), evaluate, 2)
    seen = {}
    for count, found in ((1, tasks), (2, both)):
        for each in found:
            rng = np.random.default_rng(0)
            for _ in range(30):
                decisions = Decisions(drawn(each.task, rng))
                each.task.decide(decisions)
                shared = [one for one in decisions if one.name == THREADS or one.name.endswith(".parallel")]
                seen.setdefault(count, set()).update(one.is_default for one in shared)
    assert seen == {1: {True}, 2: {True, False}}
    assert {each.task.key["threads"] for each in both} == {2}


def test_records_for_another_number_of_threads_are_taken_and_said(model):
    target, _ = tasks_of(model)
    evaluate = evaluator(target)
    one = Network.of(import_model(model, evaluate=evaluate), target, Options(), evaluate)
    two, rng = one.on(2), np.random.default_rng(4)
    records = Records([Record(task=each.task.name, key=each.task.key, decisions=drawn(each.task, rng), cost=1e-5, unit="s")
                       for each in two.tuned])
    for asked in (one, one.on(4)):
        found = covered(asked, records, "r")
        assert found.decisions
        assert "they were measured with 2 threads" in found.said
    assert covered(two, records, "r").decisions == found.decisions
    assert "threads" not in covered(two, records, "r").said


def test_kernels_are_timed_with_the_caches_of_a_network(model, monkeypatch):
    """Before each timed run something else is touched, then what the layer before wrote: all inputs but weights."""
    _, tasks = tasks_of(model)
    fresh = {layer: each.task.fresh for each in tasks for layer in each.layers}
    assert fresh["first"] == fresh["third"] == fresh["last"] == (0,)
    assert all(each.task.key["fresh"] == [*each.task.fresh] for each in tasks)
    ports = [Port("float32", (64,), False), Port("float32", (64,), False), Port("float32", (64,), True)]
    runs = []
    for caches in (None, Caches(1 << 16, (0,))):
        subject = Subject(ports, 0, caches=caches)
        order = []
        monkeypatch.setattr(subject, "_evict", lambda given, own=subject._evict, order=order: order.append(given) or own(given))
        assert subject._seconds(lambda order=order: order.append("run"), 3) >= 0
        runs.append(order)
    assert runs == [["run"] * 3, [Caches(1 << 16, (0,)), "run"] * 3]
    x = te.placeholder((4, 4), name="x")
    y = te.compute((4, 4), lambda i, j: x[j, i], name="y")
    assert expression(y, [x, y]).fresh is None


def test_digests_tell_kernels_apart_and_do_not_change(model):
    _, tasks = tasks_of(model)
    _, again = tasks_of(onnx.load_from_string(model.SerializeToString()))
    assert [each.task.digest for each in tasks] == [each.task.digest for each in again]
