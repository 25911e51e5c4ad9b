"""The plan of an ONNX model: its graph and subgraphs cut into stages.

A step is control flow, an operator of sequences, or a node whose operands a run alone knows; everything else is compiled in
parts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vtakit.base.limits import MAX_CALL_NESTING, MAX_NODES, check_limit
from vtakit.compiler.frontend.errors import ModelError, UnsupportedError
from vtakit.compiler.frontend.onnx.functions import function_of
from vtakit.compiler.frontend.onnx.hosted import HOST
from vtakit.compiler.frontend.onnx.nodes import STAGED
from vtakit.compiler.frontend.onnx.operators import CONVERTERS
from vtakit.compiler.frontend.onnx.order import Block, Part, Scope, Step, in_order, made_by, reads_by
from vtakit.compiler.frontend.onnx.subgraphs import all_nodes, domain_of, inlined, name_of, reads_of

if TYPE_CHECKING:
    import onnx

CONTROL = frozenset(("If", "Loop", "Scan", "SequenceMap"))
_LISTS = ("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceMap", "SplitToSequence")
TENSOR, LIST, OPTIONAL = "tensor", "list", "optional "  # kinds of values; the last stands before one of the others


class Plan:
    """The stages of a model.

    proto : the model, whose data are all in it
    main  : its graph
    """

    def __init__(self, proto: "onnx.ModelProto", name: str, versions: Mapping[str, int]) -> None:
        self.proto, self.name, self.versions = proto, name, versions
        self.functions = {(f.domain, f.name): f for f in proto.functions}
        self._unsupported: dict[str, list[str]] = {}
        self._nodes = 0
        self.main = self._block(proto.graph, Scope(), 0)
        if self._unsupported:
            raise UnsupportedError(name, self._unsupported)

    def _block(self, graph: "onnx.GraphProto", outer: Scope, depth: int) -> Block:
        check_limit(depth, MAX_CALL_NESTING, f"the nesting of graphs in the model {self.name!r}")
        if graph.sparse_initializer:
            raise ModelError(f"the model {self.name!r} has sparse initializers, which vtakit does not read")
        scope = Scope(dict(outer.constants), dict(outer.kinds))
        scope.constants.update({tensor.name: tensor for tensor in graph.initializer})
        held = {tensor.name for tensor in graph.initializer}
        inputs = tuple([info.name for info in graph.input if info.name not in held])
        for info in graph.input:
            if info.name not in held:
                scope.constants.pop(info.name, None)
                scope.kinds[info.name] = _kind_of_type(info.type)
        outputs = tuple([info.name for info in graph.output])
        stages = self.cut(self._inlined(graph.node), scope, outputs, depth=depth)
        made = set(inputs) | {word for stage in stages for word in made_by(stage)}
        reads = [word for stage in stages for word in reads_by(stage)] + list(outputs)
        captured = tuple(dict.fromkeys(w for w in reads if w and w not in made and w not in scope.constants))
        return Block(inputs, outputs, stages, captured, tuple(graph.output), scope)

    def _inlined(self, nodes: "Iterable[onnx.NodeProto]", depth: int = 0) -> "list[onnx.NodeProto]":
        """Return nodes with the model's own functions that hold a stage replaced by their bodies."""
        check_limit(depth, MAX_CALL_NESTING, "the nesting of functions")
        found = []
        for node in nodes:
            own = self.functions.get((domain_of(node), node.op_type))
            if own is not None and any(is_staged(each) for each in all_nodes(own.node, self.functions)):
                body = function_of(node, domain_of(node), self.versions, [], self.functions)
                assert body is not None
                found += self._inlined(inlined(node, body), depth + 1)
            else:
                found.append(node)
        self._nodes += len(found)
        check_limit(self._nodes, MAX_NODES, f"the number of nodes of the model {self.name!r}")
        return found

    def cut(
        self, nodes: "Sequence[onnx.NodeProto]", scope: Scope, outputs: Sequence[str], alone: "Collection[onnx.NodeProto]" = (),
        later: "Collection[onnx.NodeProto]" = (), depth: int = 1,
    ) -> tuple[Part | Step, ...]:
        """Return the stages of nodes, which are in an order in which they could run.

        outputs : names of values that are read afterwards
        alone   : nodes that are to be steps; others are if they must be
        later   : nodes that are to be in a part behind the one that makes their operands
        """
        marked = {id(node) for node in alone}
        rest, steps = [], dict[int, Step]()
        for node in nodes:
            self._check(node)
            if node.op_type == "Constant" and not domain_of(node) and self._constant(node, scope):
                continue
            rest.append(node)
            blocks = self._blocks(node, scope, depth)
            self._find_kinds(node, scope, blocks)
            if id(node) in marked or self._must_be_step(node, scope, blocks):
                steps[id(node)] = Step(node, blocks, scope)
        return in_order(rest, steps, scope, outputs, {id(node) for node in later})

    def _blocks(self, node: "onnx.NodeProto", scope: Scope, depth: int) -> dict[str, Block]:
        if domain_of(node) or node.op_type not in CONTROL:
            return {}
        return {each.name: self._block(each.g, scope, depth + 1) for each in node.attribute if each.HasField("g")}

    def _check(self, node: "onnx.NodeProto") -> None:
        """Note a node that neither code nor a step can be."""
        import onnx

        domain = domain_of(node)
        called = f"{domain}.{node.op_type}" if domain else node.op_type
        if called in CONVERTERS or (domain, node.op_type) in self.functions:
            return
        if not domain and (called in STAGED or called in CONTROL or called in HOST):
            return
        try:
            schema: Any = onnx.defs.get_schema(node.op_type, self.versions.get(domain, 1), domain)
        except onnx.defs.SchemaError:
            schema = None
        if schema is None or not (schema.has_function or schema.has_context_dependent_function):
            self._unsupported.setdefault(called, []).append(name_of(node))

    def _constant(self, node: "onnx.NodeProto", scope: Scope) -> bool:
        """Add a node's tensor to the constants; False if it is none."""
        import onnx
        from onnx import numpy_helper

        given = {each.name: each for each in node.attribute}
        if "value" in given:
            if given["value"].t.data_type == onnx.TensorProto.STRING:
                return False
            tensor = onnx.TensorProto()
            tensor.CopyFrom(given["value"].t)
        else:
            name = next(iter(given), "")
            kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
            if name not in kinds:
                return False
            tensor = numpy_helper.from_array(np.asarray(onnx.helper.get_attribute_value(given[name]), kinds[name]))
        tensor.name = node.output[0]
        scope.constants[tensor.name] = tensor
        return True

    def _find_kinds(self, node: "onnx.NodeProto", scope: Scope, blocks: Mapping[str, Block]) -> None:
        kinds = [scope.kinds.get(word, TENSOR) for word in node.input]
        op = "" if domain_of(node) else node.op_type
        if op in _LISTS:
            found = [LIST] * len(node.output)
        elif op == "Optional":
            typed = next((_kind_of_type(each.tp) for each in node.attribute if each.name == "type"), TENSOR)
            found = [OPTIONAL + (kinds[0] if kinds else typed)]
        elif op == "OptionalGetElement":
            found = [kinds[0].removeprefix(OPTIONAL)]
        elif op == "Identity":
            found = kinds[:1]
        elif op == "If":
            found = [_result_kind(blocks["then_branch"], at) for at in range(len(node.output))]
        elif op == "Loop":
            found = [_result_kind(blocks["body"], at + 1) for at in range(len(node.output))]
        else:
            found = []
        scope.kinds.update({word: kind for word, kind in zip(node.output, found, strict=False) if kind != TENSOR})

    def _must_be_step(self, node: "onnx.NodeProto", scope: Scope, blocks: Mapping[str, Block]) -> bool:
        if is_staged(node):
            return True
        words = [*reads_of(node), *node.output]
        if any(scope.kinds.get(word, TENSOR) != TENSOR for word in words):
            return True
        return any(isinstance(stage, Step) for block in blocks.values() for stage in block.stages)


def is_staged(node: "onnx.NodeProto") -> bool:
    """Return whether a node is never part of compiled code."""
    return not domain_of(node) and node.op_type in STAGED


def _kind_of_type(given: "onnx.TypeProto") -> str:
    match given.WhichOneof("value"):
        case "sequence_type":
            return LIST
        case "optional_type":
            return OPTIONAL + _kind_of_type(given.optional_type.elem_type)
        case None | "tensor_type":
            return TENSOR
        case other:
            raise ModelError(f"a value is of the kind {str(other).removesuffix('_type')!r}, which vtakit does not have")


def _result_kind(block: Block, at: int) -> str:
    if at >= len(block.outputs):
        return TENSOR
    found = block.scope.kinds.get(block.outputs[at], TENSOR)
    return _kind_of_type(block.infos[at].type) if found == TENSOR else found


