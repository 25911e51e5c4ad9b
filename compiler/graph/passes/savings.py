"""Savings of operators on images with channels in blocks, in multiplications."""

from math import prod

from vtakit.compiler.graph.ir import Node

PIXELS = 512  # of an image, from which on single pixels are as fast as the rows of a matrix
SHORT = 32  # multiplications that are as good as an element of an image of few pixels, whose sum waits for itself
CELL = 4  # the same for an element of a depthwise convolution or a pool, for each cell of its window
POOLS = frozenset(("max_pool", "average_pool"))
MEANS = {"global_average_pool": "reduce_mean", "global_max_pool": "reduce_max"}


def is_depthwise(node: Node) -> bool:
    """Return whether a convolution is depthwise: each filter reads one channel, and each channel has one."""
    x, weight = node.reads
    groups: int = node.attrs.get("groups", 1)
    return groups > 1 and groups == x.type.shape[1] == weight.type.shape[0]


def saved(node: Node, lanes: int) -> int:
    """By a node that computes with data in blocks, in multiplications."""
    if node.op == "conv_transpose":
        return node.reads[0].type.size * prod(node.reads[1].type.shape[1:])
    if node.op in POOLS:
        cells: int = prod(node.attrs["kernel_shape"])
        return CELL * cells * node.reads[0].type.size
    if node.op in MEANS:
        x = node.reads[0]
        return SHORT * x.type.size if prod(x.type.shape[2:]) < 8 * lanes else 0
    if node.op != "conv":
        return 0
    x, weight = node.reads
    _, depth, *window = weight.type.shape
    sizes = node.outputs[0].type.shape[2:]
    if is_depthwise(node):
        return CELL * prod(window) * x.type.size if sizes[-1] % lanes else 0  # rows of whole vectors leave no lane idle
    if prod(window) == 1 and sizes == x.type.shape[2:] and prod(sizes) >= PIXELS:
        return 0
    return node.outputs[0].type.size * depth * prod(window)
