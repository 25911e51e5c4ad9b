"""Graphs of ATen operators that PyTorch traced for fixed sizes, as `torch.compile` gives them to a backend.

Arguments are tensors and numbers. Numbers are those of the sizes that the graph was traced for; a tensor is an input, or a
constant where its elements are given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtakit.compiler.frontend.errors import ModelError
from vtakit.compiler.frontend.torch.operators import CONVERTERS
from vtakit.compiler.frontend.torch.reader import Reader, array_of, element_type, fixed_shape, has_effect
from vtakit.compiler.graph.ir import Graph, Value

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Result:
    """An output of a traced graph that is a tensor.

    dtype   : PyTorch's
    stored  : shape as it lies in memory, row by row
    order   : dimension of `stored` that is each dimension of the result; None if they are the same
    shape   : of the result
    strides : that the result is copied to; None where the stored one has those that PyTorch gives it
    """

    dtype: Any
    stored: tuple[int, ...]
    order: tuple[int, ...] | None
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Traced:
    """A traced graph as ours.

    inputs  : positions of the arguments that are inputs of `graph`, in its order
    outputs : each a `Result`, whose value is the next output of `graph`; or a number or None, which is the output itself
    """

    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[Any, ...]


class UnreadError(ModelError):
    """Nodes of a traced graph that cannot be converted.

    nodes   : nodes of PyTorch's graph
    reasons : what each is unsupported for
    """

    def __init__(self, nodes: Sequence[Any], reasons: Sequence[str]) -> None:
        self.nodes, self.reasons = tuple(nodes), tuple(dict.fromkeys(reasons))
        super().__init__("; ".join(self.reasons))


def import_traced(
    module: "torch.fx.GraphModule", constants: "Mapping[int, torch.Tensor]", *, name: str = "traced",
) -> Traced:
    """Read a graph whose nodes have the values of fixed sizes as `meta["val"]`.

    constants : arguments, by position, whose elements are known

    Raises UnreadError with the nodes that cannot be converted, and ModelError for arguments of other types.
    """
    reader = Reader(name)
    inputs: list[int] = []
    outputs: Sequence[Any] = ()
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder":
            position = len(reader.known)
            reader.known[node] = _argument(reader, position, value, constants.get(position))
            if isinstance(reader.known[node], Value) and position not in constants:
                inputs.append(position)
        elif node.op == "get_attr":
            held = getattr(module, str(node.target))
            reader.known[node] = reader.build.constant(
                array_of(held, f"constant {node.target!r}"), element_type(held.dtype, f"constant {node.target!r}"))
        elif node.op == "output":
            outputs = node.args[0]
        elif _is_scalar(value) and str(node.target) not in CONVERTERS and not has_effect(node):
            reader.known[node] = value
        else:
            try:
                reader.read(node)
            except ModelError as error:
                reader.failed[node] = str(error)
                reader.missing.add(node)
    if reader.failed:
        raise UnreadError(list(reader.failed), list(reader.failed.values()))
    results, named = [], []
    for at, each in enumerate(outputs):
        found = reader.known.get(each, each) if hasattr(each, "meta") else each
        if isinstance(found, Value):
            result, stored = _result(reader, found, each.meta["val"])
            named.append((f"output{at}", stored))
            results.append(result)
        else:
            results.append(found)
    return Traced(reader.build.finish(named), tuple(inputs), tuple(results))


def _is_scalar(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _argument(reader: Reader, position: int, value: Any, constant: "torch.Tensor | None") -> Any:
    where = f"argument {position} of {reader.name}"
    if _is_scalar(value) or value is None:
        return value
    if not hasattr(value, "shape"):
        raise ModelError(f"{where} is of type {type(value).__name__}, neither a tensor nor a number")
    kind = element_type(value.dtype, where)
    if constant is not None:
        return reader.build.constant(array_of(constant, where), kind, f"arg{position}")
    return reader.build.input(f"arg{position}", fixed_shape(value.shape, where), kind)


def _result(reader: Reader, value: Value, made: Any) -> tuple[Result, Value]:
    """Return how an output lies in memory, and the value that is stored: dimensions are in the order of PyTorch's strides."""
    shape, strides = tuple(made.shape), tuple(made.stride())
    if made.is_contiguous() or not value.type.size:
        return Result(made.dtype, shape, None, shape, None), value
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], shape[axis] == 1, axis))
    stored = tuple([shape[axis] for axis in order])
    expected, step = [], 1
    for size in reversed(stored):
        expected.append(step)
        step *= size
    found = [strides[axis] for axis in reversed(order)]
    if any(a != b and size != 1 for a, b, size in zip(found, expected, reversed(stored), strict=True)):
        return Result(made.dtype, shape, None, shape, strides), value
    back = tuple([order.index(axis) for axis in range(len(shape))])
    return Result(made.dtype, stored, back, shape, None), reader.build.one("transpose", value, attrs={"perm": tuple(order)})
