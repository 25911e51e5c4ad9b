"""Operators that are functions of others: those of the model itself, and those that ONNX's standard defines so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtakit.compiler.graph.ir import TensorType

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, slots=True)
class Body:
    """A function's nodes, with its attributes put in.

    versions : of the operator sets that its nodes are from
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple["onnx.NodeProto", ...]
    versions: Mapping[str, int]


def function_of(
    node: "onnx.NodeProto", domain: str, versions: Mapping[str, int], types: Sequence[TensorType | None],
    own: "Mapping[tuple[str, str], onnx.FunctionProto]",
) -> Body | None:
    """The function that a node stands for; None if it is none.

    types : of the node's operands
    own   : the functions of the model, by domain and name
    """
    import onnx

    found = own.get((domain, node.op_type))
    defaults: list[onnx.AttributeProto] = []
    if found is None:
        try:
            schema = onnx.defs.get_schema(node.op_type, versions.get(domain, 1), domain)
        except onnx.defs.SchemaError:
            return None
        found = _standard(schema, node, versions.get(domain, 1), types)
        defaults = [each.default_value for each in schema.attributes.values() if each.default_value.type]
    if found is None:
        return None
    imported = {"" if each.domain == "ai.onnx" else each.domain: int(each.version) for each in found.opset_import}
    nodes = tuple([_with_attributes(each, (*defaults, *found.attribute_proto, *node.attribute)) for each in found.node])
    return Body(tuple(found.input), tuple(found.output), nodes, {**versions, **imported})


def _standard(
    schema: Any, node: "onnx.NodeProto", version: int, types: Sequence[TensorType | None]
) -> "onnx.FunctionProto | None":
    """The function of an operator of the standard, of the newest version that the model's is not older than."""
    import onnx

    text = b""
    if schema.has_function:
        able = [each for each in schema.function_opset_versions if each <= version]
        text = schema.get_function_with_opset_version(max(able)) if able else b""
    elif schema.has_context_dependent_function:
        able = [each for each in schema.context_dependent_function_opset_versions if each <= version]
        if able:
            protos = [_type_proto(kind).SerializeToString() for kind in types]
            text = schema.get_context_dependent_function_with_opset_version(max(able), node.SerializeToString(), protos)
    if not text:
        return None
    found = onnx.FunctionProto()
    found.ParseFromString(text)
    return found


def _type_proto(kind: TensorType | None) -> "onnx.TypeProto":
    from onnx import TensorProto, TypeProto, helper

    if kind is None:
        return TypeProto()
    names = {"bfloat16": TensorProto.BFLOAT16, "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}
    number = names.get(str(kind.dtype)) or TensorProto.DataType.Value(str(kind.dtype).upper())
    return helper.make_tensor_type_proto(number, kind.shape)


def _with_attributes(inner: "onnx.NodeProto", attributes: "Sequence[onnx.AttributeProto]") -> "onnx.NodeProto":
    """A node of a function, with the attributes that refer to the function's own exchanged for their values.

    attributes : of the function, the later ones before earlier ones of the same name
    """
    if not any(attribute.ref_attr_name for attribute in inner.attribute):
        return inner
    given = {each.name: each for each in attributes}
    changed = type(inner)()
    changed.CopyFrom(inner)
    del changed.attribute[:]
    for attribute in inner.attribute:
        if not attribute.ref_attr_name:
            changed.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            new = changed.attribute.add()
            new.CopyFrom(given[attribute.ref_attr_name])
            new.name = attribute.name
    return changed
