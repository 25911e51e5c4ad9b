"""Nodes of the CPU that bring values into the accelerator's layouts and back."""

from collections.abc import Mapping

from vtakit.compiler.graph.apply import result_types
from vtakit.compiler.graph.ir import Node, Value
from vtakit.compiler.graph.vta.unit import Unit


def of_stored(unit: Unit) -> list[Node]:
    """Return the nodes of the CPU that make a unit's result of what the accelerator stores; the last one makes it."""
    shape, block, name = unit.output.type.shape, unit.packed.type.shape[-1], unit.output.name
    attrs: dict[str, object] = {"shape": shape}
    packed: dict[str, object] = attrs if unit.count == (1, 1) else {**attrs, "count": unit.count}
    if unit.rest is None:
        return [conversion("vta_unpack", unit.packed, packed, name)]
    first = unit.packed.type.shape[1] * block
    main = conversion("vta_unpack", unit.packed, {"shape": (shape[0], first, *shape[2:])}, f"{name}_main")
    rest = conversion("vta_unpack", unit.rest, {**packed, "shape": (shape[0], shape[1] - first, *shape[2:])}, f"{name}_rest")
    inputs = main.outputs[0], rest.outputs[0]
    (kind,) = result_types("concat", [value.type for value in inputs], {"axis": 1})
    return [main, rest, Node("concat", inputs, (Value(name, kind),), {"axis": 1})]


def conversion(op: str, value: Value, attrs: Mapping[str, object], name: str = "") -> Node:
    """Return a node of the CPU that changes the layout of a value."""
    (kind,) = result_types(op, [value.type], attrs)
    return Node(op, (value,), (Value(name or f"{value.name}_packed", kind),), attrs)

