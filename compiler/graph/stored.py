"""Graphs as bytes: JSON that names values by number, then the constants' elements. Nothing in it is a program.

    u32      JSON bytes                                                        (little-endian)
    JSON     version, name, inputs [name, type], constants [name, type], nodes, outputs [name, value]
             a node is [operator, name, operands, [name of each result], attributes]; values are numbered inputs first, then
             constants, then results; null stands for an operand that is not given
    payload  the elements of each constant, one after another

Reading makes the graph anew: operators are looked up, types of results inferred from them, and limits hold as for a model.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from vtakit.base.jsons import read_json
from vtakit.base.limits import MAX_JSON_BYTES, MAX_NODES, check_limit, check_name, check_shape
from vtakit.compiler.graph.builder import Builder, numpy_dtype
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.ir import Array, Graph, Value, check
from vtakit.compiler.ir.dtypes import dtype

VERSION = 1
_LENGTH = struct.Struct("<I")
ELEMENTS = (  # element types of a value in a file
    "float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "int2", "int4", "uint2", "uint4", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float4_e2m1fn",
)
_NONSENSE = (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError, AssertionError, RecursionError)


def dump_graph(graph: Graph) -> bytes:
    """Return a graph as bytes. Raises GraphError for an attribute that is neither number, text nor a tuple of such."""
    return b"".join(graph_pieces(graph))


def graph_pieces(graph: Graph) -> list[bytes | memoryview]:
    """Return what `dump_graph` does in pieces: those of constants are views of their elements."""
    numbers = {value: at for at, value in enumerate((*graph.inputs, *graph.constants))}
    nodes = []
    for node in graph.nodes:
        operands = [None if value is None else numbers[value] for value in node.inputs]
        for value in node.outputs:
            numbers[value] = len(numbers)
        attrs = {key: _plain(each, f"attribute {key!r} of {node!r}") for key, each in node.attrs.items()}
        nodes.append([node.op, node.name, operands, [value.name for value in node.outputs], attrs])
    head = json.dumps({
        "version": VERSION, "name": graph.name, "inputs": [_described(value) for value in graph.inputs],
        "constants": [_described(value) for value in graph.constants], "nodes": nodes,
        "outputs": [[name, numbers[value]] for name, value in graph.outputs],
    }, separators=(",", ":")).encode()
    return [_LENGTH.pack(len(head)), head, *(bytes_of(array) for array in graph.constants.values())]


def bytes_of(array: Array) -> memoryview:
    """Return the elements of an array, in rows, as bytes; a view where they lie so."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _described(value: Value) -> list[Any]:
    return [value.name, str(value.type.dtype), list(value.type.shape)]


def _plain(given: Any, what: str) -> Any:
    """An attribute as JSON; a tuple is a list there."""
    if given is None or isinstance(given, bool | int | float | str):
        return given
    if isinstance(given, np.integer | np.floating):
        return given.item()
    if isinstance(given, tuple):
        return [_plain(each, what) for each in given]
    raise GraphError(f"{what} is a {type(given).__name__}, which a file does not hold")


def load_graph(data: bytes) -> Graph:
    """Return the graph that `dump_graph` wrote. Raises GraphError, or LimitError, for anything else."""
    try:
        if len(data) < _LENGTH.size:
            raise GraphError("it has no header")
        (size,) = _LENGTH.unpack_from(data)
        view = memoryview(data)[_LENGTH.size:]
        if size > len(view):
            raise GraphError(f"its header has {size:,} bytes, and it has {len(view):,}")
        return _Reader(read_json(bytes(view[:size]), most_bytes=MAX_JSON_BYTES, what="its header"), view[size:]).graph()
    except GraphError as error:
        raise GraphError(f"the stored graph is damaged: {error}") from None
    except _NONSENSE as error:  # LimitError is one of them
        why = " ".join(str(error).split())[:200]
        raise GraphError(f"the stored graph is damaged: {type(error).__name__}: {why}") from None


class _Reader:
    def __init__(self, head: Mapping[str, Any], payload: memoryview) -> None:
        if head["version"] != VERSION:
            raise GraphError(f"it has version {head['version']!r:.20}; this vtakit reads version {VERSION}")
        self.head, self.payload, self.at = head, payload, 0
        self.build = Builder(_name(head["name"]))
        self.values: list[Value] = []

    def graph(self) -> Graph:
        for described in self.head["inputs"]:
            name, kind, shape = _type(described)
            self.values.append(self.build.input(name, shape, kind))
        for described in self.head["constants"]:
            name, kind, shape = _type(described)
            self.values.append(self.build.constant(self._elements(kind, shape), kind, name))
        if self.at != len(self.payload):
            raise GraphError(f"{len(self.payload) - self.at:,} bytes belong to nothing")
        nodes = self.head["nodes"]
        check_limit(len(nodes), MAX_NODES, "the number of its nodes")
        for op, name, operands, results, attrs in nodes:
            given = [None if at is None else self._value(at) for at in operands]
            names = [_name(each) for each in results]
            made = self.build.add(_name(op), *given, attrs={_name(key): _hashable(each) for key, each in attrs.items()},
                                  name=_name(name), names=names)
            if len(made) != len(names):
                raise GraphError(f"node {name!r} names {len(names)} results, and {op} makes {len(made)}")
            self.values += made
        found = self.build.finish([(_name(name), self._value(at)) for name, at in self.head["outputs"]])
        check(found)
        return found

    def _value(self, at: Any) -> Value:
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at < len(self.values):
            raise GraphError(f"{at!r:.40} is no value that is there")
        return self.values[at]

    def _elements(self, kind: str, shape: tuple[int, ...]) -> Array:
        element = numpy_dtype(dtype(kind))
        size = element.itemsize
        for each in shape:
            size *= each
        if size > len(self.payload) - self.at:
            raise GraphError(f"a constant has {size:,} bytes, and {len(self.payload) - self.at:,} are left")
        self.at += size
        return np.frombuffer(self.payload[self.at - size:self.at], element).reshape(shape).copy()


def _name(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{given!r:.40} is no name")
    check_name(given, "the name")
    given.encode()  # half a surrogate pair, which JSON can write, is a ValueError
    return given


def _type(described: Any) -> tuple[str, str, tuple[int, ...]]:
    name, kind, shape = described
    if kind not in ELEMENTS:
        raise GraphError(f"{kind!r:.40} is no element type of a value")
    if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in shape):
        raise GraphError(f"{shape!r:.60} is no shape")
    check_shape(shape, f"{name!r:.60}")
    return _name(name), kind, tuple(shape)


def _hashable(given: Any) -> Any:
    """An attribute as operators take it."""
    if isinstance(given, list):
        return tuple([_hashable(each) for each in given])
    if given is None or isinstance(given, bool | int | float | str):
        return given
    raise GraphError(f"{given!r:.40} is no attribute")
