"""Every kind of expression: values without side effects, except calls that say otherwise."""

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, Self

from vtakit.compiler.ir.base import OPERATORS, Expr, same
from vtakit.compiler.ir.basic import Broadcast, Call, Cast, FloatImm, IntImm, StringImm, Var
from vtakit.compiler.ir.buffer import Load
from vtakit.compiler.ir.dtypes import BOOL, DType
from vtakit.compiler.ir.iters import IterVar

__all__ = [
    "EQ", "LE", "LT", "NE", "Add", "And", "Binary", "BitAnd", "BitOr", "BitXor", "Broadcast", "Call", "Cast", "CommReducer",
    "Div", "Expr", "FloatImm", "FloorDiv", "FloorMod", "IfThenElse", "IntImm", "Let", "Load", "Max", "Min", "Mul", "Not", "Or",
    "ProducerLoad", "Ramp", "Reduce", "Select", "ShiftLeft", "ShiftRight", "StringImm", "Sub", "TruncDiv", "TruncMod", "Var",
    "same",
]


class Binary(Expr):
    """An operation on two operands of one type; the result has that type, or is bool for comparisons."""

    __slots__ = ("a", "b")
    symbol: ClassVar[str] = ""
    compares: ClassVar[bool] = False

    def __init__(self, a: Expr, b: Expr) -> None:
        self.a, self.b = a, b
        self.dtype = BOOL.with_lanes(a.dtype.lanes) if self.compares else a.dtype

    def children(self) -> tuple[Expr, ...]:
        """Return the two operands."""
        return self.a, self.b

    def rebuild(self, change: Callable[[Expr], Expr]) -> Self:
        """Return the same node with `change` applied to both operands; itself if none changed."""
        a, b = change(self.a), change(self.b)
        if a is self.a and b is self.b:
            return self
        node = object.__new__(type(self))  # `replace`, with less to look for
        node.a, node.b = a, b
        node.dtype = BOOL.with_lanes(a.dtype.lanes) if self.compares else a.dtype
        return node

    def _dtype_after(self, parts: dict[str, Any]) -> DType:
        a: Expr = parts.get("a", self.a)
        return BOOL.with_lanes(a.dtype.lanes) if self.compares else a.dtype


class Add(Binary):
    __slots__ = ()
    symbol = "+"


class Sub(Binary):
    __slots__ = ()
    symbol = "-"


class Mul(Binary):
    __slots__ = ()
    symbol = "*"


class Div(Binary):
    """Division of floating-point numbers."""

    __slots__ = ()
    symbol = "/"


class FloorDiv(Binary):
    """Integer division rounded down; the divisor is not 0."""

    __slots__ = ()
    symbol = "//"


class FloorMod(Binary):
    """``a - floordiv(a, b) * b``: the sign of the divisor."""

    __slots__ = ()
    symbol = "%"


class TruncDiv(Binary):
    """Integer division rounded to zero, as in C."""

    __slots__ = ()
    symbol = "truncdiv"


class TruncMod(Binary):
    """``a - truncdiv(a, b) * b``: the sign of the dividend; also C's fmod of floats."""

    __slots__ = ()
    symbol = "truncmod"


class Min(Binary):
    """The lesser; NaN if either is NaN."""

    __slots__ = ()
    symbol = "min"


class Max(Binary):
    """The greater; NaN if either is NaN."""

    __slots__ = ()
    symbol = "max"


class BitAnd(Binary):
    __slots__ = ()
    symbol = "&"


class BitOr(Binary):
    __slots__ = ()
    symbol = "|"


class BitXor(Binary):
    __slots__ = ()
    symbol = "^"


class ShiftLeft(Binary):
    """Bits beyond the type are lost; the count is within 0 .. bits - 1."""

    __slots__ = ()
    symbol = "<<"


class ShiftRight(Binary):
    """Arithmetic for signed types, logical for unsigned; the count is within 0 .. bits - 1."""

    __slots__ = ()
    symbol = ">>"


class EQ(Binary):
    __slots__ = ()
    symbol = "=="
    compares = True

    def __bool__(self) -> bool:
        return same(self.a, self.b)


OPERATORS["is"] = EQ


class NE(Binary):
    __slots__ = ()
    symbol = "!="
    compares = True

    def __bool__(self) -> bool:
        return not same(self.a, self.b)


