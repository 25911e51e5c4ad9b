"""Clips of quantized numbers as clips of what is quantized, which the integer form takes as bounds.

PyTorch quantizes activations to 7 bits, say, as ``clip(quantize_linear(x), 0, 127)``.
"""

import numpy as np

from vtakit.compiler.graph.ir import Graph, Node, Value
from vtakit.compiler.graph.passes.batch_norm import Rewriter
from vtakit.compiler.graph.passes.quantized.known import INT8, UINT8, UNSIGNED_ZERO, Constants


def clip_before_quantizing(graph: Graph) -> Graph:
    """``clip(quantize_linear(x, s, z), a, b)``  ->  ``quantize_linear(clip(x, (a - z) * s, (b - z) * s), s, z)``: the same bytes.

    For int8 and uint8 of one scale and one zero point, where nothing else reads the numbers before the clip.
    """
    constants = Constants(graph)

    def expand(r: Rewriter, node: Node) -> Value | None:
        maker = r.producers.get(node.reads[0]) if node.op == "clip" else None
        if maker is None or maker.op != "quantize_linear" or not r.read_once(node.reads[0]):
            return None
        kind, params = node.outputs[0].type.dtype, constants.params(maker)
        bounds = [None if value is None else constants.of(value) for value in (*node.inputs[1:], None, None)[:2]]
        if kind not in (INT8, UINT8) or params is None or any(
                value is not None and bound is None for value, bound in zip(node.inputs[1:], bounds, strict=False)):
            return None
        zero = params.zero + (UNSIGNED_ZERO if kind is UINT8 else 0)
        real = [None if bound is None else r.constant(
            np.float32((int(bound.reshape(())[()]) - zero) * params.scale), name=f"{node.name}.bound") for bound in bounds]
        return r.add("quantize_linear", r.one("clip", maker.reads[0], *real, name=node.name), *maker.inputs[1:],
                     attrs=maker.attrs, name=maker.name, names=(node.outputs[0].name,))[0]
    return Rewriter(graph).run(expand)
