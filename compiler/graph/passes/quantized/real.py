"""Sums of quantized numbers that the model does not quantize again: computed in integers all the same, then dequantized.

PyTorch leaves the result of the last layer in floating point, for one. Integers are faster there, and exact, so that they are the
same in any order.
"""

import numpy as np

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.passes.batch_norm import Rewriter
from vtakit.compiler.graph.passes.quantized.anchors import Anchors, Sums
from vtakit.compiler.graph.passes.quantized.known import INT8, Constants, Quantized

_SUMS = ("conv", "conv_transpose", "gemm", "matmul")


def dequantized_sums(graph: Graph) -> Graph:
    """``conv(dq(x), dq(w))``  ->  ``dq(conv_integer(x, w))``, of int8 data and constant weights."""
    constants, integers = Constants(graph), dict[Value, Quantized]()

    def expand(r: Rewriter, node: Node) -> Value | None:
        if node.op == "dequantize_linear" and node.reads[0].type.dtype is INT8:
            params = constants.params(node)
            if params is not None and node.reads[0] not in graph.constants:
                integers[node.outputs[0]] = Quantized(node.reads[0], params)
        if node.op not in _SUMS:
            return None
        sums = Anchors(constants, r.producers, r.readers, integers).sums(node)
        return None if sums is None else real(sums, r, integers[sums.data].value)
    return Rewriter(graph).run(expand)


def real(sums: Sums, build: Builder, data: Value) -> Value:
    """Sums of int8 data as real numbers."""
    acc = sums.emit(build, data)
    zero = [build.constant((-sums.offset).astype(np.int32), name=f"{sums.name}.zero")] if sums.offset.any() else []
    unit = build.constant(sums.unit.astype(np.float32), name=f"{sums.name}.unit")
    found = build.one("dequantize_linear", acc, unit, *zero, attrs={"axis": 1, "block_size": 0}, name=sums.name)
    if found.type.shape != sums.shape:
        found = build.one("reshape", found, attrs={"shape": sums.shape}, name=sums.name)
    bias = np.broadcast_to(np.asarray(sums.bias), sums.unit.shape)
    return build.one("add", found, build.constant(bias.astype(np.float32), name=f"{sums.name}.bias"), name=sums.name) \
        if bias.any() else found
