"""Convolutions by Winograd's way, where that is the fastest."""

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Graph, Node
from vtakit.compiler.graph.passes.dead import remove_dead
from vtakit.compiler.nn.cpu.forms import Conv3x3, best_tile
from vtakit.compiler.nn.cpu.machine import Machine
from vtakit.compiler.nn.winograd import KERNEL, winograd_weight


def winograd_forms(graph: Graph, machine: Machine) -> Graph:
    """With `conv_winograd` for each convolution in blocks that it makes faster, its weights transformed here.

    ::

        %y: float32[1, 4, 56, 56, 16] = conv_blocked(%x, %w, pads=(1, 1, 1, 1))     # w: float32[4, 4, 3, 3, 16, 16]

        %y: float32[1, 4, 56, 56, 16] = conv_winograd(%x, %w, pads=(1, 1, 1, 1))    # w: float32[4, 6, 6, 4, 16, 16]
    """
    tiles = {node: tile for node in graph.nodes if (tile := _tile(graph, node, machine))}
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


def _tile(graph: Graph, node: Node, machine: Machine) -> int:
    """The side of the tiles with which a node is to be computed; 0 if it is no convolution that Winograd's way makes faster."""
    if node.op != "conv_blocked" or node.reads[1] not in graph.constants:
        return 0
    x, weight = (value.type.shape for value in node.reads)
    steps, spread = ([*(node.attrs.get(word) or (1,))] for word in ("strides", "dilations"))
    plane = len(x) == 5 and len(weight) == 6  # a volume has five dimensions too, before its channels are in blocks
    if not plane or weight[2:4] != (KERNEL,) * 2 or {*steps, *spread} != {1} or node.attrs.get("groups", 1) != 1:
        return 0
    images, blocks, height, width, block = node.outputs[0].type.shape
    return best_tile(Conv3x3(images, weight[1] * weight[4], blocks * block, height, width), machine)
