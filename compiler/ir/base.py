"""The base of all expressions: parts, equality, Python's operators.

Nodes are values: nothing changes one after it is made. They are not frozen dataclasses only because making those takes four
times as long, and a lowering makes tens of thousands. Each class names its parts in `__slots__`, in the order of its
constructor; `children` and `rebuild` are derived from that, so generic walks (`vtakit.compiler.ir.walk`) need no case per node.

Python's operators build expressions (`vtakit.compiler.ir.ops` does the folding and the types). ``a == b`` builds an `EQ`
whose truth value is structural equality, so expressions also work as keys of dictionaries; any other expression refuses to
be a truth value.
"""

from collections.abc import Callable, Iterator
from operator import is_
from typing import Any, ClassVar, Self, TypeVar

from vtakit.compiler.ir.dtypes import DType

_Part = TypeVar("_Part")
# Filled by vtakit.compiler.ir.ops, which knows types and folding: operator name -> function of two operands.
OPERATORS: dict[str, Callable[[Any, Any], "Expr"]] = {}
# Filled by vtakit.compiler.ir, since a printer knows every kind of node: base class of nodes -> function that returns the text.
PRINTERS: dict[type[Any], Callable[[Any], str]] = {}


def _binary(name: str, *, swapped: bool = False) -> Callable[[Any, Any], "Expr"]:
    def method(self: Any, other: Any) -> "Expr":
        return OPERATORS[name](other, self) if swapped else OPERATORS[name](self, other)
    return method


class Operand:
    """An operand of Python's operators: an expression, or something that stands for one and gives it by `as_expr`."""

    __slots__ = ()
    __array_ufunc__: ClassVar[None] = None  # beside a NumPy number, our operator decides

    dtype: Any

    def astype(self, to: "str | DType") -> "Expr":
        """Return this value converted to another type."""
        return OPERATORS["cast"](self, to)

    def equal(self, other: Any) -> "Expr":
        """Return the comparison ``self == other``, for scripts that write it so."""
        return OPERATORS["=="](self, other)

    __add__ = _binary("+")
    __radd__ = _binary("+", swapped=True)
    __sub__ = _binary("-")
    __rsub__ = _binary("-", swapped=True)
    __mul__ = _binary("*")
    __rmul__ = _binary("*", swapped=True)
    __truediv__ = _binary("/")
    __rtruediv__ = _binary("/", swapped=True)
    __floordiv__ = _binary("//")
    __rfloordiv__ = _binary("//", swapped=True)
    __mod__ = _binary("%")
    __rmod__ = _binary("%", swapped=True)
    __lt__ = _binary("<")
    __le__ = _binary("<=")
    __gt__ = _binary("<", swapped=True)
    __ge__ = _binary("<=", swapped=True)
    __and__ = _binary("&")
    __rand__ = _binary("&", swapped=True)
    __or__ = _binary("|")
    __ror__ = _binary("|", swapped=True)
    __xor__ = _binary("^")
    __rxor__ = _binary("^", swapped=True)
    __lshift__ = _binary("<<")
    __rlshift__ = _binary("<<", swapped=True)
    __rshift__ = _binary(">>")
    __rrshift__ = _binary(">>", swapped=True)

    def __neg__(self) -> "Expr":
        return OPERATORS["-"](0 if not self.dtype.is_float else -0.0, self)

    def __invert__(self) -> "Expr":
        return OPERATORS["~"](self, None)

    def __iter__(self) -> Iterator["Expr"]:  # without it Python would read elements at 0, 1, 2, … for ever
        raise TypeError(f"{self} cannot be iterated while a program is being described: read its elements by index")


def changed(parts: tuple[_Part, ...], change: Callable[[_Part], _Part]) -> tuple[_Part, ...]:
    """Return a tuple with `change` applied to each part; itself if none changed."""
    new = tuple([change(part) for part in parts])
    return parts if all(map(is_, new, parts)) else new


