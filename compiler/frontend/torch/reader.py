"""Nodes of PyTorch's graphs (torch.fx), one after another, as nodes of ours."""

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.torch.nodes import AtenNode, Unsupported, kind_of
from vtakit.compiler.frontend.torch.operators import CONVERTERS
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.ir import Array, TensorType, Value

_NONSENSE = (TypeError, ValueError, IndexError, KeyError, ArithmeticError, AttributeError, AssertionError)
_EFFECTS = ("_assert", "sym_constrain_range")  # what checks something while PyTorch runs
Known = Value | tuple["Value | None", ...] | float | None


class Reader:
    """Converts nodes in order. Converters say what the operands become; PyTorch says the types of results.

    known       : node -> its result
    missing     : unsupported nodes, and nodes that read what those make
    failed      : unsupported node -> operator or reason
    unsupported : operator or reason -> paths of the modules that need it
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.build = Builder(name)
        self.known: dict[Any, Known] = {}
        self.missing: set[Any] = set()
        self.failed: dict[Any, str] = {}
        self.unsupported: dict[str, list[str]] = {}

    def read(self, node: Any) -> None:
        """Convert a node, or record why it cannot be. Raises ModelError for operands that do not fit."""
        if has_effect(node):
            return
        reads = node.all_input_nodes
        op = str(node.target)
        path = path_of(node)
        if not self.missing.isdisjoint(reads) and is_number(node):  # a size of what is missing
            self.missing.add(node)
        elif op not in CONVERTERS and node.target is not operator.getitem:
            self._refuse(node, op, path)
        elif not self.missing.isdisjoint(reads):
            self.missing.add(node)
        elif node.target is operator.getitem:
            source = self.known[node.args[0]]
            assert isinstance(source, tuple)
            found = source[node.args[1]]
            if found is None:
                self._refuse(node, f"{node.args[0].target} for its result {node.args[1]}", path)
            self.known[node] = found
        else:
            try:
                self.known[node] = self._converted(node, op, path)
            except Unsupported as error:
                self._refuse(node, str(error), path)
            except GraphError as error:
                raise ModelError(f"node {path!r} ({op}): {str(error).removeprefix(f'{path}: ')}") from None
            except _NONSENSE as error:  # what a converter meets in operands that PyTorch itself lets pass
                why = " ".join(str(error).split())[:200] or type(error).__name__
                raise ModelError(f"node {path!r} ({op}) has operands that do not fit: {why}") from None

    def _refuse(self, node: Any, why: str, path: str) -> None:
        self.unsupported.setdefault(why, []).append(path)
        self.failed[node] = why
        self.missing.add(node)

    def _converted(self, node: Any, op: str, path: str) -> Known:
        results = node.meta["val"]
        several = isinstance(results, tuple | list)
        types = [made_type(each, op, path) for each in (results if several else [results])]
        made = CONVERTERS[op](AtenNode(op, path, self._operands(node), types, self.build, strides_of(node)))
        found = (made,) if isinstance(made, Value) else tuple(made)
        for value, wanted in zip(found, types, strict=False):
            if value is not None and value.type != wanted:
                raise Unsupported(f"{op} where PyTorch makes {wanted} and vtakit would make {value.type}")
        return found if several else found[0]

    def _operands(self, node: Any) -> dict[str, Any]:
        """By the names of the schema."""
        found = {}
        for at, argument in enumerate(node.target._schema.arguments):
            if at < len(node.args):
                given = node.args[at]
            else:
                given = node.kwargs.get(argument.name, argument.default_value if argument.has_default_value() else None)
            found[argument.name] = self._operand(given)
        return found

    def _operand(self, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return tuple([self._operand(each) for each in given])
        return self.known[given] if hasattr(given, "all_input_nodes") else given

    def output(self, name: str, node: Any) -> Value:
        """Return the value of an output; a number becomes a constant."""
        found = self.known.get(node, node)
        return found if isinstance(found, Value) else self.build.constant(found, name=name)


def has_effect(node: Any) -> bool:
    """Return whether a node only checks something while PyTorch runs."""
    return any(word in str(node.target) for word in _EFFECTS)


def path_of(node: Any) -> str:
    """The module that a node is of, as in its state_dict, and the node's own name where it has none."""
    stack: Mapping[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    path = list(stack.values())[-1][0] if stack else ""
    return path or str(node.name)


def strides_of(node: Any) -> dict[str, tuple[int, ...]]:
    """Return the strides of the tensors that a node reads, by the names of its schema."""
    found = {}
    for argument, given in zip(node.target._schema.arguments, node.args, strict=False):
        value: Any = getattr(given, "meta", {}).get("val")
        if hasattr(value, "stride"):
            found[argument.name] = tuple(value.stride())
    return found


def is_number(node: Any) -> bool:
    made = node.meta.get("val")
    return not hasattr(made, "shape") and not isinstance(made, tuple | list)


def made_type(value: Any, op: str, path: str) -> TensorType | None:
    """The type of a node's result; those of inputs are fixed, so that a size that is open here depends on numbers."""
    if not hasattr(value, "shape"):
        return None
    if not _is_fixed(value.shape):
        raise Unsupported(f"{op} where the numbers decide the result's shape [{', '.join(map(str, value.shape))}]")
    return TensorType(tuple(value.shape), element_type(value.dtype, f"node {path!r} ({op})"))


def _is_fixed(shape: Any) -> bool:
    return all(isinstance(size, int) for size in shape)


def fixed_shape(shape: Any, where: str) -> tuple[int, ...]:
    if not _is_fixed(shape):
        raise ModelError(f"{where} has the open shape [{', '.join(map(str, shape))}]: export the module without dynamic_shapes")
    return tuple(shape)


def element_type(torch_dtype: object, where: str) -> Any:
    try:
        return kind_of(torch_dtype)
    except Unsupported as error:
        raise ModelError(f"{where} has {error}, which vtakit does not have") from None


def array_of(tensor: Any, where: str) -> Array:
    """A tensor's elements as a NumPy array."""
    import torch

    held = tensor.detach().cpu().contiguous()
    if held.dtype is torch.bfloat16:  # NumPy itself has no such type
        import ml_dtypes

        found: Array = held.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return found
    try:
        return np.asarray(held.numpy())
    except (TypeError, RuntimeError) as error:
        raise ModelError(f"{where} cannot be read as an array: {error}") from None
