"""Operators whose data decide the shapes of their results, on constants; on other data they run in stages."""

from collections.abc import Sequence

from vtakit.compiler.frontend.onnx.host import Call
from vtakit.compiler.frontend.onnx.hosted import HOST
from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value


@converts("NonMaxSuppression", "NonZero", "Unique")
def decided(n: OnnxNode) -> Sequence[Value]:
    attrs = {name: n.attr(name) for name in ("axis", "center_point_box", "sorted") if n.attr(name) is not None}
    operands = [n.constant(at) if n.has(at) else None for at in range(len(n))]
    return [n.value(array) for array in HOST[n.op](Call(n.op, n.name, n.version, attrs, len(n.outputs)), *operands)]
