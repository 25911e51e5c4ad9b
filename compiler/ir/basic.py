"""The expressions that values, axes and buffers are made of: variables, constants, conversions and calls."""

from collections.abc import Callable
from typing import Any, Self

from vtakit.compiler.ir.base import Expr, Leaf, changed
from vtakit.compiler.ir.dtypes import HANDLE, INT32, DType


class Var(Leaf):
    """A variable; two are the same only if they are one object.

    name : for people; two variables may share it, the printer then tells them apart
    size : a symbolic size, at least 0
    """

    __slots__ = ("name", "size")
    unique = True

    def __init__(self, name: str, dtype: DType = INT32, *, size: bool = False) -> None:
        self.name, self.dtype, self.size = name, dtype, size

    def __hash__(self) -> int:
        return id(self) >> 4

    def replace(self, **parts: Any) -> Self:
        raise AssertionError("a variable has no parts: make a new one")


class IntImm(Leaf):
    """An integer or bool constant; `value` is within the type."""

    __slots__ = ("value",)

    def __init__(self, value: int, dtype: DType = INT32) -> None:
        self.value, self.dtype = value, dtype

    def __bool__(self) -> bool:
        return bool(self.value) if self.dtype.is_bool else super().__bool__()


class FloatImm(Leaf):
    """A floating-point constant; `value` is a Python float. That of a number which has no type yet is rounded later."""

    __slots__ = ("value",)

    def __init__(self, value: float, dtype: DType) -> None:
        self.value, self.dtype = value, dtype

    def __hash__(self) -> int:
        return hash((FloatImm, self.value.hex()))


class StringImm(Leaf):
    """A string among the arguments of a call."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value, self.dtype = value, HANDLE


class Cast(Expr):
    """`value` as another type.

    Floats become integers by rounding to zero, integers others by keeping the low bits, anything a bool by ``!= 0``.
    """

    __slots__ = ("value",)

    def __init__(self, dtype: DType, value: Expr) -> None:
        self.value, self.dtype = value, dtype

    def children(self) -> tuple[Expr, ...]:
        """Return the value."""
        return (self.value,)

    def _dtype_after(self, parts: dict[str, Any]) -> DType:
        value: Expr = parts.get("value", self.value)
        return self.dtype.with_lanes(value.dtype.lanes)


class Broadcast(Expr):
    """The scalar `value` in each of `lanes` lanes."""

    __slots__ = ("value", "lanes")

    def __init__(self, value: Expr, lanes: int) -> None:
        self.value, self.lanes, self.dtype = value, lanes, value.dtype.with_lanes(lanes)


class Call(Expr):
    """A named operation or an outside function; `vtakit.compiler.ir.calls` lists the names that have a meaning.

    kind : "pure" (a function of its arguments), "extern" (a C function by name) or "effect" (an operation with side effects)
    """

    __slots__ = ("name", "args", "kind")

    def __init__(self, dtype: DType, name: str, args: tuple[Expr, ...], kind: str = "pure") -> None:
        self.name, self.args, self.kind, self.dtype = name, args, kind, dtype

    def children(self) -> tuple[Expr, ...]:
        """Return the arguments."""
        return self.args

    def rebuild(self, change: Callable[[Expr], Expr]) -> Self:
        """Return the same call with `change` applied to each argument; itself if none changed."""
        args = changed(self.args, change)
        return self if args is self.args else self.replace(args=args)
