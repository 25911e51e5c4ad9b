"""The memory plan: values that are needed at the same time do not overlap."""

from itertools import combinations

import numpy as np
import pytest
from model_support import run_graph
from support import raises

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.places import Place, Region
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.compile import compile_graph
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.fusion import fuse
from vtakit.compiler.graph.ir import Graph
from vtakit.compiler.graph.memory import ALIGN, plan_memory
from vtakit.compiler.lower.errors import LowerError


def tangle(seed: int) -> Graph:
    """Reductions, which do not fuse with each other, over a growing pile of values, with views among them."""
    rng = np.random.default_rng(seed)
    b = Builder("g")
    pile = [b.input("x", (4, 6), "float32"), b.constant(rng.standard_normal((6, 4)).astype(np.float32))]
    for _ in range(12):
        a = pile[rng.integers(len(pile))]
        match rng.integers(4):
            case 0:
                pile.append(b.one("reshape", a, attrs={"shape": tuple(a.type.shape[::-1])}))
            case 1:
                pile.append(b.one("softmax", a, attrs={"axis": -1}))
            case 2:
                other = next(v for v in pile[::-1] if v.type.shape == a.type.shape)
                pile.append(b.one("add", a, other))
            case _:
                wide = b.one("tile", a, attrs={"repeats": (int(rng.integers(1, 5)), 1)})
                pile.append(b.one("slice", wide, attrs={"starts": (0,), "ends": a.type.shape[:1]}))
    picked = [pile[i] for i in rng.integers(len(pile), size=3)]
    return b.finish([(f"y{i}", value) for i, value in enumerate([*picked, pile[-1]])])


@pytest.mark.parametrize("seed", range(20))
def test_values_that_live_at_the_same_time_lie_apart(seed):
    graph = tangle(seed)
    groups = fuse(graph)
    plan = plan_memory(graph, groups)
    root = {}
    spans = []
    for group in groups:
        for value in group.outputs:
            root[value] = root.get(group.inputs[0], group.inputs[0]) if group.view else value
    for value in dict.fromkeys(root.values()):
        place = plan.places[value]
        if place.region is Region.ARENA:
            read = [{root.get(v, v) for v in group.inputs} for group in groups]
            used = [i for i, group in enumerate(groups) if value in group.outputs or value in read[i]]
            spans.append((place.at, place.at + value.type.bytes, min(used), max(used)))
    for (a, a_end, a_from, a_to), (b, b_end, b_from, b_to) in combinations(spans, 2):
        together = a_from <= b_to and b_from <= a_to
        assert not together or a_end <= b or b_end <= a
    assert all(place.at % ALIGN == 0 for place in plan.places.values() if place.region in (Region.ARENA, Region.PARAMS))
    assert max((end for _, end, _, _ in spans), default=0) <= plan.arena_bytes <= plan.unshared_bytes
    assert plan.live_bytes <= plan.arena_bytes <= 1.3 * plan.live_bytes


