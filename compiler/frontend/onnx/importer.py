"""ONNX models as graphs.

Symbolic sizes are fixed on import, so that every shape is known. What decides shapes (the shape of a Reshape, the axes of a
reduction) must not depend on the model's inputs, or a LaterError says so (`stages` then cuts the model): what is computed from
constants and shapes is folded on the way. An operator without a converter is expressed by the function that ONNX's standard gives
it, if it has one. Everything unsupported is told at once.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vtakit.base.errors import VtakitError
from vtakit.base.limits import MAX_CALL_NESTING, MAX_NODES, check_limit
from vtakit.compiler.codegen.llvm.text.reserved import is_taken, is_word
from vtakit.compiler.frontend.errors import ElementTypeError, LaterError, ModelError, StagedError, UnsupportedError
from vtakit.compiler.frontend.onnx.functions import function_of
from vtakit.compiler.frontend.onnx.nodes import STAGED, OnnxNode, Unsupported
from vtakit.compiler.frontend.onnx.operators import CONVERTERS
from vtakit.compiler.frontend.onnx.reader import as_shapes, check_output, input_type, is_size, opset_versions, read_model
from vtakit.compiler.frontend.onnx.tensors import array_of
from vtakit.compiler.graph.builder import Builder, numpy_dtype
from vtakit.compiler.graph.errors import GraphError
from vtakit.compiler.graph.evaluate import evaluate_graph
from vtakit.compiler.graph.ir import Array, Graph, TensorType, Value
from vtakit.compiler.graph.passes.fold import Evaluate

if TYPE_CHECKING:
    import onnx

_NAME_LENGTH = 40
_NONSENSE = (TypeError, ValueError, IndexError, KeyError, ArithmeticError)


def import_model(
    model: "str | Path | onnx.ModelProto", *, shapes: Mapping[str, Sequence[int]] | None = None, batch: int = 1,
    fixed: Mapping[str, Any] | None = None, evaluate: Evaluate = evaluate_graph, name: str | None = None,
) -> Graph:
    """Read an ONNX model, opset 7 to current.

    shapes   : of inputs whose shape the model leaves open
    batch    : the size of a symbolic first dimension
    fixed    : inputs that become constants: name -> array
    evaluate : computes constants (see `vtakit.compiler.graph.passes.fold`)
    name     : of the graph, a word; that of the file or of the model's graph by default

    Raises UnsupportedError with all that is unsupported, ModelError for a model that cannot be read or breaks a rule.
    """
    proto, called, folder = read_model(model)
    if not is_size(batch) or batch < 1:
        raise ModelError(f"batch={batch!r}: a batch is a whole number, at least 1")
    for argument, option in (("shapes", shapes), ("fixed", fixed)):
        if not isinstance(option, Mapping | None):
            raise ModelError(f"{argument} is a dict by the names of inputs, got {type(option).__name__}")
    importer = Importer(proto, called, folder, evaluate)
    return importer.graph(word(called) if name is None else name, shapes, int(batch), fixed or {})


def word(name: str) -> str:
    """A name that C could have."""
    found = re.sub(r"\W", "_", name, flags=re.ASCII)[:_NAME_LENGTH]
    return f"m_{found}" if not found or found[0].isdigit() or is_word(found) or is_taken(found) else found


def _operator(node: "onnx.NodeProto") -> tuple[str, str]:
    """The domain of a node's operator, "" for ONNX's own, and what a message calls it."""
    domain = "" if node.domain == "ai.onnx" else str(node.domain)
    return domain, f"{domain}.{node.op_type}" if domain else str(node.op_type)


class _Missing(Exception):
    """A node that reads what is not there, because of an error before."""


class Importer:
    """A model being read: `graph` returns it whole; `nodes` and `finish` make graphs of parts."""

    def __init__(self, proto: "onnx.ModelProto", name: str, folder: str, evaluate: Evaluate) -> None:
        self.proto, self.name, self.folder, self.evaluate = proto, name, folder, evaluate
        self.versions = opset_versions(proto, name)
        self.functions = {(f.domain, f.name): f for f in proto.functions}
        self.unsupported: dict[str, list[str]] = {}
        self.others: list[VtakitError] = []
        self.build = Builder(name)
        self.found: dict[Value, Array | None] = {}
        self.top: tuple[int, tuple[TensorType | None, ...]] = -1, ()  # node at the top level, types of its operands
        self.converted = 0  # nodes, those of functions as often as they are called

    def graph(
        self, name: str, shapes: Mapping[str, Sequence[int]] | None, batch: int, fixed: Mapping[str, Any]
    ) -> Graph:
        graph = self.proto.graph
        self.build.name = name
        known: dict[str, Value | None] = {}
        if graph.sparse_initializer:
            raise ModelError(f"the model {self.name!r} has sparse initializers, which vtakit does not read")
        self.initializers(graph.initializer, known)
        inputs = [info for info in graph.input if info.name not in known]
        given = as_shapes(shapes, [info.name for info in inputs])
        for word in fixed:
            if word not in {info.name for info in inputs}:
                names = ", ".join(repr(info.name) for info in inputs) or "none"
                raise ModelError(f"fixed names {word!r}, which is no input of the model: it has {names}")
        for info in inputs:
            known[info.name] = None
            try:
                if info.name in fixed:
                    known[info.name] = self._fixed(info, np.asarray(fixed[info.name]), batch)
                else:
                    kind = input_type(info, given.get(info.name), batch)
                    known[info.name] = self.build.input(info.name, kind.shape, kind.dtype)
            except VtakitError as error:
                self.others.append(error)
        self.nodes(graph.node, known, "", self.versions, 0)
        self.check()
        outputs = [(info, self.value(known, info.name)) for info in graph.output]
        exact = not any(each.dim_param or not each.HasField("dim_value") for info in inputs
                        for each in info.type.tensor_type.shape.dim)
        for info, value in outputs:
            if value is not None:
                check_output(info, value.type, exact=exact)
        return self.build.finish([(info.name, value) for info, value in outputs if value is not None])

    def check(self) -> None:
        """Raise what is wrong with the nodes so far; what only a run knows comes last."""
        if self.unsupported:
            others = [error for error in self.others if not isinstance(error, LaterError)]
            raise UnsupportedError(self.name, self.unsupported, others)
        for error in sorted(self.others, key=lambda error: isinstance(error, LaterError)):
            raise error

    def initializers(self, tensors: "Sequence[onnx.TensorProto]", known: dict[str, Value | None]) -> None:
        for tensor in tensors:
            known[tensor.name] = None
            try:
                array = array_of(tensor, f"initializer {tensor.name!r}", self.folder)
                known[tensor.name] = self.build.constant(array, name=tensor.name)
            except VtakitError as error:
                self.others.append(error)

    def _fixed(self, info: "onnx.ValueInfoProto", array: Array, batch: int) -> Value:
        kind = input_type(info, array.shape, batch)
        if array.dtype != numpy_dtype(kind.dtype):
            raise ModelError(f"fixed[{info.name!r}] is an array of {array.dtype}; the input has element type {kind.dtype}")
        return self.build.constant(array, name=info.name)

    def value(self, known: Mapping[str, Value | None], name: str) -> Value | None:
        if not name:
            return None
        if name not in known:
            raise ModelError(f"the model {self.name!r} reads {name!r}, which nothing before makes")
        value = known[name]
        if value is None:
            raise _Missing
        return value

    def nodes(
        self, nodes: "Sequence[onnx.NodeProto]", known: dict[str, Value | None], prefix: str, versions: Mapping[str, int],
        depth: int,
    ) -> None:
        """Convert nodes in order; `known` has the values by name, None for what is not there because of an error.

        Errors are kept, so that all that is unsupported is found; each node behind one is looked at as far as can be.
        """
        self.converted += len(nodes)
        check_limit(self.converted, MAX_NODES, f"the number of nodes of the model {self.name!r}, those of its functions too,")
        for number, proto in enumerate(nodes):
            name = prefix + (proto.name or next(filter(None, proto.output), f"{proto.op_type}_{number}"))
            try:
                inputs = [self.value(known, word) for word in proto.input]
                if not depth:
                    self.top = number, tuple([None if value is None else value.type for value in inputs])
                if proto.op_type == "If" and not proto.domain:
                    made = self._branch(proto, name, inputs, known, versions, depth)
                else:
                    made = self._node(proto, name, inputs, versions, depth)
            except _Missing:
                self._without_operands(proto, name, versions, depth)
                made = []
            except ElementTypeError as error:
                self._tell(f"{proto.op_type} where {error}", name)
                made = []
            except Unsupported as error:
                self._tell(str(error), name)
                made = []
            except GraphError as error:
                self.others.append(ModelError(f"node {name!r} ({proto.op_type}): {str(error).removeprefix(f'{name}: ')}"))
                made = []
            except VtakitError as error:
                if isinstance(error, LaterError):
                    error.position, error.types = self.top
                self.others.append(error)
                made = []
            except _NONSENSE as error:  # what a converter meets in attributes that ONNX's own check lets pass
                why = " ".join(str(error).split())
                what = f"node {name!r} ({proto.op_type}) has operands or attributes that do not fit: {why}"
                self.others.append(ModelError(what))
                made = []
            known |= dict.fromkeys(filter(None, proto.output))
            for word, value in zip(proto.output, made, strict=False):
                if word:
                    known[word] = value
            lacking = [word for word in proto.output if word and known[word] is None]
            if lacking and not self.unsupported and not self.others:
                self.others.append(ModelError(f"node {name!r} ({proto.op_type}) does not make its output {lacking[0]!r}"))

    def _tell(self, what: str, name: str) -> None:
        self.unsupported.setdefault(what, []).append(name)

    def _without_operands(self, proto: "onnx.NodeProto", name: str, versions: Mapping[str, int], depth: int) -> None:
        """Tell what is unsupported about a node whose operands are not there: its operator, or those of its function."""
        import onnx

        domain, called = _operator(proto)
        own = self.functions.get((domain, proto.op_type))
        if own is not None and depth < MAX_CALL_NESTING:
            self.nodes(own.node, dict.fromkeys(own.input), f"{name}/", versions, depth + 1)
        if own is not None or called in CONVERTERS or called == "If" or called in STAGED:
            return
        try:
            schema: Any = onnx.defs.get_schema(proto.op_type, versions.get(domain, 1), domain)
        except onnx.defs.SchemaError:
            self._tell(called, name)
        else:
            if not schema.has_function and not schema.has_context_dependent_function:
                self._tell(called, name)

    def _node(
        self, proto: "onnx.NodeProto", name: str, inputs: list[Value | None], versions: Mapping[str, int], depth: int
    ) -> Sequence[Value | None]:
        domain, called = _operator(proto)
        if called in STAGED:
            raise StagedError(f"node {name!r} ({called}) is a stage of its own, which only vtakit.compile makes")
        convert = CONVERTERS.get(called)
        if convert is not None and (not domain or (domain, proto.op_type) not in self.functions):
            found = convert(OnnxNode(proto, name, versions.get("", 1), inputs, self.build, self))
            return (found,) if isinstance(found, Value) else tuple(found)
        if depth >= MAX_CALL_NESTING:
            raise ModelError(f"node {name!r} ({called}): functions are nested deeper than {MAX_CALL_NESTING}")
        body = function_of(proto, domain, versions, [None if v is None else v.type for v in inputs], self.functions)
        if body is None:
            raise Unsupported(called)
        known: dict[str, Value | None] = dict(zip(body.inputs, inputs, strict=False))
        known |= dict.fromkeys(body.inputs[len(inputs):])
        self._function(body.nodes, known, f"{name}/", body.versions, depth + 1, {w for w, v in known.items() if v is None})
        return [known.get(word) for word in body.outputs]

    def _branch(
        self, proto: "onnx.NodeProto", name: str, inputs: list[Value | None], known: Mapping[str, Value | None],
        versions: Mapping[str, int], depth: int,
    ) -> Sequence[Value | None]:
        """The branch of an If that a constant condition chooses; it sees the values around it."""
        node = OnnxNode(proto, name, versions.get("", 1), inputs, self.build, self)
        wanted = "then_branch" if bool(node.constant(0).reshape(-1)[0]) else "else_branch"
        graph = next((attribute.g for attribute in proto.attribute if attribute.name == wanted), None)
        if graph is None or depth >= MAX_CALL_NESTING:
            raise ModelError(f"node {name!r} (If) lacks its attribute {wanted!r}, or is nested deeper than {MAX_CALL_NESTING}")
        inner = dict(known)
        self.initializers(graph.initializer, inner)
        self.nodes(graph.node, inner, f"{name}/", versions, depth + 1)
        return [self.value(inner, info.name) for info in graph.output]

    def _function(
        self, nodes: "Sequence[onnx.NodeProto]", known: dict[str, Value | None], prefix: str, versions: Mapping[str, int],
        depth: int, absent: set[str],
    ) -> None:
        """A function's nodes: an operand that names an input which is not given is not given itself."""
        changed = []
        for node in nodes:
            if absent & set(node.input):
                copy = type(node)()
                copy.CopyFrom(node)
                copy.input[:] = ["" if word in absent else word for word in node.input]
                node = copy
            changed.append(node)
        self.nodes(changed, known, prefix, versions, depth)

    def constant(self, value: Value) -> Array | None:
        """The elements of a value that depends on no input; None of another."""
        if value not in self.found:
            self.found[value] = self._evaluated(value)
        return self.found[value]

    def inputs_of(self, value: Value) -> tuple[str, ...]:
        """The inputs that a value depends on, in the model's order."""
        needed = self.build.needed(value)
        return tuple([each.name for each in self.build.inputs if each in needed])

    def _evaluated(self, value: Value) -> Array | None:
        if value in self.build.constants:
            return self.build.constants[value]
        if self.inputs_of(value):
            return None
        known = {each: array for each, array in self.found.items() if array is not None}
        (array,) = self.evaluate(self.build.part(value, known))
        return array
