"""Sums along the way, sums of products by subscripts, and images read at places that are data."""

from vtakit.compiler.frontend.onnx.nodes import OnnxNode, converts
from vtakit.compiler.graph.ir import Value


@converts("CumSum", "CumProd")
def running(n: OnnxNode) -> Value:
    given = {name: bool(n.attr(name, 0)) for name in ("exclusive", "reverse")}
    return n.apply(n.op.lower(), n[0], axis=n.ints(1)[0], **given)


@converts("Einsum")
def einsum(n: OnnxNode) -> Value:
    return n.apply("einsum", *n.all_given(), equation=n.required("equation"))


@converts("GridSample")
def grid_sample(n: OnnxNode) -> Value:
    mode = n.attr("mode", "linear" if n.version >= 20 else "bilinear")
    return n.apply(
        "grid_sample", n[0], n[1], mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode),
        padding_mode=n.attr("padding_mode", "zeros"), align_corners=bool(n.attr("align_corners", 0)),
    )
