"""Converters' view of an operator of a TensorFlow Lite model: operands, options, and a way to add to the graph."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from vtakit.compiler.frontend.errors import ModelError, NotConstantError
from vtakit.compiler.frontend.tflite.model import Operator, Tensor
from vtakit.compiler.frontend.tflite.tensors import FIRST, Order, Tensors, Unsupported, is_quantized, plain
from vtakit.compiler.graph.ir import Array, Value
from vtakit.compiler.ir.dtypes import DType


class TfliteNode:
    """An operator being converted.

    op, name : its name in the schema; the name of its first result
    """

    def __init__(self, operator: Operator, tensors: Tensors) -> None:
        self.operator, self.tensors, self.build = operator, tensors, tensors.build
        self.op, self.name = operator.op, called(tensors.tensors[operator.outputs[0]]) if operator.outputs else operator.op

    # Operands.

    def __len__(self) -> int:
        return len(self.operator.inputs)

    def has(self, at: int) -> bool:
        """Return whether an optional operand is there."""
        return at < len(self) and self.operator.inputs[at] >= 0

    def _input(self, at: int) -> int:
        if not self.has(at):
            raise ModelError(f"node {self.name!r} ({self.op}) lacks its input {at}")
        return self.operator.inputs[at]

    def tensor(self, at: int) -> Tensor:
        """Declaration of an operand in the file."""
        return self.tensors.tensors[self._input(at)]

    def result(self, at: int = 0) -> Tensor:
        """Declaration of a result in the file."""
        if at >= len(self.operator.outputs):
            raise ModelError(f"node {self.name!r} ({self.op}) lacks its output {at}")
        return self.tensors.tensors[self.operator.outputs[at]]

    def shape(self, at: int) -> tuple[int, ...]:
        return self.tensors.shape(self._input(at))

    def ndim(self, at: int) -> int:
        return len(self.shape(at))

    def value(self, at: int, order: Order | None = None) -> Value:
        """An operand's real numbers, by default in the order of the model."""
        return self.tensors.real(self._input(at), plain(self.ndim(at)) if order is None else order)

    def raw(self, at: int, order: Order | None = None) -> Value:
        """An operand's elements as stored."""
        return self.tensors.raw(self._input(at), plain(self.ndim(at)) if order is None else order)

    def order(self, *at: int) -> Order:
        """The order in which operands are taken: the model's, unless images are there with channels first alone."""
        ndims = {self.ndim(each) for each in at}
        images = max(ndims) == 4 and any(
            FIRST in (orders := self.tensors.orders(self._input(each))) and plain(4) not in orders for each in at)
        return FIRST if images else plain(max(ndims))

    def broadcast(self, at: int, order: Order) -> Value:
        """An operand's real numbers, with dimensions of size 1 before its own so that it has as many as `order`."""
        ndim = self.ndim(at)
        if ndim == len(order):
            return self.value(at, order)
        if order == plain(len(order)):
            return self.value(at)
        value, shape = self.value(at), (1,) * (len(order) - ndim) + self.shape(at)
        known = self.tensors.constant(self._input(at))
        if known is not None and not is_quantized(self.tensor(at)):
            return self.build.constant(known.reshape(shape).transpose(order), value.type.dtype, self.tensor(at).name)
        return self.apply("transpose", self.reshape(value, shape), perm=order)

    def known(self, at: int) -> Array:
        """The elements of an operand that must be known when the model is compiled.

        Raises NotConstantError if they depend on an input of the model.
        """
        index = self._input(at)
        found = self.tensors.constant(index)
        if found is None:
            what = f"input {at} ({self.tensor(at).name!r}) of node {self.name!r} ({self.op})"
            needed = self.build.needed(self.raw(at))
            raise NotConstantError(what, [each.name for each in self.build.inputs if each in needed])
        return found

    def ints(self, at: int) -> tuple[int, ...]:
        """A known operand as integers."""
        return tuple([int(each) for each in self.known(at).reshape(-1)])

    def options(self, cls: str) -> Any:
        """The operator's options, as a class of the schema reads them."""
        return self.operator.options(cls)

    # Results.

    def put(self, value: Value, at: int = 0, order: Order | None = None, activation: int = 0) -> None:
        """Set a result to real numbers: an activation is applied, then they are quantized if the model's result is."""
        tensor = self.result(at)
        value = self._activated(value, activation)
        if is_quantized(tensor):
            assert tensor.kind is not None
            if tensor.scales.size > 1:
                self.unsupported("with a result that has several scales")
            value = self.apply("quantize_linear", value, *self.tensors.parameters(tensor, tensor.kind), axis=0, block_size=0,
                               dtype=str(tensor.kind))
        self.put_raw(value, at, order)

    def put_raw(self, value: Value, at: int = 0, order: Order | None = None) -> None:
        """Set a result's elements as they are stored."""
        tensor, order = self.result(at), plain(len(value.type.shape)) if order is None else order
        if tensor.kind is not None and value.type.dtype is not tensor.kind:
            self.unsupported(f"with a result of {tensor.kind} made of {value.type.dtype}")
        self.tensors.put(self.operator.outputs[at], order, value)

    def complex(self, at: int) -> tuple[Value, Value] | None:
        """Real and imaginary parts of an operand; None of real numbers."""
        return self.tensors.pairs.get(self._input(at))

    def put_complex(self, real: Value, imaginary: Value) -> None:
        """Set the result to complex numbers."""
        if self.result().type_name != "COMPLEX64":
            self.unsupported(f"with complex numbers as {self.result().type_name}")
        self.tensors.pairs[self.operator.outputs[0]] = (real, imaginary)

    def moves(self, *at: int) -> tuple[Callable[..., Value], Callable[..., None]]:
        """Return functions by which a node that only moves elements reads an operand and sets its result.

        They take elements as they are stored, where all are quantized alike; else as real numbers.
        """
        result = self.result()
        alike = all(_quantization(self.tensor(each)) == _quantization(result) for each in at)
        return (self.raw, self.put_raw) if alike else (self.value, self.put)

    def _activated(self, value: Value, activation: int) -> Value:
        if activation == 0:
            return value
        if activation == 1:
            return self.apply("relu", value)
        if activation in (2, 3):
            return self.clip(value, -1.0 if activation == 2 else 0.0, 1.0 if activation == 2 else 6.0)
        if activation == 4:
            return self.apply("tanh", value)
        self.unsupported(f"with the fused activation {activation}")

    # The graph.

    def apply(self, op: str, *operands: Value | None, **attrs: Any) -> Value:
        """Add a node that makes one value."""
        return self.build.one(op, *operands, attrs=attrs, name=self.name)

    def all(self, op: str, *operands: Value | None, **attrs: Any) -> tuple[Value, ...]:
        """Add a node; all that it makes."""
        return self.build.add(op, *operands, attrs=attrs, name=self.name)

    def like(self, number: float, other: Value) -> Value:
        """A scalar of another value's type."""
        return self.build.constant(number, other.type.dtype, self.name)

    def clip(self, value: Value, low: float, high: float) -> Value:
        return self.apply("clip", value, self.like(low, value), self.like(high, value))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return the same elements in another shape."""
        return value if value.type.shape == tuple(shape) else self.apply("reshape", value, shape=tuple(shape))

    def unsupported(self, why: str) -> NoReturn:
        """Give up, and say why."""
        raise Unsupported(f"{self.op} {why}")


def _quantization(tensor: Tensor) -> tuple[Any, ...]:
    return (tensor.kind, tuple(tensor.scales.tolist()), tuple(tensor.zeros.tolist())) if is_quantized(tensor) else (tensor.kind,)


def called(tensor: Tensor) -> str:
    """Name for people of the operator that makes a tensor: of the names that a converter joined, the first."""
    return tensor.name.split(";")[0]


def axis_in(order: Order, axis: int) -> int:
    """The dimension of a value in an order that is a dimension of the tensor."""
    return order.index(axis % len(order))


def floats(kind: DType | None) -> bool:
    """Return whether elements are floating-point numbers."""
    return kind is not None and not kind.is_int and str(kind) != "bool"


Converter = Callable[[TfliteNode], None]
CONVERTERS: dict[str, Converter] = {}


def converts(*ops: str) -> Callable[[Converter], Converter]:
    """Register the converter of one or several operators."""
    def register(converter: Converter) -> Converter:
        for op in ops:
            assert op not in CONVERTERS, f"two converters for {op}"
            CONVERTERS[op] = converter
        return converter
    return register


