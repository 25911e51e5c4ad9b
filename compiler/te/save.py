"""Tensor expressions as JSON: what was built is read back with the same text, sharing what was shared.

The text is an object with a version, a table of nodes, and the value itself. A node is its class's name followed by its
parts; a part is a number, string or null as it is, or an object with one key: ``node`` (a place in the table), ``tuple``,
``dict``, ``float`` (hexadecimal), ``dtype`` or ``enum``.
"""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from vtakit.compiler.ir import expr as ir
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import DType, dtype
from vtakit.compiler.ir.iters import IterKind, IterVar, Range
from vtakit.compiler.te.errors import ExpressionError
from vtakit.compiler.te.operation import ComputeOp, ExternOp, PlaceholderOp, ScanOp
from vtakit.compiler.te.tensor import Tensor

VERSION = 1
_PLAIN = (
    Buffer, IterVar, Tensor, ir.CommReducer, PlaceholderOp, ComputeOp, ExternOp, ScanOp,
)
_TUPLES: dict[str, Any] = {kind.__name__: kind for kind in (Range, st.Region, st.BlockIter)}
_ENUMS: dict[str, type[Enum]] = {kind.__name__: kind for kind in (IterKind, st.LoopKind)}


def _with_subclasses(kind: type[Any]) -> list[type[Any]]:
    return [kind, *[inner for sub in kind.__subclasses__() for inner in _with_subclasses(sub)]]


_CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (*_with_subclasses(ir.Expr), *_with_subclasses(st.Stmt), *_PLAIN)
}


def _parts(kind: type[Any]) -> list[str]:
    """The names of what makes up an object of a class, without what is only kept for speed."""
    if issubclass(kind, ir.Expr):
        return [*kind.fields, "dtype"]
    names = [name for base in reversed(kind.__mro__) for name in base.__dict__.get("__slots__", ())]
    return [name for name in names if not name.startswith("_")]


def save_json(value: Any) -> str:
    """An expression, a tensor, or a list, tuple or dictionary of these, with all that it is made from.

    Raises ExpressionError for a part that is none of the language's (an attribute of an operation, say).
    """
    writer = _Writer()
    root = writer.part(value)
    return json.dumps({"vtakit": VERSION, "nodes": writer.nodes, "value": root})


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[list[Any]] = []
        self.places: dict[int, tuple[int, Any]] = {}  # the object is kept, so that its id stays its own

    def part(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, DType):
            return {"dtype": str(value)}
        if isinstance(value, Enum) and type(value).__name__ in _ENUMS:
            return {"enum": f"{type(value).__name__}.{value.name}"}
        if isinstance(value, tuple | list):
            name = type(value).__name__ if type(value).__name__ in _TUPLES else "tuple" if isinstance(value, tuple) else "list"
            return {name: [self.part(item) for item in value]}
        if isinstance(value, Mapping):
            return {"dict": [[self.part(key), self.part(item)] for key, item in value.items()]}
        if type(value).__name__ not in _CLASSES:
            kind = type(value).__name__
            raise ExpressionError(f"{value!r} of type {kind} is no part of a tensor expression, so it cannot be saved")
        return {"node": self.node(value)}

    def node(self, value: Any) -> int:
        """The place of an object in the table, after those that it is made from: a long program is deeper than Python calls."""
        stack = [(value, False)]
        while stack:
            top, ready = stack.pop()
            if id(top) in self.places:
                continue
            parts = [getattr(top, name) for name in _parts(type(top))]
            missing = [] if ready else [node for part in parts for node in _nodes(part) if id(node) not in self.places]
            if missing:
                stack.append((top, True))
                stack += [(node, False) for node in reversed(missing)]
            else:
                written = [self.part(part) for part in parts]
                self.places[id(top)] = len(self.nodes), top
                self.nodes.append([type(top).__name__, *written])
        return self.places[id(value)][0]


def _nodes(part: Any) -> Iterator[Any]:
    """The objects in a part that have a place in the table."""
    if isinstance(part, tuple | list):
        for item in part:
            yield from _nodes(item)
    elif isinstance(part, Mapping):
        for item in part.items():
            yield from _nodes(item)
    elif type(part).__name__ in _CLASSES:
        yield part


def load_json(text: str) -> Any:
    """Return the object that `save_json` wrote. Raises ExpressionError for any other text."""
    try:
        data = json.loads(text)
        if data["vtakit"] != VERSION:
            raise ExpressionError(f"the text has version {data['vtakit']} of the format, this program reads version {VERSION}")
        reader = _Reader(data["nodes"])
        return reader.part(data["value"])
    except (json.JSONDecodeError, KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError(f"the text is no saved tensor expression: {type(error).__name__}: {error}") from None


class _Reader:
    def __init__(self, nodes: list[Any]) -> None:
        self.made: list[Any] = []
        for name, *parts in nodes:  # parts of a node stand before it
            kind = _CLASSES[name]
            made = object.__new__(kind)
            for field, part in zip(_parts(kind), parts, strict=True):
                setattr(made, field, self.part(part))
            if isinstance(made, ComputeOp):
                made._inputs = None
            self.made.append(made)

    def part(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        [(key, inside)] = value.items()
        match key:
            case "node":
                return self.made[inside]
            case "float":
                return float.fromhex(inside)
            case "dtype":
                return dtype(inside)
            case "enum":
                kind, _, name = inside.partition(".")
                return _ENUMS[kind][name]
            case "dict":
                return {self.part(item): self.part(entry) for item, entry in inside}
            case "tuple":
                return tuple([self.part(item) for item in inside])
            case "list":
                return [self.part(item) for item in inside]
        return _TUPLES[key](*[self.part(item) for item in inside])
