"""Models whose nodes are out of order, or in a domain that is not theirs, as tools leave them.

onnxruntime's float16 converter puts its casts behind the nodes that read them; onnxruntime's optimizer writes LayerNormalization
into models of opsets that do not have it, and SimplifiedLayerNormalization, which none has, as operators of ONNX.
"""

import heapq
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

MICROSOFT = "com.microsoft"
_SINCE = {"LayerNormalization": 17, "SimplifiedLayerNormalization": None}  # the opset that has them


class OrderWarning(UserWarning):
    """A model whose nodes were not in the order in which they can run."""


def tidied(proto: "onnx.ModelProto", name: str) -> "onnx.ModelProto":
    """A model with its nodes in order and in their domains; the model itself where that is so already.

    Warns with OrderWarning of nodes that were out of order. Cycles are left as they are.
    """
    version = next((each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")), 0)
    foreign = any(_is_foreign(node, version) for graph in _graphs(proto.graph) for node in graph.node)
    late = _late(proto.graph)
    if not foreign and not late:
        return proto
    copy = type(proto)()
    copy.CopyFrom(proto)
    for graph in _graphs(copy.graph):
        for node in graph.node:
            if _is_foreign(node, version):
                node.domain = MICROSOFT
        if late:
            order = _order(graph)
            if order is not None and order != [*range(len(order))]:
                nodes = [graph.node[at] for at in order]
                kept = [type(node).FromString(node.SerializeToString()) for node in nodes]
                del graph.node[:]
                graph.node.extend(kept)
    if foreign and all(each.domain != MICROSOFT for each in copy.opset_import):
        copy.opset_import.add(domain=MICROSOFT, version=1)
    if late and not _late(copy.graph):
        warnings.warn(
            f"the nodes of the model {name!r} are not in the order in which they can run ({late[0]!r} comes before what it "
            "reads): vtakit sorted them", OrderWarning, stacklevel=5,
        )
    return copy


def _is_foreign(node: "onnx.NodeProto", version: int) -> bool:
    if node.domain not in ("", "ai.onnx") or node.op_type not in _SINCE:
        return False
    since = _SINCE[node.op_type]
    return since is None or version < since


def _graphs(graph: "onnx.GraphProto") -> "Iterator[onnx.GraphProto]":
    """Yield a graph and those within it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _graphs(inner)


def _late(graph: "onnx.GraphProto") -> list[str]:
    """The names of nodes that read what a later node of their graph makes."""
    found = []
    for each in _graphs(graph):
        makers = _makers(each.node)
        for at, node in enumerate(each.node):
            if any(makers.get(word, -1) > at for word in _reads(node)):
                found.append(node.name or node.op_type)
    return found


def _makers(nodes: "Sequence[onnx.NodeProto]") -> dict[str, int]:
    return {word: at for at, node in enumerate(nodes) for word in node.output if word}


def _reads(node: "onnx.NodeProto") -> set[str]:
    """Names of the values that a node and its subgraphs read."""
    found = set(filter(None, node.input))
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            for inner in graph.node:
                found |= _reads(inner)
            found |= {info.name for info in graph.output}
    return found


def _order(graph: "onnx.GraphProto") -> list[int] | None:
    """Numbers of nodes, each after those it reads from and otherwise as they stand; None if they form a cycle."""
    makers = _makers(graph.node)
    readers: list[list[int]] = [[] for _ in graph.node]
    missing = [0] * len(graph.node)
    for at, node in enumerate(graph.node):
        for maker in {makers[word] for word in _reads(node) if word in makers} - {at}:
            readers[maker].append(at)
            missing[at] += 1
    ready = [at for at, count in enumerate(missing) if not count]
    order = []
    while ready:
        at = heapq.heappop(ready)
        order.append(at)
        for reader in readers[at]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return order if len(order) == len(graph.node) else None
