"""Evaluation of a graph without machine code: the interpreter runs the loops of each node's definition.

It is the meaning of graphs, and quick for small constants; large ones are better compiled.
"""

import numpy as np

from vtakit.compiler.graph.apply import apply
from vtakit.compiler.graph.builder import numpy_dtype
from vtakit.compiler.graph.ir import Array, Graph, Node, Value
from vtakit.compiler.graph.lower import read_by
from vtakit.compiler.lower import lower
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.schedule.schedule import create_schedule
from vtakit.compiler.te.language import placeholder


def evaluate_graph(graph: Graph, *inputs: Array) -> tuple[Array, ...]:
    """The graph's outputs, in order, for an array for each of its inputs."""
    known: dict[Value, Array] = {**graph.constants, **dict(zip(graph.inputs, inputs, strict=True))}
    for node in graph.nodes:
        known |= dict(zip(node.outputs, _evaluate(node, known), strict=True))
    return tuple([known[value] for _, value in graph.outputs])


def _evaluate(node: Node, known: dict[Value, Array]) -> list[Array]:
    tensors = [
        None if value is None else placeholder(value.type.shape, str(value.type.dtype), f"p{i}")
        for i, value in enumerate(node.inputs)
    ]
    made = apply(node.op, tensors, node.attrs)
    params = [tensor for tensor in tensors if tensor is not None]
    read = read_by(made, params)
    arrays = [np.ascontiguousarray(known[node.reads[at]]).reshape(node.reads[at].type.shape) for at in read]
    results = [np.zeros(value.type.shape, numpy_dtype(value.type.dtype)) for value in node.outputs]
    function = lower(create_schedule([tensor.op for tensor in made]), [*[params[at] for at in read], *made], node.op)
    interpret(function, [*arrays, *results])
    return results