class LT(Binary):
    __slots__ = ()
    symbol = "<"
    compares = True


class LE(Binary):
    __slots__ = ()
    symbol = "<="
    compares = True


class And(Binary):
    """Conjunction of bools; `b` is not evaluated where `a` is false."""

    __slots__ = ()
    symbol = "and"


class Or(Binary):
    """Disjunction of bools; `b` is not evaluated where `a` is true."""

    __slots__ = ()
    symbol = "or"


class Not(Expr):
    __slots__ = ("a",)

    def __init__(self, a: Expr) -> None:
        self.a, self.dtype = a, a.dtype


class Select(Expr):
    """`true` where `condition`, else `false`; both are evaluated."""

    __slots__ = ("condition", "true", "false")

    def __init__(self, condition: Expr, true: Expr, false: Expr) -> None:
        self.condition, self.true, self.false, self.dtype = condition, true, false, true.dtype

    def _dtype_after(self, parts: dict[str, Any]) -> DType:
        true: Expr = parts.get("true", self.true)
        return true.dtype


class IfThenElse(Expr):
    """`true` where `condition`, else `false`; only that one is evaluated, so it may guard a read that would be out of bounds."""

    __slots__ = ("condition", "true", "false")

    def __init__(self, condition: Expr, true: Expr, false: Expr) -> None:
        self.condition, self.true, self.false, self.dtype = condition, true, false, true.dtype

    def _dtype_after(self, parts: dict[str, Any]) -> DType:
        true: Expr = parts.get("true", self.true)
        return true.dtype


class Let(Expr):
    """`body` with `var` standing for `value`."""

    __slots__ = ("var", "value", "body")

    def __init__(self, var: Var, value: Expr, body: Expr) -> None:
        self.var, self.value, self.body, self.dtype = var, value, body, body.dtype

    def _dtype_after(self, parts: dict[str, Any]) -> DType:
        body: Expr = parts.get("body", self.body)
        return body.dtype


class Ramp(Expr):
    """The vector ``base, base + stride, …`` of `lanes` integers."""

    __slots__ = ("base", "stride", "lanes")

    def __init__(self, base: Expr, stride: Expr, lanes: int) -> None:
        self.base, self.stride, self.lanes, self.dtype = base, stride, lanes, base.dtype.with_lanes(lanes)


class ProducerLoad(Expr):
    """An element of a tensor: what a tensor expression reads before lowering gives the tensor a buffer.

    tensor : a `vtakit.compiler.te` tensor, compared by its own equality
    """

    __slots__ = ("tensor", "indices")

    def __init__(self, tensor: Any, indices: tuple[Expr, ...]) -> None:
        self.tensor, self.indices, self.dtype = tensor, indices, tensor.dtype

    def __getitem__(self, index: Any) -> NoReturn:
        have = len(self.indices)
        raise TypeError(f"{self}[{index}] has {have + 1} indices: tensor {self.tensor.name!r} has {have} dimensions")


class CommReducer:
    """An associative, commutative combination of one or several values.

    lhs, rhs : the variables of two partial results; result : their combination; identity : what changes nothing
    name : for people
    """

    __slots__ = ("identity", "lhs", "name", "result", "rhs")

    def __init__(
        self, name: str, lhs: tuple[Var, ...], rhs: tuple[Var, ...], result: tuple[Expr, ...], identity: tuple[Expr, ...]
    ) -> None:
        self.name, self.lhs, self.rhs, self.result, self.identity = name, lhs, rhs, result, identity

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.lhs + self.rhs))}) -> {', '.join(map(str, self.result))}"


class Reduce(Expr):
    """The combination of `source` over `axes`, where `condition` holds: the whole value of a compute, never part of one.

    source : one expression a value of the combiner; value_index : which value this is
    init : the first partial results in place of the identity, or ()
    """

    __slots__ = ("combiner", "source", "axes", "condition", "value_index", "init")

    def __init__(
        self, combiner: CommReducer, source: tuple[Expr, ...], axes: tuple[IterVar, ...], condition: Expr, value_index: int,
        init: tuple[Expr, ...] = (),
    ) -> None:
        self.combiner, self.source, self.axes, self.condition = combiner, source, axes, condition
        self.value_index, self.init, self.dtype = value_index, init, source[value_index].dtype
