"""Operators that put the elements along some axes together."""

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value

_REDUCTIONS = {
    "ReduceL1": "reduce_l1", "ReduceL2": "reduce_l2", "ReduceLogSum": "reduce_log_sum", "ReduceLogSumExp": "reduce_log_sum_exp",
    "ReduceMax": "reduce_max", "ReduceMean": "reduce_mean", "ReduceMin": "reduce_min", "ReduceProd": "reduce_prod",
    "ReduceSum": "reduce_sum", "ReduceSumSquare": "reduce_sum_square",
}


@converts(*_REDUCTIONS)
def reduction(n: OnnxNode) -> Value:
    axes = n.ints(1) if n.has(1) else n.attr("axes")
    if not axes:
        axes = () if n.attr("noop_with_empty_axes", 0) else None
    return n.apply(_REDUCTIONS[n.op], n[0], axes=axes, keepdims=bool(n.attr("keepdims", 1)))


@converts("ArgMax", "ArgMin")
def extreme(n: OnnxNode) -> Value:
    return n.apply(
        n.op.lower(), n[0], axis=n.attr("axis", 0), keepdims=bool(n.attr("keepdims", 1)),
        select_last_index=bool(n.attr("select_last_index", 0)),
    )
