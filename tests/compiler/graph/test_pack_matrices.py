"""Constant matrices in panels: which nodes take them, and that the values stay those of the interpreter."""

import ml_dtypes
import numpy as np
import pytest

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph, Value, check
from vtakit.compiler.graph.passes.panels import MOST_ROWS, pack_matrices

RNG = np.random.default_rng(2)
LANES = 4


def some(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def checked(b: Builder, outputs: dict[str, Value]) -> list[str]:
    """The operators after packing, which compute the same."""
    graph = b.finish([*outputs.items()])
    changed: Graph = pack_matrices(graph, LANES)
    check(changed)
    assert [value.type for _, value in changed.outputs] == [value.type for _, value in graph.outputs]
    given = [some(*value.type.shape) for value in graph.inputs]
    for got, want in zip(evaluate_graph(changed, *given), evaluate_graph(graph, *given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    return [node.op for node in changed.nodes]


def test_products_of_a_network():
    b = Builder("net")
    x = b.input("x", (2, 3, 10), "float32")
    y = b.one("relu", b.one("matmul", x, b.constant(some(10, 9))))
    y = b.one("reshape", y, attrs={"shape": (6, 9)})
    y = b.one("gemm", y, b.constant(some(12, 9)), b.constant(some(12)), attrs={"trans_b": True, "alpha": 0.5})
    y = b.one("gemm", y, b.constant(some(12, 7)), attrs={"beta": 2.0})
    assert checked(b, {"y": y}) == ["dense_panels", "relu", "reshape", "dense_panels", "add", "dense_panels"]


def test_a_matrix_for_each_matrix_of_the_data():
    b = Builder("net")
    y = b.one("matmul", b.input("x", (2, 3, 5, 6), "float32"), b.constant(some(2, 3, 6, 7)))
    assert checked(b, {"y": b.one("relu", y)}) == ["dense_panels", "relu"]


def test_a_matrix_of_several_products_is_packed_once():
    b = Builder("net")
    x, weight = b.input("x", (3, 8), "float32"), b.constant(some(8, 8), name="w")
    y = b.one("matmul", b.one("matmul", x, weight), weight)
    graph = pack_matrices(b.finish([("y", y)]), LANES)
    assert [array.shape for array in graph.constants.values()] == [(2, 8, 4)]


@pytest.mark.parametrize("kept", ["float16", "bfloat16"])
def test_matrices_in_16_bits(kept):
    """Those that few rows meet; the rounding is that of the constants, nothing else."""
    b = Builder("net")
    x, tall = b.input("x", (2, 10), "float32"), b.input("tall", (MOST_ROWS + 1, 10), "float32")
    weights = some(12, 10), some(10, 8), np.float32(1e5) * some(12, 12)
    y = b.one("gemm", x, b.constant(weights[0]), attrs={"trans_b": True})
    outputs = {"y": b.one("matmul", y, b.constant(weights[2])), "z": b.one("matmul", tall, b.constant(weights[1]))}
    graph = pack_matrices(b.finish([*outputs.items()]), LANES, kept)
    check(graph)
    assert [str(node.reads[1].type.dtype) for node in graph.nodes] == [
        kept, "float32" if kept == "float16" else kept, "float32"]  # float16 ends at 65504
    given = [some(*value.type.shape) for value in graph.inputs]
    narrow, second_kind = (np.float16, np.float32) if kept == "float16" else (ml_dtypes.bfloat16,) * 2
    first, second = (w.astype(kind).astype(np.float32) for w, kind in zip(weights[::2], (narrow, second_kind), strict=True))
    want = given[0] @ first.T @ second, given[1] @ weights[1]
    for got, right in zip(evaluate_graph(graph, *given), want, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-5 * np.abs(right).max())


@pytest.mark.parametrize("rows", [3, MOST_ROWS + 1])
def test_products_of_float16(rows):
    """Made in float32, bias and factor included, and rounded once; few rows read float16."""
    b = Builder("net")
    x, weights, bias = b.input("x", (rows, 10), "float16"), [some(10, 8).astype(np.float16) for _ in range(3)], some(8)
    y = b.one("matmul", x, b.constant(weights[0]))
    z = b.one("gemm", x, b.constant(weights[1]), b.constant(bias.astype(np.float16)), attrs={"alpha": 0.5})
    t = b.one("gemm", x, b.constant(np.ascontiguousarray(weights[2].T)), attrs={"trans_b": True})
    graph = pack_matrices(b.finish([("y", y), ("z", z), ("t", t)]), LANES, "bfloat16")
    check(graph)
    assert [node.op for node in graph.nodes].count("cast") == 4  # of the data once, and of each result
    stored = [str(node.reads[1].type.dtype) for node in graph.nodes if node.op == "dense_panels"]
    assert stored == (["float16", "float32", "float16"] if rows <= MOST_ROWS else ["float32"] * 3)
    given = some(rows, 10).astype(np.float16)
    exact = [given.astype(np.float64) @ w.astype(np.float64) for w in weights]
    exact[1] = exact[1] / 2 + bias.astype(np.float16)
    for got, want in zip(evaluate_graph(graph, given), exact, strict=True):
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, want, rtol=2**-10, atol=1e-4)


def left(make) -> None:
    """Nothing changes: `make` gets a builder, its input [6, 8], and makes a value."""
    b = Builder("net")
    graph = b.finish([("y", make(b, b.input("x", (6, 8), "float32")))])
    assert pack_matrices(graph, LANES) is graph


@pytest.mark.parametrize("make", [
    lambda b, x: b.one("matmul", b.constant(some(5, 6)), x),  # the other operand is the constant one
    lambda b, x: b.one("matmul", x, b.constant(some(8, 2))),  # half of a panel would be filled up
    lambda b, x: b.one("matmul", x, b.constant(some(8))),
    lambda b, x: b.one("matmul", x, b.constant(some(3, 8, 8))),
    lambda b, x: b.one("matmul", b.one("cast", x, attrs={"to": "int32"}), b.constant(np.ones((8, 8), np.int32))),
    lambda b, x: b.one("gemm", x, b.constant(some(6, 8)), attrs={"trans_a": True}),
    lambda b, x: b.one("gemm", x, b.constant(some(8, 8)), b.constant(some(8)), attrs={"beta": 2.0}),
])
def test_what_stays_as_it_is(make):
    left(make)


def test_a_matrix_that_something_else_reads_stays_as_it_is():
    def make(b: Builder, x: Value) -> Value:
        weight = b.constant(some(8, 8))
        return b.one("add", b.one("matmul", x, weight), b.one("reduce_sum", weight, attrs={"axes": (0,), "keepdims": True}))
    left(make)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_an_lstm(direction):
    count = 2 if direction == "bidirectional" else 1
    b = Builder("net")
    x, h, c = b.input("x", (4, 2, 5), "float32"), b.input("h", (count, 2, 6), "float32"), b.input("c", (count, 2, 6), "float32")
    weights = [b.constant(some(count, 24, 5)), b.constant(some(count, 24, 6)), b.constant(some(count, 48))]
    outputs = b.add("lstm", x, *weights, h, c, attrs={"direction": direction})
    assert checked(b, dict(zip("yhc", outputs, strict=True))) == ["dense_panels", "add", "lstm_panels"]


def test_an_lstm_without_biases_and_one_with_peepholes():
    b = Builder("net")
    x, w, r = b.input("x", (4, 2, 5), "float32"), b.constant(some(1, 24, 5)), b.constant(some(1, 24, 6))
    y, *_ = b.add("lstm", x, w, r)
    z, *_ = b.add("lstm", x, b.constant(some(1, 24, 5)), b.constant(some(1, 24, 6)), None, None, None, b.constant(some(1, 18)))
    assert checked(b, {"y": y, "z": z}) == ["dense_panels", "lstm_panels", "dense_panels", "lstm_panels"]
