"""Tensors of a TensorFlow Lite model, as values of the graph.

Tensors of images have their channels last, operators of the graph have them first. A tensor is therefore known in one or several
orders of its dimensions, and a transpose is added only where a converter asks for an order that is not there.
"""

from collections.abc import Sequence

from vtakit.compiler.frontend.tflite.model import Tensor
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
