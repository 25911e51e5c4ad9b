"""Value ranges of a graph's int8 tensors: for accelerators whose activations have fewer bits, and for bit-serial products."""

from collections.abc import Mapping

import numpy as np

from vtakit.compiler.graph.ir import Array, Graph, Node, Value
from vtakit.compiler.ir.dtypes import dtype

Bounds = tuple[int, int]
INT8 = dtype("int8")
ANY: Bounds = (-128, 127)
_ROUNDING = 1e-5  # relative error of a quotient in float32, with room
_MOVES = frozenset(("reshape", "transpose", "max_pool", "concat", "resize", "slice", "identity", "flatten"))


def bounds_of(graph: Graph) -> Mapping[Value, Bounds]:
    """Return the inclusive range of each int8 tensor that a node computes: -128 to 127 where it is not known."""
    found: dict[Value, Bounds] = {}
    producers = graph.producers()
    for node in graph.nodes:
        for value in node.outputs:
            if value.type.dtype is INT8:
                found[value] = _bounds(node, found, graph.constants, producers)
    return found


def _bounds(
    node: Node, known: Mapping[Value, Bounds], constants: Mapping[Value, Array], producers: Mapping[Value, Node],
) -> Bounds:
    if node.op == "requantize":
        return node.attrs.get("low", ANY[0]), node.attrs.get("high", ANY[1])
    if node.op == "quantize_linear":
        return _quantized(node, constants, producers)
    if node.op == "lookup":
        table = constants.get(node.reads[1])
        return ANY if table is None else (int(table.min()), int(table.max()))
    if node.op in _MOVES or node.op == "pad":
        read = [value for value in node.reads if value.type.dtype is INT8]
        given = [(int(constants[value].min()), int(constants[value].max())) if value in constants and constants[value].size
                 else known.get(value, ANY) for value in read]
        if node.op == "pad" and len(read) < 2:
            given.append((0, 0))
        return min(low for low, _ in given), max(high for _, high in given)
    return ANY


def _quantized(node: Node, constants: Mapping[Value, Array], producers: Mapping[Value, Node]) -> Bounds:
    """Return the range of a quantize_linear whose operand a clip saturates.

    Kernels may divide by the scale or multiply by its inverse, so a quotient next to the middle of two integers counts as the
    one farther from zero. A clip whose minimum exceeds its maximum gives its maximum.
    """
    clip = producers.get(node.reads[0])
    params = [constants.get(value) for value in node.reads[1:]]
    if clip is None or clip.op != "clip" or any(each is None or each.size != 1 for each in params):
        return ANY
    scale, *zeros = [np.float32(each.reshape(-1)[0]) for each in params if each is not None]
    zero, found = int(zeros[0]) if zeros else 0, list(ANY)
    for at, bound in enumerate(clip.inputs[1:3]):
        if bound is not None and bound in constants and constants[bound].size == 1:
            quotient = float(constants[bound].reshape(-1)[0]) / float(scale)
            rounded = float(np.rint(quotient * (1 + _ROUNDING))) + zero
            found[at] = int(min(max(rounded, ANY[0]), ANY[1]))
    return min(found), max(found)
