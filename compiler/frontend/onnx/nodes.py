"""Converters' view of an ONNX node: operands, attributes, and a way to add to the graph."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from vtakit.compiler.frontend.errors import ModelError, NotConstantError
from vtakit.compiler.frontend.onnx.kinds import kind_of
from vtakit.compiler.frontend.onnx.tensors import array_of
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.ir import Array, Value
from vtakit.compiler.ir.dtypes import DType

if TYPE_CHECKING:
    import onnx


# Operators that a compiled part of a model never holds.
STAGED = frozenset((
    "ConcatFromSequence", "Loop", "Optional", "OptionalGetElement", "OptionalHasElement", "Scan", "SequenceAt",
    "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence",
))


class Known(Protocol):
    """Known constants and dependences of a graph under construction."""

    def constant(self, value: Value) -> Array | None:
        """The elements of a value that depends on no input; None of another."""

    def inputs_of(self, value: Value) -> tuple[str, ...]:
        """The inputs that a value depends on."""


class Unsupported(Exception):
    """A node that a converter cannot express; the message names the operator and the reason."""


class OnnxNode:
    """A node being converted.

    op, name : its operator, and its name or what stands for one
    version  : of the operator set that the model uses for it
    inputs   : its operands; None for an optional one that is not given
    outputs  : how many of its results are asked for, and which: "" for one that is not
    """

    def __init__(
        self, proto: "onnx.NodeProto", name: str, version: int, inputs: Sequence[Value | None], build: Builder,
        known: Known,
    ) -> None:
        self.op, self.name, self.version, self.inputs, self.build = proto.op_type, name, version, list(inputs), build
        self.outputs = list(proto.output)
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}
        self._known = known

    # Operands.

    def __len__(self) -> int:
        return len(self.inputs)

    def has(self, at: int) -> bool:
        """Return whether an optional operand is there."""
        return at < len(self.inputs) and self.inputs[at] is not None

    def all_given(self) -> list[Value]:
        """Every operand, of an operator none of whose operands is optional."""
        return [self[at] for at in range(len(self.inputs))]

    def maybe(self, at: int) -> Value | None:
        """An optional operand."""
        return self.inputs[at] if at < len(self.inputs) else None

    def __getitem__(self, at: int) -> Value:
        value = self.maybe(at)
        if value is None:
            raise ModelError(f"node {self.name!r} ({self.op}) lacks its input {at}")
        return value

    def constant(self, at: int) -> Array:
        """The elements of an operand that must be known when the model is compiled.

        Raises NotConstantError if they depend on an input of the model.
        """
        value = self[at]
        found = self._known.constant(value)
        if found is None:
            what = f"input {at} ({value.name!r}) of node {self.name!r} ({self.op})"
            raise NotConstantError(what, self._known.inputs_of(value))
        return found

    def ints(self, at: int) -> tuple[int, ...]:
        """A constant operand as integers."""
        return tuple([int(each) for each in self.constant(at).reshape(-1)])

    def shape(self, at: int) -> tuple[int, ...]:
        return self[at].type.shape

    def ndim(self, at: int) -> int:
        return len(self[at].type.shape)

    def dtype(self, at: int) -> DType:
        return self[at].type.dtype

    # Attributes.

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute: an int, float, str, a tuple of such, or an array; the default if it is not given."""
        proto = self._attributes.get(name)
        return default if proto is None else attribute_value(proto, f"attribute {name!r} of node {self.name!r}")

    @property
    def attributes(self) -> tuple[str, ...]:
        """Return the names of the attributes that are given."""
        return tuple(self._attributes)

    def required(self, name: str) -> Any:
        """An attribute that must be given."""
        found = self.attr(name)
        if found is None:
            raise ModelError(f"node {self.name!r} ({self.op}) lacks its attribute {name!r}")
        return found

    def reads(self, *names: str, **others: Any) -> None:
        """Raise Unsupported for a given attribute that is neither among names nor has a value without effect (one, or a tuple).

        others : attributes that a converter does not read, with those values
        """
        for name in self._attributes:
            allowed = others.get(name, ())
            if name not in names and self.attr(name) not in (allowed if isinstance(allowed, tuple) else (allowed,)):
                raise self.unsupported(f"with {name}={self.attr(name)!r}")

    def kind(self, name: str, default: DType | None = None) -> DType:
        """An attribute that is an element type."""
        found = self.attr(name)
        if found is None and default is not None:
            return default
        return kind_of(int(self.required(name)), f"attribute {name!r} of node {self.name!r}")

    # Results.

    def apply(self, op: str, *operands: Value | None, **attrs: Any) -> Value:
        """Add a node that makes one value."""
        return self.build.one(op, *operands, attrs=attrs, name=self.name)

    def all(self, op: str, *operands: Value | None, **attrs: Any) -> tuple[Value, ...]:
        """Add a node; all that it makes."""
        return self.build.add(op, *operands, attrs=attrs, name=self.name)

    def value(self, array: Any, kind: DType | str | None = None) -> Value:
        """A constant."""
        return self.build.constant(array, kind, self.name)

    def like(self, number: float, other: Value) -> Value:
        """A constant scalar of another value's type."""
        return self.build.constant(number, other.type.dtype, self.name)

    def unsupported(self, why: str) -> Unsupported:
        """Return the error for a node that cannot be expressed."""
        return Unsupported(f"{self.op} {why}")


def attribute_value(proto: "onnx.AttributeProto", what: str) -> Any:
    """An attribute's value: an int, float, str, a tuple of such, or an array. Raises ModelError for what is none."""
    from onnx import AttributeProto as A

    match proto.type:
        case A.FLOAT:
            return float(proto.f)
        case A.INT:
            return int(proto.i)
        case A.STRING:
            return proto.s.decode("utf-8", errors="replace")
        case A.FLOATS:
            return tuple(float(each) for each in proto.floats)
        case A.INTS:
            return tuple(int(each) for each in proto.ints)
        case A.STRINGS:
            return tuple(each.decode("utf-8", errors="replace") for each in proto.strings)
        case A.TENSOR:
            return array_of(proto.t, what)
    raise ModelError(f"{what} is of a kind that vtakit does not read")


Converter = Callable[[OnnxNode], Value | Sequence[Value | None]]
CONVERTERS: dict[str, Converter] = {}  # by operator, with the domain and a dot before one of another domain than ONNX's own


def converts(*ops: str, domain: str = "") -> Callable[[Converter], Converter]:
    """Register the converter of one or several operators of a domain, "" for ONNX's own."""
    def register(converter: Converter) -> Converter:
        for op in [f"{domain}.{op}" if domain else op for op in ops]:
            assert op not in CONVERTERS, f"two converters for {op}"
            CONVERTERS[op] = converter
        return converter
    return register
