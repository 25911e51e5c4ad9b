"""Sums of quantized numbers that the model does not quantize again: computed in integers all the same, then dequantized.

PyTorch leaves the result of the last layer in floating point, for one. Integers are faster there, and exact, so that they are the
same in any order. A bias is rounded to the unit of the sums, as everywhere in networks in integers: one product in floating point
is left, which has one rounding on any target.
"""

import numpy as np

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.passes.batch_norm import Rewriter
from vtakit.compiler.graph.passes.quantized.anchors import AFFINE, Anchors, Sums
from vtakit.compiler.graph.passes.quantized.known import INT8, Constants, Quantized

_SUMS = ("conv", "conv_transpose", "gemm", "matmul", *AFFINE)


def dequantized_sums(graph: Graph) -> Graph:
    """``conv(dq(x), dq(w)) + b``  ->  ``dq(conv_integer(x, w))`` with b in the zero point, of int8 data and constant weights."""
    constants, integers = Constants(graph), dict[Value, Quantized]()
    producers, readers = graph.producers(), {value: len(nodes) for value, nodes in graph.consumers().items()}
    for _, value in graph.outputs:
        readers[value] = readers.get(value, 0) + 1
    anchors = Anchors(constants, producers, readers, integers)

    def expand(r: Rewriter, node: Node) -> Value | None:
        if node.op == "dequantize_linear" and node.reads[0].type.dtype is INT8 and node.reads[0] not in graph.constants:
            params = constants.params(node)
            if params is not None:
                integers[node.outputs[0]] = Quantized(node.reads[0], params)
        if node.op not in _SUMS:
            return None
        sums = anchors.sums(producers[node.outputs[0]])
        return None if sums is None or sums.weight is None else _real(sums, r, integers[sums.data].value)
    return Rewriter(graph).run(expand)


def _real(sums: Sums, build: Builder, data: Value) -> Value | None:
    """Sums of int8 data as real numbers; None if int32 does not hold the zero point."""
    zero = -sums.offset - np.rint(sums.bias / sums.unit)
    if not (np.abs(zero) < 1 << 30).all():
        return None
    acc = sums.emit(build, data)
    known = [build.constant(zero.astype(np.int32), name=f"{sums.name}.zero")] if zero.any() else []
    unit = build.constant(sums.unit.astype(np.float32), name=f"{sums.name}.unit")
    found = build.one("dequantize_linear", acc, unit, *known, attrs={"axis": 1, "block_size": 0}, name=sums.name)
    return found if found.type.shape == sums.shape else build.one(
        "reshape", found, attrs={"shape": sums.shape}, name=sums.name)
