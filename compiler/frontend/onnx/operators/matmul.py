"""Products of matrices."""

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value


@converts("MatMul")
def matmul(n: OnnxNode) -> Value:
    return n.apply("matmul", n[0], n[1])


@converts("Gemm")
def gemm(n: OnnxNode) -> Value:
    return n.apply(
        "gemm", n[0], n[1], n.maybe(2), alpha=n.attr("alpha", 1.0), beta=n.attr("beta", 1.0), trans_a=bool(n.attr("transA", 0)),
        trans_b=bool(n.attr("transB", 0)),
    )


@converts("MatMulInteger")
def matmul_integer(n: OnnxNode) -> Value:
    return n.apply("matmul_integer", n[0], n[1], n.maybe(2), n.maybe(3))
