"""Nodes of ONNX graphs with their subgraphs: the names that they read, and functions in place of the nodes that call them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vtakit.base.limits import MAX_CALL_NESTING, check_limit
from vtakit.compiler.frontend.onnx.functions import Body

if TYPE_CHECKING:
    import onnx


def inlined(node: "onnx.NodeProto", body: Body) -> "list[onnx.NodeProto]":
    """Return the nodes of a function that stands for a node, with the names of the node's own values.

    Values inside are named after the node's first output: values of a graph have different names, nodes need not.
    """
    prefix = f"{name_of(node)}/"
    values = f"{next(filter(None, node.output), name_of(node))}/"
    names = dict.fromkeys(body.inputs, "")
    names.update(zip(body.inputs, node.input, strict=False))
    names.update({inner: outer for inner, outer in zip(body.outputs, node.output, strict=False) if outer})

    def rename(word: str) -> str:
        return word and names.setdefault(word, values + word)

    return [_renamed(each, rename, prefix) for each in body.nodes]


def _renamed(node: "onnx.NodeProto", rename: Callable[[str], str], prefix: str) -> "onnx.NodeProto":
    found = type(node)()
    found.CopyFrom(node)
    found.name = prefix + name_of(node)
    found.input[:] = [rename(word) for word in node.input]
    found.output[:] = [rename(word) for word in node.output]
    for attribute in found.attribute:
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            for each in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
                each.name = rename(each.name)
            nodes = [_renamed(each, rename, prefix) for each in graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
    return found


def name_of(node: "onnx.NodeProto") -> str:
    """Return the name of a node, or what stands for one."""
    return str(node.name or next(filter(None, node.output), node.op_type))


def reads_of(node: "onnx.NodeProto") -> list[str]:
    """Return the names of values that a node reads, those of its subgraphs from outside too."""
    found = list(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found += free_names(attribute.g)
    return found


def free_names(graph: "onnx.GraphProto") -> list[str]:
    """Return the names that a graph reads and does not make."""
    made = {each.name for each in (*graph.input, *graph.initializer)}
    found = []
    for node in graph.node:
        found += [word for word in reads_of(node) if word and word not in made]
        made |= set(node.output)
    return found + [info.name for info in graph.output if info.name not in made]


def all_nodes(nodes: "Iterable[onnx.NodeProto]", functions: Mapping[Any, Any], depth: int = 0) -> "Iterator[onnx.NodeProto]":
    """Yield nodes with those of their subgraphs and functions."""
    check_limit(depth, MAX_CALL_NESTING, "the nesting of functions")
    for node in nodes:
        yield node
        inner = functions.get((domain_of(node), node.op_type))
        if inner is not None:
            yield from all_nodes(inner.node, functions, depth + 1)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g.node, functions, depth + 1)


def domain_of(node: "onnx.NodeProto") -> str:
    """Return the domain of a node's operator, "" for ONNX's own."""
    return "" if node.domain == "ai.onnx" else str(node.domain)
