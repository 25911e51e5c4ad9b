"""Passes over graphs: what they leave, and that the values stay those of the interpreter."""

import numpy as np
import pytest

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph, Value
from vtakit.compiler.graph.passes.base import run_passes
from vtakit.compiler.graph.passes.batch_norm import fold_scales, simplify_inference
from vtakit.compiler.graph.passes.cse import merge_common
from vtakit.compiler.graph.passes.dead import remove_dead
from vtakit.compiler.graph.passes.fold import fold_constants
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu

RNG = np.random.default_rng(1)


def some(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def normed(b: Builder, x: Value, channels: int = 4) -> Value:
    """A batch normalization with constants of its own."""
    vectors = [b.constant(some(channels)) for _ in range(3)]
    return b.one("batch_norm", x, *vectors, b.constant(RNG.random(channels).astype(np.float32) + 0.5), attrs={"epsilon": 1e-3})


def test_dead_nodes_and_constants_go_and_inputs_stay():
    b = Builder("g")
    x, y = b.input("x", (2,), "float32"), b.input("y", (2,), "float32")
    b.one("add", y, b.constant(some(2)))
    graph = b.finish([("z", b.one("neg", x))])
    assert ops(graph) == ["neg"]
    assert graph.inputs == (x, y)
    assert not graph.constants
    assert remove_dead(graph).nodes == graph.nodes


def test_what_is_computed_twice_is_computed_once():
    b = Builder("g")
    x = b.input("x", (2, 3), "float32")
    one, also_one = b.constant(np.float32(1)), b.constant(np.float32(1))
    left = b.one("exp", b.one("add", x, one))
    right = b.one("exp", b.one("add", x, also_one))
    other = b.one("transpose", b.one("add", x, b.constant(np.float32(-1))), attrs={"perm": (1, 0)})
    graph = merge_common(b.finish([("a", left), ("b", right), ("c", other)]))
    assert ops(graph) == ["add", "exp", "add", "transpose"]
    assert graph.outputs[0][1] is graph.outputs[1][1]
    assert len(graph.constants) == 2


def test_attributes_that_only_compare_as_equal_are_kept_apart():
    b = Builder("g")
    x = b.input("x", (2, 2), "float32")
    down = b.one("leaky_relu", x, attrs={"alpha": 0.0})
    up = b.one("leaky_relu", x, attrs={"alpha": -0.0})
    assert len(merge_common(b.finish([("a", down), ("b", up)])).nodes) == 2


def test_constants_are_folded_in_one_go():
    calls = []

    def evaluate(graph: Graph) -> tuple[np.ndarray, ...]:
        calls.append(ops(graph))
        return evaluate_graph(graph)
    b = Builder("g")
    x = b.input("x", (3,), "float32")
    two = b.constant(np.float32(2))
    root = b.one("sqrt", b.one("mul", two, two))
    graph = b.finish([("y", b.one("add", x, root)), ("z", b.one("neg", root))])
    folded = fold_constants(graph, evaluate)
    assert ops(folded) == ["add"]
    assert calls == [["mul", "sqrt", "neg"]]
    assert sorted(float(array) for array in folded.constants.values()) == [-2, 2]
    assert fold_constants(folded, evaluate) is folded
    assert len(calls) == 1


def test_a_constant_that_would_become_huge_is_left_to_the_run():
    b = Builder("g")
    x = b.input("x", (1,), "float32")
    wide = b.one("expand", b.constant(np.float32(1)), attrs={"shape": (1 << 23,)})
    graph = b.finish([("y", b.one("add", x, wide))])
    assert fold_constants(graph, evaluate_graph) is graph


def test_batch_norm_becomes_a_factor_and_a_term():
    b = Builder("g")
    x = b.input("x", (2, 4, 3), "float32")
    graph = b.finish([("y", normed(b, x))])
    plain = fold_constants(simplify_inference(graph), evaluate_graph)
    assert ops(plain) == ["mul", "add"]
    data = some(2, 4, 3)
    np.testing.assert_allclose(evaluate_graph(plain, data)[0], evaluate_graph(graph, data)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bias", [False, True])
def test_a_batch_norm_goes_into_the_convolution_before_it(bias):
    b = Builder("g")
    x = b.input("x", (1, 3, 5, 5), "float32")
    y = b.one("conv", x, b.constant(some(4, 3, 3, 3)), attrs={"pads": (1, 1, 1, 1)})
    if bias:
        y = b.one("add", y, b.constant(some(1, 4, 1, 1)))
    graph = b.finish([("y", b.one("relu", normed(b, y)))])
    changed = run_passes(graph, passes_for_cpu(evaluate_graph))
    assert ops(changed) == ["conv", "add", "relu"]
    data = some(1, 3, 5, 5)
    np.testing.assert_allclose(evaluate_graph(changed, data)[0], evaluate_graph(graph, data)[0], rtol=1e-4, atol=1e-5)


def test_a_scale_stays_where_others_read_what_it_scales():
    b = Builder("g")
    x = b.input("x", (1, 3, 5, 5), "float32")
    y = b.one("conv", x, b.constant(some(4, 3, 3, 3)))
    graph = b.finish([("a", b.one("mul", y, b.constant(some(1, 4, 1, 1)))), ("b", y)])
    assert ops(fold_scales(graph)) == ["conv", "mul"]


def test_a_factor_that_is_not_one_for_each_channel_stays():
    b = Builder("g")
    x = b.input("x", (1, 3, 5, 5), "float32")
    y = b.one("conv", x, b.constant(some(4, 3, 2, 2)))
    graph = b.finish([("a", b.one("mul", y, b.constant(some(1, 1, 1, 4))))])
    assert ops(fold_scales(graph)) == ["conv", "mul"]


def test_sums_stay_in_their_order():
    """Adding a large number and subtracting it rounds."""
    b = Builder("g")
    x, large = b.input("x", (1, 8), "float32"), np.float32(1.5 * 2**23)
    up = b.one("add", x, b.constant(np.full((1, 1), large)))
    graph = b.finish([("y", b.one("add", up, b.constant(np.full((1, 1), -large))))])
    assert ops(fold_scales(graph)) == ["add", "add"]


def test_every_pass_is_seen_with_the_graph_before_and_after_it():
    b = Builder("g")
    graph = b.finish([("y", b.one("neg", b.input("x", (2,), "float32")))])
    seen = []
    run_passes(graph, passes_for_cpu(evaluate_graph), lambda step, *graphs: seen.append((step.name, *map(str, graphs))))
    assert [name for name, _, _ in seen] == [
        "remove_dead", "integer_form", "simplify_inference", "fold_scales", "fold_input_scales", "fold_constants", "merge_common",
    ]
    assert {text for _, *texts in seen for text in texts} == {str(graph)}
