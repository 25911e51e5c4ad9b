"""PyTorch programs, as torch.export makes them, as graphs.

Composite operators are decomposed by PyTorch itself down to those that have a converter here, so that an operator that
`vtakit.compiler.nn` has, such as an LSTM, stays whole. Everything unsupported is told at once.
"""

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vtakit.compiler.frontend.errors import ModelError, UnsupportedError
from vtakit.compiler.frontend.torch.nodes import AtenNode, Unsupported, kind_of
from vtakit.compiler.frontend.torch.operators import CONVERTERS
from vtakit.compiler.frontend.torch.quiet import quiet
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.ir import Array, Graph, TensorType, Value

if TYPE_CHECKING:
    import torch

_NONSENSE = (TypeError, ValueError, IndexError, KeyError, ArithmeticError, AttributeError, AssertionError)
_EFFECTS = ("_assert", "sym_constrain_range")  # what checks something while PyTorch runs
Known = Value | tuple["Value | None", ...] | float | None


def import_program(program: "torch.export.ExportedProgram", *, name: str = "program") -> Graph:
    """Read an exported program. Its inputs have the names of the module's arguments; one output is called "output", of several
    each has its number.

    name : of the graph, a word

    Raises UnsupportedError with all that is unsupported, ModelError for a program that has no fixed meaning: one that changes its
    buffers, or leaves shapes open.
    """
    program = _decomposed(program, name)  # before that, changes are hidden in operators
    changed = program.graph_signature.buffers_to_mutate
    if changed:
        first = next(iter(changed.values()))
        raise ModelError(f"program {name!r} changes {len(changed)} of its buffers, such as {first!r}, as modules in training do: "
                         f"call module.eval() before torch.export.export")
    return _Importer(program, name).graph()


def _decomposed(program: "torch.export.ExportedProgram", name: str) -> "torch.export.ExportedProgram":
    """With every operator decomposed that has no converter and can be."""
    import torch

    table = torch.export.default_decompositions()
    for op in list(table):
        if str(op) in CONVERTERS:
            table.pop(op)
    with quiet():
        try:
            return program.run_decompositions(table)
        except Exception as error:  # PyTorch raises many kinds for a program whose operators do not fit their operands
            why = " ".join(str(error).split())[:200] or type(error).__name__
            raise ModelError(f"PyTorch refuses the program {name!r}: {why}") from None


class _Importer:
    def __init__(self, program: "torch.export.ExportedProgram", name: str) -> None:
        self.program, self.name = program, name
        self.build = Builder(name)
        self.known: dict[Any, Known] = {}
        self.missing: set[Any] = set()  # what unsupported nodes make, and what is made of that
        self.unsupported: dict[str, list[str]] = {}

    def graph(self) -> Graph:
        given = {spec.arg.name: spec for spec in self.program.graph_signature.input_specs if hasattr(spec.arg, "name")}
        outputs: list[Any] = []
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self.known[node] = self._placeholder(node, given[node.name])
            elif node.op == "output":
                outputs = list(node.args[0])
            elif not any(word in str(node.target) for word in _EFFECTS):
                self._node(node)
        if self.unsupported:
            raise UnsupportedError(self.name, self.unsupported)
        names = ["output"] if len(outputs) == 1 else [f"output{at}" for at in range(len(outputs))]
        return self.build.finish([
            (word, self._output(word, each)) for word, each in zip(names, outputs, strict=True) if each is not None
        ])

    def _output(self, name: str, node: Any) -> Value:
        found = self.known.get(node, node)
        return found if isinstance(found, Value) else self.build.constant(found, name=name)

    def _placeholder(self, node: Any, spec: Any) -> Known:
        where = f"program {self.name!r}"
        if spec.target is not None:  # a parameter, a buffer or a constant
            held = self.program.state_dict.get(spec.target)
            tensor = self.program.constants.get(spec.target) if held is None else held
            if tensor is None:
                raise ModelError(f"{where} reads {spec.target!r}, which it does not have")
            return self.build.constant(_array(tensor, f"{spec.target!r} of {where}"), _kind(tensor.dtype, where), spec.target)
        value = node.meta.get("val")
        if not hasattr(value, "shape"):  # a number that the program was exported for
            return None if value is None else float(value)
        shape = _fixed(value.shape, f"input {node.name!r} of {where}")
        return self.build.input(node.name, shape, _kind(value.dtype, f"input {node.name!r} of {where}"))

    def _node(self, node: Any) -> None:
        reads = node.all_input_nodes
        op = str(node.target)
        path = _path(node)
        if not self.missing.isdisjoint(reads) and _is_number(node):  # a size of what is missing
            self.missing.add(node)
        elif op not in CONVERTERS and node.target is not operator.getitem:
            self.unsupported.setdefault(op, []).append(path)
            self.missing.add(node)
        elif not self.missing.isdisjoint(reads):
            self.missing.add(node)
        elif node.target is operator.getitem:
            source = self.known[node.args[0]]
            assert isinstance(source, tuple)
            found = source[node.args[1]]
            if found is None:
                self.unsupported.setdefault(f"{node.args[0].target} for its result {node.args[1]}", []).append(path)
                self.missing.add(node)
            self.known[node] = found
        else:
            try:
                self.known[node] = self._converted(node, op, path)
            except Unsupported as error:
                self.unsupported.setdefault(str(error), []).append(path)
                self.missing.add(node)
            except GraphError as error:
                raise ModelError(f"node {path!r} ({op}): {str(error).removeprefix(f'{path}: ')}") from None
            except _NONSENSE as error:  # what a converter meets in operands that PyTorch itself lets pass
                why = " ".join(str(error).split())[:200] or type(error).__name__
                raise ModelError(f"node {path!r} ({op}) has operands that do not fit: {why}") from None

    def _converted(self, node: Any, op: str, path: str) -> Known:
        results = node.meta["val"]
        several = isinstance(results, tuple | list)
        types = [_made(each, op, path) for each in (results if several else [results])]
        made = CONVERTERS[op](AtenNode(op, path, self._operands(node), types, self.build))
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


def _path(node: Any) -> str:
    """The module that a node is of, as in its state_dict, and the node's own name where it has none."""
    stack: Mapping[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    path = list(stack.values())[-1][0] if stack else ""
    return path or str(node.name)


def _is_number(node: Any) -> bool:
    made = node.meta.get("val")
    return not hasattr(made, "shape") and not isinstance(made, tuple | list)


def _made(value: Any, op: str, path: str) -> TensorType | None:
    """The type of a node's result; those of inputs are fixed, so that a size that is open here depends on numbers."""
    if not hasattr(value, "shape"):
        return None
    if not _is_fixed(value.shape):
        raise Unsupported(f"{op} where the numbers decide the result's shape [{', '.join(map(str, value.shape))}]")
    return TensorType(tuple(value.shape), _kind(value.dtype, f"node {path!r} ({op})"))


def _is_fixed(shape: Any) -> bool:
    return all(isinstance(size, int) for size in shape)


def _fixed(shape: Any, where: str) -> tuple[int, ...]:
    if not _is_fixed(shape):
        raise ModelError(f"{where} has the open shape [{', '.join(map(str, shape))}]: export the module without dynamic_shapes")
    return tuple(shape)


def _kind(torch_dtype: object, where: str) -> Any:
    try:
        return kind_of(torch_dtype)
    except Unsupported as error:
        raise ModelError(f"{where} has {error}, which vtakit does not have") from None


def _array(tensor: Any, where: str) -> Array:
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
