"""Graphs: their text, their rules, and types that come from the operators' definitions."""

from dataclasses import replace

import numpy as np
from support import raises

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Graph, Value, check

TEXT = """\
graph mlp(%x: float32[2, 3]):
  const %w: float32[3, 4]
  const %two: float32[] = 2.0
  %h: float32[2, 4] = matmul(%x, %w)
  %h.1: float32[2, 4] = mul(%h, %two)
  %t: float32[4, 2] = transpose(%h.1, perm=(1, 0))
  return y=%t, z=%x"""


def mlp() -> Graph:
    b = Builder("mlp")
    x = b.input("x", (2, 3), "float32")
    w, two = b.constant(np.ones((3, 4), np.float32), name="w"), b.constant(np.float32(2), name="two")
    h = b.one("mul", b.one("matmul", x, w, name="h"), two, name="h")
    b.one("relu", h, name="unused")
    return b.finish([("y", b.one("transpose", h, attrs={"perm": (1, 0)}, name="t")), ("z", x)])


def test_a_graph_prints_each_node_with_its_type():
    assert str(mlp()) == TEXT


def test_a_graph_means_what_its_operators_do():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y, z = evaluate_graph(mlp(), x)
    np.testing.assert_array_equal(y, (x @ np.ones((3, 4), np.float32) * 2).T)
    np.testing.assert_array_equal(z, x)


def test_operands_that_an_operator_does_not_take_are_refused():
    b = Builder("g")
    x, y = b.input("x", (2, 3), "float32"), b.input("y", (2, 4), "float32")
    with raises(GraphError, "sum of both: add: shapes (2, 3) and (2, 4) do not broadcast"):
        b.one("add", x, y, name="sum of both")


def test_a_graph_that_has_no_meaning_is_refused():
    graph = mlp()
    check(graph)
    with raises(GraphError, "mul 'h' -> %h: float32[2, 4] of graph 'mlp' reads %h: float32[2, 4], which nothing before it makes"):
        check(replace(graph, nodes=graph.nodes[1:]))
    with raises(GraphError, "matmul 'h' -> %h: float32[2, 4] of graph 'mlp' makes %h: float32[2, 4], which is there already"):
        check(replace(graph, nodes=(graph.nodes[0], *graph.nodes)))
    with raises(GraphError, "graph 'mlp' has an input twice"):
        check(replace(graph, inputs=graph.inputs * 2))
    (w, _), (array, _) = graph.constants.keys(), graph.constants.values()
    with raises(GraphError, "the constant %w: float32[3, 4] of graph 'mlp' has an array of float64[3, 4]"):
        check(replace(graph, constants={**graph.constants, w: array.astype(np.float64)}))
    other = Value("other", w.type)
    with raises(GraphError, "the output 'y' of graph 'mlp' is %other: float32[3, 4], which nothing makes"):
        check(replace(graph, outputs=(("y", other),)))