@pytest.mark.parametrize("seed", range(0, 20, 5))
def test_a_tangle_computes_what_the_interpreter_says(seed):
    graph = tangle(seed)
    x = np.random.default_rng(seed).standard_normal((4, 6)).astype(np.float32)
    for got, wanted in zip(run_graph(graph, x), evaluate_graph(graph, x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_memory_is_used_again():
    b = Builder("g")
    x = b.input("x", (1, 64, 64), "float32")
    for _ in range(6):
        x = b.one("softmax", x, attrs={"axis": -1})
    graph = b.finish([("y", x)])
    plan = plan_memory(graph, fuse(graph))
    assert plan.arena_bytes == 2 * 64 * 64 * 4
    assert plan.unshared_bytes == 5 * 64 * 64 * 4
    assert plan.live_bytes == plan.arena_bytes


def test_what_a_kernel_works_in_is_in_the_arena_while_it_runs():
    b = Builder("g")
    x = b.input("x", (1, 64, 64), "float32")
    for _ in range(3):
        x = b.one("softmax", x, attrs={"axis": -1})
    graph = b.finish([("y", x)])
    first, second, third = groups = fuse(graph)
    value = 64 * 64 * 4
    plan = plan_memory(graph, groups, {first: (100, 1000), second: (), third: (2 * value,)})
    assert [len(plan.scratch[group]) for group in groups] == [2, 0, 1]
    taken = [(place.at, place.at + size) for place, size in zip(plan.scratch[first], (100, 1000), strict=True)]
    made = plan.places[first.outputs[0]].at
    for (a, a_end), (c, c_end) in combinations([*taken, (made, made + value)], 2):
        assert a_end <= c or c_end <= a
    assert plan.arena_bytes == plan.live_bytes == 3 * value  # the third's, beside the value that it reads
    assert plan.unshared_bytes == 2 * value + 128 + 1024 + 2 * value


@pytest.mark.parametrize("threads", [True, False])
def test_a_network_allocates_nothing_large_around_a_kernel(threads):
    """A convolution's padded image, of more than a stack takes, lies in the arena."""
    b = Builder("g")
    rng = np.random.default_rng(0)
    x = b.input("x", (1, 16, 64, 64), "float32")
    w = b.constant(rng.standard_normal((16, 16, 3, 3)).astype(np.float32))
    graph = b.finish([("y", b.one("conv", x, w, attrs={"pads": (1, 1, 1, 1)}))])
    network = compile_graph(graph, CpuKernels(Target.host(threads=threads)))
    assert network.live_bytes == network.arena_bytes == 16 * 66 * 66 * 4
    assert "malloc" not in network.code.outside
    data = rng.standard_normal((1, 16, 64, 64)).astype(np.float32)
    (got,), (wanted,) = run_graph(graph, data), evaluate_graph(graph, data)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_a_network_that_takes_too_much_memory_is_refused_before_it_is_compiled():
    b = Builder("g")
    x = b.input("x", (1 << 14, 1 << 14), "float32")
    graph = b.finish([("y", b.one("softmax", b.one("softmax", x, attrs={"axis": -1}), attrs={"axis": 0}))])
    message = ("network 'g' needs 3.0 GiB of memory (0.0 GiB for parameters, 1.0 GiB between its layers, 2.0 GiB for inputs and "
               "outputs), and 2.5 GiB are there: give smaller shapes or a smaller batch")
    with raises(GraphError, message):
        compile_graph(graph, CpuKernels(Target.host()), most_bytes=5 << 29)


def test_a_value_of_more_elements_than_code_counts_is_refused():
    b = Builder("g")
    x = b.input("x", (1 << 16, 1 << 15), "int8")
    message = ("network 'g' has a value of the type int8[65536, 32768], which is 2,147,483,648 elements; code counts up to "
               "2,147,483,647: give smaller shapes or a smaller batch")
    with raises(GraphError, message):
        compile_graph(b.finish([("y", b.one("neg", x))]), CpuKernels(Target.host()))


def test_a_program_that_is_not_correct_is_one_sentence():
    class TooDeep(CpuKernels):
        def schedule(self, outputs, decisions=None):
            raise LowerError("depth", "it is nested too deep", "nest it less")
    b = Builder("g")
    y = b.one("reduce_sum", b.input("x", (4, 8), "float32"), attrs={"axes": (1,)}, name="total")
    graph = b.finish([("y", y)])
    message = "no correct program was found for reduce_sum of float32[4, 8] (nodes 'total'): it is nested too deep"
    with raises(GraphError, message) as caught:
        compile_graph(graph, TooDeep(Target.host()))
    assert isinstance(caught.value.__cause__, LowerError)


def test_outputs_that_no_kernel_makes_are_copied():
    b = Builder("g")
    x = b.input("x", (2, 3), "float32")
    flat = b.one("reshape", x, attrs={"shape": (6,)})
    known = b.constant(np.arange(4, dtype=np.int64))
    made = b.one("neg", x)
    graph = b.finish([("a", flat), ("b", known), ("c", made), ("d", made), ("e", x)])
    plan = plan_memory(graph, fuse(graph))
    assert [number for number, _ in plan.copies] == [0, 1, 3, 4]
    assert plan.places[made] == Place(Region.OUTPUT, 2)
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    a, b_, c, d, e = run_graph(graph, data)
    np.testing.assert_array_equal(a, data.reshape(6))
    np.testing.assert_array_equal(b_, np.arange(4))
    np.testing.assert_array_equal(c, -data)
    np.testing.assert_array_equal(d, -data)
    np.testing.assert_array_equal(e, data)
