"""Converters' view of a node of an exported program: operands by the names of its schema, and a way to add to the graph."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import TensorType, Value
from vtakit.compiler.ir.dtypes import DType, dtype


class Unsupported(Exception):
    """A node that cannot be expressed; the message names the operator and the reason."""


class AtenNode:
    """A node being converted.

    op       : its operator: "aten.convolution.default"
    name     : for people
    operands : by the names that the operator's schema gives them, defaults too: values, numbers, or lists of such
    types    : of its results; None of a result that is no tensor
    strides  : of operands that are tensors, as PyTorch has them in memory
    """

    def __init__(
        self, op: str, name: str, operands: dict[str, Any], types: Sequence[TensorType | None], build: Builder,
        strides: Mapping[str, tuple[int, ...]],
    ) -> None:
        self.op, self.name, self.operands, self.types, self.build = op, name, operands, tuple(types), build
        self.strides = strides

    @property
    def type(self) -> TensorType:
        """Return the type of the first result, as PyTorch states it."""
        found = self.types[0]
        assert found is not None, f"the first result of {self.op} is a tensor"
        return found

    def __getitem__(self, name: str) -> Any:
        """An operand that is no tensor, or a list."""
        return self.operands[name]

    def value(self, name: str) -> Value:
        """An operand that is a tensor."""
        found = self.operands[name]
        if not isinstance(found, Value):
            self.unsupported(f"with {name}={found!r}")
        return found

    def maybe(self, name: str) -> Value | None:
        """An operand that is a tensor or is not given."""
        return None if self.operands.get(name) is None else self.value(name)

    def cast(self, given: Value | float, kind: DType) -> Value:
        """A tensor or a number as a tensor of that type."""
        if not isinstance(given, Value):
            return self.build.constant(given, kind, self.name)
        return given if given.type.dtype == kind else self.apply("cast", given, to=str(kind))

    def like(self, number: float, other: Value) -> Value:
        """A scalar of another value's type."""
        return self.build.constant(number, other.type.dtype, self.name)

    def apply(self, op: str, *operands: Value | None, **attrs: Any) -> Value:
        """Add a node that makes one value."""
        return self.build.one(op, *operands, attrs=attrs, name=self.name)

    def all(self, op: str, *operands: Value | None, **attrs: Any) -> tuple[Value, ...]:
        """Add a node; all that it makes."""
        return self.build.add(op, *operands, attrs=attrs, name=self.name)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return the same elements in another shape."""
        return value if value.type.shape == tuple(shape) else self.apply("reshape", value, shape=tuple(shape))

    def unsupported(self, why: str) -> NoReturn:
        """Give up, and say why."""
        raise Unsupported(f"{self.op} {why}")


def kind_of(torch_dtype: object) -> DType:
    """The element type of a torch.dtype. Raises Unsupported for one that vtakit does not have."""
    name = str(torch_dtype).removeprefix("torch.")
    try:
        return dtype(name)
    except ValueError:
        raise Unsupported(f"element type {name}") from None


Converter = Callable[[AtenNode], Value | Sequence[Value | None]]
CONVERTERS: dict[str, Converter] = {}


def converts(*ops: str) -> Callable[[Converter], Converter]:
    """Register the converter of one or several operators; "aten." is the namespace of a name without one."""
    def register(converter: Converter) -> Converter:
        for op in ops:
            name = op if op.count(".") > 1 else f"aten.{op}"
            assert name not in CONVERTERS, f"two converters for {name}"
            CONVERTERS[name] = converter
        return converter
    return register
