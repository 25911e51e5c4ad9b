"""Pads of other values than zero, on devices whose LOADs pad with zeros alone."""

from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.graph.ir import Graph, Node
from vtakit.compiler.graph.passes.replacing import Replacing
from vtakit.hw.isa.insns import Feature


def with_own_pads(graph: Graph, target: Target) -> Graph:
    """The graph with a `pad` before each convolution and sum whose pads are not zeros; itself where LOADs can pad with them."""
    if target.has(Feature.PAD_VALUE) or not any(node.attrs.get("fill") for node in graph.nodes):
        return graph
    return _Rewriter(graph).run()


class _Rewriter(Replacing):
    def replaces(self, node: Node) -> bool:
        fill, pads = node.attrs.get("fill"), node.attrs.get("pads")
        shape = node.reads[0].type.shape if node.reads else ()
        if node.op not in ("conv_integer", "sum_pool") or not fill or pads is None or not 3 <= len(shape) <= 4:
            return False
        spatial, data = len(shape) - 2, self.as_it_was(node.reads[0])
        around = (0, 0, *pads[:spatial], 0, 0, *pads[spatial:])
        padded = self.one("pad", data, self.constant(fill, data.type.dtype, f"{node.name}.fill"), attrs={"pads": around},
                          name=f"{node.name}.pad")
        attrs = {name: value for name, value in node.attrs.items() if name not in ("fill", "pads")}
        self.nodes.append(Node(node.op, (padded, *node.inputs[1:]), node.outputs, attrs, node.name))
        return True