class Expr(Operand):
    """An expression of a data type.

    Equality of two expressions is `same(a, b)`: the same structure over the same variables and buffers.
    """

    __slots__ = ("_hash", "dtype")
    fields: ClassVar[tuple[str, ...]] = ()  # operands and other parts that make up the node, besides dtype
    unique: ClassVar[bool] = False  # whether a node is the same as itself only

    dtype: DType

    def __init_subclass__(cls) -> None:
        cls.fields = (*cls.fields, *cls.__dict__.get("__slots__", ()))

    def children(self) -> "tuple[Expr, ...]":
        """Return the operands, in order; tuples of operands are flattened."""
        found: list[Expr] = []
        for field in self.fields:
            value = getattr(self, field)
            if isinstance(value, Expr):
                found.append(value)
            elif type(value) is tuple:
                found += [item for item in value if isinstance(item, Expr)]
        return tuple(found)

    def rebuild(self, change: "Callable[[Expr], Expr]") -> Self:
        """Return the same node with `change` applied to each operand; itself if none changed."""
        parts: dict[str, Any] = {}
        for field in self.fields:
            value = getattr(self, field)
            if isinstance(value, Expr):
                new: Any = change(value)
                if new is not value:
                    parts[field] = new
            elif type(value) is tuple and value:
                items = tuple([change(item) if isinstance(item, Expr) else item for item in value])
                if any(a is not b for a, b in zip(items, value, strict=True)):
                    parts[field] = items
        return self.replace(**parts) if parts else self

    def replace(self, **parts: Any) -> Self:
        """Return the same node with the named parts exchanged; a binary node's type follows its operands."""
        node = object.__new__(type(self))
        for field in self.fields:
            setattr(node, field, parts[field] if field in parts else getattr(self, field))
        node.dtype = parts.get("dtype", self._dtype_after(parts))
        return node

    def _dtype_after(self, parts: dict[str, Any]) -> DType:
        """Return the type once `parts` are exchanged: lanes may have changed, the scalar type may not."""
        return self.dtype

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash((type(self), *[getattr(self, field) for field in self.fields]))  # `same` looks at the type
            self._hash: int = value
            return value

    def __eq__(self, other: Any) -> Any:  # an EQ, whose truth value is structural equality
        if not isinstance(other, Operand | int | float):
            return NotImplemented
        if isinstance(other, Expr) and same(self, other):  # how dictionaries ask, so before types are considered
            return OPERATORS["is"](self, other)
        return OPERATORS["=="](self, other)

    def __ne__(self, other: Any) -> Any:
        if not isinstance(other, Operand | int | float):
            return NotImplemented
        return OPERATORS["!="](self, other)

    def __bool__(self) -> bool:
        raise TypeError(
            f"the truth value of the expression {self} is not known while a program is being described: "
            "use te.if_then_else, te.all or te.any in place of if, and, or"
        )

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Return what a file keeps: all but the hash, which holds addresses of this process."""
        return None, {name: getattr(self, name) for name in (*self.fields, "dtype")}

    def __repr__(self) -> str:
        return PRINTERS[Expr](self)


class Leaf(Expr):
    """An expression without operands."""

    __slots__ = ()

    def children(self) -> tuple[Expr, ...]:
        """Return an empty tuple."""
        return ()

    def rebuild(self, change: Callable[[Expr], Expr]) -> Self:
        """Return the node itself."""
        return self


def same(a: Expr, b: Expr) -> bool:
    """Return whether two expressions have the same structure over the same variables and buffers."""
    return a is b or _same(a, b, set())


def _same(a: Expr, b: Expr, found: set[tuple[int, int]]) -> bool:
    """Return whether two expressions are the same; `found` are pairs known to be, as both may hold one object in many places."""
    if a is b:
        return True
    if type(a) is not type(b) or a.dtype is not b.dtype or hash(a) != hash(b) or a.unique:
        return False
    pair = (id(a), id(b))
    if pair not in found:
        for field in a.fields:
            if not _same_part(getattr(a, field), getattr(b, field), found):
                return False
        found.add(pair)
    return True


def _same_part(a: Any, b: Any, found: set[tuple[int, int]]) -> bool:
    if isinstance(a, Expr):
        return isinstance(b, Expr) and _same(a, b, found)
    if type(a) is tuple:
        return type(b) is tuple and len(a) == len(b) and all(_same_part(x, y, found) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):  # NaN is itself, and -0.0 is not 0.0
        return a.hex() == b.hex()
    return type(a) is type(b) and bool(a == b)
