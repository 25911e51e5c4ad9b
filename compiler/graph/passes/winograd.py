"""Convolutions by Winograd's way, where that is the fastest."""

from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.decisions import ModelDecisions
from vtakit.compiler.graph.ir import Graph, Node
from vtakit.compiler.graph.passes.dead import remove_dead
from vtakit.compiler.nn.conv.winograd import KERNEL, PAIRS, winograd_weight
from vtakit.compiler.nn.conv.winograd_forms import Conv3x3, best_tile


def winograd_forms(graph: Graph, machine: Machine, decisions: ModelDecisions | None = None) -> Graph:
    """With `conv_winograd` for each convolution in blocks that it makes faster, its weights transformed here.

    Decisions: winograd, the pixels of a tile's side; 0 is the direct form.

    ::

        %y: float32[1, 4, 56, 56, 16] = conv_blocked(%x, %w, pads=(1, 1, 1, 1))     # w: float32[4, 4, 3, 3, 16, 16]

        %y: float32[1, 4, 56, 56, 16] = conv_winograd(%x, %w, pads=(1, 1, 1, 1))    # w: float32[4, 6, 6, 4, 16, 16]
    """
    decisions = ModelDecisions() if decisions is None else decisions
    able = {node: conv for node in graph.nodes if (conv := _conv(graph, node))}
    tiles = {node: tile for node, conv in able.items() if (
        tile := decisions.choose(node, "winograd", [0, *PAIRS], best_tile(conv, machine), winograd_forms))}
    if not tiles:
        return graph
    builder = Builder(graph.name)
    builder.constants = dict(graph.constants)
    for node in graph.nodes:
        if node not in tiles:
            builder.nodes.append(node)
            continue
        x, weight = node.reads
        taken = builder.constant(winograd_weight(graph.constants[weight], tiles[node]), name=weight.name)
        attrs = {name: value for name, value in node.attrs.items() if name == "pads"}
        builder.nodes.append(Node("conv_winograd", (x, taken), node.outputs, attrs, node.name))
    return remove_dead(Graph(graph.name, graph.inputs, graph.outputs, tuple(builder.nodes), builder.constants))


def _conv(graph: Graph, node: Node) -> Conv3x3 | None:
    """A node as a convolution that has Winograd's form; None if it has not."""
    if node.op != "conv_blocked" or node.reads[1] not in graph.constants:
        return None
    x, weight = (value.type.shape for value in node.reads)
    steps, spread = ([*(node.attrs.get(word) or (1,))] for word in ("strides", "dilations"))
    plane = len(x) == 5 and len(weight) == 6  # a volume has five dimensions too, before its channels are in blocks
    if not plane or weight[2:4] != (KERNEL,) * 2 or {*steps, *spread} != {1} or node.attrs.get("groups", 1) != 1:
        return None
    images, blocks, height, width, block = node.outputs[0].type.shape
    return Conv3x3(images, weight[1] * weight[4], blocks * block, height, width)
