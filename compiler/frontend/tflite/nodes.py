"""Converters' view of an operator of a TensorFlow Lite model: operands, options, and a way to add to the graph.

Tensors of images have their channels last, operators of the graph have them first. A tensor is therefore known in one or several
orders of its dimensions, and a transpose is added only where a converter asks for an order that is not there.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from vtakit.compiler.frontend.errors import ModelError, NotConstantError
from vtakit.compiler.frontend.tflite.reader import Operator, Tensor
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Array, Value
from vtakit.compiler.graph.passes.fold import Evaluate
from vtakit.compiler.ir.dtypes import DType

FIRST = (0, 3, 1, 2)  # an image's dimensions with its channels first
Order = tuple[int, ...]  # which dimension of the tensor each dimension of a value is


class Unsupported(Exception):
    """An operator that cannot be expressed; the message names it and the reason."""


class Tensors:
    """The tensors of a model, as values of the graph.

    held  : of a tensor by number, the values that have its elements as the model stores them, by order
    reals : the real numbers that quantized ones stand for
    pairs : real and imaginary parts of complex ones, which are not in `held`
    """

    def __init__(self, tensors: Sequence[Tensor], build: Builder, evaluate: Evaluate) -> None:
        self.tensors, self.build, self.evaluate = tensors, build, evaluate
        self.held: dict[int, dict[Order, Value]] = {}
        self.reals: dict[tuple[int, Order], Value] = {}
        self.pairs: dict[int, tuple[Value, Value]] = {}

    def has(self, at: int) -> bool:
        """Return whether a tensor is a constant, or made."""
        return at in self.held or at in self.pairs or self.tensors[at].array is not None

    def put(self, at: int, order: Order, value: Value) -> None:
        """Note that a value has the elements of a tensor."""
        self.held.setdefault(at, {})[order] = value

    def orders(self, at: int) -> tuple[Order, ...]:
        """Return the orders in which a tensor is there."""
        return tuple(self.held[at]) if at in self.held else ()

    def shape(self, at: int) -> tuple[int, ...]:
        """The shape of a tensor as the model orders its dimensions."""
        if at in self.pairs:
            return self.pairs[at][0].type.shape
        if at not in self.held:
            return self.tensors[at].shape
        order, value = next(iter(self.held[at].items()))
        found = [0] * len(order)
        for axis, size in zip(order, value.type.shape, strict=True):
            found[axis] = size
        return tuple(found)

    def raw(self, at: int, order: Order) -> Value:
        """A tensor's elements as the model stores them."""
        if at in self.pairs:
            raise Unsupported(f"complex numbers (tensor {self.tensors[at].name!r}) by an operator of real ones")
        there = self.held.setdefault(at, {})
        if order not in there:
            array = self.tensors[at].array
            if array is not None:
                there[order] = self.build.constant(array.transpose(order), self.tensors[at].kind, self.tensors[at].name)
            else:
                old, value = next(iter(there.items()))
                there[order] = self._transposed(value, tuple([old.index(axis) for axis in order]))
        return there[order]

    def real(self, at: int, order: Order) -> Value:
        """The numbers that a tensor's elements stand for: themselves, unless they are quantized."""
        tensor = self.tensors[at]
        if not is_quantized(tensor):
            return self.raw(at, order)
        if (at, order) not in self.reals:
            axis = order.index(tensor.axis) if tensor.scales.size > 1 else 0
            value = self.raw(at, order)
            self.reals[at, order] = self.build.one(
                "dequantize_linear", value, *self.parameters(tensor, value.type.dtype), attrs={"axis": axis, "block_size": 0},
                name=f"{tensor.name}.real")
        return self.reals[at, order]

    def parameters(self, tensor: Tensor, kind: DType) -> tuple[Value, Value]:
        """Scales and zero points as constants: numbers, or vectors."""
        scales, zeros = (each.reshape(()) if each.size == 1 else each for each in (tensor.scales, tensor.zeros))
        if zeros.size and not kind.min <= zeros.min() <= zeros.max() <= kind.max:
            raise ModelError(f"tensor {tensor.name!r} has a zero point that {kind} does not hold")
        return (self.build.constant(scales, name=f"{tensor.name}.scale"),
                self.build.constant(zeros, kind, name=f"{tensor.name}.zero"))

    def constant(self, at: int) -> Array | None:
        """The elements of a tensor that depends on no input, as stored; None of another."""
        array = self.tensors[at].array
        if array is not None or at not in self.held:
            return array
        value = self.raw(at, plain(len(self.shape(at))))
        if value in self.build.constants:
            return self.build.constants[value]
        if not self.build.needed(value).isdisjoint(self.build.inputs):
            return None
        (found,) = self.evaluate(self.build.part(value, {}))
        self.build.constants[value] = found
        return found

    def _transposed(self, value: Value, perm: Order) -> Value:
        """A value with its dimensions in another order; where only those of size 1 change their place, a reshape."""
        shape = value.type.shape
        if [axis for axis in perm if shape[axis] > 1] == sorted(axis for axis in perm if shape[axis] > 1):
            return self.build.one("reshape", value, attrs={"shape": tuple([shape[axis] for axis in perm])}, name=value.name)
        return self.build.one("transpose", value, attrs={"perm": perm}, name=value.name)


def plain(ndim: int) -> Order:
    """The order of dimensions that the model has."""
    return tuple(range(ndim))


def is_quantized(tensor: Tensor) -> bool:
    """Return whether a tensor's elements are integers that stand for real numbers."""
    return bool(tensor.scales.size) and tensor.kind is not None and tensor.kind.is_int


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
        """What the model says of an operand."""
        return self.tensors.tensors[self._input(at)]

    def result(self, at: int = 0) -> Tensor:
        """What the model says of a result."""
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
        """How a node that only moves elements takes operands and sets results.

        As stored, where all are quantized alike; else as real numbers.
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
    """What people call the operator that makes a tensor: of the names that a converter joined, the first."""
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


